package aci

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// The members of a handle's metadata. Again is set where the group is known to
// have been asked for twice, so that its container may have run twice.
const (
	keySent  = "sent"
	keyAgain = "again"
)

// handle is enough for any machine: the identity has subscription and resource
// group, the ID is the group's name, and the log is its only container's.
func (p *provider) handle(id string, sent time.Time) sdk.JobHandle {
	return sdk.JobHandle{V: sdk.HandleVersion, Kind: Kind, Identity: p.identity, ID: id, Name: id, Metadata: map[string]string{keySent: itoa(sent.Unix())}}
}

// checkHandle refuses a handle of another provider, and one that can't be ours.
func (p *provider) checkHandle(op string, h sdk.JobHandle) error {
	if err := h.Check(op, p.identity); err != nil {
		return err
	}
	attempt, err := sdk.ParseID(strings.TrimPrefix(h.ID, groupPrefix))
	if err != nil || groupID(attempt) != h.ID {
		return p.fail(sdk.InvalidArgument, op, fmt.Errorf("%q is no handle of a job", h.ID))
	}
	return nil
}

// young reports whether a group may still not be shown: this process hasn't seen
// it, and it was sent a moment ago.
func (p *provider) young(h sdk.JobHandle) bool {
	if p.seen.get(h.ID).shown {
		return false
	}
	n, err := strconv.ParseInt(h.Metadata[keySent], 10, 64)
	// A clock that was set back makes a job of the future, which is young.
	return err == nil && p.clock.Now().Sub(time.Unix(n, 0)) < time.Duration(p.cfg.VisibleWithin)
}

// seen is what this process has seen of groups. It saves calls and decides
// nothing that a call wouldn't, but that what was shown once isn't waited for.
// The zero value is ready.
type seen struct {
	mu sync.Mutex
	m  map[string]sight
}

// sight is what was seen of a group: shown, that a read has had it; ended; sent,
// when it was last asked for, by the provider's clock; killed, when its container
// was first seen to be killed; at, when it was noted last.
type sight struct {
	shown, ended     bool
	sent, killed, at time.Time
}

const (
	// Beyond so many groups those are forgotten that were not looked at for so
	// long.
	seenMax = 20000
	seenFor = time.Hour
)

func (s *seen) change(id string, f func(*sight)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[string]sight{}
	}
	now := time.Now()
	if len(s.m) >= seenMax {
		for k, v := range s.m {
			if now.Sub(v.at) > seenFor {
				delete(s.m, k)
			}
		}
	}
	v := s.m[id]
	f(&v)
	v.at = now
	s.m[id] = v
}

// show notes that a read has shown the group.
func (s *seen) show(id string) { s.change(id, func(v *sight) { v.shown = true }) }

// end notes that the group's job has ended.
func (s *seen) end(id string) { s.change(id, func(v *sight) { v.shown, v.ended = true, true }) }

func (s *seen) get(id string) sight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[id]
}
