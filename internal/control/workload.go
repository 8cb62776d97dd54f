package control

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// WorkloadRuntime operates live workloads. It is the only caller of the verbs
// that change them: a row before the call, the outcome after it, one change of
// one target at a time. It is safe for concurrent use.
type WorkloadRuntime struct{ e *Engine }

// Workloads returns the runtime of live workloads over this engine's ledger and
// providers.
func (e *Engine) Workloads() *WorkloadRuntime { return &WorkloadRuntime{e: e} }

// Workload is a workload of a listing.
type Workload struct {
	Target sdk.Target
	Item   sdk.WorkloadItem
}

// backend opens a provider, which must have a capability.
func (w *WorkloadRuntime) backend(ctx context.Context, provider, need string) (Backend, error) {
	back, err := w.e.o.Providers.Backend(ctx, provider)
	if err != nil {
		return Backend{}, err
	}
	if !sdk.Has(back.Provider, need) {
		return Backend{}, back.absent(need)
	}
	return back, nil
}

// able returns a provider's capability, which must be there.
func able[C any](back Backend, c sdk.Capability[C]) (C, error) {
	v, ok := sdk.Of(back.Provider, c)
	if !ok {
		return v, back.absent(c.String())
	}
	return v, nil
}

// List gives the workloads of one provider. name, when not empty, chooses those
// whose last segment it is.
func (w *WorkloadRuntime) List(ctx context.Context, provider, name string) iter.Seq2[Workload, error] {
	return func(yield func(Workload, error) bool) {
		back, err := w.backend(ctx, provider, sdk.Workloads().String())
		if err != nil {
			yield(Workload{}, err)
			return
		}
		lister, err := able(back, sdk.Workloads())
		if err != nil {
			yield(Workload{}, err)
			return
		}
		for it, err := range lister.ListWorkloads(ctx, sdk.ListWorkloadsRequest{Name: name}) {
			if err != nil {
				yield(Workload{}, named(err, back.Name))
				return
			}
			if name != "" && it.Path.Name() != name {
				continue
			}
			if !yield(Workload{sdk.Target{Provider: back.Name, Path: it.Path}, it}, nil) {
				return
			}
		}
	}
}

// Listing is what one provider's listing came to.
type Listing struct {
	Provider  string
	Workloads []Workload
	// Err is why the provider's workloads aren't known; Unimplemented is a
	// provider that has none.
	Err error
}

// ListAll lists the workloads of these providers side by side, in their order;
// none means all that are configured. Each has its own time-out, so that one that
// doesn't answer holds up nobody.
func (w *WorkloadRuntime) ListAll(ctx context.Context, providers []string, name string) []Listing {
	if len(providers) == 0 {
		providers = w.e.o.Providers.Names()
	}
	out := make([]Listing, len(providers))
	var wg sync.WaitGroup
	for i, p := range providers {
		wg.Go(func() {
			out[i].Provider = p
			out[i].Workloads, out[i].Err = call(ctx, DefaultCallTimeout, "svc.list", func(ctx context.Context) ([]Workload, error) {
				return collect(w.List(ctx, p, name))
			})
		})
	}
	wg.Wait()
	return out
}

// IDs of the runtime's own errors, for `windlass explain`.
const (
	// ErrWorkloadAmbiguous: several workloads have the name.
	ErrWorkloadAmbiguous = "svc.ambiguous"
	// ErrWorkloadUnknown: none has it.
	ErrWorkloadUnknown = "svc.not-found"
	// ErrWorkloadBusy: somebody else changes the target.
	ErrWorkloadBusy = "svc.busy"
	// ErrWorkloadUnconfirmed: a reply was lost, and what became of the change can't
	// be told.
	ErrWorkloadUnconfirmed = "svc.unconfirmed"
	// ErrWorkloadRollout: the change was accepted and didn't succeed.
	ErrWorkloadRollout = "svc.rollout-failed"
	// ErrWorkloadWait: the wait's own deadline passed.
	ErrWorkloadWait = "svc.wait-timeout"
)

