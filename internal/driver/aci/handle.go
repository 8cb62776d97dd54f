package aci

import (
	"fmt"
	"strconv"
	"strings"
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
	if p.seen.Get(h.ID).shown {
		return false
	}
	n, err := strconv.ParseInt(h.Metadata[keySent], 10, 64)
	// A clock that was set back makes a job of the future, which is young.
	return err == nil && p.clock.Now().Sub(time.Unix(n, 0)) < time.Duration(p.cfg.VisibleWithin)
}

// seen is what was seen of a group: shown, that a read has had it; ended; sent,
// when it was last asked for, by the provider's clock; killed, when its container
// was first seen to be killed.
type seen struct {
	shown, ended bool
	sent, killed time.Time
}

// show notes that a read has shown a group.
func (p *provider) show(id string) { p.seen.Change(id, func(s *seen) { s.shown = true }) }
