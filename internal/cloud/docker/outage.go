package docker

import (
	"sync"
	"time"
)

// keptOutages is how many outages are remembered.
const keptOutages = 16

// Outage is a time in which an engine was not there: From is its last answer
// before, To its first one after.
type Outage struct{ From, To time.Time }

// outages learns from every call whether the engine is there. What ends in an
// outage may have been ended by the engine: its shutdown, or its next start,
// ends all containers that it doesn't restore.
type outages struct {
	mu     sync.Mutex
	lastOK time.Time
	down   bool
	list   []Outage
}

// heard records the engine's answer, of whatever kind.
func (o *outages) heard(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down {
		if len(o.list) == keptOutages {
			o.list = o.list[1:]
		}
		o.list = append(o.list, Outage{From: o.lastOK, To: now})
		o.down = false
	}
	o.lastOK = now
}

// missed records that nobody answered.
func (o *outages) missed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	// Without an answer before it, nothing says when it began.
	o.down = !o.lastOK.IsZero()
}

// OutageAt returns the outage in which t lies, as far as this client has seen.
func (c *Client) OutageAt(t time.Time) (Outage, bool) {
	c.outages.mu.Lock()
	defer c.outages.mu.Unlock()
	for _, o := range c.outages.list {
		if t.After(o.From) && t.Before(o.To) {
			return o, true
		}
	}
	return Outage{}, false
}
