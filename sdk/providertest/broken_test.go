package providertest

import (
	"context"
	"iter"
	"reflect"
	"sync"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// broken is a provider with mistakes: each method that is not nil stands in
// for the good one, which the good provider in it still has.
type broken struct {
	good  sdk.Provider
	cloud *fake.Cloud
	// nth counts the providers that were opened, from 1.
	nth int
	mu  *sync.Mutex
	// mem is what a mistake remembers, shared by all providers.
	mem map[string]int

	info    func(b *broken) sdk.Info
	check   func(b *broken, ctx context.Context) (sdk.CheckResult, error)
	close   func(b *broken) error
	prepare func(b *broken, ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error)
	run     func(b *broken, ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error)
	status  func(b *broken, ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error)
	find    func(b *broken, ctx context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error)
	cancel  func(b *broken, ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error)
	clean   func(b *broken, ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error)
	logs    func(b *broken, ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error]
	batch   func(b *broken, ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error)
	watch   func(b *broken, ctx context.Context, r sdk.WatchJobsRequest) iter.Seq2[sdk.WatchEvent, error]
	list    func(b *broken, ctx context.Context, r sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error]
	remove  func(b *broken, ctx context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error)
	renew   func(b *broken, ctx context.Context, r sdk.RenewExpiryRequest) (sdk.RenewExpiryResult, error)
}

var (
	_ sdk.Provider      = (*broken)(nil)
	_ sdk.Asker         = (*broken)(nil)
	_ sdk.JobRunner     = (*broken)(nil)
	_ sdk.JobFinder     = (*broken)(nil)
	_ sdk.JobCanceler   = (*broken)(nil)
	_ sdk.JobCleaner    = (*broken)(nil)
	_ sdk.JobLogger     = (*broken)(nil)
	_ sdk.JobBatcher    = (*broken)(nil)
	_ sdk.JobWatcher    = (*broken)(nil)
	_ sdk.OwnedLister   = (*broken)(nil)
	_ sdk.ExpiryRenewer = (*broken)(nil)
)

// count adds one to a memory and returns it.
func (b *broken) count(key string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mem[key]++
	return b.mem[key]
}

func (b *broken) seen(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mem[key] > 0
}

func (b *broken) AskCapability(name string) any {
	if !sdk.Has(b.good, name) {
		return nil
	}
	for _, row := range sdk.Capabilities() {
		if row.Name == name && !reflect.TypeOf(b).Implements(row.Type()) {
			return b.good // other suites look for mistakes there
		}
	}
	return b
}

func (b *broken) Info() sdk.Info {
	if b.info != nil {
		return b.info(b)
	}
	return b.good.Info()
}

func (b *broken) Check(ctx context.Context, r sdk.CheckRequest) (sdk.CheckResult, error) {
	if b.check != nil {
		return b.check(b, ctx)
	}
	return b.good.Check(ctx, r)
}

func (b *broken) Close() error {
	if b.close != nil {
		return b.close(b)
	}
	return b.good.Close()
}

func (b *broken) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	if b.prepare != nil {
		return b.prepare(b, ctx, r)
	}
	return need(b.good, sdk.Runner()).PrepareJob(ctx, r)
}

func (b *broken) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	if b.run != nil {
		return b.run(b, ctx, r)
	}
	return need(b.good, sdk.Runner()).RunJob(ctx, r)
}

func (b *broken) JobStatus(ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	if b.status != nil {
		return b.status(b, ctx, r)
	}
	return need(b.good, sdk.Runner()).JobStatus(ctx, r)
}

func (b *broken) FindJobs(ctx context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
	if b.find != nil {
		return b.find(b, ctx, r)
	}
	return need(b.good, sdk.Finder()).FindJobs(ctx, r)
}

func (b *broken) CancelJob(ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	if b.cancel != nil {
		return b.cancel(b, ctx, r)
	}
	return need(b.good, sdk.Canceler()).CancelJob(ctx, r)
}

func (b *broken) CleanupJob(ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	if b.clean != nil {
		return b.clean(b, ctx, r)
	}
	return need(b.good, sdk.Cleaner()).CleanupJob(ctx, r)
}

func (b *broken) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	if b.logs != nil {
		return b.logs(b, ctx, r)
	}
	return need(b.good, sdk.Logger()).JobLogs(ctx, r)
}

