package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// shelled gives the fake a shell: the words of its command line.
type shelled struct{ sdk.JobRunner }

func (s shelled) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	if slices.Equal(r.Spec.Entrypoint, sdk.Argv{"/bin/sh", "-c"}) && len(r.Spec.Args) == 1 {
		r.Spec.Entrypoint, r.Spec.Args = nil, strings.Fields(r.Spec.Args[0])
	}
	return s.JobRunner.PrepareJob(ctx, r)
}

// published is a host of the published wire, with the fake at the other end.
type published struct {
	t        testing.TB
	cloud    *fake.Cloud
	required iacpb.IaCProviderRequiredClient
	jobs     iacpb.IaCProviderRunnerClient
	cancel   iacpb.IaCProviderJobCancelerClient
	server   *plugin.Server
}

// publish serves the fake, with some capabilities replaced; a function gets the runner
// that it replaces.
func publish(t testing.TB, s fake.Settings, overrides map[string]any, serve func(testing.TB, func(grpc.ServiceRegistrar)) *grpc.ClientConn) *published {
	t.Helper()
	h := &published{t: t, cloud: fake.NewCloud(fake.Options{})}
	d := fake.NewDriver(h.cloud, s)
	open := d.Open
	d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
		p, err := open(ctx, r)
		if err != nil {
			return nil, err
		}
		jobs, _ := sdk.Of(p, sdk.Runner())
		all := map[string]any{"JobRunner": shelled{jobs}}
		maps.Copy(all, overrides)
		if wrap, ok := all["JobRunner"].(func(sdk.JobRunner) sdk.JobRunner); ok {
			all["JobRunner"] = wrap(shelled{jobs})
		}
		return sdk.Decorate(p, all)
	}
	conn := serve(t, func(r grpc.ServiceRegistrar) {
		var err error
		if h.server, err = plugin.Register(r, d, plugin.WithStateDir(t.TempDir())); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() {
		if err := h.server.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	h.required, h.jobs, h.cancel = iacpb.NewIaCProviderRequiredClient(conn), iacpb.NewIaCProviderRunnerClient(conn), iacpb.NewIaCProviderJobCancelerClient(conn)
	return h
}

func (h *published) initialize() {
	h.t.Helper()
	if _, err := h.required.Initialize(h.t.Context(), &iacpb.InitializeRequest{ConfigJson: []byte("{}")}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *published) run(command string) *iacpb.JobHandle {
	h.t.Helper()
	out, err := h.jobs.RunJob(h.t.Context(), &iacpb.JobSpec{Name: "one", Kind: "EPHEMERAL", RunCommand: command})
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// end asks until a job has ended.
func (h *published) end(j *iacpb.JobHandle) *iacpb.JobStatusReply {
	h.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		st, err := h.jobs.JobStatus(h.t.Context(), j)
		if err != nil {
			h.t.Fatal(err)
		}
		if st.GetState() > iacpb.JobState_JOB_STATE_RUNNING {
			return st
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("still %v", st)
		}
		if err := sdk.SystemClock().Sleep(h.t.Context(), 10*time.Millisecond); err != nil {
			h.t.Fatal(err)
		}
	}
}

// output reads a log to its end, by stream, and reports whether eof came last.
func (h *published) output(ctx context.Context, j *iacpb.JobHandle) (out map[string]string, eof bool, err error) {
	h.t.Helper()
	stream, err := h.jobs.JobLogs(ctx, j)
	if err != nil {
		h.t.Fatal(err)
	}
	out = map[string]string{}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out, eof, nil
		}
		if err != nil {
			return out, eof, err
		}
		if eof || m.GetEof() && len(m.GetData()) > 0 {
			h.t.Error("something came after eof, or with it")
		}
		eof = m.GetEof()
		out[m.GetSource()] += string(m.GetData())
	}
}

// TestPublishedJob runs jobs as a host of the published wire does.
func TestPublishedJob(t *testing.T) {
	h := publish(t, fake.Settings{}, nil, plugintest.Serve)
	if _, err := h.jobs.RunJob(t.Context(), &iacpb.JobSpec{Name: "early"}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("before Initialize: %v", err)
	}
	if c := must(h.required.Capabilities(t.Context(), &iacpb.CapabilitiesRequest{}))(t); c.GetComputePlanVersion() != "v2" {
		t.Errorf("compute_plan_version is %q", c.GetComputePlanVersion())
	}
	h.initialize()
	if _, err := h.required.Initialize(t.Context(), &iacpb.InitializeRequest{ConfigJson: []byte("{}")}); err != nil {
		t.Errorf("initialized again: %v", err)
	}
	if _, err := h.required.Initialize(t.Context(), &iacpb.InitializeRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("initialized otherwise: %v", err)
	}
	if n := must(h.required.Name(t.Context(), &iacpb.NameRequest{}))(t); n.GetName() != "fake" {
		t.Errorf("name %q", n.GetName())
	}
	if _, err := h.required.Plan(t.Context(), &iacpb.PlanRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("plan: %v", err)
	}

	j := h.run("echo out ; err bad ; exit 3")
	if j.GetId() == "" || j.GetProvider() != "fake" || len(j.GetMetadata()) == 0 {
		t.Errorf("handle %v", j)
	}
	st := h.end(j)
	if st.GetState() != iacpb.JobState_JOB_STATE_FAILED || st.GetExitCode() != 3 || !strings.HasPrefix(st.GetMessage(), "nonzero_exit") || st.GetHandle().GetId() != j.GetId() {
		t.Errorf("ended as %v", st)
	}
	out, eof, err := h.output(t.Context(), j)
	if err != nil || !eof || out["stdout"] != "out\n" || out["stderr"] != "bad\n" {
		t.Errorf("output %q, eof %v, %v", out, eof, err)
	}
	if st := h.end(h.run("echo well")); st.GetState() != iacpb.JobState_JOB_STATE_SUCCEEDED || st.GetExitCode() != 0 {
		t.Errorf("ended as %v", st)
	}

	hangs := h.run("hang")
	for range 2 { // a cancel is idempotent
		if _, err := h.cancel.CancelJob(t.Context(), hangs); err != nil {
			t.Errorf("cancel: %v", err)
		}
	}
	if st := h.end(hangs); st.GetState() != iacpb.JobState_JOB_STATE_CANCELLED {
		t.Errorf("ended as %v", st)
	}
}

// TestPublishedHandle sends handles that aren't what RunJob gave.
func TestPublishedHandle(t *testing.T) {
	h := publish(t, fake.Settings{}, nil, plugintest.Serve)
	h.initialize()
	j := h.run("echo x")
	other := h.run("echo y")
	for name, bad := range map[string]*iacpb.JobHandle{
		"empty":       {},
		"no metadata": {Id: j.GetId(), Name: j.GetName(), Provider: j.GetProvider()},
		"mixed":       {Id: j.GetId(), Metadata: other.GetMetadata()},
		"no JSON":     {Id: j.GetId(), Metadata: map[string]string{"windlass.handle": "{"}},
	} {
		if _, err := h.jobs.JobStatus(t.Context(), bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: status: %v", name, err)
		}
		if _, err := h.cancel.CancelJob(t.Context(), bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: cancel: %v", name, err)
		}
		if _, _, err := h.output(t.Context(), bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: logs: %v", name, err)
		}
	}
	h.cloud.Vanish(h.cloud.Jobs()[0])
	h.cloud.Vanish(h.cloud.Jobs()[0])
	if _, err := h.jobs.JobStatus(t.Context(), j); status.Code(err) != codes.NotFound {
		t.Errorf("a job that isn't there: %v", err)
	}
}

// failing is a runner whose calls fail.
type failing struct {
	sdk.JobRunner
	err error
}

func (f failing) JobStatus(context.Context, sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	return sdk.JobStatusResult{}, f.err
}

// TestPublishedErrors sends every code: as gRPC's, and with all that the contract says
// for a host that reads it.
func TestPublishedErrors(t *testing.T) {
	for _, c := range sdk.Codes() {
		want := &sdk.Error{Code: c, Op: "status", Provider: "prod", Field: "args", Retryable: true, RetryAfter: 7 * time.Second, ID: "x.y", Remedy: "wait", Err: errors.New("the backend's words")}
		f := &failing{err: want}
		h := publish(t, fake.Settings{}, map[string]any{"JobRunner": f}, plugintest.Serve)
		h.initialize()
		j := &iacpb.JobHandle{Id: "x", Metadata: map[string]string{"windlass.handle": `{"id":"x","identity":{"kind":"fake"},"kind":"fake","v":1}`}}
		_, err := h.jobs.JobStatus(t.Context(), j)
		if status.Code(err) != codes.Code(c) || !strings.Contains(status.Convert(err).Message(), "the backend's words") {
			t.Errorf("%v came as %v", c, err)
		}
		var got *sdk.Error
		if !errors.As(wire.FromStatus(t.Context(), "status", err), &got) || got.Code != c || got.Field != "args" || got.RetryAfter != 7*time.Second || !got.Retryable || got.Remedy != "wait" {
			t.Errorf("%v was read as %+v", c, got)
		}
	}
}

// TestPublishedProblems refuses a job for several reasons: that wire has one message,
// which has them all by that wire's names, and a host that reads ours has each.
func TestPublishedProblems(t *testing.T) {
	h := publish(t, fake.Settings{}, map[string]any{"JobRunner": func(r sdk.JobRunner) sdk.JobRunner {
		return refusing{r, []sdk.Problem{{Field: "args[2]", Message: "is too long", Code: sdk.InvalidArgument}, {Field: "secrets.TOKEN", Value: "secret://x/y", Message: "can't be had", Code: sdk.Unimplemented},
			{Field: "env.A", Message: "is taken", Code: sdk.FailedPrecondition}, {Field: "memory", Value: "1", Message: "is too little"}}}
	}}, plugintest.Serve)
	h.initialize()
	_, err := h.jobs.RunJob(t.Context(), &iacpb.JobSpec{Name: "one", RunCommand: "true"})
	const text = `run_command: is too long; env_vars_secret.TOKEN "secret://x/y": can't be had; env_vars.A: is taken; memory "1": is too little`
	if st := status.Convert(err); st.Code() != codes.InvalidArgument || st.Message() != "run job: "+text {
		t.Errorf("it came as %v", err)
	}
	var e *sdk.Error
	var ps sdk.Problems
	if got := wire.FromStatus(t.Context(), "run", err); !errors.As(got, &e) || e.Field != "run_command" || !errors.As(got, &ps) || len(ps) != 4 || ps.Error() != text || ps[1].Code != sdk.Unimplemented {
		t.Errorf("it was read as %v: %+v", got, ps)
	}
}

// refusing is a runner that finds problems in every job.
type refusing struct {
	sdk.JobRunner
	problems []sdk.Problem
}

func (r refusing) PrepareJob(ctx context.Context, q sdk.PrepareJobRequest) (sdk.Launch, error) {
	l, err := r.JobRunner.PrepareJob(ctx, q)
	l.Problems = r.problems
	return l, err
}

// TestPublishedLostReply loses the reply of RunJob: a job that can be found is, and one
// that can't is never called transient, since that wire has no key to send it again with.
func TestPublishedLostReply(t *testing.T) {
	spec := &iacpb.JobSpec{Name: "one", RunCommand: "echo x"}
	search := fake.BestGuarantees()
	search.Submit, search.Found.Within = sdk.SubmitGuarantee{By: sdk.SubmitBySearch}, time.Minute
	for _, c := range []struct {
		name  string
		set   fake.Settings
		fault fake.Fault
		knobs fake.Knobs
		want  codes.Code
		made  int
	}{
		{"found", fake.Settings{}, fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultLostReply}, fake.Knobs{}, codes.OK, 1},
		{"absent", fake.Settings{}, fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultReset}, fake.Knobs{}, codes.Unavailable, 0},
		{"no finder", fake.Settings{Capabilities: []string{"JobRunner"}}, fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultLostReply}, fake.Knobs{}, codes.Unknown, 1},
		{"seen too late", fake.Settings{Guarantees: &search}, fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultLostReply}, fake.Knobs{Visibility: fake.Duration(time.Minute)}, codes.Unknown, 1},
		{"seen late", fake.Settings{Guarantees: &search}, fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultLostReply}, fake.Knobs{Visibility: fake.Duration(10 * time.Second)}, codes.OK, 1},
		{"refused", fake.Settings{}, fake.Capacity(1), fake.Knobs{}, codes.ResourceExhausted, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := publish(t, c.set, nil, plugintest.ServePipe)
				h.initialize()
				h.cloud.Set(c.knobs)
				h.cloud.Inject(c.fault)
				j, err := h.jobs.RunJob(t.Context(), spec)
				if status.Code(err) != c.want || len(h.cloud.Jobs()) != c.made {
					t.Errorf("%v, %v; %d jobs", j, err, len(h.cloud.Jobs()))
				}
				if c.want == codes.Unknown && !strings.Contains(status.Convert(err).Message(), "may run") {
					t.Errorf("the message is %q", err)
				}
			})
		})
	}
}

