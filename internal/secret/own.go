package secret

import (
	"context"

	"github.com/windlass-run/windlass/sdk"
)

type ownKey struct{}

// Own returns a context in which the schemes of a run's own submitter come
// before those of a resolver. One process drives the runs of many: a reference
// such as secret://env/TOKEN means another value for each of them.
func Own(ctx context.Context, schemes map[string]Scheme) context.Context {
	return context.WithValue(ctx, ownKey{}, schemes)
}

// scheme is the one that a reference is resolved by: the run's own, else ours.
func (r *Resolver) scheme(ctx context.Context, name string) (Scheme, bool) {
	if own, ok := ctx.Value(ownKey{}).(map[string]Scheme); ok {
		if s, ok := own[name]; ok {
			return s, true
		}
	}
	s, ok := r.schemes[name]
	return s, ok
}

// Bind returns a provider whose launches, and whose changes of live workloads that
// may name secrets, resolve references by the schemes that of gives for their run
// or operation; nil schemes leave it to the resolver that the provider was opened
// with, which is [Elsewhere] where others' runs are driven.
func Bind(p sdk.Provider, of func(run sdk.ID) map[string]Scheme) sdk.Provider {
	with := map[string]any{}
	if c, ok := sdk.Of(p, sdk.Runner()); ok {
		with[sdk.Runner().String()] = bound{c, of}
	}
	if c, ok := sdk.Of(p, sdk.WorkloadStarts()); ok {
		with[sdk.WorkloadStarts().String()] = boundStarter{c, of}
	}
	if c, ok := sdk.Of(p, sdk.WorkloadConfigs()); ok {
		with[sdk.WorkloadConfigs().String()] = boundConfigurer{c, of}
	}
	if len(with) == 0 {
		return p
	}
	out, err := sdk.Decorate(p, with)
	if err != nil {
		return p // not reached: it has the capabilities, and these implement them
	}
	return out
}

type bound struct {
	sdk.JobRunner
	of func(run sdk.ID) map[string]Scheme
}

type boundStarter struct {
	sdk.Starter
	of func(run sdk.ID) map[string]Scheme
}

type boundConfigurer struct {
	sdk.Configurer
	of func(run sdk.ID) map[string]Scheme
}

var (
	_ sdk.JobRunner  = bound{}
	_ sdk.Starter    = boundStarter{}
	_ sdk.Configurer = boundConfigurer{}
)

func (b bound) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	return b.JobRunner.PrepareJob(Own(ctx, b.of(r.RunID)), r)
}

func (b bound) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	return b.JobRunner.RunJob(Own(ctx, b.of(r.Launch.RunID)), r)
}

func (b boundStarter) StartWorkload(ctx context.Context, r sdk.StartWorkloadRequest) (sdk.StartWorkloadResult, error) {
	return b.Starter.StartWorkload(Own(ctx, b.of(r.Op.OpID)), r)
}

func (b boundConfigurer) ApplyConfig(ctx context.Context, r sdk.ApplyConfigRequest) (sdk.ApplyConfigResult, error) {
	return b.Configurer.ApplyConfig(Own(ctx, b.of(r.Op.OpID)), r)
}
