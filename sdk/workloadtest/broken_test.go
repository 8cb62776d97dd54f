package workloadtest

import (
	"context"
	"iter"
	"sync"

	"github.com/windlass-run/windlass/sdk"
)

// broken is a provider with a mistake: what is not nil is called around the good
// provider's own methods.
type broken struct {
	sdk.Provider
	mu *sync.Mutex
	// ids remembers operations, shared by all providers of a test.
	ids map[sdk.ID]sdk.ID

	info    func(i *sdk.Info)
	list    func(b *broken, seq iter.Seq2[sdk.WorkloadItem, error]) iter.Seq2[sdk.WorkloadItem, error]
	status  func(b *broken, r *sdk.WorkloadStatusRequest, res *sdk.WorkloadStatusResult, err *error)
	before  func(b *broken, ctx *context.Context, op *sdk.OpRequest)
	after   func(b *broken, op sdk.OpRequest, res *sdk.OpResult, err *error)
	again   func(err error) bool
	start   func(b *broken, r *sdk.StartWorkloadRequest)
	stop    func(b *broken, res *sdk.StopWorkloadResult)
	scale   func(b *broken, r *sdk.ScaleWorkloadRequest)
	restart func(b *broken, ctx context.Context, r sdk.RestartWorkloadRequest) (sdk.RestartWorkloadResult, error)
	config  func(b *broken, r *sdk.ApplyConfigRequest, res *sdk.ApplyConfigResult, after bool)
	exec    func(b *broken, r *sdk.ExecWorkloadRequest, res *sdk.ExecWorkloadResult, err *error, after bool)
	// noLogs: what isn't there has no output, in place of an error.
	noLogs  bool
	logs    func(b *broken, r *sdk.TailLogsRequest, it *sdk.WorkloadLogItem) bool
	metrics func(b *broken, it *sdk.MetricItem) bool
}

var _ sdk.Asker = (*broken)(nil)

func (b *broken) AskCapability(name string) any {
	if !sdk.Has(b.Provider, name) {
		return nil
	}
	return b
}

func (b *broken) Info() sdk.Info {
	i := b.Provider.Info()
	if b.info != nil {
		b.info(&i)
	}
	return i
}

func good[C any](b *broken, c sdk.Capability[C]) C {
	v, _ := sdk.Of(b.Provider, c)
	return v
}

func (b *broken) ListWorkloads(ctx context.Context, r sdk.ListWorkloadsRequest) iter.Seq2[sdk.WorkloadItem, error] {
	seq := good(b, sdk.Workloads()).ListWorkloads(ctx, r)
	if b.list != nil {
		return b.list(b, seq)
	}
	return seq
}

func (b *broken) WorkloadStatus(ctx context.Context, r sdk.WorkloadStatusRequest) (sdk.WorkloadStatusResult, error) {
	asked := r
	res, err := good(b, sdk.WorkloadStates()).WorkloadStatus(ctx, r)
	if b.status != nil {
		b.status(b, &asked, &res, &err)
	}
	return res, err
}

// around makes a mutating call with the mistakes before and after it.
func around[R any](ctx context.Context, b *broken, op *sdk.OpRequest, call func(context.Context) (R, error), result func(*R) *sdk.OpResult) (R, error) {
	asked := *op
	if b.before != nil {
		b.before(b, &ctx, op)
	}
	res, err := call(ctx)
	if b.again != nil && b.again(err) {
		res, err = call(ctx)
	}
	if b.after != nil {
		b.after(b, asked, result(&res), &err)
	}
	return res, err
}

func (b *broken) StartWorkload(ctx context.Context, r sdk.StartWorkloadRequest) (sdk.StartWorkloadResult, error) {
	if b.start != nil {
		b.start(b, &r)
	}
	return around(ctx, b, &r.Op, func(ctx context.Context) (sdk.StartWorkloadResult, error) {
		return good(b, sdk.WorkloadStarts()).StartWorkload(ctx, r)
	}, func(res *sdk.StartWorkloadResult) *sdk.OpResult { return &res.Op })
}

