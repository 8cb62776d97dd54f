package appplatform

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/sdk"
)

// The members of a handle's metadata.
const (
	keyDeployment = "deployment"
	keyComponent  = "component"
	keySent       = "sent"
	keyNonce      = "exit_nonce"
)

// handle is enough for any machine: app, deployment and component name state and
// log. The deployment may not be known yet; it is then the app's oldest.
func (p *provider) handle(app, name string, d *godo.Deployment, nonce string, sent time.Time) sdk.JobHandle {
	h := sdk.JobHandle{V: sdk.HandleVersion, Kind: Kind, Identity: p.identity, ID: app, Name: name,
		Metadata: map[string]string{keyComponent: jobName, keySent: itoa(sent.Unix())}}
	if d != nil && d.ID != "" {
		h.Metadata[keyDeployment] = d.ID
	}
	if nonce != "" {
		h.Metadata[keyNonce] = nonce
	}
	return h
}

// checkHandle refuses a handle of another provider, and one that can't be ours.
func (p *provider) checkHandle(op string, h sdk.JobHandle) error {
	if err := h.Check(op, p.identity); err != nil {
		return err
	}
	d := h.Metadata[keyDeployment]
	if !uuidForm().MatchString(h.ID) || d != "" && !uuidForm().MatchString(d) || h.Metadata[keyComponent] != jobName {
		return p.fail(sdk.InvalidArgument, op, fmt.Errorf("%q is no handle of a job", h.ID))
	}
	return nil
}

// young reports whether an app may still not be visible: this process hasn't seen
// it, and it was sent a moment ago.
func (p *provider) young(h sdk.JobHandle) bool { return !p.seen.get(h.ID).shown && p.recent(h) }

// recent reports whether a job was sent a moment ago.
func (p *provider) recent(h sdk.JobHandle) bool {
	n, err := strconv.ParseInt(h.Metadata[keySent], 10, 64)
	// A clock that was set back makes a job of the future, which is recent.
	return err == nil && p.clock.Now().Sub(time.Unix(n, 0)) < time.Duration(p.cfg.VisibleWithin)
}

// seen is what this process has seen of jobs, by app. It saves calls and decides
// nothing that a call wouldn't, but that what was shown once isn't waited for. The
// zero value is ready.
type seen struct {
	mu sync.Mutex
	m  map[string]sight
}

// sight is what was seen of a job: shown, that a read has had it; ended; ran, that
// its container was started; at, when it was noted last, by this machine's clock.
type sight struct {
	shown, ended, ran bool
	// over is when its end was seen first, polled when its state was asked for last.
	over, polled, at time.Time
}

// polledLately reports whether somebody asks for the job's state again and again.
func (s sight) polledLately() bool { return time.Since(s.polled) < 5*time.Second }

const (
	// Beyond so many jobs those are forgotten that were not looked at for so long.
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
	if v.ended && v.over.IsZero() {
		v.over = now
	}
	v.at = now
	s.m[id] = v
}

// note keeps what a read has told of a job.
func (s *seen) note(id string, ended, ran bool) {
	s.change(id, func(v *sight) { v.shown, v.ended, v.ran = true, v.ended || ended, v.ran || ran })
}

// poll notes that the state was asked for.
func (s *seen) poll(id string) { s.change(id, func(v *sight) { v.polled = time.Now() }) }

func (s *seen) get(id string) sight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[id]
}
