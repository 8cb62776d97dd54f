package wire_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outer has words around an error, and no type that the contract knows.
type outer struct{ err error }

func (o *outer) Error() string { return "outer words: " + o.err.Error() }
func (o *outer) Unwrap() error { return o.err }

// fullError has every member set.
func fullError() *sdk.Error {
	e := filled[sdk.Error](&filler{})
	e.Reason = sdk.ReasonImagePull
	e.Err = fmt.Errorf("gone: %w", sdk.Problems{{Field: "config.size", Value: "huge", Message: "isn't made any more", Code: sdk.FailedPrecondition}})
	return &e
}

// failing is a JobRunnerService whose JobStatus fails as it is told.
type failing struct {
	pb.UnimplementedJobRunnerServiceServer
	status func(ctx context.Context) error
}

func (f *failing) JobStatus(ctx context.Context, _ *pb.JobStatusRequest) (*pb.JobStatusResponse, error) {
	return nil, f.status(ctx)
}

// dial serves f and returns a client of it.
func dial(t *testing.T, f *failing) (pb.JobRunnerServiceClient, *grpc.ClientConn) {
	t.Helper()
	conn := plugintest.Serve(t, func(r grpc.ServiceRegistrar) { pb.RegisterJobRunnerServiceServer(r, f) })
	return pb.NewJobRunnerServiceClient(conn), conn
}

