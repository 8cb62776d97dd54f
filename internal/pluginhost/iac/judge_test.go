//go:build linux

package iac

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// TestF18States: what each state and code means, whatever a plugin puts together.
func TestF18States(t *testing.T) {
	y := newYard()
	var reply pb.JobStatusReply
	y.hooks.status = func(*pb.JobHandle) (*pb.JobStatusReply, error) {
		return &pb.JobStatusReply{State: reply.State, ExitCode: reply.ExitCode, Message: reply.Message}, nil
	}
	p := openYard(t, y, true, `{}`)
	h := p.start(t, "true")
	for _, c := range []struct {
		state pb.JobState
		code  int32
		want  sdk.JobState
		why   sdk.Reason
		exit  string
	}{
		{pb.JobState_JOB_STATE_UNSPECIFIED, 0, sdk.StateUnknown, sdk.ReasonUnknown, "none"},
		{pb.JobState_JOB_STATE_UNSPECIFIED, 3, sdk.StateUnknown, sdk.ReasonUnknown, "none"},
		{pb.JobState(99), 0, sdk.StateUnknown, sdk.ReasonUnknown, "none"},
		{pb.JobState_JOB_STATE_PENDING, 0, sdk.StatePending, "", "none"},
		{pb.JobState_JOB_STATE_RUNNING, 7, sdk.StateRunning, "", "none"},
		{pb.JobState_JOB_STATE_SUCCEEDED, 0, sdk.StateSucceeded, sdk.ReasonCompleted, "0"},
		{pb.JobState_JOB_STATE_SUCCEEDED, -1, sdk.StateSucceeded, sdk.ReasonCompleted, "none"},
		{pb.JobState_JOB_STATE_SUCCEEDED, 3, sdk.StateFailed, sdk.ReasonNonzeroExit, "3"},
		{pb.JobState_JOB_STATE_FAILED, 0, sdk.StateFailed, sdk.ReasonUnknown, "none"},
		{pb.JobState_JOB_STATE_FAILED, -1, sdk.StateFailed, sdk.ReasonUnknown, "none"},
		{pb.JobState_JOB_STATE_FAILED, 137, sdk.StateFailed, sdk.ReasonNonzeroExit, "137"},
		{pb.JobState_JOB_STATE_CANCELLED, 0, sdk.StateCancelled, sdk.ReasonCancelled, "none"},
		{pb.JobState_JOB_STATE_CANCELLED, 143, sdk.StateCancelled, sdk.ReasonCancelled, "143"},
	} {
		reply.State, reply.ExitCode, reply.Message = c.state, c.code, "two\nlines\xf0"[:9]
		st, err := p.run.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h})
		if err != nil {
			t.Fatal(err)
		}
		exit := "none"
		if st.ExitCode != nil {
			exit = fmt.Sprint(*st.ExitCode)
		}
		if st.State != c.want || st.Reason != c.why || exit != c.exit || st.Signal != "" || !sdk.LegalReason(st.State, st.Reason) {
			t.Errorf("%s with %d is %s (%s), code %s; want %s (%s), %s", c.state, c.code, st.State, st.Reason, exit, c.want, c.why, c.exit)
		}
		if st.Message != "two lines" || st.Raw["state"] != c.state.String() {
			t.Errorf("message %q, raw %v", st.Message, st.Raw)
		}
	}
}

// TestWrongHandle: a state of another job is none, and ends nothing.
func TestWrongHandle(t *testing.T) {
	y := newYard()
	y.hooks.status = func(*pb.JobHandle) (*pb.JobStatusReply, error) {
		return &pb.JobStatusReply{Handle: &pb.JobHandle{Id: "another"}, State: pb.JobState_JOB_STATE_SUCCEEDED}, nil
	}
	p := openYard(t, y, true, `{}`)
	_, err := p.run.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: p.start(t, "true")})
	if !errors.Is(err, sdk.Internal) || !strings.Contains(err.Error(), `"another"`) {
		t.Errorf("got %v", err)
	}
}