// slow is a runner whose RunJob returns once its caller has left.
type slow struct {
	sdk.JobRunner
	made chan struct{}
	lost bool // the reply is
}

func (s slow) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	res, err := s.JobRunner.RunJob(ctx, r)
	close(s.made)
	<-ctx.Done()
	if s.lost {
		return sdk.RunJobResult{}, ctx.Err()
	}
	return res, err
}

// TestPublishedCallerLeaves leaves while RunJob is under way: nobody would get the
// handle, so the job is ended.
func TestPublishedCallerLeaves(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			made := make(chan struct{})
			h := publish(t, fake.Settings{}, map[string]any{"JobRunner": func(r sdk.JobRunner) sdk.JobRunner { return slow{r, made, lost} }}, plugintest.ServePipe)
			h.initialize()
			ctx, leave := context.WithCancel(t.Context())
			left := make(chan error)
			go func() {
				_, err := h.jobs.RunJob(ctx, &iacpb.JobSpec{Name: "one", RunCommand: "hang"})
				left <- err
			}()
			<-made
			leave()
			if err := <-left; status.Code(err) != codes.Canceled {
				t.Errorf("left with %v", err)
			}
			synctest.Wait()
			if made, cancelled := len(h.cloud.Jobs()), h.cloud.Calls(fake.OpCancelJob); made != 1 || cancelled != 1 {
				t.Errorf("%d jobs were made, %d cancelled", made, cancelled)
			}
		})
	}
}

