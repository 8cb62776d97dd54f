package plugin_test

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func TestMain(m *testing.M) {
	if servedByTest() {
		return
	}
	goleak.VerifyTestMain(m)
}

// host is the other end of a plugin that serves a driver on a unix socket.
type host struct {
	t      *testing.T
	conn   *grpc.ClientConn
	server *plugin.Server
	ids    sdk.IDSource
}

func serve(t *testing.T, d sdk.Driver) *host {
	t.Helper()
	h := &host{t: t, ids: sdk.NewIDSource(sdk.SystemClock())}
	h.conn = plugintest.Serve(t, func(r grpc.ServiceRegistrar) { h.server = must(plugin.Register(r, d))(t) })
	t.Cleanup(func() {
		if err := h.server.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return h
}

// in returns a context of a session.
func (h *host) in(session string) context.Context {
	return metadata.AppendToOutgoingContext(h.t.Context(), wire.SessionKey, session)
}

// secrets answers a session's callbacks with what answer gives, until the test ends.
func (h *host) secrets(session string, answer func(ref string) ([]byte, error)) {
	h.t.Helper()
	stream, err := pb.NewProviderServiceClient(h.conn).Callbacks(h.in(session))
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		h.t.Fatal(err)
	}
	go func() {
		for {
			q, err := stream.Recv()
			if err != nil {
				return
			}
			if q.GetResolveSecret() == "" {
				continue
			}
			m := &pb.CallbacksRequest{Id: q.GetId()}
			if v, err := answer(q.GetResolveSecret()); err != nil {
				m.Answer = &pb.CallbacksRequest_Error{Error: wire.EncodeError(err)}
			} else {
				m.Answer = &pb.CallbacksRequest_Secret{Secret: v}
			}
			if stream.Send(m) != nil {
				return
			}
		}
	}()
}

func (h *host) open(session string) (sdk.Info, []string, error) {
	h.t.Helper()
	m, err := wire.EncodeOpenRequest(session, sdk.OpenRequest{Name: "prod", Owner: "me", LedgerID: "ledger", StateDir: h.t.TempDir()})
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := pb.NewProviderServiceClient(h.conn).Open(h.t.Context(), m)
	if err != nil {
		return sdk.Info{}, nil, wire.FromStatus(h.t.Context(), "open", err)
	}
	o, err := wire.DecodeOpenResponse(out)
	return o.Info, o.Capabilities, err
}

// must takes the error off a pair of results.
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// call sends a request of one reply, converted on both ways.
func call[A, B any, M, N any](ctx context.Context, t *testing.T, a A, encode func(A) (M, error), rpc func(context.Context, M, ...grpc.CallOption) (N, error), decode func(N) (B, error)) (B, error) {
	t.Helper()
	var none B
	m, err := encode(a)
	if err != nil {
		t.Fatal(err)
	}
	n, err := rpc(ctx, m)
	if err != nil {
		return none, wire.FromStatus(ctx, "call", err)
	}
	return decode(n)
}

func (h *host) prepare(ctx context.Context, spec sdk.JobSpec) sdk.Launch {
	h.t.Helper()
	spec.V = 1
	jobs := pb.NewJobRunnerServiceClient(h.conn)
	l := must(call(ctx, h.t, sdk.PrepareJobRequest{Spec: spec, RunID: h.ids.NewID(), AttemptID: h.ids.NewID(), Attempt: 1, Expires: time.Now().Add(time.Hour)},
		wire.EncodePrepareJobRequest, jobs.PrepareJob, wire.DecodePrepareJobResponse))(h.t)
	if len(l.Problems) > 0 {
		h.t.Fatal(sdk.JoinProblems(l.Problems))
	}
	return l
}

// run sends a launch, and input where there is some; it returns when the plugin has
// ended the stream.
func (h *host) run(ctx context.Context, l sdk.Launch, input ...string) (sdk.RunJobResult, error) {
	h.t.Helper()
	r := sdk.RunJobRequest{Launch: l, Progress: func(string) {}}
	if len(input) > 0 {
		r.Stdin = strings.NewReader("")
	}
	stream := must(pb.NewJobRunnerServiceClient(h.conn).RunJob(ctx))(h.t)
	if err := stream.Send(must(wire.EncodeRunJobRequest(r))(h.t)); err != nil {
		h.t.Fatal(err)
	}
	var res *sdk.RunJobResult
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			if res == nil {
				h.t.Fatal("the stream ended without a result")
			}
			return *res, nil
		case err != nil:
			return sdk.RunJobResult{}, wire.FromStatus(ctx, "run job", err)
		}
		if m.GetResult() == nil {
			continue
		}
		v := must(wire.DecodeRunJobResult(m))(h.t)
		res = &v
		for _, s := range input {
			if err := stream.Send(&pb.RunJobRequest{Part: &pb.RunJobRequest_Stdin{Stdin: []byte(s)}}); err != nil {
				h.t.Fatal(err)
			}
		}
		if err := stream.CloseSend(); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *host) wait(ctx context.Context, j sdk.JobHandle) sdk.JobStatusResult {
	h.t.Helper()
	var st sdk.JobStatusResult
	testwait.Until(h.t, time.Minute, "end of the job", func() bool {
		st = must(call(ctx, h.t, sdk.JobStatusRequest{Handle: j}, wire.EncodeJobStatusRequest, pb.NewJobRunnerServiceClient(h.conn).JobStatus, wire.DecodeJobStatusResponse))(h.t)
		return st.State.Terminal()
	})
	return st
}