// TestErrorsOverTheWire sends errors of every code, with every member, through a real
// server, and wants all of it back, gRPC's status included.
func TestErrorsOverTheWire(t *testing.T) {
	f := &failing{}
	client, _ := dial(t, f)
	call := func(err error) error {
		f.status = func(ctx context.Context) error { return wire.Status(ctx, err) }
		_, got := client.JobStatus(t.Context(), &pb.JobStatusRequest{})
		return wire.FromStatus(t.Context(), "job status", got)
	}
	for _, code := range sdk.Codes() {
		full := fullError()
		full.Code = code
		for _, sent := range []error{
			full, &sdk.Error{Code: code}, &sdk.Error{Code: code, Op: "x", Retryable: true}, &sdk.Error{Code: code, Unreached: true},
			sdk.Errorf(code, "run job", "over %w", sdk.NotFound), &outer{full}, fmt.Errorf("%w", code), errors.Join(full, errors.New("and")),
			sdk.Errorf(code, "run job", "bytes \xff and a line\nend"),
		} {
			got := call(sent)
			same(t, sent, got)
			st, ok := status.FromError(got)
			if !ok || st.Code() != codes.Code(code) {
				t.Errorf("%v: gRPC's status came back as %v", sent, st)
			}
			var rpc interface{ GRPCStatus() *status.Status }
			if !errors.As(got, &rpc) {
				t.Errorf("%v: no status in %v", sent, got)
			}
			// What the host passes on again doesn't change any more.
			same(t, got, call(got))
		}
	}
	same(t, errors.New("no class"), call(errors.New("no class")))
	same(t, context.Canceled, call(context.Canceled))
	if err := call(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

// TestProblemsOverTheWire sends several problems as the cause of one error: all of them
// come back, with the same text, however they were wrapped and passed on.
func TestProblemsOverTheWire(t *testing.T) {
	f := &failing{}
	client, _ := dial(t, f)
	ps := sdk.Problems{{Field: "config.region", Value: "mars", Message: "is not known", Code: sdk.InvalidArgument}, {Field: "config.size", Message: "is needed", Code: sdk.FailedPrecondition},
		{Field: "config.more", Value: "é \"x\"", Message: "isn't there", Code: sdk.Unimplemented}, {Field: "config.plain", Message: "has no class"}}
	alone := &sdk.Error{Code: sdk.InvalidArgument, Op: "read config", Provider: "prod", Field: "config.region", Err: ps}
	for name, sent := range map[string]error{
		"alone": alone, "wrapped": fmt.Errorf("open: %w", alone), "in words": &sdk.Error{Code: sdk.InvalidArgument, Field: "config.region", Err: fmt.Errorf("the file: %w", ps)},
		"behind another": &sdk.Error{Code: sdk.Internal, Op: "open", Err: alone}, "joined": errors.Join(alone, errors.New("and more")),
	} {
		f.status = func(ctx context.Context) error { return wire.Status(ctx, sent) }
		_, err := client.JobStatus(t.Context(), &pb.JobStatusRequest{})
		for way, got := range map[string]error{"status": wire.FromStatus(t.Context(), "x", err), "item": wire.DecodeError(wire.EncodeError(sent)),
			"passed on": wire.DecodeError(wire.EncodeError(wire.FromStatus(t.Context(), "x", err)))} {
			same(t, sent, got)
			var back sdk.Problems
			if !errors.As(got, &back) || !reflect.DeepEqual(back, ps) {
				t.Errorf("%s, as %s: %+v", name, way, back)
			}
		}
		if text := status.Convert(err).Message(); !strings.Contains(text, sdk.JoinProblems(ps)) {
			t.Errorf("%s: a host that knows no more reads %q", name, text)
		}
	}
	// What was said when the caller had left is said too.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, code := range []sdk.Code{sdk.InvalidArgument, sdk.Unknown} {
		var back sdk.Problems
		err := wire.FromStatus(ctx, "x", wire.Status(t.Context(), &sdk.Error{Code: code, Err: ps}))
		if !errors.As(err, &back) || len(back) != len(ps) || errors.Is(err, context.Canceled) != (code == sdk.Unknown) || sdk.IsRetryable(err) {
			t.Errorf("the caller has left: %v, %d problems", err, len(back))
		}
	}
}

// TestProblemsAreBounded: more than trailers bear is counted, and nothing is lost without
// a word.
func TestProblemsAreBounded(t *testing.T) {
	var ps sdk.Problems
	for i := range 1000 {
		ps = append(ps, sdk.Problem{Field: fmt.Sprintf("config.n%d", i), Value: strings.Repeat("v", 5000), Message: "bad \xff", Code: sdk.Code(77)})
	}
	m := wire.EncodeError(&sdk.Error{Code: sdk.InvalidArgument, Err: ps})
	if n := proto.Size(m); n > 64<<10 {
		t.Errorf("the error has %d bytes", n)
	}
	var back sdk.Problems
	if !errors.As(wire.DecodeError(m), &back) || len(back) < 10 {
		t.Fatalf("%d problems came back", len(back))
	}
	last := len(back) - 1
	if back[0].Code != sdk.Unknown || back[0].Message != "bad \ufffd" || back[last].Field != ps[last].Field || !strings.Contains(back[last].Message, fmt.Sprintf("first of %d more", len(ps)-last)) {
		t.Errorf("the first is %+v, the last %+v", back[0].Code, back[last])
	}
}

// same compares all of two errors but for the types of causes.
func same(t *testing.T, want, got error) {
	t.Helper()
	if g, w := got.Error(), strings.ToValidUTF8(want.Error(), "\ufffd"); g != w {
		t.Errorf("text %q came back as %q", w, g)
	}
	if g, w := sdk.CodeOf(got), sdk.CodeOf(want); g != w {
		t.Errorf("%v: code %v came back as %v", want, w, g)
	}
	for _, c := range sdk.Codes() {
		if g, w := errors.Is(got, c), sdk.CodeOf(want) == c; g != w {
			t.Errorf("%v: errors.Is(%v) came back as %v", want, c, g)
		}
	}
	if g, w := sdk.IsClear(got), sdk.IsClear(want); g != w {
		t.Errorf("%v: clear %v came back as %v", want, w, g)
	}
	var w, g *sdk.Error
	if !errors.As(want, &w) {
		w = &sdk.Error{Code: sdk.CodeOf(want)}
	}
	if !errors.As(got, &g) {
		t.Fatalf("%v came back as %T", want, got)
	}
	a, b := *w, *g
	a.Err, b.Err, a.Code, b.Code = nil, nil, 0, 0
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%v: came back as %+v, was %+v", want, b, a)
	}
}