// TestPublishedDrain reads a log whose end can't be proven: until the job has ended and
// the log was silent for the declared window, and no longer.
func TestPublishedDrain(t *testing.T) {
	g := fake.BestGuarantees()
	g.Logs.EndProven, g.Logs.Settle = false, sdk.LogSettle{Quiet: 20 * time.Second, Max: time.Minute}
	for _, c := range []struct {
		late time.Duration
		last bool // the last line still comes
	}{{0, true}, {15 * time.Second, true}, {5 * time.Minute, false}} {
		synctest.Test(t, func(t *testing.T) {
			h := publish(t, fake.Settings{Guarantees: &g}, nil, plugintest.ServePipe)
			h.initialize()
			h.cloud.Set(fake.Knobs{LateLogs: fake.Duration(c.late)})
			start := time.Now()
			out, eof, err := h.output(t.Context(), h.run("echo first ; sleep 30s ; echo last"))
			if err != nil || !eof || strings.HasSuffix(out["stdout"], "last\n") != c.last {
				t.Errorf("late by %s: %q, eof %v, %v", c.late, out, eof, err)
			}
			if took := time.Since(start); took < 50*time.Second || took > 95*time.Second {
				t.Errorf("late by %s: it took %s", c.late, took)
			}
		})
	}
}