// Resolve finds the workload that a person means: PROVIDER/PATH as it stands, or
// a name that one workload of all providers has. Of several it lists the targets.
// A name isn't unique while a provider's workloads aren't known.
func (w *WorkloadRuntime) Resolve(ctx context.Context, ref string) (sdk.Target, error) {
	const op = "find workload"
	if strings.Contains(ref, "/") {
		t, err := sdk.ParseTarget(ref)
		if err != nil {
			return sdk.Target{}, err
		}
		if names := w.e.o.Providers.Names(); !slices.Contains(names, t.Provider) {
			e := &sdk.Error{Code: sdk.NotFound, Op: op, Field: "target", ID: ErrWorkloadUnknown, Remedy: "`windlass provider ls` lists the providers",
				Err: fmt.Errorf("%q: no provider is called %q", ref, t.Provider)}
			if list := w.withPath(ctx, sdk.WorkloadPath(ref)); len(list) > 0 {
				e.Remedy = "name it with its provider: " + strings.Join(list, ", ")
			}
			return sdk.Target{}, e
		}
		return t, nil
	}
	var found []sdk.Target
	var unknown []string
	var cause error
	for _, l := range w.ListAll(ctx, nil, ref) {
		for _, x := range l.Workloads {
			found = append(found, x.Target)
		}
		if l.Err != nil && !errors.Is(l.Err, sdk.Unimplemented) {
			unknown = append(unknown, l.Provider)
			cause = errors.Join(cause, l.Err)
		}
	}
	if err := ctx.Err(); err != nil {
		return sdk.Target{}, &sdk.Error{Code: sdk.CodeOf(err), Op: op, Err: context.Cause(ctx)}
	}
	words := make([]string, len(found))
	for i, t := range found {
		words[i] = t.String()
	}
	list := strings.Join(words, ", ")
	switch {
	case len(found) > 1:
		return sdk.Target{}, &sdk.Error{Code: sdk.InvalidArgument, Op: op, Field: "target", ID: ErrWorkloadAmbiguous, Remedy: "name one of them as PROVIDER/PATH",
			Err: fmt.Errorf("%q is the name of several: %s", ref, list)}
	case len(unknown) > 0:
		e := &sdk.Error{Code: sdk.CodeOf(cause), Op: op, Field: "target", ID: ErrWorkloadAmbiguous, Remedy: "name it as PROVIDER/PATH",
			Err: fmt.Errorf("whether %q is one workload can't be told, as %s didn't answer: %w", ref, strings.Join(unknown, ", "), cause)}
		if len(found) == 1 {
			e.Remedy = "name it as PROVIDER/PATH: " + list
		}
		return sdk.Target{}, e
	case len(found) == 0:
		return sdk.Target{}, &sdk.Error{Code: sdk.NotFound, Op: op, Field: "target", ID: ErrWorkloadUnknown, Remedy: "`windlass svc ls` lists them",
			Err: fmt.Errorf("no provider has a workload called %q", ref)}
	}
	return found[0], nil
}

// withPath are the targets that have a path, of the providers that answer.
func (w *WorkloadRuntime) withPath(ctx context.Context, path sdk.WorkloadPath) []string {
	var out []string
	for _, l := range w.ListAll(ctx, nil, path.Name()) {
		for _, x := range l.Workloads {
			if x.Target.Path == path {
				out = append(out, x.Target.String())
			}
		}
	}
	return out
}

// Status reads how a workload is.
func (w *WorkloadRuntime) Status(ctx context.Context, t sdk.Target) (sdk.DeploymentStatus, error) {
	back, err := w.backend(ctx, t.Provider, sdk.WorkloadStates().String())
	if err != nil {
		return sdk.DeploymentStatus{}, err
	}
	res, err := w.look(ctx, back, sdk.WorkloadStatusRequest{Path: t.Path})
	return res.Status, err
}