// TestF8InDoubt: what may have made a job is never clear, whatever the plugin did after it
// took the launch, and is sent once.
func TestF8InDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(ctx context.Context, m *pb.JobSpec) (*pb.JobHandle, error)
		lose bool
	}{
		"lost reply":   {lose: true},
		"no handle":    {run: func(context.Context, *pb.JobSpec) (*pb.JobHandle, error) { return &pb.JobHandle{}, nil }},
		"no such code": {run: func(context.Context, *pb.JobSpec) (*pb.JobHandle, error) { return nil, status.Error(99, "odd") }},
		"a plain error": {run: func(context.Context, *pb.JobSpec) (*pb.JobHandle, error) {
			return nil, errors.New("create app: connection reset")
		}},
		"a giant handle": {run: func(context.Context, *pb.JobSpec) (*pb.JobHandle, error) {
			return &pb.JobHandle{Id: "x", Metadata: map[string]string{"a": strings.Repeat("x", maxHandle)}}, nil
		}},
		"a reply that gRPC refuses": {run: func(context.Context, *pb.JobSpec) (*pb.JobHandle, error) {
			return &pb.JobHandle{Id: "x", Metadata: map[string]string{"a": strings.Repeat("x", 5<<20)}}, nil
		}},
		"a hang": {run: func(ctx context.Context, _ *pb.JobSpec) (*pb.JobHandle, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard()
			y.hooks.run = c.run
			p := openYard(t, y, true, `{}`)
			if c.lose {
				set(&p.fault, &p.fault.lose, providertest.OpRunJob, true)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if name == "a hang" {
				var stop context.CancelFunc
				ctx, stop = context.WithTimeout(ctx, 100*time.Millisecond)
				defer stop()
			}
			_, err := p.run.RunJob(ctx, sdk.RunJobRequest{Launch: p.prepare(t, sdk.JobSpec{Args: sdk.Argv{"true"}})})
			if err == nil || sdk.IsClear(err) || sdk.IsUnreached(err) {
				t.Errorf("got %v, which is clear", err)
			}
			if name == "a hang" && (sdk.IsRetryable(err) || !errors.Is(err, context.DeadlineExceeded)) {
				t.Errorf("our own deadline is %v (retryable %t)", err, sdk.IsRetryable(err))
			}
			if n := len(y.sent()); n != 1 && name != "a hang" || n > 1 {
				t.Errorf("it was sent %d times", n)
			}
		})
	}
}

// TestUnreached: what had no connection to be sent on is known not to have been sent.
func TestUnreached(t *testing.T) {
	y := newYard()
	p := openYard(t, y, true, `{}`)
	l := p.prepare(t, sdk.JobSpec{Args: sdk.Argv{"true"}})
	_ = p.lis.Close()
	p.lis.cut()
	var err error
	for range 100 { // the first call may still find the connection that was cut
		if _, err = p.run.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); sdk.IsUnreached(err) {
			break
		}
	}
	if !sdk.IsUnreached(err) || !errors.Is(err, sdk.Unavailable) || len(y.sent()) != 0 {
		t.Errorf("got %v (unreached %t), and %d came", err, sdk.IsUnreached(err), len(y.sent()))
	}
}

// TestCodes: every code arrives as ours, with the status, the field and the wait.
func TestCodes(t *testing.T) {
	y := newYard()
	var code codes.Code
	y.hooks.status = func(*pb.JobHandle) (*pb.JobStatusReply, error) {
		st, err := status.New(code, "the plugin's words").WithDetails(
			&errdetails.RetryInfo{RetryDelay: durationpb.New(3 * time.Second)},
			&errdetails.ErrorInfo{Reason: "IMAGE_GONE", Domain: "theirs.example.com", Metadata: map[string]string{"token": "canary"}},
			&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "image", Description: "isn't there"}, {Field: "cpu", Description: "is too much"}}})
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	}
	p := openYard(t, y, true, `{}`)
	h := p.start(t, "true")
	transient := map[sdk.Code]bool{sdk.Unavailable: true, sdk.DeadlineExceeded: true, sdk.ResourceExhausted: true, sdk.Aborted: true}
	for _, want := range sdk.Codes() {
		code = codes.Code(want)
		_, err := p.run.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h})
		var e *sdk.Error
		if !errors.As(err, &e) {
			t.Fatalf("%s: %v", want, err)
		}
		st, _ := status.FromError(err)
		if !errors.Is(err, want) || st.Code() != code || e.Field != "image" || e.RetryAfter != 3*time.Second || e.Provider != "here" || e.Retryable != transient[want] || e.Unreached {
			t.Errorf("%s arrived as %+v, status %s", want, e, st.Code())
		}
		var ps sdk.Problems
		if !errors.As(err, &ps) || len(ps) != 2 || ps[1] != (sdk.Problem{Field: "cpu", Message: "is too much", Code: want}) {
			t.Errorf("%s: its problems are %+v", want, ps)
		}
		if text := err.Error(); !strings.HasSuffix(text, "image: IaCProviderRunner.JobStatus: the plugin's words: isn't there; cpu: is too much (IMAGE_GONE of theirs.example.com)") {
			t.Errorf("%s: %s", want, text)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 0)
		if own := fail(ctx, "x", "S.M", status.Error(code, "late"), trace{sent: true}); sdk.IsRetryable(own) || !sdk.IsClear(want) && !errors.Is(own, context.DeadlineExceeded) {
			t.Errorf("%s past our own deadline: %v, retryable %t", want, own, sdk.IsRetryable(own))
		}
		cancel()
	}
}