// logs reads a job's output to its end.
func (h *host) logs(ctx context.Context, j sdk.JobHandle) (string, sdk.Verdict) {
	h.t.Helper()
	stream := must(pb.NewJobLoggerServiceClient(h.conn).JobLogs(ctx, must(wire.EncodeJobLogsRequest(sdk.JobLogsRequest{Handle: j, Follow: true}))(h.t)))(h.t)
	var out strings.Builder
	var verdict sdk.Verdict
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out.String(), verdict
		}
		for i, err := range wire.DecodeJobLogsResponse(must(m, err)(h.t)) {
			switch i := must(i, err)(h.t); {
			case i.Entry != nil:
				out.Write(i.Entry.Data)
			case i.End != nil:
				verdict = i.End.Verdict
			}
		}
	}
}

// TestLoopback runs jobs on the fake through a real server, with every capability.
func TestLoopback(t *testing.T) {
	cloud := fake.NewCloud(fake.Options{})
	d := fake.NewDriver(cloud, fake.Settings{BatchMax: 7})
	h := serve(t, d)
	got := must(wire.DecodeDescribeResponse(must(pb.NewProviderServiceClient(h.conn).Describe(t.Context(), &pb.DescribeRequest{}))(t)))(t)
	want := d
	want.Open = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the driver came as\n%+v\nis\n%+v", got, want)
	}
	h.secrets("s1", func(ref string) ([]byte, error) { return []byte("value of " + ref), nil })
	info, names, err := h.open("s1")
	if err != nil || info.Name != "prod" || info.BatchMax != 7 || info.Kind != d.Kind {
		t.Fatalf("open: %+v, %v", info, err)
	}
	var all []string
	for _, row := range sdk.Capabilities() {
		all = append(all, row.Name)
	}
	if !slices.Equal(names, all) {
		t.Errorf("capabilities %v, want %v", names, all)
	}
	ctx := h.in("s1")
	check := must(wire.DecodeCheckResponse(must(pb.NewProviderServiceClient(h.conn).Check(ctx, &pb.CheckRequest{}))(t)))(t)
	if len(check.Items) == 0 {
		t.Error("a check found nothing")
	}

	l := h.prepare(ctx, sdk.JobSpec{Args: sdk.Argv{"secret", "TOKEN", ";", "cat", ";", "exit", "3"}, Stdin: sdk.StdinAttached,
		Secrets: map[string]sdk.SecretRef{"TOKEN": "secret://env/TOKEN"}})
	res := must(h.run(ctx, l, "in", "put", "\xff\n"))(t)
	st := h.wait(ctx, res.Handle)
	if st.State != sdk.StateFailed || st.Reason != sdk.ReasonNonzeroExit || st.ExitCode == nil || *st.ExitCode != 3 {
		t.Errorf("ended as %+v", st)
	}
	// The fake shows a secret's hash.
	hash := sdk.HashCanonical([]byte("value of secret://env/TOKEN"))
	if out, verdict := h.logs(ctx, res.Handle); !strings.Contains(out, "secret TOKEN "+hash) || !strings.HasSuffix(out, "input\xff\n") || verdict != sdk.VerdictComplete {
		t.Errorf("output %q, %s", out, verdict)
	}
	again := must(h.run(ctx, l, ""))(t)
	if !again.Adopted || cloud.Made(l.AttemptID) != 1 {
		t.Errorf("sent again: %+v, %d objects", again, cloud.Made(l.AttemptID))
	}
	found := must(call(ctx, t, sdk.FindJobsRequest{Launch: &l}, wire.EncodeFindJobsRequest, pb.NewJobFinderServiceClient(h.conn).FindJobs, wire.DecodeFindJobsResponse))(t)
	if found.Outcome != sdk.FindFound || len(found.Jobs) != 1 || !reflect.DeepEqual(found.Jobs[0].Handle, res.Handle) {
		t.Errorf("found %+v", found)
	}
	h.rest(ctx, res.Handle)
}