// scriptedLog is a log of fixed items.
type scriptedLog struct {
	items []sdk.LogItem
	err   error
	after func(ctx context.Context) // runs before the end
}

func (s scriptedLog) JobLogs(ctx context.Context, _ sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		for _, i := range s.items {
			if !yield(i, nil) {
				return
			}
		}
		if s.after != nil {
			s.after(ctx)
		}
		if s.err != nil {
			yield(sdk.LogItem{}, s.err)
		}
	}
}

// TestPublishedLogItems sends what that wire has a place for as it is, and ends with an
// error where something is missing.
func TestPublishedLogItems(t *testing.T) {
	entry := func(stream sdk.Stream, data string, end sdk.LineEnd) sdk.LogItem {
		return sdk.LogItem{Entry: &sdk.LogChunk{Stream: stream, Data: []byte(data), LineEnd: end}}
	}
	end := func(v sdk.Verdict) sdk.LogItem { return sdk.LogItem{End: &sdk.LogEnd{Verdict: v}} }
	long := strings.Repeat("x", 5<<20) + "\xff\n"
	for _, c := range []struct {
		name string
		log  scriptedLog
		want map[string]string
		code codes.Code
	}{
		{"whole", scriptedLog{items: []sdk.LogItem{entry("stdout", "a", sdk.LineEndStripped), {}, entry("stdout", "", sdk.LineEndStripped), entry("stderr", "b", sdk.LineEndKept), end(sdk.VerdictComplete)}},
			map[string]string{"stdout": "a\n\n", "stderr": "b", "": ""}, codes.OK},
		{"over 4 MiB", scriptedLog{items: []sdk.LogItem{entry("combined", long, sdk.LineEndKept), end(sdk.VerdictComplete)}}, map[string]string{"combined": long, "": ""}, codes.OK},
		{"gap", scriptedLog{items: []sdk.LogItem{entry("stdout", "a", sdk.LineEndKept), {Gap: &sdk.LogGap{Bytes: -1, Why: "rotated"}}, entry("stdout", "b", sdk.LineEndKept), end(sdk.VerdictComplete)}},
			map[string]string{"stdout": "ab"}, codes.DataLoss},
		{"truncated", scriptedLog{items: []sdk.LogItem{entry("stdout", "a", sdk.LineEndKept), end(sdk.VerdictTruncatedByProvider)}}, map[string]string{"stdout": "a"}, codes.DataLoss},
		{"broken", scriptedLog{items: []sdk.LogItem{entry("stdout", "a", sdk.LineEndKept)}, err: sdk.PermissionDenied}, map[string]string{"stdout": "a"}, codes.PermissionDenied},
	} {
		h := publish(t, fake.Settings{}, map[string]any{"JobLogger": c.log}, plugintest.Serve)
		h.initialize()
		out, eof, err := h.output(t.Context(), h.run("echo x"))
		if status.Code(err) != c.code || eof != (c.code == codes.OK) || !mapsEqual(out, c.want) {
			t.Errorf("%s: %.100q, eof %v, %v", c.name, fmt.Sprint(out), eof, err)
		}
	}
}

