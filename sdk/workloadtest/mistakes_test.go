package workloadtest

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// mistake is a broken provider with the checks that must catch it, and no others
// may.
type mistake struct {
	broken
	// knobs are those of its cloud.
	knobs fake.Knobs
	by    []string
}

func mistakes() map[string]mistake {
	mutating := func(f func(b *broken, ctx *context.Context, op *sdk.OpRequest)) broken { return broken{before: f} }
	results := func(f func(b *broken, op sdk.OpRequest, res *sdk.OpResult, err *error)) broken {
		return broken{after: f}
	}
	states := func(f func(st *sdk.DeploymentStatus)) broken {
		return broken{status: func(_ *broken, _ *sdk.WorkloadStatusRequest, res *sdk.WorkloadStatusResult, err *error) {
			if *err == nil {
				f(&res.Status)
			}
		}}
	}
	briefly := func(f func(st *sdk.DeploymentStatus)) broken {
		return broken{status: func(_ *broken, r *sdk.WorkloadStatusRequest, res *sdk.WorkloadStatusResult, err *error) {
			if *err == nil && r.Brief {
				f(&res.Status)
			}
		}}
	}
	slow := fake.Knobs{RolloutDelay: fake.Duration(30 * time.Millisecond)}
	return map[string]mistake{
		"lists twice": {broken: broken{list: func(_ *broken, seq iter.Seq2[sdk.WorkloadItem, error]) iter.Seq2[sdk.WorkloadItem, error] {
			return func(yield func(sdk.WorkloadItem, error) bool) {
				for it, err := range seq {
					for range 2 {
						if !yield(it, err) {
							return
						}
					}
				}
			}
		}}, by: []string{"list", "list-name", "list-break", "start-spec"}},
		"lists under another path": {broken: broken{list: func(_ *broken, seq iter.Seq2[sdk.WorkloadItem, error]) iter.Seq2[sdk.WorkloadItem, error] {
			return func(yield func(sdk.WorkloadItem, error) bool) {
				for it, err := range seq {
					it.Path = sdk.WorkloadPath(it.Path.Name())
					if !yield(it, err) {
						return
					}
				}
			}
		}}, by: []string{"list", "list-name", "list-break", "start-spec"}},
		"a generation for each look": {broken: broken{status: func(b *broken, _ *sdk.WorkloadStatusRequest, res *sdk.WorkloadStatusResult, _ *error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			id := sdk.NewIDSource(sdk.SystemClock()).NewID()
			b.ids[id] = id
			res.Status.Generation += "-" + itoa(len(b.ids))
			res.Status.GenerationSeen = res.Status.Generation
		}}, by: []string{"status", "status-brief", "expect-holds", "dry-run", "config-same"}},
		"a brief look forgets the count": {broken: briefly(func(st *sdk.DeploymentStatus) { st.Desired = nil }), by: []string{"status-brief"}},
		"a brief look guesses":           {broken: briefly(func(st *sdk.DeploymentStatus) { st.Rollout, st.Ready = sdk.RolloutProgressing, new(7) }), by: []string{"status-brief"}},
		"complete too early": {broken: states(func(st *sdk.DeploymentStatus) { st.Rollout = sdk.RolloutComplete }),
			knobs: slow, by: []string{"start-broken", "config"}},
		"absent is empty": {broken: broken{status: func(_ *broken, r *sdk.WorkloadStatusRequest, res *sdk.WorkloadStatusResult, err *error) {
			if sdk.CodeOf(*err) == sdk.NotFound {
				*err = nil
				res.Status.Path = r.Path
			}
		}}, by: []string{"status-absent"}},
		"no instances":        {broken: states(func(st *sdk.DeploymentStatus) { st.Instances = nil }), by: []string{"status", "exec-instance", "logs", "logs-follow", "logs-one", "metrics"}},
		"forgets the failure": {broken: states(func(st *sdk.DeploymentStatus) { st.Failure = nil }), by: []string{"start-broken"}},
		"goes on after the end of the context": {broken: mutating(func(_ *broken, ctx *context.Context, _ *sdk.OpRequest) { *ctx = context.WithoutCancel(*ctx) }),
			by: []string{"ended-context"}},
		"drops expectations":          {broken: mutating(func(_ *broken, _ *context.Context, op *sdk.OpRequest) { op.Expect = sdk.Expect{} }), by: []string{"expect", "expect-holds", "dry-run"}},
		"a dry run does it":           {broken: mutating(func(_ *broken, _ *context.Context, op *sdk.OpRequest) { op.DryRun = false }), by: []string{"dry-run"}},
		"fights autoscalers":          {broken: mutating(func(_ *broken, _ *context.Context, op *sdk.OpRequest) { op.AgainstAutoscaler = true }), by: []string{"autoscaler"}},
		"says nothing of autoscalers": {broken: results(func(_ *broken, _ sdk.OpRequest, res *sdk.OpResult, _ *error) { res.Warnings = nil }), by: []string{"autoscaler"}},
		"an operation of its own": {broken: mutating(func(_ *broken, _ *context.Context, op *sdk.OpRequest) {
			op.OpID = sdk.NewIDSource(sdk.SystemClock()).NewID()
		}),
			by: []string{"op-twice", "op-found", "lost-reply", "start-spec"}},
		"finds every operation": {broken: broken{status: func(_ *broken, r *sdk.WorkloadStatusRequest, res *sdk.WorkloadStatusResult, _ *error) {
			if res.Op != nil {
				*res.Op = sdk.OpTrace{State: sdk.OpAccepted, Evidence: "surely"}
			}
		}}, by: []string{"op-found", "not-sent"}},
		"tries again by itself": {broken: broken{again: func(err error) bool {
			return err != nil && !sdk.IsClear(err) || sdk.CodeOf(err) == sdk.ResourceExhausted
		}},
			by: []string{"lost-reply", "not-sent", "throttled"}},
		"always changed": {broken: results(func(_ *broken, _ sdk.OpRequest, res *sdk.OpResult, _ *error) { res.Changed = true }),
			by: []string{"scale-same", "stop-twice", "start-running", "config-same"}},
		"no trace": {broken: results(func(_ *broken, _ sdk.OpRequest, res *sdk.OpResult, _ *error) { res.Trace = "" }),
			by: []string{"scale", "restart", "stop-start", "start-spec", "expect-holds", "autoscaler", "op-twice", "op-found", "config"}},
		"a restart that isn't one": {broken: broken{restart: func(b *broken, ctx context.Context, r sdk.RestartWorkloadRequest) (sdk.RestartWorkloadResult, error) {
			st, err := good(b, sdk.WorkloadStates()).WorkloadStatus(ctx, sdk.WorkloadStatusRequest{Path: r.Op.Path})
			if err != nil || st.Status.Desired == nil {
				return sdk.RestartWorkloadResult{}, err
			}
			res, err := good(b, sdk.WorkloadScales()).ScaleWorkload(ctx, sdk.ScaleWorkloadRequest{Op: r.Op, Replicas: *st.Status.Desired})
			res.Op.Changed = true
			return sdk.RestartWorkloadResult{Op: res.Op}, err
		}}, by: []string{"restart", "logs-follow", "expect-holds", "dry-run", "op-found", "lost-reply", "throttled", "not-sent", "autoscaler"}},
		"starts with one": {broken: broken{start: func(_ *broken, r *sdk.StartWorkloadRequest) {
			if r.Spec == nil {
				one := 1
				r.Replicas = &one
			}
		}}, by: []string{"stop-start"}},
		"forgets what it stopped": {broken: broken{stop: func(_ *broken, res *sdk.StopWorkloadResult) { res.Restores = nil }}, by: []string{"stop-start", "stop-twice"}},
		"scales one too far":      {broken: broken{scale: func(_ *broken, r *sdk.ScaleWorkloadRequest) { r.Replicas++ }}, by: []string{"scale", "scale-same", "scale-negative"}},
		"drops settings": {broken: broken{config: func(_ *broken, r *sdk.ApplyConfigRequest, _ *sdk.ApplyConfigResult, after bool) {
			if !after && len(r.Set) > 1 {
				r.Set = map[string]string{"SUITE_A": r.Set["SUITE_A"]}
			}
		}}, by: []string{"config"}},
		"one revision for all": {broken: broken{config: func(_ *broken, _ *sdk.ApplyConfigRequest, res *sdk.ApplyConfigResult, after bool) {
			if after {
				res.Revision = "1"
			}
		}}, by: []string{"config"}},
		"an unknown code is 0 (F91, F92)": {broken: broken{exec: func(_ *broken, _ *sdk.ExecWorkloadRequest, res *sdk.ExecWorkloadResult, _ *error, after bool) {
			if after && res.ExitCode == nil && res.Why != "" {
				zero := 0
				res.ExitCode = &zero
			}
		}}, by: []string{"exec-cut", "exec-left"}},
		"every exec ends well": {broken: broken{exec: func(_ *broken, _ *sdk.ExecWorkloadRequest, res *sdk.ExecWorkloadResult, _ *error, after bool) {
			if after && res.ExitCode != nil {
				*res.ExitCode = 0
			}
		}}, by: []string{"exec-code"}},
		"a shell reads the words": {broken: broken{exec: func(_ *broken, r *sdk.ExecWorkloadRequest, _ *sdk.ExecWorkloadResult, _ *error, after bool) {
			if !after && len(r.Command) > 1 && r.Command[0] == "args" {
				r.Command = slices.DeleteFunc(slices.Clone(r.Command), func(s string) bool { return s == "" })
			}
		}}, by: []string{"exec-argv"}},
		"no input": {broken: broken{exec: func(_ *broken, r *sdk.ExecWorkloadRequest, _ *sdk.ExecWorkloadResult, _ *error, _ bool) {
			r.Stdin = nil
		}}, by: []string{"exec-stdin"}},
		"any instance": {broken: broken{exec: func(_ *broken, r *sdk.ExecWorkloadRequest, _ *sdk.ExecWorkloadResult, _ *error, _ bool) {
			r.Instance = ""
		}}, by: []string{"exec-instance"}},
		"mixes outputs": {broken: broken{exec: func(_ *broken, r *sdk.ExecWorkloadRequest, _ *sdk.ExecWorkloadResult, _ *error, after bool) {
			if !after {
				r.Stderr = r.Stdout
			}
		}}, by: []string{"exec-output"}},
		"output of nobody": {broken: broken{logs: func(_ *broken, _ *sdk.TailLogsRequest, it *sdk.WorkloadLogItem) bool {
			if it != nil {
				it.Instance = ""
			}
			return true
		}}, by: []string{"logs", "logs-one", "logs-follow"}},
		"output of one alone": {broken: broken{logs: func(b *broken, r *sdk.TailLogsRequest, it *sdk.WorkloadLogItem) bool {
			return it == nil || it.Instance[len(it.Instance)-1] == '0'
		}}, by: []string{"logs", "logs-one"}},
		"all output always": {broken: broken{logs: func(_ *broken, r *sdk.TailLogsRequest, _ *sdk.WorkloadLogItem) bool {
			*r = sdk.TailLogsRequest{Path: r.Path, Follow: r.Follow}
			return true
		}}, by: []string{"logs-one"}},
		"changes what is stopped": {broken: results(func(_ *broken, _ sdk.OpRequest, _ *sdk.OpResult, err *error) {
			if sdk.CodeOf(*err) == sdk.FailedPrecondition && strings.Contains((*err).Error(), "is stopped") {
				*err = nil
			}
		}), by: []string{"stopped"}},
		"drops options": {broken: broken{start: func(_ *broken, r *sdk.StartWorkloadRequest) {
			if r.Spec != nil {
				spec := *r.Spec
				spec.Options = nil
				r.Spec = &spec
			}
		}}, by: []string{"start-refused"}},
		"sets what is to be unset": {broken: broken{config: func(_ *broken, r *sdk.ApplyConfigRequest, _ *sdk.ApplyConfigResult, after bool) {
			if !after && len(r.Set) > 0 {
				r.Unset = nil
			}
		}}, by: []string{"config-refused"}},
		"execs in what isn't there": {broken: broken{exec: func(_ *broken, _ *sdk.ExecWorkloadRequest, res *sdk.ExecWorkloadResult, err *error, after bool) {
			if after && sdk.CodeOf(*err) == sdk.NotFound {
				*res, *err = sdk.ExecWorkloadResult{Why: "it is gone"}, nil
			}
		}}, by: []string{"exec-absent"}},
		"a dry run of an exec runs it": {broken: broken{exec: func(_ *broken, r *sdk.ExecWorkloadRequest, _ *sdk.ExecWorkloadResult, _ *error, _ bool) {
			r.Op.DryRun = false
		}},
			by: []string{"exec-dry-run"}},
		"what isn't there has no output": {broken: broken{noLogs: true}, by: []string{"logs-absent"}},
		"follows nothing": {broken: broken{logs: func(_ *broken, r *sdk.TailLogsRequest, _ *sdk.WorkloadLogItem) bool {
			r.Follow = false
			return true
		}}, by: []string{"logs-follow"}},
		"zeros for what isn't measured (F102)": {broken: broken{metrics: func(_ *broken, it *sdk.MetricItem) bool {
			if it.Warming != "" {
				var zero int64
				it.Warming, it.Sample = "", &sdk.MetricSample{At: time.Now(), CPU: &zero, Memory: &zero}
			}
			return true
		}}, knobs: fake.Knobs{MetricsWarm: fake.Duration(50 * time.Millisecond)}, by: []string{"metrics"}},
		"measures one alone": {broken: broken{metrics: func(_ *broken, it *sdk.MetricItem) bool {
			return it.Sample == nil || it.Instance[len(it.Instance)-1] == '0'
		}}, by: []string{"metrics"}},
		"hides what can't be measured": {broken: broken{metrics: func(_ *broken, it *sdk.MetricItem) bool { return it.Failed == nil }}, by: []string{"metrics-absent"}},
	}
}

