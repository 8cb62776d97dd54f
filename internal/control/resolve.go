package control

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// Resolve finds a run as [ResolveRun] does.
func (e *Engine) Resolve(ctx context.Context, ref string) (ledger.Run, error) {
	return ResolveRun(ctx, e.o.Store, ref)
}

// ambiguousMost bounds how many candidates a refusal lists.
const ambiguousMost = 5

// ResolveRun finds a run by its ID, a unique suffix of at least six characters,
// or its name. Of several that have had a name, as a job that runs every night
// has, the open one is meant, or the newest when none is open. Several open
// ones, or several suffixes, are InvalidArgument and listed.
func ResolveRun(ctx context.Context, store ledger.Store, ref string) (ledger.Run, error) {
	low := strings.ToLower(ref)
	if id, err := sdk.ParseID(low); err == nil {
		run, err := store.Run(ctx, id)
		if err == nil || sdk.CodeOf(err) != sdk.NotFound {
			return run, err
		}
	}
	var bySuffix, byName []ledger.Run
	var err error
	if len(low) >= sdk.MinIDSuffix && len(low) < sdk.IDLen {
		bySuffix, err = collect(store.Runs(ctx, ledger.RunFilter{Suffix: low, Limit: ambiguousMost}))
		if err != nil || len(bySuffix) == 1 {
			return first(bySuffix), err
		}
	}
	if ref != "" { // runs without a name aren't meant
		byName, err = collect(store.Runs(ctx, ledger.RunFilter{Name: ref, Open: true, Limit: ambiguousMost}))
		if err == nil && len(byName) == 0 {
			byName, err = collect(store.Runs(ctx, ledger.RunFilter{Name: ref, Limit: 1}))
		}
	}
	if err != nil || len(byName) == 1 {
		return first(byName), err
	}
	found := append(byName, bySuffix...)
	if len(found) == 0 {
		return ledger.Run{}, &sdk.Error{Code: sdk.NotFound, Op: "find run", ID: "run.not-found", Remedy: "windlass ps -a lists all runs",
			Err: fmt.Errorf("no run has the ID, the suffix of %d characters or the name %q", sdk.MinIDSuffix, ref)}
	}
	ids := make([]string, len(found))
	for i, r := range found {
		ids[i] = r.ID.String()
	}
	return ledger.Run{}, &sdk.Error{Code: sdk.InvalidArgument, Op: "find run", ID: "run.ambiguous", Remedy: "give the full ID",
		Err: fmt.Errorf("%q fits several runs: %s", ref, strings.Join(ids, ", "))}
}

func first(runs []ledger.Run) ledger.Run {
	if len(runs) == 0 {
		return ledger.Run{}
	}
	return runs[0]
}

func collect[T any](seq iter.Seq2[T, error]) ([]T, error) {
	var out []T
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}