func mapsEqual(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// TestPublishedLogEnds leaves a log that would go on for ever: the driver's stream ends,
// by the host's leaving and by the plugin's end.
func TestPublishedLogEnds(t *testing.T) {
	for _, how := range []string{"host", "plugin"} {
		ended := make(chan struct{})
		log := scriptedLog{items: []sdk.LogItem{{Entry: &sdk.LogChunk{Stream: "stdout", Data: []byte("x"), LineEnd: sdk.LineEndKept}}},
			after: func(ctx context.Context) { <-ctx.Done(); close(ended) }}
		h := publish(t, fake.Settings{}, map[string]any{"JobLogger": log}, plugintest.Serve)
		h.initialize()
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		stream := must(h.jobs.JobLogs(ctx, h.run("hang")))(t)
		if m := must(stream.Recv())(t); string(m.GetData()) != "x" {
			t.Errorf("the first message is %v", m)
		}
		if how == "host" {
			leave()
		} else if err := h.server.Close(); err != nil {
			t.Error(err)
		}
		<-ended
		if m, err := stream.Recv(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: then came %v, %v", how, m, err)
		}
	}
}

// endless is a log that never ends, and never waits.
type endless struct{ bytes *atomic.Int64 }

func (e endless) JobLogs(context.Context, sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		line := []byte(strings.Repeat("x", 1<<16))
		for yield(sdk.LogItem{Entry: &sdk.LogChunk{Stream: "stdout", Data: line, LineEnd: sdk.LineEndKept}}, nil) {
			e.bytes.Add(int64(len(line)))
		}
	}
}