// rest tries what can be done beside running a job: one that hangs, and one that has
// ended.
func (h *host) rest(ctx context.Context, ended sdk.JobHandle) {
	t := h.t
	t.Helper()
	l := h.prepare(ctx, sdk.JobSpec{Args: sdk.Argv{"hang"}})
	hangs := must(h.run(ctx, l))(t).Handle
	missing := hangs
	missing.ID += "x"
	items := must(call(ctx, t, sdk.JobStatusesRequest{Handles: []sdk.JobHandle{ended, missing, hangs}}, wire.EncodeJobStatusesRequest,
		pb.NewJobBatcherServiceClient(h.conn).JobStatuses,
		func(m *pb.JobStatusesResponse) (sdk.JobStatusesResult, error) {
			return wire.DecodeJobStatusesResponse(m, 3)
		}))(t).Items
	if items[0].Result.State != sdk.StateFailed || sdk.CodeOf(items[1].Err) != sdk.NotFound || items[2].Err != nil {
		t.Errorf("statuses: %+v", items)
	}
	if _, err := call(ctx, t, sdk.RenewExpiryRequest{Handle: hangs, Expires: time.Now().Add(2 * time.Hour)}, wire.EncodeRenewExpiryRequest,
		pb.NewExpiryRenewerServiceClient(h.conn).RenewExpiry, func(m *pb.RenewExpiryResponse) (*pb.RenewExpiryResponse, error) { return m, nil }); err != nil {
		t.Errorf("renew: %v", err)
	}
	_, err := call(ctx, t, sdk.CleanupJobRequest{Handle: hangs}, wire.EncodeCleanupJobRequest, pb.NewJobCleanerServiceClient(h.conn).CleanupJob, wire.DecodeCleanupJobResponse)
	if !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("a running job was cleaned up: %v", err)
	}
	zero := time.Duration(0)
	c := must(call(ctx, t, sdk.CancelJobRequest{Handle: hangs, Grace: &zero}, wire.EncodeCancelJobRequest, pb.NewJobCancelerServiceClient(h.conn).CancelJob, wire.DecodeCancelJobResponse))(t)
	if !c.Accepted {
		t.Errorf("cancel: %+v", c)
	}
	if st := h.wait(ctx, hangs); st.State != sdk.StateCancelled {
		t.Errorf("ended as %+v", st)
	}
	owned := pb.NewOwnedListerServiceClient(h.conn)
	stream := must(owned.ListOwned(ctx, must(wire.EncodeListOwnedRequest(sdk.ListOwnedRequest{Owner: "me"}))(t)))(t)
	n := 0
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		o := must(wire.DecodeListOwnedResponse(must(m, err)(t)))(t)
		if _, err := call(ctx, t, sdk.RemoveOwnedRequest{Object: o}, wire.EncodeRemoveOwnedRequest, owned.RemoveOwned,
			func(m *pb.RemoveOwnedResponse) (*pb.RemoveOwnedResponse, error) { return m, nil }); err != nil {
			t.Errorf("remove %+v: %v", o, err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("listed %d objects, want 2", n)
	}
}

