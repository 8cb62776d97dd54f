package keeper

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/sdk"
)

// stable is the provider of one name and identity, whichever surroundings it is
// opened from. It stays with one of them until a backend refuses its
// credentials, or denies them what a capability needs; then it goes on with the
// newest others in which the provider has the same identity, and asks again with
// the refused ones only where there are no others.
type stable struct {
	p    *pool
	name string
	id   sdk.Identity

	// What follows is under the pool's lock.

	current *surroundings
	found   map[*surroundings]control.Backend
	// info and can are what is known of the driver's provider, also while no
	// surroundings are open.
	info sdk.Info
	can  map[string]bool
	// bad has what each was refused: everything, under an empty name, when its
	// credentials aren't valid any more, else a capability.
	bad map[*surroundings]map[string]bool
}

var (
	_ sdk.Provider      = (*stable)(nil)
	_ sdk.Asker         = (*stable)(nil)
	_ sdk.JobRunner     = (*stable)(nil)
	_ sdk.JobFinder     = (*stable)(nil)
	_ sdk.JobCanceler   = (*stable)(nil)
	_ sdk.JobCleaner    = (*stable)(nil)
	_ sdk.JobLogger     = (*stable)(nil)
	_ sdk.JobBatcher    = (*stable)(nil)
	_ sdk.JobWatcher    = (*stable)(nil)
	_ sdk.OwnedLister   = (*stable)(nil)
	_ sdk.ExpiryRenewer = (*stable)(nil)
)

func newStable(p *pool, name string, id sdk.Identity) *stable {
	return &stable{p: p, name: name, id: id, found: map[*surroundings]control.Backend{}, bad: map[*surroundings]map[string]bool{}}
}

// source is the provider of one surroundings, held open until release.
type source struct {
	from    *surroundings
	backend control.Backend
	release func()
}

func (st *stable) forget(s *surroundings) {
	delete(st.found, s)
	delete(st.bad, s)
	if st.current == s {
		st.current = nil
	}
}

// candidates are the surroundings to try for a capability, best first: own, what serves at the
// moment, then, if it is known which command the run came from, that one; then
// the newest. Of those that were refused one comes last, for a first try.
func (st *stable) candidates(need string, own, from sdk.ID, tried []*surroundings) []*surroundings {
	p := st.p
	p.mu.Lock()
	defer p.mu.Unlock()
	var good, bad []*surroundings
	add := func(s *surroundings) {
		switch {
		case s == nil || s.retired && s != st.current || slices.Contains(tried, s) || slices.Contains(good, s) || slices.Contains(bad, s):
		case st.bad[s][""] || st.bad[s][need]:
			bad = append(bad, s)
		default:
			good = append(good, s)
		}
	}
	if !own.IsZero() {
		add(p.bound[own])
	}
	add(st.current)
	if !from.IsZero() {
		add(p.bound[from])
	}
	for _, s := range slices.Backward(p.list) {
		add(s)
	}
	if len(tried) > 0 || len(bad) == 0 {
		return good
	}
	return append(good, bad[0])
}

// pick opens the provider from the best surroundings. own is a run whose own
// come before those that serve at the moment; from one whose own come right
// after them.
func (st *stable) pick(ctx context.Context, need string, own, from sdk.ID, tried []*surroundings) (source, error) {
	list := st.candidates(need, own, from, tried)
	if len(list) == 0 {
		return source{}, orNone(nil)
	}
	ctx, leave := context.WithCancel(ctx)
	type answer struct {
		source
		err error
	}
	answers, gone := make(chan answer), make(chan struct{})
	defer func() {
		leave()
		close(gone)
	}()
	asked, heard := 0, 0
	ask := func() {
		s := list[asked]
		asked++
		if !st.p.aside(func() {
			src, err := st.open(ctx, s)
			select {
			case answers <- answer{src, err}:
			case <-gone:
				if err == nil {
					src.release()
				}
			}
		}) {
			leave()
		}
	}
	ask()
	next := time.NewTicker(headStart)
	defer next.Stop()
	var first error
	for heard < len(list) {
		select {
		case a := <-answers:
			heard++
			if a.err == nil {
				return a.source, nil
			}
			// That others don't have the provider is no news.
			if first == nil || sdk.CodeOf(first) == sdk.NotFound && sdk.CodeOf(a.err) != sdk.NotFound {
				first = a.err
			}
			if ctx.Err() == nil && asked == heard && asked < len(list) {
				ask()
			}
		case <-next.C:
			if asked < len(list) {
				ask()
			}
		case <-ctx.Done():
			return source{}, context.Cause(ctx)
		}
	}
	return source{}, orNone(first)
}

// headStart is how long better surroundings are waited for before the next are asked
// as well: those whose backend hangs don't keep the others from it.
const headStart = time.Second