// TestPublishedLogWaits reads nothing of a log that floods: the driver waits.
func TestPublishedLogWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := endless{&atomic.Int64{}}
		h := publish(t, fake.Settings{}, map[string]any{"JobLogger": log}, plugintest.ServePipe)
		h.initialize()
		ctx, leave := context.WithCancel(t.Context())
		stream := must(h.jobs.JobLogs(ctx, h.run("hang")))(t)
		synctest.Wait() // would go on for ever
		if n := log.bytes.Load(); n == 0 || n > 4*wire.StreamWindow {
			t.Errorf("%d bytes are under way", n)
		}
		for range 100 {
			if m := must(stream.Recv())(t); len(m.GetData()) != 1<<16 {
				t.Errorf("a message of %d bytes", len(m.GetData()))
			}
		}
		leave()
		synctest.Wait()
	})
}

// TestPublishedSweep removes what hosts of that wire left behind, once it has ended and
// expired, and nothing else.
func TestPublishedSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &owned{objects: []sdk.OwnedObject{
			{ID: "expired", Owner: "workflow", Expires: time.Now().Add(-time.Second)},
			{ID: "not yet", Owner: "workflow", Expires: time.Now().Add(time.Hour)},
			{ID: "runs", Owner: "workflow", Expires: time.Now().Add(-time.Second), Live: true},
			{ID: "shared", Owner: "workflow", Expires: time.Now().Add(-time.Second), Shared: true},
			{ID: "never", Owner: "workflow"},
			{ID: "another's", Owner: "me", Expires: time.Now().Add(-time.Second)},
		}}
		h := publish(t, fake.Settings{}, map[string]any{"OwnedLister": l}, plugintest.ServePipe)
		h.initialize()
		synctest.Wait()
		if l.owner != "workflow" || !slices.Equal(l.removed, []string{"expired"}) {
			t.Errorf("asked for %q, removed %v", l.owner, l.removed)
		}
	})
}

type owned struct {
	objects []sdk.OwnedObject
	owner   string
	removed []string
}

func (o *owned) ListOwned(_ context.Context, r sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
	o.owner = r.Owner
	return func(yield func(sdk.OwnedObject, error) bool) {
		for _, x := range o.objects {
			if !yield(x, nil) {
				return
			}
		}
	}
}

func (o *owned) RemoveOwned(_ context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
	o.removed = append(o.removed, r.Object.ID)
	return sdk.RemoveOwnedResult{}, nil
}