// TestWatchAndFollowEnd leaves a log and a watch that would go on for ever: by leaving
// and by closing the session.
func TestWatchAndFollowEnd(t *testing.T) {
	h := serve(t, fake.NewDriver(fake.NewCloud(fake.Options{}), fake.Settings{}))
	if _, _, err := h.open("s"); err != nil {
		t.Fatal(err)
	}
	j := must(h.run(h.in("s"), h.prepare(h.in("s"), sdk.JobSpec{Args: sdk.Argv{"hang"}})))(t).Handle
	ctx, cancel := context.WithCancel(h.in("s"))
	watch := must(pb.NewJobWatcherServiceClient(h.conn).WatchJobs(ctx, must(wire.EncodeWatchJobsRequest(sdk.WatchJobsRequest{Owner: "me"}))(t)))(t)
	cancel()
	for {
		if _, err := watch.Recv(); err != nil {
			if got := wire.FromStatus(ctx, "watch", err); !errors.Is(got, context.Canceled) || sdk.IsRetryable(got) {
				t.Errorf("the watch ended with %v", got)
			}
			break
		}
	}
	logs := must(pb.NewJobLoggerServiceClient(h.conn).JobLogs(h.in("s"), must(wire.EncodeJobLogsRequest(sdk.JobLogsRequest{Handle: j, Follow: true}))(t)))(t)
	if _, err := pb.NewProviderServiceClient(h.conn).Close(h.in("s"), &pb.CloseRequest{}); err != nil {
		t.Fatal(err)
	}
	for {
		if m, err := logs.Recv(); err != nil {
			if got := wire.FromStatus(t.Context(), "logs", err); sdk.IsRetryable(got) || errors.Is(err, io.EOF) {
				t.Errorf("a log whose session was closed ended with %v", got)
			}
			break
		} else if slices.ContainsFunc(m.GetItems(), func(i *pb.JobLogsItem) bool { return i.GetEnd() != nil }) {
			t.Error("a log whose session was closed came to an end")
		}
	}
}

// TestAbsent asks a provider that can only run jobs for the rest.
func TestAbsent(t *testing.T) {
	h := serve(t, fake.NewDriver(fake.NewCloud(fake.Options{}), fake.Settings{Capabilities: []string{"JobRunner"}}))
	_, names, err := h.open("s")
	if err != nil || !slices.Equal(names, []string{"JobRunner"}) {
		t.Fatalf("open: %v, %v", names, err)
	}
	ctx := h.in("s")
	j := must(h.run(ctx, h.prepare(ctx, sdk.JobSpec{Args: sdk.Argv{"exit", "0"}})))(t).Handle
	_, err = call(ctx, t, sdk.CancelJobRequest{Handle: j}, wire.EncodeCancelJobRequest, pb.NewJobCancelerServiceClient(h.conn).CancelJob, wire.DecodeCancelJobResponse)
	if !errors.Is(err, sdk.Unimplemented) || !strings.Contains(err.Error(), "JobCanceler") {
		t.Errorf("cancel: %v", err)
	}
	stream := must(pb.NewJobLoggerServiceClient(h.conn).JobLogs(ctx, must(wire.EncodeJobLogsRequest(sdk.JobLogsRequest{Handle: j}))(t)))(t)
	if _, err := stream.Recv(); !errors.Is(wire.FromStatus(ctx, "logs", err), sdk.Unimplemented) {
		t.Errorf("logs: %v", err)
	}
}

// TestSecretErrors has the host refuse a secret, and then keep no callbacks at all.
func TestSecretErrors(t *testing.T) {
	h := serve(t, fake.NewDriver(fake.NewCloud(fake.Options{}), fake.Settings{}))
	h.secrets("refuses", func(string) ([]byte, error) {
		return nil, &sdk.Error{Code: sdk.NotFound, Op: "resolve secret", Field: "TOKEN", Remedy: "set it"}
	})
	for session, word := range map[string]string{"refuses": "set it", "keeps none": "no callbacks"} {
		if _, _, err := h.open(session); err != nil {
			t.Fatal(err)
		}
		ctx := h.in(session)
		l := h.prepare(ctx, sdk.JobSpec{Args: sdk.Argv{"exit", "0"}, Secrets: map[string]sdk.SecretRef{"TOKEN": "secret://env/TOKEN"}})
		if _, err := h.run(ctx, l); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", session, err)
		}
	}
}

