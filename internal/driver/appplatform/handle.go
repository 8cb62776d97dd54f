package appplatform

import (
	"fmt"
	"strconv"
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
func (p *provider) young(h sdk.JobHandle) bool { return !p.seen.Get(h.ID).shown && p.recent(h) }

// recent reports whether a job was sent a moment ago.
func (p *provider) recent(h sdk.JobHandle) bool {
	n, err := strconv.ParseInt(h.Metadata[keySent], 10, 64)
	// A clock that was set back makes a job of the future, which is recent.
	return err == nil && p.clock.Now().Sub(time.Unix(n, 0)) < time.Duration(p.cfg.VisibleWithin)
}

// seen is what was seen of a job, by app: shown, that a read has had it; ended; ran,
// that its container was started.
type seen struct {
	shown, ended, ran bool
	// over is when its end was seen first, polled when its state was asked for last,
	// by this machine's clock.
	over, polled time.Time
}

// polledLately reports whether somebody asks for the job's state again and again.
func (s seen) polledLately() bool { return time.Since(s.polled) < 5*time.Second }

// note keeps what a read has told of a job.
func (p *provider) note(id string, ended, ran bool) {
	p.seen.Change(id, func(s *seen) {
		s.shown, s.ended, s.ran = true, s.ended || ended, s.ran || ran
		if s.ended && s.over.IsZero() {
			s.over = time.Now()
		}
	})
}

// poll notes that a job's state was asked for.
func (p *provider) poll(id string) { p.seen.Change(id, func(s *seen) { s.polled = time.Now() }) }