func (b *broken) StopWorkload(ctx context.Context, r sdk.StopWorkloadRequest) (sdk.StopWorkloadResult, error) {
	res, err := around(ctx, b, &r.Op, func(ctx context.Context) (sdk.StopWorkloadResult, error) {
		return good(b, sdk.WorkloadStops()).StopWorkload(ctx, r)
	}, func(res *sdk.StopWorkloadResult) *sdk.OpResult { return &res.Op })
	if b.stop != nil {
		b.stop(b, &res)
	}
	return res, err
}

func (b *broken) ScaleWorkload(ctx context.Context, r sdk.ScaleWorkloadRequest) (sdk.ScaleWorkloadResult, error) {
	if b.scale != nil {
		b.scale(b, &r)
	}
	return around(ctx, b, &r.Op, func(ctx context.Context) (sdk.ScaleWorkloadResult, error) {
		return good(b, sdk.WorkloadScales()).ScaleWorkload(ctx, r)
	}, func(res *sdk.ScaleWorkloadResult) *sdk.OpResult { return &res.Op })
}

func (b *broken) RestartWorkload(ctx context.Context, r sdk.RestartWorkloadRequest) (sdk.RestartWorkloadResult, error) {
	return around(ctx, b, &r.Op, func(ctx context.Context) (sdk.RestartWorkloadResult, error) {
		if b.restart != nil {
			return b.restart(b, ctx, r)
		}
		return good(b, sdk.WorkloadRestarts()).RestartWorkload(ctx, r)
	}, func(res *sdk.RestartWorkloadResult) *sdk.OpResult { return &res.Op })
}

func (b *broken) ApplyConfig(ctx context.Context, r sdk.ApplyConfigRequest) (sdk.ApplyConfigResult, error) {
	if b.config != nil {
		b.config(b, &r, nil, false)
	}
	res, err := around(ctx, b, &r.Op, func(ctx context.Context) (sdk.ApplyConfigResult, error) {
		return good(b, sdk.WorkloadConfigs()).ApplyConfig(ctx, r)
	}, func(res *sdk.ApplyConfigResult) *sdk.OpResult { return &res.Op })
	if b.config != nil && err == nil {
		b.config(b, &r, &res, true)
	}
	return res, err
}

func (b *broken) ExecWorkload(ctx context.Context, r sdk.ExecWorkloadRequest) (sdk.ExecWorkloadResult, error) {
	if b.exec != nil {
		b.exec(b, &r, nil, nil, false)
	}
	res, err := good(b, sdk.WorkloadExecs()).ExecWorkload(ctx, r)
	if b.exec != nil {
		b.exec(b, &r, &res, &err, true)
	}
	return res, err
}

func (b *broken) TailLogs(ctx context.Context, r sdk.TailLogsRequest) iter.Seq2[sdk.WorkloadLogItem, error] {
	return func(yield func(sdk.WorkloadLogItem, error) bool) {
		if b.logs != nil {
			b.logs(b, &r, nil)
		}
		for it, err := range good(b, sdk.WorkloadLogs()).TailLogs(ctx, r) {
			if b.noLogs && sdk.CodeOf(err) == sdk.NotFound {
				return
			}
			if err == nil && b.logs != nil && !b.logs(b, &r, &it) {
				continue
			}
			if !yield(it, err) {
				return
			}
		}
	}
}

func (b *broken) StreamMetrics(ctx context.Context, r sdk.StreamMetricsRequest) iter.Seq2[sdk.MetricItem, error] {
	return func(yield func(sdk.MetricItem, error) bool) {
		for it, err := range good(b, sdk.WorkloadMetrics()).StreamMetrics(ctx, r) {
			if err == nil && b.metrics != nil && !b.metrics(b, &it) {
				continue
			}
			if !yield(it, err) {
				return
			}
		}
	}
}
