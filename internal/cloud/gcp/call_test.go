package gcp

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/windlass-run/windlass/sdk"
)

// cloud is a server that takes every call of gRPC.
type cloud struct {
	address string
	mu      sync.Mutex
	seen    []metadata.MD
	// answer, when not nil, is how it answers.
	answer func(ctx context.Context) error
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	c := &cloud{}
	s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		c.mu.Lock()
		c.seen = append(c.seen, md)
		answer := c.answer
		c.mu.Unlock()
		if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
			return err
		}
		if answer != nil {
			if err := answer(stream.Context()); err != nil {
				return err
			}
		}
		return stream.SendMsg(&emptypb.Empty{})
	}))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	c.address = l.Addr().String()
	return c
}

func (c *cloud) open(t *testing.T, s Settings) *Session {
	t.Helper()
	s.Provider, s.Endpoint = "prod", "http://"+c.address
	x, err := Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := x.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return x
}

// call makes one call.
func (c *cloud) call(t *testing.T, x *Session) error {
	t.Helper()
	conn, err := x.Connect("run.googleapis.com", "location=europe-west1")
	if err != nil {
		t.Fatal(err)
	}
	return x.Call(t.Context(), "ask", func(ctx context.Context) error {
		return conn.Invoke(ctx, "/a.Service/Method", &emptypb.Empty{}, &emptypb.Empty{})
	})
}

func (c *cloud) header(name string) (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, md := range c.seen {
		all = append(all, md.Get(name)...)
	}
	return all
}

func (c *cloud) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = nil
}