func (b *broken) JobStatuses(ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	if b.batch != nil {
		return b.batch(b, ctx, r)
	}
	return need(b.good, sdk.Batcher()).JobStatuses(ctx, r)
}

func (b *broken) WatchJobs(ctx context.Context, r sdk.WatchJobsRequest) iter.Seq2[sdk.WatchEvent, error] {
	if b.watch != nil {
		return b.watch(b, ctx, r)
	}
	return need(b.good, sdk.Watcher()).WatchJobs(ctx, r)
}

func (b *broken) ListOwned(ctx context.Context, r sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
	if b.list != nil {
		return b.list(b, ctx, r)
	}
	return need(b.good, sdk.Lister()).ListOwned(ctx, r)
}

func (b *broken) RemoveOwned(ctx context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
	if b.remove != nil {
		return b.remove(b, ctx, r)
	}
	return need(b.good, sdk.Lister()).RemoveOwned(ctx, r)
}

func (b *broken) RenewExpiry(ctx context.Context, r sdk.RenewExpiryRequest) (sdk.RenewExpiryResult, error) {
	if b.renew != nil {
		return b.renew(b, ctx, r)
	}
	return need(b.good, sdk.Renewer()).RenewExpiry(ctx, r)
}

// Short ways to mistakes that change one request or one result.

func prepares(f func(b *broken, r *sdk.PrepareJobRequest)) broken {
	return broken{prepare: func(b *broken, ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
		f(b, &r)
		return need(b.good, sdk.Runner()).PrepareJob(ctx, r)
	}}
}

func launches(f func(b *broken, r sdk.PrepareJobRequest, l *sdk.Launch)) broken {
	return broken{prepare: func(b *broken, ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
		l, err := need(b.good, sdk.Runner()).PrepareJob(ctx, r)
		if err == nil {
			f(b, r, &l)
		}
		return l, err
	}}
}

func runs(f func(b *broken, r *sdk.RunJobRequest)) broken {
	return broken{run: func(b *broken, ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
		f(b, &r)
		return need(b.good, sdk.Runner()).RunJob(ctx, r)
	}}
}

func handles(f func(b *broken, r sdk.RunJobRequest, res *sdk.RunJobResult)) broken {
	return broken{run: func(b *broken, ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
		res, err := need(b.good, sdk.Runner()).RunJob(ctx, r)
		if err == nil {
			f(b, r, &res)
		}
		return res, err
	}}
}

func states(f func(b *broken, h sdk.JobHandle, st *sdk.JobStatusResult)) broken {
	return broken{status: func(b *broken, ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
		st, err := need(b.good, sdk.Runner()).JobStatus(ctx, r)
		if err == nil {
			f(b, r.Handle, &st)
		}
		return st, err
	}}
}

func finds(f func(b *broken, r sdk.FindJobsRequest, res *sdk.FindJobsResult)) broken {
	return broken{find: func(b *broken, ctx context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
		res, err := need(b.good, sdk.Finder()).FindJobs(ctx, r)
		if err == nil {
			f(b, r, &res)
		}
		return res, err
	}}
}

func cancels(f func(b *broken, r *sdk.CancelJobRequest)) broken {
	return broken{cancel: func(b *broken, ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
		f(b, &r)
		return need(b.good, sdk.Canceler()).CancelJob(ctx, r)
	}}
}

// entries changes the entries of logs; dropping one is returning none.
func entries(f func(b *broken, r sdk.JobLogsRequest, it sdk.LogItem) []sdk.LogItem) broken {
	return broken{logs: func(b *broken, ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
		return func(yield func(sdk.LogItem, error) bool) {
			for it, err := range need(b.good, sdk.Logger()).JobLogs(ctx, r) {
				items := []sdk.LogItem{it}
				if err == nil {
					items = f(b, r, it)
				}
				for _, it := range items {
					if !yield(it, err) {
						return
					}
				}
			}
		}
	}}
}

// texts changes the bytes of entries.
func texts(f func(data []byte) []byte) broken {
	return entries(func(_ *broken, _ sdk.JobLogsRequest, it sdk.LogItem) []sdk.LogItem {
		if it.Entry != nil {
			c := *it.Entry
			c.Data = f(c.Data)
			it.Entry = &c
		}
		return []sdk.LogItem{it}
	})
}
