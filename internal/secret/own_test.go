package secret

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

func envOf(vars map[string]string) map[string]Scheme {
	return Local(func(name string) (string, bool) { v, ok := vars[name]; return v, ok }, "/")
}

// TestOwn: a run's own schemes come first, whoever resolves.
func TestOwn(t *testing.T) {
	r := NewResolver(Elsewhere(), nil)
	const ref = "secret://env/TOKEN"
	if _, err := r.ResolveSecret(t.Context(), ref); !errors.Is(err, sdk.FailedPrecondition) || !strings.Contains(err.Error(), "windlass rerun") {
		t.Errorf("got %v", err)
	}
	var e *sdk.Error
	if _, err := r.ResolveSecret(t.Context(), ref); !errors.As(err, &e) || e.ID != ErrNotHeld || e.Reason != sdk.ReasonCredentials {
		t.Errorf("got %+v", e)
	}
	for _, v := range []string{"a", "b"} {
		got, err := r.ResolveSecret(Own(t.Context(), envOf(map[string]string{"TOKEN": v})), ref)
		if err != nil || string(got.Reveal()) != v {
			t.Errorf("got %q, %v", got.Reveal(), err)
		}
	}
	// What its submitter doesn't have is not taken from elsewhere.
	here := NewResolver(envOf(map[string]string{"TOKEN": "ours"}), nil)
	if _, err := here.ResolveSecret(Own(t.Context(), envOf(nil)), ref); !errors.Is(err, sdk.NotFound) {
		t.Errorf("got %v", err)
	}
	// No schemes leave it to the resolver.
	if v, err := here.ResolveSecret(Own(t.Context(), nil), ref); err != nil || string(v.Reveal()) != "ours" {
		t.Errorf("got %q, %v", v.Reveal(), err)
	}
}

type runner struct {
	sdk.Provider
	resolve func(context.Context)
}

func (r *runner) PrepareJob(ctx context.Context, _ sdk.PrepareJobRequest) (sdk.Launch, error) {
	r.resolve(ctx)
	return sdk.Launch{}, nil
}

func (r *runner) RunJob(ctx context.Context, _ sdk.RunJobRequest) (sdk.RunJobResult, error) {
	r.resolve(ctx)
	return sdk.RunJobResult{}, nil
}

func (r *runner) JobStatus(ctx context.Context, _ sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	r.resolve(ctx)
	return sdk.JobStatusResult{}, nil
}

type incapable struct{ sdk.Provider }

// TestBind: launches have the schemes of their run, and nothing else has any.
func TestBind(t *testing.T) {
	res := NewResolver(Elsewhere(), nil)
	var got string
	inner := &runner{resolve: func(ctx context.Context) {
		v, err := res.ResolveSecret(ctx, "secret://env/TOKEN")
		if got = string(v.Reveal()); err != nil {
			got = "none"
		}
	}}
	one, two := sdk.ID{15: 1}, sdk.ID{15: 2}
	p := Bind(inner, func(run sdk.ID) map[string]Scheme {
		if run == one {
			return envOf(map[string]string{"TOKEN": "of one"})
		}
		return nil
	})
	j, ok := sdk.Of(p, sdk.Runner())
	if !ok {
		t.Fatal("the capability is gone")
	}
	for run, want := range map[sdk.ID]string{one: "of one", two: "none"} {
		if _, err := j.PrepareJob(t.Context(), sdk.PrepareJobRequest{RunID: run}); err != nil || got != want {
			t.Errorf("prepare: %q, want %q", got, want)
		}
		if _, err := j.RunJob(t.Context(), sdk.RunJobRequest{Launch: sdk.Launch{RunID: run}}); err != nil || got != want {
			t.Errorf("run: %q, want %q", got, want)
		}
	}
	if _, err := j.JobStatus(t.Context(), sdk.JobStatusRequest{}); err != nil || got != "none" {
		t.Errorf("status: %q", got)
	}
	if sdk.Has(p, sdk.Finder().String()) || sdk.Has(Bind(incapable{}, nil), sdk.Runner().String()) {
		t.Error("it gained a capability")
	}
}

// operated resolves a reference when its workloads are changed.
type operated struct {
	sdk.Provider
	resolve func(ctx context.Context)
}

func (o *operated) StartWorkload(ctx context.Context, _ sdk.StartWorkloadRequest) (sdk.StartWorkloadResult, error) {
	o.resolve(ctx)
	return sdk.StartWorkloadResult{}, nil
}

func (o *operated) ApplyConfig(ctx context.Context, _ sdk.ApplyConfigRequest) (sdk.ApplyConfigResult, error) {
	o.resolve(ctx)
	return sdk.ApplyConfigResult{}, nil
}

// TestBindWorkloads: changes that name secrets have the schemes of their operation.
func TestBindWorkloads(t *testing.T) {
	res := NewResolver(Elsewhere(), nil)
	var got string
	inner := &operated{resolve: func(ctx context.Context) {
		v, err := res.ResolveSecret(ctx, "secret://env/TOKEN")
		if got = string(v.Reveal()); err != nil {
			got = "none"
		}
	}}
	mine := sdk.ID{15: 1}
	p := Bind(inner, func(op sdk.ID) map[string]Scheme {
		if op == mine {
			return envOf(map[string]string{"TOKEN": "mine"})
		}
		return nil
	})
	starts, ok := sdk.Of(p, sdk.WorkloadStarts())
	configs, also := sdk.Of(p, sdk.WorkloadConfigs())
	if !ok || !also || sdk.Has(p, sdk.Runner().String()) {
		t.Fatalf("bound, it can do %q", sdk.CapabilityNames(p))
	}
	for id, want := range map[sdk.ID]string{mine: "mine", {15: 2}: "none"} {
		if _, err := starts.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: sdk.OpRequest{OpID: id}}); err != nil || got != want {
			t.Errorf("start: %q, want %q", got, want)
		}
		if _, err := configs.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: sdk.OpRequest{OpID: id}}); err != nil || got != want {
			t.Errorf("config: %q, want %q", got, want)
		}
	}
}

func TestKnow(t *testing.T) {
	var r Redactor
	for range 3 {
		r.Know(sdk.NewSecretValue([]byte("canary")))
	}
	if got := r.Redact("a canary"); got != "a "+sdk.Redacted {
		t.Errorf("got %q", got)
	}
	if r.count["canary"] != 1 {
		t.Errorf("counted %d times", r.count["canary"])
	}
	var none *Redactor
	none.Know(sdk.NewSecretValue([]byte("canary")))
	if err := errors.New("x"); !errors.Is(none.Error(err), err) {
		t.Error("a missing redactor changes errors")
	}
}