// TestMistakes puts a backend with each mistake under the suite: the checks that
// are meant to see it do, and the others don't mind.
func TestMistakes(t *testing.T) {
	caught := map[string]bool{}
	for name, m := range mistakes() {
		for _, c := range m.by {
			caught[c] = true
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				mu, ids := &sync.Mutex{}, map[sdk.ID]sdk.ID{}
				h := memoryHarness(m.knobs, fake.Settings{}, func(p sdk.Provider) sdk.Provider {
					b := m.broken
					b.Provider, b.mu, b.ids = p, mu, ids
					return &b
				})
				// Many a mistake is a wait in vain, whose looks all cost time.
				h.Poll = 250 * time.Millisecond
				failed, text := record(t, h)
				want := slices.Sorted(slices.Values(m.by))
				if got := slices.Sorted(slices.Values(failed)); !slices.Equal(got, want) {
					t.Errorf("caught by %q, want %q\n%s", got, want, text)
				}
			})
		})
	}
	// A check that catches nothing proves nothing.
	for _, c := range Checks() {
		if !caught[c.Name] {
			t.Errorf("no mistake is caught by %s", c.Name)
		}
	}
}

// TestChecks holds the table of checks to its form.
func TestChecks(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Checks() {
		if c.Name == "" || c.Doc == "" || seen[c.Name] {
			t.Errorf("check %+v", c)
		}
		seen[c.Name] = true
		for _, need := range c.Needs {
			if !slices.ContainsFunc(sdk.Capabilities(), func(r sdk.CapabilityRow) bool { return r.Name == need }) {
				t.Errorf("%s needs %q, which is no capability", c.Name, need)
			}
		}
	}
}