func (st *stable) open(ctx context.Context, s *surroundings) (source, error) {
	p := st.p
	p.mu.Lock()
	release := p.holdLocked(s)
	b, ok := st.found[s]
	p.mu.Unlock()
	if ok {
		return source{s, b, release}, nil
	}
	b, err := p.in(ctx, s, func(o Opened) (control.Backend, error) { return o.Find(ctx, st.name, st.id) })
	if err == nil {
		err = b.Info().Identity.Check("open provider "+st.name, st.id)
	}
	if err != nil {
		release()
		return source{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.retired {
		st.found[s] = b
		if st.current == nil {
			st.serve(s)
		}
	}
	return source{s, b, release}, nil
}

// serve makes surroundings the ones that serve from now on.
func (st *stable) serve(s *surroundings) {
	b := st.found[s]
	st.current = s
	st.info, st.can = b.Info(), map[string]bool{}
	for _, name := range sdk.CapabilityNames(b.Provider) {
		st.can[name] = true
	}
}

// judge notes what an answer says of the credentials of a source.
func (st *stable) judge(src source, need string, err error) (refused bool) {
	p := st.p
	refused = credentialsRefused(err)
	what := need
	if sdk.CodeOf(err) == sdk.Unauthenticated {
		what = ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	bad := st.bad[src.from]
	switch {
	case src.from.retired:
	case !refused && answered(err):
		delete(bad, "")
		delete(bad, need)
		if st.current == nil || st.bad[st.current][""] {
			st.serve(src.from)
		}
	case refused:
		if bad == nil {
			bad = map[string]bool{}
			st.bad[src.from] = bad
		}
		if !bad[what] {
			p.log.Warn("credentials refused", "provider", st.name, "origin", src.from.origin, "for", cmp.Or(what, "everything"),
				"err", src.from.redact(err.Error()))
		}
		bad[what] = true
	}
	return refused
}

func credentialsRefused(err error) bool {
	c := sdk.CodeOf(err)
	return c == sdk.Unauthenticated || c == sdk.PermissionDenied
}

// answered reports whether a backend was reached, so that it accepted the
// credentials.
func answered(err error) bool {
	switch sdk.CodeOf(err) {
	case 0, sdk.NotFound:
		return true
	}
	return false
}

// via makes a call that changes nothing, or may be repeated, with one source
// after another until one isn't refused. It gives the first refusal when all
// are.
func via[T, R any](ctx context.Context, st *stable, c sdk.Capability[T], fn func(T) (R, error)) (R, error) {
	var tried []*surroundings
	var refusal error
	for {
		src, err := st.pick(ctx, c.String(), sdk.ID{}, sdk.ID{}, tried)
		if err != nil {
			var zero R
			if refusal != nil {
				return zero, refusal
			}
			return zero, err
		}
		r, err := once(st, src, c, fn)
		if !st.judge(src, c.String(), err) || ctx.Err() != nil {
			return r, err
		}
		if refusal == nil {
			refusal = err
		}
		tried = append(tried, src.from)
	}
}

func once[T, R any](st *stable, src source, c sdk.Capability[T], fn func(T) (R, error)) (R, error) {
	defer src.release()
	impl, ok := sdk.Of(src.backend.Provider, c)
	if !ok {
		var zero R
		return zero, sdk.Absent(st.name, src.backend.Info().Kind, c.String())
	}
	return fn(impl)
}

// Info is that of the provider that serves at the moment, or did last.
func (st *stable) Info() sdk.Info {
	st.p.mu.Lock()
	defer st.p.mu.Unlock()
	in := st.info
	in.Name, in.Kind, in.Identity = st.name, st.id.Kind, st.id
	return in
}

// AskCapability implements sdk.Asker: it has what the driver has.
func (st *stable) AskCapability(name string) any {
	st.p.mu.Lock()
	defer st.p.mu.Unlock()
	if st.can[name] {
		return st
	}
	return nil
}

// Check implements sdk.Provider.
func (st *stable) Check(ctx context.Context, r sdk.CheckRequest) (sdk.CheckResult, error) {
	src, err := st.pick(ctx, "", sdk.ID{}, sdk.ID{}, nil)
	if err != nil {
		return sdk.CheckResult{}, err
	}
	defer src.release()
	return src.backend.Check(ctx, r)
}

// Close does nothing: surroundings are closed by their pool.
func (st *stable) Close() error { return nil }

// launch makes a call for a run with its own command's provider and secrets. Only
// where its credentials have expired, or are not known any more, do others
// serve, and never another's secrets: what a run's own credentials may not do,
// it may not do with another's.
func launch[R any](ctx context.Context, st *stable, run sdk.ID, fn func(context.Context, sdk.JobRunner, *surroundings) (R, error)) (R, error) {
	ctx = secret.Own(ctx, st.p.schemes(ctx, run))
	var tried []*surroundings
	var refusal error
	for {
		src, err := st.pick(ctx, "", run, sdk.ID{}, tried)
		if err != nil {
			var zero R
			if refusal != nil {
				return zero, refusal
			}
			return zero, err
		}
		r, err := once(st, src, sdk.Runner(), func(j sdk.JobRunner) (R, error) { return fn(ctx, j, src.from) })
		st.judge(src, sdk.Runner().String(), err)
		if sdk.CodeOf(err) != sdk.Unauthenticated || ctx.Err() != nil {
			return r, err
		}
		if refusal == nil {
			refusal = err
		}
		tried = append(tried, src.from)
	}
}

// PrepareJob implements sdk.JobRunner.
func (st *stable) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	return launch(ctx, st, r.RunID, func(ctx context.Context, j sdk.JobRunner, _ *surroundings) (sdk.Launch, error) {
		return j.PrepareJob(ctx, r)
	})
}

// RunJob implements sdk.JobRunner.
func (st *stable) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	return launch(ctx, st, r.Launch.RunID, func(ctx context.Context, j sdk.JobRunner, from *surroundings) (sdk.RunJobResult, error) {
		if r.Stdin != nil {
			st.p.mu.Lock()
			if from.fed != nil {
				from.fed[r.Launch.RunID] = true
			}
			st.p.mu.Unlock()
		}
		return j.RunJob(ctx, r)
	})
}

// JobStatus implements sdk.JobRunner.
func (st *stable) JobStatus(ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	return via(ctx, st, sdk.Runner(), func(j sdk.JobRunner) (sdk.JobStatusResult, error) { return j.JobStatus(ctx, r) })
}

// FindJobs implements sdk.JobFinder.
func (st *stable) FindJobs(ctx context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
	return via(ctx, st, sdk.Finder(), func(j sdk.JobFinder) (sdk.FindJobsResult, error) { return j.FindJobs(ctx, r) })
}

// CancelJob implements sdk.JobCanceler.
func (st *stable) CancelJob(ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	return via(ctx, st, sdk.Canceler(), func(j sdk.JobCanceler) (sdk.CancelJobResult, error) { return j.CancelJob(ctx, r) })
}

// CleanupJob implements sdk.JobCleaner.
func (st *stable) CleanupJob(ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	return via(ctx, st, sdk.Cleaner(), func(j sdk.JobCleaner) (sdk.CleanupJobResult, error) { return j.CleanupJob(ctx, r) })
}

// JobLogs implements sdk.JobLogger. A refusal breaks the stream, and the next
// one is read with other credentials.
func (st *stable) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return stream(ctx, st, sdk.Logger(), func(j sdk.JobLogger) iter.Seq2[sdk.LogItem, error] { return j.JobLogs(ctx, r) })
}