// TestOwnEnd cancels a call, and lets another's time pass, while the plugin answers
// with an outage that may pass: the caller's own end is never retryable, and is found.
func TestOwnEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(context.Context) (context.Context, context.CancelFunc)
		want error
	}{
		{"cancel", context.WithCancel, context.Canceled},
		{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 50*time.Millisecond)
		}, context.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := c.end(t.Context())
			defer cancel()
			served := make(chan error, 1)
			f := &failing{status: func(in context.Context) error {
				if c.name == "cancel" {
					cancel()
				}
				<-in.Done()
				err := wire.Status(in, &sdk.Error{Code: sdk.Unavailable, Retryable: true, Err: errors.New("cut")})
				served <- err
				return err
			}}
			client, _ := dial(t, f)
			_, err := client.JobStatus(ctx, &pb.JobStatusRequest{})
			got := wire.FromStatus(ctx, "job status", err)
			if sdk.IsRetryable(got) {
				t.Errorf("retryable: %v", got)
			}
			if !errors.Is(got, c.want) || sdk.CodeOf(got) != sdk.CodeOf(c.want) {
				t.Errorf("got %v, %v", sdk.CodeOf(got), got)
			}
			if sdk.IsClear(got) {
				t.Errorf("proves that nothing was done: %v", got)
			}
			if c.name == "deadline" {
				return // it may have been over before the call was sent
			}
			if detail(t, <-served).GetRetryable() {
				t.Error("the plugin calls it retryable")
			}
		})
	}
}

func detail(t *testing.T, err error) *pb.Error {
	t.Helper()
	for _, d := range status.Convert(err).Details() {
		if m, ok := d.(*pb.Error); ok {
			return m
		}
	}
	t.Fatalf("no detail in %v", err)
	return nil
}

// TestEndedCallersEvidence reads what a plugin said in the moment in which its caller
// left: what proves something counts, all else is the caller's own end.
func TestEndedCallersEvidence(t *testing.T) {
	left, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer stop()
	for own, ctx := range map[sdk.Code]context.Context{sdk.Canceled: left, sdk.DeadlineExceeded: late} {
		for _, code := range sdk.Codes() {
			full := fullError()
			full.Code, full.Unreached = code, false
			for _, sent := range []error{wire.Status(t.Context(), full), status.Error(codes.Code(code), "words")} {
				got := wire.FromStatus(ctx, "job status", sent)
				want, bare := code, len(status.Convert(sent).Details()) == 0
				switch code {
				case sdk.Canceled, sdk.DeadlineExceeded, sdk.Unavailable, sdk.Unknown, sdk.Internal:
					want = own
				case sdk.ResourceExhausted:
					if bare {
						want = sdk.Internal
					}
				}
				if sdk.CodeOf(got) != want || sdk.IsRetryable(got) {
					t.Errorf("%v, bare %t, to a caller who left by %v: %v, retryable %t", code, bare, own, sdk.CodeOf(got), sdk.IsRetryable(got))
				}
				if is := errors.Is(got, ctx.Err()); is != (want == own) {
					t.Errorf("%v, bare %t: errors.Is(%v) is %t", code, bare, ctx.Err(), is)
				}
				if status.Code(got) != codes.Code(code) {
					t.Errorf("%v, bare %t: gRPC's status came back as %v", code, bare, status.Code(got))
				}
			}
		}
	}
}