// TestCancel: which end a job keeps, and what is known of one that isn't there.
func TestCancel(t *testing.T) {
	y := newYard()
	p := openYard(t, y, true, `{}`)
	h := p.start(t, "sleep", "1000")
	state := pb.JobState_JOB_STATE_RUNNING
	var found, cancel error
	y.hooks.status = func(*pb.JobHandle) (*pb.JobStatusReply, error) {
		return &pb.JobStatusReply{State: state}, found
	}
	y.hooks.cancel = func(*pb.JobHandle) error { return cancel }
	missing := status.Error(codes.NotFound, "no such job")
	for _, c := range []struct {
		name          string
		state         pb.JobState
		found, cancel error
		want          sdk.CancelJobResult
		calls         int
		err           error
	}{
		{"accepted", pb.JobState_JOB_STATE_RUNNING, nil, nil, sdk.CancelJobResult{Accepted: true}, 1, nil},
		{"ended before", pb.JobState_JOB_STATE_SUCCEEDED, nil, nil, sdk.CancelJobResult{Gone: true}, 0, nil},
		{"not there", pb.JobState_JOB_STATE_RUNNING, missing, missing, sdk.CancelJobResult{Gone: true}, 1, nil},
		{"not visible yet", pb.JobState_JOB_STATE_RUNNING, missing, nil, sdk.CancelJobResult{Accepted: true}, 1, nil},
		{"refused", pb.JobState_JOB_STATE_RUNNING, nil, status.Error(codes.PermissionDenied, "no"), sdk.CancelJobResult{}, 1, sdk.PermissionDenied},
		{"state unknown", pb.JobState_JOB_STATE_UNSPECIFIED, nil, nil, sdk.CancelJobResult{Accepted: true}, 1, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			state, found, cancel = c.state, c.found, c.cancel
			before := y.called("CancelJob")
			res, err := p.cancel.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h})
			if res.Accepted != c.want.Accepted || res.Gone != c.want.Gone || c.err == nil && err != nil || c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("got %+v, %v", res, err)
			}
			if n := y.called("CancelJob") - before; n != c.calls {
				t.Errorf("CancelJob was called %d times", n)
			}
		})
	}
}

// TestAbsent: what the registry doesn't list isn't there, and using it anyway names
// provider, plugin and capability.
func TestAbsent(t *testing.T) {
	p := openYard(t, newYard(), false, `{}`)
	if p.cancel != nil {
		t.Error("a plugin without IaCProviderJobCanceler has a JobCanceler")
	}
	raw, ok := p.Provider.(sdk.JobCanceler)
	if !ok {
		t.Fatal("the proxy lost its method")
	}
	_, err := raw.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: p.start(t, "true")})
	if !errors.Is(err, sdk.Unimplemented) || !strings.Contains(err.Error(), "provider here: kind theirs has no JobCanceler") {
		t.Errorf("got %v", err)
	}
	if _, err := Driver(Plugin{Kind: "x", Conn: p.conn, Services: []string{serviceRunner}}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("a plugin without IaCProviderRequired: %v", err)
	}
	d, err := Driver(Plugin{Kind: "x", Conn: p.conn, Services: []string{serviceRequired, serviceCanceler}})
	if err != nil {
		t.Fatal(err)
	}
	q, err := d.Open(t.Context(), sdk.OpenRequest{Name: "here"})
	if err != nil {
		t.Fatal(err)
	}
	if names := sdk.CapabilityNames(q); len(names) != 0 {
		t.Errorf("a plugin that runs no jobs has %q", names)
	}
	if _, err := q.(sdk.JobRunner).PrepareJob(t.Context(), sdk.PrepareJobRequest{}); !errors.Is(err, sdk.Unimplemented) {
		t.Errorf("prepare: %v", err)
	}
	res, err := q.Check(t.Context(), sdk.CheckRequest{})
	if err != nil || res.Items[2].OK {
		t.Errorf("check: %+v, %v", res, err)
	}
}