// WatchJobs implements sdk.JobWatcher, as JobLogs does.
func (st *stable) WatchJobs(ctx context.Context, r sdk.WatchJobsRequest) iter.Seq2[sdk.WatchEvent, error] {
	return stream(ctx, st, sdk.Watcher(), func(j sdk.JobWatcher) iter.Seq2[sdk.WatchEvent, error] { return j.WatchJobs(ctx, r) })
}

func stream[T, V any](ctx context.Context, st *stable, c sdk.Capability[T], open func(T) iter.Seq2[V, error]) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		var zero V
		src, err := st.pick(ctx, c.String(), sdk.ID{}, sdk.ID{}, nil)
		if err != nil {
			yield(zero, err)
			return
		}
		defer src.release()
		impl, ok := sdk.Of(src.backend.Provider, c)
		if !ok {
			yield(zero, sdk.Absent(st.name, src.backend.Info().Kind, c.String()))
			return
		}
		for v, err := range open(impl) {
			st.judge(src, c.String(), err)
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// JobStatuses implements sdk.JobBatcher. Credentials count as refused when they
// are for every job.
func (st *stable) JobStatuses(ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	var last sdk.JobStatusesResult
	res, err := via(ctx, st, sdk.Batcher(), func(j sdk.JobBatcher) (sdk.JobStatusesResult, error) {
		res, err := j.JobStatuses(ctx, r)
		if err != nil || len(res.Items) == 0 {
			return res, err
		}
		for _, it := range res.Items {
			if !credentialsRefused(it.Err) {
				return res, nil
			}
		}
		last = res
		return res, res.Items[0].Err
	})
	if err != nil && len(last.Items) > 0 && credentialsRefused(err) {
		return last, nil
	}
	return res, err
}

// ListOwned implements sdk.OwnedLister.
func (st *stable) ListOwned(ctx context.Context, r sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
	return stream(ctx, st, sdk.Lister(), func(j sdk.OwnedLister) iter.Seq2[sdk.OwnedObject, error] { return j.ListOwned(ctx, r) })
}

// RemoveOwned implements sdk.OwnedLister.
func (st *stable) RemoveOwned(ctx context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
	return via(ctx, st, sdk.Lister(), func(j sdk.OwnedLister) (sdk.RemoveOwnedResult, error) { return j.RemoveOwned(ctx, r) })
}

// RenewExpiry implements sdk.ExpiryRenewer.
func (st *stable) RenewExpiry(ctx context.Context, r sdk.RenewExpiryRequest) (sdk.RenewExpiryResult, error) {
	return via(ctx, st, sdk.Renewer(), func(j sdk.ExpiryRenewer) (sdk.RenewExpiryResult, error) { return j.RenewExpiry(ctx, r) })
}

// refusals tells whether any credentials were refused and not accepted since.
func (p *pool) refusals() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, st := range p.stables {
		for _, bad := range st.bad {
			if len(bad) > 0 {
				return true
			}
		}
	}
	return false
}