// TestBareStatus reads what gRPC itself says, or a plugin that knows no details.
func TestBareStatus(t *testing.T) {
	for _, c := range []struct {
		code         codes.Code
		want         sdk.Code
		retry, proof bool
	}{
		{codes.Unavailable, sdk.Unavailable, true, false},
		{codes.DeadlineExceeded, sdk.DeadlineExceeded, true, false},
		{codes.Canceled, sdk.Canceled, false, false},
		{codes.ResourceExhausted, sdk.Internal, false, false},
		{codes.NotFound, sdk.NotFound, false, true},
		{codes.Unimplemented, sdk.Unimplemented, false, true},
		{codes.Code(99), sdk.Unknown, false, false},
	} {
		err := wire.FromStatus(t.Context(), "run job", status.Error(c.code, "words"))
		if sdk.CodeOf(err) != c.want || sdk.IsRetryable(err) != c.retry || sdk.IsClear(err) != c.proof {
			t.Errorf("%v: code %v, retryable %v, clear %v", c.code, sdk.CodeOf(err), sdk.IsRetryable(err), sdk.IsClear(err))
		}
		if got := status.Code(err); got != c.code {
			t.Errorf("%v: status came back as %v", c.code, got)
		}
		if want := "run job: words"; err.Error() != want {
			t.Errorf("%v: text is %q, want %q", c.code, err, want)
		}
	}
	if err := wire.FromStatus(t.Context(), "run job", errors.New("odd")); sdk.CodeOf(err) != sdk.Internal || sdk.IsClear(err) {
		t.Errorf("an error of no status is %v", err)
	}
	if wire.FromStatus(t.Context(), "x", nil) != nil || wire.Status(t.Context(), nil) != nil || wire.EncodeError(nil) != nil || wire.DecodeError(nil) != nil {
		t.Error("no error became one")
	}
}

// TestTooLong lets a plugin answer more than gRPC takes, and wants no proof in it:
// the job may have been made.
func TestTooLong(t *testing.T) {
	f := &failing{status: func(ctx context.Context) error {
		return wire.Status(ctx, sdk.Errorf(sdk.NotFound, "job status", "%s", strings.Repeat("\xffé", 1<<20)))
	}}
	client, conn := dial(t, f)
	_, err := client.JobStatus(t.Context(), &pb.JobStatusRequest{})
	if got := wire.FromStatus(t.Context(), "job status", err); !errors.Is(got, sdk.NotFound) || len(got.Error()) > 64<<10 {
		t.Errorf("an error of 3 MB came back as %v with %d bytes", sdk.CodeOf(got), len(got.Error()))
	}
	small := pb.NewJobRunnerServiceClient(conn)
	_, err = small.JobStatus(t.Context(), &pb.JobStatusRequest{Handle: &pb.JobHandle{Id: strings.Repeat("x", 64)}}, grpc.MaxCallSendMsgSize(16))
	if got := wire.FromStatus(t.Context(), "job status", err); sdk.IsClear(got) || status.Code(got) != codes.ResourceExhausted {
		t.Errorf("a message that is too long is %v: %v", sdk.CodeOf(got), got)
	}
}

// TestAbsentService calls what the plugin doesn't serve.
func TestAbsentService(t *testing.T) {
	_, conn := dial(t, &failing{})
	_, err := pb.NewJobCancelerServiceClient(conn).CancelJob(t.Context(), &pb.CancelJobRequest{})
	if got := wire.FromStatus(t.Context(), "cancel job", err); !errors.Is(got, sdk.Unimplemented) || sdk.IsRetryable(got) {
		t.Errorf("an absent service is %v", got)
	}
}

// TestOddErrors reads details that no honest side writes.
func TestOddErrors(t *testing.T) {
	err := wire.DecodeError(&pb.Error{Code: -7, Reason: "sunspots"})
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != sdk.Unknown || e.Reason != sdk.ReasonUnknown {
		t.Errorf("got %+v", e)
	}
	if got := wire.DecodeError(wire.EncodeError(fmt.Errorf("x: %w", sdk.Code(40)))); sdk.CodeOf(got) != sdk.Unknown {
		t.Errorf("a code that isn't one came back as %v", sdk.CodeOf(got))
	}
}