// TestQuestions lets a plugin ask for a secret that the host doesn't give: the asker
// leaves, the host leaves, the session is closed.
func TestQuestions(t *testing.T) {
	resolved := make(chan error, 1)
	h := serve(t, sdk.Driver{Kind: "k", Capabilities: []string{"JobRunner"}, Open: func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
		_, err := r.Secrets.ResolveSecret(ctx, "secret://env/TOKEN")
		resolved <- err
		return nil, err
	}})
	provider := pb.NewProviderServiceClient(h.conn)
	for _, c := range []struct {
		name string
		end  func(leave context.CancelFunc, stream grpc.BidiStreamingClient[pb.CallbacksRequest, pb.CallbacksResponse]) error
		want sdk.Code
	}{
		{"asker", func(leave context.CancelFunc, _ grpc.BidiStreamingClient[pb.CallbacksRequest, pb.CallbacksResponse]) error {
			leave()
			return nil
		}, sdk.Canceled},
		{"host", func(_ context.CancelFunc, s grpc.BidiStreamingClient[pb.CallbacksRequest, pb.CallbacksResponse]) error {
			return s.CloseSend()
		}, sdk.Unavailable},
		{"session", func(context.CancelFunc, grpc.BidiStreamingClient[pb.CallbacksRequest, pb.CallbacksResponse]) error {
			_, err := provider.Close(h.in("session"), &pb.CloseRequest{})
			return err
		}, sdk.Unavailable},
		{"empty", func(_ context.CancelFunc, s grpc.BidiStreamingClient[pb.CallbacksRequest, pb.CallbacksResponse]) error {
			return errors.Join(s.Send(&pb.CallbacksRequest{Id: 77}), s.Send(&pb.CallbacksRequest{Id: 1}), s.Send(&pb.CallbacksRequest{Id: 1}))
		}, sdk.Internal},
	} {
		t.Run(c.name, func(t *testing.T) {
			stream := must(provider.Callbacks(h.in(c.name)))(t)
			if _, err := stream.Header(); err != nil {
				t.Fatal(err)
			}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			opened := make(chan error, 1)
			go func() {
				_, err := provider.Open(ctx, &pb.OpenRequest{Session: c.name})
				opened <- err
			}()
			q := must(stream.Recv())(t)
			if q.GetResolveSecret() != "secret://env/TOKEN" {
				t.Fatalf("asked %v", q)
			}
			if err := c.end(leave, stream); err != nil {
				t.Fatal(err)
			}
			if err := <-resolved; sdk.CodeOf(err) != c.want {
				t.Errorf("resolved with %v, %v, want %v", sdk.CodeOf(err), err, c.want)
			}
			if <-opened == nil {
				t.Error("was opened")
			}
			if c.name == "asker" {
				if w := must(stream.Recv())(t); !w.GetWithdrawn() || w.GetId() != q.GetId() {
					t.Errorf("then came %v", w)
				}
			}
		})
	}
}

// TestSessions calls without a session, with one that isn't open, twice open and
// closed: none of it may look like a job that isn't there.
func TestSessions(t *testing.T) {
	h := serve(t, fake.NewDriver(fake.NewCloud(fake.Options{}), fake.Settings{}))
	jobs := pb.NewJobRunnerServiceClient(h.conn)
	status := func(ctx context.Context) error {
		_, err := jobs.JobStatus(ctx, &pb.JobStatusRequest{})
		return wire.FromStatus(ctx, "job status", err)
	}
	if err := status(t.Context()); !errors.Is(err, sdk.InvalidArgument) {
		t.Errorf("no session: %v", err)
	}
	if err := status(h.in("nobody's")); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("a session that isn't open: %v", err)
	}
	if _, _, err := h.open("a"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.open("a"); !errors.Is(err, sdk.AlreadyExists) {
		t.Errorf("open twice: %v", err)
	}
	if _, _, err := h.open("b"); err != nil {
		t.Errorf("a second session: %v", err)
	}
	provider := pb.NewProviderServiceClient(h.conn)
	for range 2 {
		if _, err := provider.Close(h.in("a"), &pb.CloseRequest{}); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if err := status(h.in("a")); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("a session that was closed: %v", err)
	}
	if _, err := provider.Info(h.in("b"), &pb.InfoRequest{}); err != nil {
		t.Errorf("the other session: %v", err)
	}
}

// typed is a provider whose pointer may be nil.
type typed struct{ sdk.Provider }

// TestNothing registers and opens what isn't there.
func TestNothing(t *testing.T) {
	open := func(context.Context, sdk.OpenRequest) (sdk.Provider, error) { return nil, nil }
	can := []string{"JobRunner"}
	for _, d := range []sdk.Driver{{}, {Kind: "k", Capabilities: can}, {Open: open, Capabilities: can}, {Kind: "k", Open: open},
		{Kind: "k", Open: open, Capabilities: []string{"JobRunner", "Teleporter"}}, {Kind: "k", Open: open, Capabilities: []string{"JobRunner", "JobRunner"}}} {
		if _, err := plugin.Register(grpc.NewServer(), d); !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("%+v: %v", d, err)
		}
	}
	for _, p := range []sdk.Provider{nil, (*typed)(nil)} {
		h := serve(t, sdk.Driver{Kind: "k", Capabilities: can, Open: func(context.Context, sdk.OpenRequest) (sdk.Provider, error) { return p, nil }})
		if _, _, err := h.open("s"); !errors.Is(err, sdk.Internal) {
			t.Errorf("%T: %v", p, err)
		}
	}
}