func (c *cloud) answers(f func(ctx context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = f
}

// TestHeaders: each call says who pays, where it leads, and who calls.
func TestHeaders(t *testing.T) {
	c := newCloud(t)
	x := c.open(t, Settings{Project: "my-project", Region: "europe-west1", Credentials: map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": "x", "GOOGLE_CLOUD_QUOTA_PROJECT": "payer"}})
	if err := c.call(t, x); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"authorization": "Bearer x", "x-goog-user-project": "payer", "x-goog-request-params": "location=europe-west1"} {
		if got := c.header(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := c.header("user-agent"); len(got) != 1 || !strings.HasPrefix(got[0], "windlass ") {
		t.Errorf("user agent %q", got)
	}
	if x.Location() != "projects/my-project/locations/europe-west1" {
		t.Errorf("location %s", x.Location())
	}
}

// TestCallsEnd: a call ends by its own bound, by its caller, and never by itself
// again; each is told apart.
func TestCallsEnd(t *testing.T) {
	c := newCloud(t)
	x := c.open(t, Settings{Project: "my-project", Region: "europe-west1", CallTimeout: 200 * time.Millisecond, Credentials: map[string]string{"CLOUDSDK_AUTH_ACCESS_TOKEN": "x"}})
	conn, err := x.Connect("run.googleapis.com", "")
	if err != nil {
		t.Fatal(err)
	}
	invoke := func(ctx context.Context) error {
		return conn.Invoke(ctx, "/a.Service/Method", &emptypb.Empty{}, &emptypb.Empty{})
	}
	c.answers(func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	err = x.Call(t.Context(), "ask", invoke)
	if !errors.Is(err, sdk.DeadlineExceeded) || !sdk.IsRetryable(err) || sdk.IsClear(err) || !strings.Contains(err.Error(), "no answer in time (call_timeout 200ms)") {
		t.Errorf("its own bound: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.answers(func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	if err := x.Call(ctx, "ask", invoke); !errors.Is(err, context.Canceled) || sdk.IsClear(err) {
		t.Errorf("its caller: %v", err)
	}
	c.forget()
	if err := x.Call(ctx, "ask", invoke); !errors.Is(err, context.Canceled) || len(c.header("user-agent")) != 0 {
		t.Errorf("an ended context: %v", err)
	}
	c.answers(func(context.Context) error { return status.Error(codes.Unavailable, "no\nservice") })
	if err := x.Call(t.Context(), "ask", invoke); !errors.Is(err, sdk.Unavailable) || !strings.Contains(err.Error(), "windlass pocket up") || Text(err) != "no service" {
		t.Errorf("unavailable: %v", err)
	}
	if n := len(c.header("user-agent")); n != 1 {
		t.Errorf("%d calls instead of one: it is the engine that repeats", n)
	}
}

// TestUnreached: where no connection could be made nothing was sent, and the error
// says so in few words; what was sent and cut proves nothing.
func TestUnreached(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cloud{address: l.Addr().String()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	x := c.open(t, Settings{Project: "my-project", Region: "europe-west1", Credentials: map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": "x"}})
	err = c.call(t, x)
	if !errors.Is(err, sdk.Unavailable) || !sdk.IsUnreached(err) || !sdk.IsClear(err) || !sdk.IsRetryable(err) {
		t.Errorf("nobody there: %v", err)
	}
	if want := "ask: provider prod: dial tcp " + c.address + ": connect: connection refused; is the pocket cloud at http://" + c.address + " running?"; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %q, want %q", err, want)
	}
	// A server that hangs up at the first byte of a request.
	cut, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer cut.Close()
	go func() {
		for {
			conn, err := cut.Accept()
			if err != nil {
				return
			}
			// The preface and the settings of HTTP/2, then a cut in the request.
			_, _ = conn.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0})
			buf := make([]byte, 1024)
			for n := 0; n < 100; {
				m, err := conn.Read(buf)
				if err != nil {
					break
				}
				n += m
			}
			_ = conn.Close()
		}
	}()
	c = &cloud{address: cut.Addr().String()}
	x = c.open(t, Settings{Project: "my-project", Region: "europe-west1", Credentials: map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": "x"}})
	if err := c.call(t, x); !errors.Is(err, sdk.Unavailable) || sdk.IsUnreached(err) || sdk.IsClear(err) {
		t.Errorf("cut: %v", err)
	}
}

// TestRetryInfo: the wait that Google asks for is passed on, within bounds.
func TestRetryInfo(t *testing.T) {
	x := &Session{provider: "p", timeout: defaultCall}
	for asked, want := range map[time.Duration]time.Duration{7 * time.Second: 7 * time.Second, time.Hour: 5 * time.Minute, -time.Second: 0} {
		st, err := status.New(codes.ResourceExhausted, "slow down").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(asked)})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Call(t.Context(), "op", func(context.Context) error { return st.Err() }); sdk.RetryAfter(err) != want || !sdk.IsRetryable(err) {
			t.Errorf("%s: %s of %v", asked, sdk.RetryAfter(err), err)
		}
	}
	known := sdk.Errorf(sdk.NotFound, "op", "none")
	if err := x.Call(t.Context(), "op", func(context.Context) error { return known }); !errors.Is(err, known) || Text(err) != "" {
		t.Errorf("an error with a class: %v", err)
	}
	if err := x.Call(t.Context(), "op", func(context.Context) error { return errors.New("cut") }); !errors.Is(err, sdk.Unavailable) || sdk.IsClear(err) {
		t.Errorf("no answer: %v", err)
	}
}

// TestBudget: calls of one family wait for their turn, whoever makes them, a refusal
// takes what was saved up, and who leaves gives the turn back.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all Budgets
		x, y := &Session{Project: "p"}, &Session{Project: "p"}
		b := all.For(x, "r", "read", 60, 3)
		if all.For(y, "r", "read", 60, 3) != b || all.For(x, "r", "write", 60, 3) == b || all.For(x, "", "read", 60, 3) == b {
			t.Error("budgets are shared by project, region and family")
		}
		begun := time.Now()
		wait := func() time.Duration {
			if err := b.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			return time.Since(begun)
		}
		for range 3 {
			if took := wait(); took != 0 {
				t.Errorf("within the burst: %s", took)
			}
		}
		if took := wait(); took != time.Second {
			t.Errorf("the next: %s", took)
		}
		time.Sleep(time.Minute)
		b.Throttled()
		begun = time.Now()
		if took := wait(); took != time.Second {
			t.Errorf("after a refusal: %s", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("an ended context: %v", err)
		}
		begun = time.Now()
		if took := wait(); took != time.Second {
			t.Errorf("after one that left: %s", took)
		}
		if all.For(x, "r", "read", 6000, 1); wait() > 1100*time.Millisecond {
			t.Error("the last to ask sets the size")
		}
	})
}

func TestCheckLabel(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"k", "v-1_x", ""}, {"k", "", ""}, {"", "v", "needs a name"}, {"1k", "v", "begins with a lowercase"}, {"k", "V", `'V' may not`}, {"k", strings.Repeat("v", 64), "at most 63"},
	} {
		if got := CheckLabel(c.key, c.value); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q=%q: %s", c.key, c.value, got)
		}
	}
	if LabelValue("") != "" {
		t.Error("nothing becomes something")
	}
}

// passed is a context whose deadline has passed and whose timer hasn't fired.
type passed struct{ context.Context }

func (passed) Deadline() (time.Time, bool) { return time.Unix(0, 0), true }

// TestServerSeesTheDeadlineFirst: the server counts the same deadline, and its
// end of the call may be read before our own timer fires.
func TestServerSeesTheDeadlineFirst(t *testing.T) {
	x := &Session{timeout: time.Minute}
	for _, code := range []codes.Code{codes.DeadlineExceeded, codes.Canceled} {
		reset := status.Error(code, "stream terminated by RST_STREAM with error code: CANCEL")
		err := x.mapError(t.Context(), passed{t.Context()}, "ask", reset)
		if !errors.Is(err, sdk.DeadlineExceeded) || !sdk.IsRetryable(err) || sdk.IsClear(err) || !errors.Is(err, errNoAnswer) {
			t.Errorf("its own bound, %s: %v", code, err)
		}
		err = x.mapError(passed{t.Context()}, passed{t.Context()}, "ask", reset)
		if !errors.Is(err, context.DeadlineExceeded) || sdk.IsRetryable(err) || errors.Is(err, errNoAnswer) {
			t.Errorf("its caller's, %s: %v", code, err)
		}
	}
}
