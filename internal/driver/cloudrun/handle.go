package cloudrun

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/sdk"
)

// The members of a handle's metadata.
const (
	keyExecution = "execution"
	keySent      = "sent"
	keyCreated   = "created"
)

// handle is enough for any machine: job and execution name the state, and the
// execution, the project of the identity and the time find the log.
func (p *provider) handle(id string, j *runpb.Job, sent time.Time) sdk.JobHandle {
	h := sdk.JobHandle{V: sdk.HandleVersion, Kind: Kind, Identity: p.identity, ID: id, Name: id,
		Metadata: map[string]string{keyExecution: executionID(id), keySent: itoa(sent.Unix())}}
	if t := at(j.GetCreateTime()); !t.IsZero() {
		h.Metadata[keyCreated] = itoa(t.Unix())
	}
	return h
}

// checkHandle refuses a handle of another provider, and one that can't be ours.
func (p *provider) checkHandle(op string, h sdk.JobHandle) error {
	if err := h.Check(op, p.identity); err != nil {
		return err
	}
	if !strings.HasPrefix(h.ID, jobPrefix) || len(h.ID) > maxJobID || strings.Contains(h.ID, "/") || h.Metadata[keyExecution] != executionID(h.ID) {
		return p.fail(sdk.InvalidArgument, op, fmt.Errorf("%q is no handle of a job", h.ID))
	}
	return nil
}

// since is a time before the first output of a job, by Google's clock; zero is
// not known.
func since(h sdk.JobHandle) time.Time {
	n, err := strconv.ParseInt(h.Metadata[keyCreated], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(n, 0).Add(-time.Second)
}

// young reports whether a job may still not be visible: this process hasn't seen
// it, and it was sent a moment ago.
func (p *provider) young(h sdk.JobHandle) bool { return !p.seen.Get(h.ID).shown && p.recent(h) }

// recent reports whether a job was sent a moment ago.
func (p *provider) recent(h sdk.JobHandle) bool {
	n, err := strconv.ParseInt(h.Metadata[keySent], 10, 64)
	// A clock that was set back makes a job of the future, which is recent.
	return err == nil && p.clock.Now().Sub(time.Unix(n, 0)) < time.Duration(p.cfg.VisibleWithin)
}

// seen is what was seen of a job: shown, that a read has had it; ended; ran, that
// its container was started.
type seen struct{ shown, ended, ran bool }

// note keeps what is known of a job that was submitted or read.
func (p *provider) note(h sdk.JobHandle, ended, ran bool) {
	p.seen.Change(h.ID, func(s *seen) { s.ended, s.ran = s.ended || ended, s.ran || ran })
}

// show notes that a read has shown a job.
func (p *provider) show(id string) { p.seen.Change(id, func(s *seen) { s.shown = true }) }
