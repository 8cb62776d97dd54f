package control

import (
	"context"
	"fmt"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// look reads once what all objects are judged by, for one provider.
func (r *reaper) look(ctx context.Context, provider string) error {
	holders, err := r.e.o.Store.Holders(ctx)
	if err != nil {
		return err
	}
	r.gone = r.e.deadHolders(holders)
	for run, err := range r.e.o.Store.Runs(ctx, ledger.RunFilter{Open: true, Provider: provider}) {
		if err != nil {
			return err
		}
		r.launching = r.launching || run.Phase == ledger.PhaseIntent || run.Phase == ledger.PhaseSubmitting
	}
	return nil
}

// orphan decides whether an object may go, and says why.
func (r *reaper) orphan(ctx context.Context, o sdk.OwnedObject) (bool, string, error) {
	switch {
	case o.LedgerID != r.e.o.Store.ID():
		ok, why := r.foreign(o)
		return ok, why, nil
	case !o.Shared:
		return r.ofRun(ctx, o)
	case o.Live:
		return false, "shared and in use", nil
	case r.launching:
		return false, "shared, and a run that is being sent may use it", nil
	}
	return true, "shared, and nothing uses it", nil
}

// foreign judges what another ledger made: it must have ended and expired, by a
// margin for clocks, and be of the owner that was named.
func (r *reaper) foreign(o sdk.OwnedObject) (bool, string) {
	switch {
	case o.Live:
		return false, "belongs to another ledger and is in use"
	case o.Expires.IsZero():
		return false, "belongs to another ledger and has no expiry"
	case r.e.clock.Now().Before(o.Expires.Add(reapMargin)):
		return false, "belongs to another ledger and has not expired: it does at " + o.Expires.Add(reapMargin).UTC().Format(time.RFC3339)
	case r.req.Owner == "" || o.Owner != r.req.Owner:
		return false, fmt.Sprintf("belongs to another ledger and expired; --owner %s removes it", o.Owner)
	}
	return true, "belongs to another ledger of this owner, ended and expired"
}

// ofRun judges what a run of this ledger made: its row decides.
func (r *reaper) ofRun(ctx context.Context, o sdk.OwnedObject) (bool, string, error) {
	store := r.e.o.Store
	run, err := store.Run(ctx, o.RunID)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		if r.e.age(o) < unknownMargin {
			return false, "the ledger has no row of its run; too young to judge", nil
		}
		return true, "the ledger has no row of its run", nil
	case err != nil:
		return false, "", err
	}
	attempts, err := store.Attempts(ctx, run.ID)
	if err != nil {
		return false, "", err
	}
	var a ledger.Attempt
	for _, x := range attempts {
		if x.ID == o.AttemptID {
			a = x
		}
	}
	switch {
	case a.Phase == ledger.PhaseKept:
		return false, "kept on request; `windlass rm` removes it", nil
	case run.Open():
		return r.ofOpenRun(ctx, run, a)
	case run.State == sdk.StateLost && o.Live:
		return true, "its run was given up as lost, and it still runs", nil
	}
	return true, fmt.Sprintf("its run ended %s and was cleaned up", run.State), nil
}

// ofOpenRun judges an object of a run that has something left to do. It may go
// only once its output is safe, and where whoever drives the run can't remove
// it, or nobody drives it.
func (r *reaper) ofOpenRun(ctx context.Context, run ledger.Run, a ledger.Attempt) (bool, string, error) {
	free, err := r.free(ctx, run)
	if err != nil {
		return false, "", err
	}
	if a.Phase != ledger.PhaseDrained {
		why := fmt.Sprintf("its run is %s", run.State)
		if run.State.Terminal() {
			why += ", and its output is still read"
		}
		if free {
			why = fmt.Sprintf("its run is %s, and nobody looks after it: `windlass wait %s` takes it up", run.State, run.ID.Short())
		}
		return false, why, nil
	}
	set, err := decodeSettings(run.Settings)
	switch {
	case err != nil:
		return false, "", err
	case set.keeps(a.State):
		return false, "to be kept on request", nil
	case a.CleanupErr != "":
		return true, "its attempt is over, and its clean-up failed: " + a.CleanupErr, nil
	case free:
		return true, "its attempt is over, and nobody is left to clean up", nil
	}
	return false, "its attempt is over, and is being cleaned up", nil
}

// free reports whether nobody drives a run. Who seems to be gone is looked at again:
// a run may have been taken up, or handed over, since the holders were read.
func (r *reaper) free(ctx context.Context, run ledger.Run) (bool, error) {
	if !r.gone.free(run) {
		return false, nil
	}
	run, err := r.e.o.Store.Run(ctx, run.ID)
	if err != nil {
		return false, err
	}
	holders, err := r.e.o.Store.Holders(ctx)
	if err != nil {
		return false, err
	}
	r.gone = r.e.deadHolders(holders)
	return run.Open() && r.gone.free(run), nil
}