// look is one status call.
func (w *WorkloadRuntime) look(ctx context.Context, back Backend, r sdk.WorkloadStatusRequest) (sdk.WorkloadStatusResult, error) {
	st, err := able(back, sdk.WorkloadStates())
	if err != nil {
		return sdk.WorkloadStatusResult{}, err
	}
	res, err := call(ctx, back.callTimeout(), "svc.status", func(ctx context.Context) (sdk.WorkloadStatusResult, error) {
		return st.WorkloadStatus(ctx, r)
	})
	if f := res.Status.Failure; f != nil {
		c := *f
		c.Message = w.e.o.Redact(c.Message)
		res.Status.Failure = &c
	}
	return res, named(err, back.Name)
}

// Logs gives a workload's output; see sdk.LogTailer.
func (w *WorkloadRuntime) Logs(ctx context.Context, t sdk.Target, r sdk.TailLogsRequest) iter.Seq2[sdk.WorkloadLogItem, error] {
	return func(yield func(sdk.WorkloadLogItem, error) bool) {
		back, err := w.backend(ctx, t.Provider, sdk.WorkloadLogs().String())
		if err != nil {
			yield(sdk.WorkloadLogItem{}, err)
			return
		}
		tailer, err := able(back, sdk.WorkloadLogs())
		if err != nil {
			yield(sdk.WorkloadLogItem{}, err)
			return
		}
		r.Path = t.Path
		for it, err := range tailer.TailLogs(ctx, r) {
			if !yield(it, named(err, back.Name)) || err != nil {
				return
			}
		}
	}
}

// Metrics gives samples of a provider's workloads; see sdk.MetricStreamer.
func (w *WorkloadRuntime) Metrics(ctx context.Context, provider string, r sdk.StreamMetricsRequest) iter.Seq2[sdk.MetricItem, error] {
	return func(yield func(sdk.MetricItem, error) bool) {
		back, err := w.backend(ctx, provider, sdk.WorkloadMetrics().String())
		if err != nil {
			yield(sdk.MetricItem{}, err)
			return
		}
		streamer, err := able(back, sdk.WorkloadMetrics())
		if err != nil {
			yield(sdk.MetricItem{}, err)
			return
		}
		for it, err := range streamer.StreamMetrics(ctx, r) {
			it.Warming = w.e.o.Redact(it.Warming)
			if !yield(it, named(err, back.Name)) || err != nil {
				return
			}
		}
	}
}

// Providers are the names of all that are configured.
func (w *WorkloadRuntime) Providers() []string { return w.e.o.Providers.Names() }

// Guarantees are what a provider gives for live workloads.
func (w *WorkloadRuntime) Guarantees(ctx context.Context, provider string) (sdk.WorkloadGuarantees, error) {
	back, err := w.e.o.Providers.Backend(ctx, provider)
	if err != nil {
		return sdk.WorkloadGuarantees{}, err
	}
	return back.Info().Guarantees.Workload, nil
}

// Able reports whether a provider has a capability; an error is why that isn't
// known.
func (w *WorkloadRuntime) Able(ctx context.Context, provider, capability string) (bool, error) {
	back, err := w.e.o.Providers.Backend(ctx, provider)
	if err != nil {
		return false, err
	}
	return sdk.Has(back.Provider, capability), nil
}

// sameWorkload reports whether a row is about a workload: rows of two names for
// one backend are about the same.
func sameWorkload(run ledger.Run, id sdk.Identity, path sdk.WorkloadPath) bool {
	t, err := sdk.ParseTarget(run.Target)
	return err == nil && isWorkloadAction(run.Action) && run.Identity == id && t.Path == path
}

// actionPrefix begins the action of every row about a live workload.
const actionPrefix = "svc."

func isWorkloadAction(action string) bool { return strings.HasPrefix(action, actionPrefix) }
