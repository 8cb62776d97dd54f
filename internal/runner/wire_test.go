package runner

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/sandboxpb"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// everything reads a call to its end.
func everything(stream grpc.ServerStreamingClient[sandboxpb.SandboxExecChunk]) (stdout []byte, code *int32, largest int, err error) {
	for {
		m, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return stdout, code, largest, err
		}
		if c, ok := m.GetChunk().(*sandboxpb.SandboxExecChunk_ExitCode); ok {
			code = &c.ExitCode
			continue
		}
		largest = max(largest, len(m.GetStdout()), len(m.GetStderr()))
		stdout = append(stdout, m.GetStdout()...)
	}
}

// TestF65OutputOfAnySize: a line far longer than one message may be comes byte for
// byte, in chunks of 32 KiB at most, before the code and not with it.
func TestF65OutputOfAnySize(t *testing.T) {
	w := newWorld(t)
	s := w.serve(w.options())
	stream, err := w.raw(s.addr, "ci").Exec(w.ctx(), &sandboxpb.SandboxExecRequest{Image: "img", Command: words("long-line 2000000; lines 20000; exit 3")})
	if err != nil {
		t.Fatal(err)
	}
	got, code, largest, err := everything(stream)
	if err != nil || code == nil || *code != 3 {
		t.Fatalf("code %v, %v", code, err)
	}
	var want bytes.Buffer
	want.WriteString(strings.Repeat("x", 2_000_000) + "\n")
	for i := range 20000 {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%d bytes, want %d", len(got), want.Len())
	}
	if largest > MaxChunk {
		t.Errorf("a chunk of %d bytes", largest)
	}
}

// TestF70MissingOutputIsNoSuccess: a slow caller for whom the middle of a long output
// was dropped gets an error that has the code, and no success.
func TestF70MissingOutputIsNoSuccess(t *testing.T) {
	w := newWorld(t, joblog.Options{MaxBytes: 1 << 20})
	s := w.serve(w.options())
	stream, err := w.raw(s.addr, "ci").Exec(w.ctx(), &sandboxpb.SandboxExecRequest{Image: "img", Command: words("long-line 9000000; exit 0")})
	if err != nil {
		t.Fatal(err)
	}
	// The caller reads nothing until the job is over.
	testwait.Until(t, patience, "the run", func() bool { return len(w.runs()) == 1 })
	if r := w.run(); r.State != sdk.StateSucceeded {
		t.Fatalf("got %+v", r)
	}
	_, code, _, err := everything(stream)
	if status.Code(err) != codes.DataLoss || code != nil || !strings.Contains(err.Error(), "code 0") || !strings.Contains(err.Error(), ErrOutput) {
		t.Errorf("code %v, %v", code, err)
	}
}

// TestF18NoCodeIsNoSuccess: what ended without a code, or was lost, is an error with
// the reason in words; a 0 is never made up.
func TestF18NoCodeIsNoSuccess(t *testing.T) {
	for _, c := range []struct {
		script string
		want   codes.Code
		words  string
	}{
		{"fail image_pull", codes.FailedPrecondition, "image_pull"},
		{"fail infrastructure", codes.Unavailable, "infrastructure"},
		{"fail preempted", codes.Unavailable, "preempted"},
		{"fail quota", codes.ResourceExhausted, "quota"},
		{"fail unknown", codes.Unknown, "unknown"},
	} {
		t.Run(c.script, func(t *testing.T) {
			w := newWorld(t)
			w.cloud.Change(func(k *fake.Knobs) { k.NoExitCode = true })
			stream, err := w.raw(w.serve(w.options()).addr, "ci").Exec(w.ctx(), &sandboxpb.SandboxExecRequest{Image: "img", Command: words(c.script)})
			if err != nil {
				t.Fatal(err)
			}
			_, code, _, err := everything(stream)
			if status.Code(err) != c.want || code != nil || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), w.run().ID.Short()) {
				t.Errorf("code %v, %v", code, err)
			}
		})
	}
}

// TestCodes: the codes of ends that have one, an OOM's too.
func TestCodes(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 255": 255, "oom": 137, "oom 0": 0, "exit 127": 127} {
		t.Run(script, func(t *testing.T) {
			w := newWorld(t)
			res, err := w.client(w.serve(w.options()), "ci").Exec(w.ctx(), sandbox.Request{Exec: exec(script), Output: newOutput()})
			if err != nil || res.ExitCode == nil || *res.ExitCode != want {
				t.Errorf("got %+v, %v", res, err)
			}
		})
	}
}

// TestCancelledByOthers: a job that its operator cancels is no success and has no code.
func TestCancelledByOthers(t *testing.T) {
	w := newWorld(t)
	e := w.client(w.serve(w.options()), "ci")
	out := newOutput()
	ended := make(chan error, 1)
	go func() {
		_, err := e.Exec(w.ctx(), sandbox.Request{Exec: exec("echo up; hang"), Output: out})
		ended <- err
	}()
	testwait.Receive(t, patience, "output", out.first)
	w.must(w.engine.Cancel(w.ctx(), cancelBy(w.runs()[0].ID, "root@here")))
	if err := testwait.Receive(t, patience, "the end", ended); sdk.CodeOf(err) != sdk.Aborted || !strings.Contains(err.Error(), "root@here") {
		t.Errorf("got %v", err)
	}
}

// TestF84Secrets: a reference that the client may use goes to the provider as one,
// and its value stands in nothing of ours; another is refused before there is a row.
func TestF84Secrets(t *testing.T) {
	w := newWorld(t)
	s := w.serve(w.options(Client{Name: "ci", Secrets: []string{"secret://env/TOKEN"}}))
	e := w.client(s, "ci")
	x := exec("secret TOKEN; env PLAIN")
	x.Env = sdk.Env{"PLAIN": "value"}
	x.Secrets = map[string]sdk.SecretRef{"TOKEN": "secret://env/TOKEN"}
	out := newOutput()
	if _, err := e.Exec(w.ctx(), sandbox.Request{Exec: x, Output: out}); err != nil {
		t.Fatal(err)
	}
	if o, _ := out.texts(); !strings.HasPrefix(o, "secret TOKEN ") || strings.Contains(o, "missing") || !strings.Contains(o, fmt.Sprintf("env PLAIN %x", "value")) {
		t.Errorf("got %q", o)
	}
	r := w.run()
	if spec := w.spec(r); spec.Secrets["TOKEN"] != "secret://env/TOKEN" || spec.Env["TOKEN"] != "" {
		t.Errorf("spec %+v", spec)
	}
	if strings.Contains(string(r.Spec)+w.log.String(), canary) {
		t.Error("the value stands in the row or the log")
	}
	x.Secrets = map[string]sdk.SecretRef{"TOKEN": "secret://env/OTHER"}
	if _, err := e.Exec(w.ctx(), sandbox.Request{Exec: x, Output: newOutput()}); sdk.CodeOf(err) != sdk.PermissionDenied || idOf(err) != ErrSecret {
		t.Errorf("got %v", err)
	}
	if n := len(w.runs()); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// TestProfiles: what is asked for is lowered to what the client may have, and never
// raised.
func TestProfiles(t *testing.T) {
	all := []sdk.Profile{sdk.ProfileStrict, sdk.ProfileStandard, sdk.ProfilePermissive}
	for i, most := range all {
		for j, asked := range all {
			if got, err := clamp(string(asked), most); err != nil || got != all[min(i, j)] {
				t.Errorf("%s of at most %s is %s, %v", asked, most, got, err)
			}
		}
		if got, err := clamp("", most); err != nil || got != sdk.ProfileStrict {
			t.Errorf("unset is %s, %v", got, err)
		}
		for _, odd := range []string{"default", "STRICT", "strict ", "none"} {
			if got, err := clamp(odd, most); !errors.Is(err, sdk.InvalidArgument) {
				t.Errorf("%q is %s, %v", odd, got, err)
			}
		}
	}
	w := newWorld(t)
	e := w.client(w.serve(w.options(Client{Name: "ci", Profile: sdk.ProfileStandard})), "ci")
	x := exec("true")
	x.Profile = sdk.ProfilePermissive
	if _, err := e.Exec(w.ctx(), sandbox.Request{Exec: x, Output: newOutput()}); err != nil {
		t.Fatal(err)
	}
	if got := w.spec(w.run()).Profile; got != sdk.ProfileStandard {
		t.Errorf("ran under %s", got)
	}
}

// TestHealth: the health service answers with no more than a connection, and says so
// when the server is being stopped.
func TestHealth(t *testing.T) {
	w := newWorld(t)
	s := w.serve(w.options())
	h := grpc_health_v1.NewHealthClient(w.conn(s.addr, "probe"))
	for _, service := range []string{"", "workflow.plugin.external.sandbox.SandboxExecService"} {
		r, err := h.Check(w.ctx(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil || r.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", service, r, err)
		}
	}
	watch, err := h.Watch(w.ctx(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Recv(); err != nil || r.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", r, err)
	}
	s.stop()
	if r, err := watch.Recv(); err != nil || r.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("%v, %v", r, err)
	}
}

// scripted is a runner that sends what a test says.
type scripted struct {
	sandboxpb.UnimplementedSandboxExecServiceServer
	send func(grpc.ServerStreamingServer[sandboxpb.SandboxExecChunk]) error
}

func (s scripted) Exec(_ *sandboxpb.SandboxExecRequest, stream grpc.ServerStreamingServer[sandboxpb.SandboxExecChunk]) error {
	return s.send(stream)
}

// scripted serves what send says.
func (w *world) scripted(send func(grpc.ServerStreamingServer[sandboxpb.SandboxExecChunk]) error) *Environment {
	w.t.Helper()
	pair, err := readPair(w.ca.issue("server", "127.0.0.1"))
	if err != nil {
		w.t.Fatal(err)
	}
	lis, err := (&net.ListenConfig{}).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13})))
	sandboxpb.RegisterSandboxExecServiceServer(g, scripted{send: send})
	over := make(chan error, 1)
	go func() { over <- g.Serve(lis) }()
	w.t.Cleanup(func() {
		g.Stop()
		w.must(<-over)
	})
	return w.environment(ClientOptions{Name: "far", Address: lis.Addr().String(), CAFile: w.ca.file})
}

func code(n int32) *sandboxpb.SandboxExecChunk {
	return &sandboxpb.SandboxExecChunk{Chunk: &sandboxpb.SandboxExecChunk_ExitCode{ExitCode: n}}
}

// TestStreamWithoutCode: a stream that ends without an exit code is an error that says
// so, whatever came before; so are an empty chunk and a broken connection.
func TestStreamWithoutCode(t *testing.T) {
	w := newWorld(t)
	for name, send := range map[string]func(grpc.ServerStreamingServer[sandboxpb.SandboxExecChunk]) error{
		"nothing": func(grpc.ServerStreamingServer[sandboxpb.SandboxExecChunk]) error { return nil },
		"output": func(s grpc.ServerStreamingServer[sandboxpb.SandboxExecChunk]) error {
			return s.Send(&sandboxpb.SandboxExecChunk{Chunk: &sandboxpb.SandboxExecChunk_Stdout{Stdout: []byte("fine")}})
		},
		"an empty chunk": func(s grpc.ServerStreamingServer[sandboxpb.SandboxExecChunk]) error {
			return errors.Join(s.Send(&sandboxpb.SandboxExecChunk{}), s.Send(code(0)))
		},
	} {
		res, err := w.scripted(send).Exec(w.ctx(), sandbox.Request{Exec: exec("true"), Output: newOutput()})
		var e *sdk.Error
		if !errors.As(err, &e) || e.ID != ErrNoCode || e.Code != sdk.Unknown || res.ExitCode != nil {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
	for c, id := range map[codes.Code]string{codes.Unavailable: ErrNoCode, codes.Internal: ErrNoCode, codes.DataLoss: ErrNoCode, codes.Canceled: ErrNoCode,
		codes.DeadlineExceeded: ErrNoCode, codes.ResourceExhausted: ErrNoCode, codes.InvalidArgument: "", codes.PermissionDenied: ""} {
		_, err := w.scripted(func(grpc.ServerStreamingServer[sandboxpb.SandboxExecChunk]) error { return status.Error(c, "no") }).
			Exec(w.ctx(), sandbox.Request{Exec: exec("true"), Output: newOutput()})
		if idOf(err) != id || (id == "") != (int(sdk.CodeOf(err)) == int(c)) || !strings.Contains(err.Error(), ": no") || (id != "") != strings.Contains(err.Error(), "may have run") {
			t.Errorf("%s: %v", c, err)
		}
	}
}

// TestBrokenStream: a connection that breaks when the runner has the call isn't one
// that never came about: the command may have run. It is sent once.
func TestBrokenStream(t *testing.T) {
	w := newWorld(t)
	for name, first := range map[string]bool{"at once": false, "after output": true} {
		var calls atomic.Int32
		cut := make(chan func(), 1)
		e := w.scripted(func(s grpc.ServerStreamingServer[sandboxpb.SandboxExecChunk]) error {
			calls.Add(1)
			if first {
				if err := s.Send(&sandboxpb.SandboxExecChunk{Chunk: &sandboxpb.SandboxExecChunk_Stdout{Stdout: []byte("up")}}); err != nil {
					return err
				}
			}
			(<-cut)()
			<-s.Context().Done()
			return nil
		})
		near, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		through := w.environment(ClientOptions{Name: "far", Address: near.Addr().String(), CAFile: w.ca.file})
		var wg sync.WaitGroup
		wg.Go(func() { cut <- relayOnce(t, near, e.conn.Target(), &wg) })
		_, err = through.Exec(w.ctx(), sandbox.Request{Exec: exec("true"), Output: newOutput()})
		if idOf(err) != ErrNoCode || sdk.CodeOf(err) != sdk.Unknown || sdk.IsRetryable(err) || !strings.Contains(err.Error(), "may have run") {
			t.Errorf("%s: %q, %v", name, idOf(err), err)
		}
		wg.Wait()
		if n := calls.Load(); n != 1 {
			t.Errorf("%s: %d calls", name, n)
		}
	}
}

// relayOnce passes one connection on to an address, until it is cut.
func relayOnce(t *testing.T, lis net.Listener, to string, wg *sync.WaitGroup) (cut func()) {
	a, err := lis.Accept()
	if err != nil {
		t.Error(err)
		return func() {}
	}
	b, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Error(err)
		return func() {}
	}
	wg.Go(func() { _, _ = io.Copy(a, b) })
	wg.Go(func() { _, _ = io.Copy(b, a) })
	return func() {
		_ = lis.Close()
		_ = a.Close()
		_ = b.Close()
	}
}

// TestUnreachable: a call of which nothing was sent says so, whatever kept the
// connection from coming about; also when the step's time-out passes first.
func TestUnreachable(t *testing.T) {
	w := newWorld(t)
	s := w.serve(w.options())
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.must(lis.Close()) })
	closed, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.must(closed.Close())
	other := newAuthority(t, filepath.Join(w.dir, "other"))
	for name, o := range map[string]ClientOptions{
		"nobody listens":  {Address: closed.Addr().String(), CAFile: w.ca.file},
		"another CA":      {Address: s.addr, CAFile: other.file},
		"no certificate":  {Address: s.addr, CAFile: w.ca.file},
		"nobody answers":  {Address: lis.Addr().String(), CAFile: w.ca.file},
		"another address": {Address: s.addr, CAFile: w.ca.file, ServerName: "elsewhere"},
	} {
		o.Name = "far"
		x := exec("true")
		if name == "nobody answers" {
			x.Timeout = 50 * time.Millisecond
		}
		_, err := w.environment(o).Exec(w.ctx(), sandbox.Request{Exec: x, Output: newOutput()})
		if idOf(err) != ErrReach || sdk.CodeOf(err) != sdk.Unavailable || !strings.Contains(err.Error(), "nothing was sent") {
			t.Errorf("%s: %q, %v", name, idOf(err), err)
		}
	}
	stop := make(chan struct{})
	close(stop)
	_, err = w.environment(ClientOptions{Name: "far", Address: lis.Addr().String(), CAFile: w.ca.file}).Exec(w.ctx(), sandbox.Request{Exec: exec("true"), Output: newOutput(), Stop: stop})
	if !errors.Is(err, sdk.Canceled) || !strings.Contains(err.Error(), "nothing was sent") {
		t.Errorf("got %v", err)
	}
	if n := len(w.runs()); n != 0 {
		t.Errorf("%d runs", n)
	}
}

// unrunnable is a ledger whose attempts say why their command could not be run.
type unrunnable struct {
	*sqlite.Store
	why string
}

func (u unrunnable) Attempts(context.Context, sdk.ID) ([]ledger.Attempt, error) {
	return []ledger.Attempt{{}, {Raw: map[string]string{sdk.RawExec: u.why}}}, nil
}

// TestCommandNotRunnable: that a command isn't there, or is no program, is an end of
// the command and not of the call, as on every other environment. Nobody makes up a
// code for it.
func TestCommandNotRunnable(t *testing.T) {
	for why, want := range map[string]sandbox.Result{
		sdk.ExecNotFound:      {NotFound: true},
		sdk.ExecNotExecutable: {NotExecutable: true},
	} {
		t.Run(why, func(t *testing.T) {
			w := newWorld(t)
			o := w.options()
			o.Runs = unrunnable{w.store, why}
			s := w.serve(o)
			res, err := w.client(s, "ci").Exec(w.ctx(), sandbox.Request{Exec: exec("fail invalid_spec"), Output: newOutput()})
			if err != nil || res.State != sdk.StateFailed || res.ExitCode != nil || res.NotFound != want.NotFound || res.NotExecutable != want.NotExecutable || res.Message != "the platform says invalid_spec" {
				t.Errorf("%+v, %v", res, err)
			}
			stream, err := w.raw(s.addr, "ci").Exec(w.ctx(), &sandboxpb.SandboxExecRequest{Image: "img", Command: words("fail invalid_spec")})
			if err != nil {
				t.Fatal(err)
			}
			if _, code, _, err := everything(stream); status.Code(err) != codes.FailedPrecondition || code != nil {
				t.Errorf("%v, %v", code, err)
			}
		})
	}
}

// TestLoweredProfileIsTold: whoever gets a stricter profile than it asked for is told
// so, and who gets what it asked for isn't; other runners tell nothing.
func TestLoweredProfileIsTold(t *testing.T) {
	w := newWorld(t)
	ours := w.client(w.serve(w.options(Client{Name: "ci", Profile: sdk.ProfileStandard})), "ci")
	theirs := w.scripted(func(s grpc.ServerStreamingServer[sandboxpb.SandboxExecChunk]) error { return s.Send(code(0)) })
	odd := w.scripted(func(s grpc.ServerStreamingServer[sandboxpb.SandboxExecChunk]) error {
		return errors.Join(s.SetHeader(metadata.Pairs(profileHeader, "bogus")), s.Send(code(0)))
	})
	for _, x := range []struct {
		on         *Environment
		asked, got sdk.Profile
		told       bool
	}{
		{ours, sdk.ProfilePermissive, sdk.ProfileStandard, true},
		{ours, sdk.ProfileStandard, sdk.ProfileStandard, false},
		{ours, "", sdk.ProfileStrict, false},
		{theirs, sdk.ProfilePermissive, sdk.ProfilePermissive, false},
		{theirs, "", sdk.ProfileStrict, false},
		{odd, "", sdk.ProfileStrict, false},
	} {
		e, out := exec("true"), newOutput()
		e.Profile = x.asked
		res, err := x.on.Exec(w.ctx(), sandbox.Request{Exec: e, Output: out})
		if err != nil || res.Profile != x.got || x.told != (len(out.notes) == 1 && strings.Contains(out.notes[0], "security_profile is standard, and not permissive")) || !x.told && len(out.notes) > 0 {
			t.Errorf("asked for %q: %+v, %q, %v", x.asked, res, out.notes, err)
		}
	}
}

// unwilling is an engine that takes no job.
type unwilling struct {
	*control.Engine
	err error
}

func (u unwilling) Submit(context.Context, control.SubmitRequest) (control.Submitted, error) {
	return control.Submitted{}, u.err
}

// TestPathsStayHere: what a caller is told names no path of the runner's machine but
// those that the caller has sent; the runner's log has them.
func TestPathsStayHere(t *testing.T) {
	req := &sandboxpb.SandboxExecRequest{Image: "registry/app", Workdir: "/work dir", Command: []string{"sh", "-c", "cat /etc/app/x"}, Env: map[string]string{"A": "/data"}}
	for text, want := range map[string]string{
		"open /srv/ops/x: no such file":                              "open HIDDEN: no such file",
		`mkdir "/srv/a b": denied`:                                   `mkdir "HIDDEN b": denied`,
		"/my state/runner.lock is held, (/my state/x)":               "HIDDEN is held, (HIDDEN)",
		"dial unix:///run/docker.sock: refused":                      "dial HIDDEN: refused",
		"Get http://%2Frun%2Fdocker.sock/v1: refused":                "Get HIDDEN: refused",
		`read C:\\Users\\ops\\x.pem: gone`:                           "read HIDDEN: gone",
		"config:/etc/windlass.yaml:3:4: bad":                         "config:HIDDEN: bad",
		"cat /etc/app/x and /data, in /work":                         "cat /etc/app/x and /data, in /work",
		"secret://file/team/ci/x and secret://file//run/x":           "secret://file/team/ci/x and secret://file//run/x",
		"the file /run/secrets/TOKEN":                                "the file /run/secrets/TOKEN",
		"application/json and/or 1/2, https://docs.example/a/b, a /": "application/json and/or 1/2, https://docs.example/a/b, a /",
	} {
		if got := withoutPaths(text, "/my state", req); got != strings.ReplaceAll(want, "HIDDEN", hidden) {
			t.Errorf("%q:\n%q", text, got)
		}
	}
	w := newWorld(t)
	o := w.options()
	o.Engine = unwilling{w.engine, &sdk.Error{Code: sdk.FailedPrecondition, Op: "submit", Err: errors.New("open /srv/ops/key.pem: denied"), Remedy: "mend /srv/ops"}}
	_, err := w.client(w.serve(o), "ci").Exec(w.ctx(), sandbox.Request{Exec: exec("true"), Output: newOutput()})
	if err == nil || strings.Contains(err.Error(), "/srv/ops") || !strings.Contains(err.Error(), hidden) {
		t.Errorf("the caller has %v", err)
	}
	if !strings.Contains(w.log.String(), "/srv/ops/key.pem") {
		t.Errorf("the log lacks it: %s", w.log.String())
	}
}

// TestFirstCodeEnds: nothing after the first exit code counts, and a server that goes
// on after it doesn't hold its caller.
func TestFirstCodeEnds(t *testing.T) {
	w := newWorld(t)
	out := newOutput()
	res, err := w.scripted(func(s grpc.ServerStreamingServer[sandboxpb.SandboxExecChunk]) error {
		for _, c := range []*sandboxpb.SandboxExecChunk{code(5), code(0), {Chunk: &sandboxpb.SandboxExecChunk_Stdout{Stdout: []byte("late")}}} {
			if err := s.Send(c); err != nil {
				return err
			}
		}
		<-s.Context().Done()
		return nil
	}).Exec(w.ctx(), sandbox.Request{Exec: exec("true"), Output: out})
	if o, _ := out.texts(); err != nil || *res.ExitCode != 5 || o != "" {
		t.Errorf("%+v, %q, %v", res, o, err)
	}
}

// TestReaderLeaves: output that nobody reads any more is dropped, and the end is told.
func TestReaderLeaves(t *testing.T) {
	w := newWorld(t)
	out := newOutput()
	out.fail = io.ErrClosedPipe
	res, err := w.client(w.serve(w.options()), "ci").Exec(w.ctx(), sandbox.Request{Exec: exec("lines 5000; exit 4"), Output: out})
	if err != nil || *res.ExitCode != 4 {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestOwnDeadline: the end of the caller's own context is its own error, and the
// step's time-out is DeadlineExceeded, when the runner never answers.
func TestOwnDeadline(t *testing.T) {
	w := newWorld(t)
	e := w.scripted(func(s grpc.ServerStreamingServer[sandboxpb.SandboxExecChunk]) error {
		<-s.Context().Done()
		return s.Context().Err()
	})
	x := exec("true")
	// On a slow machine the first time-outs may pass before there is a connection.
	for x.Timeout = 50 * time.Millisecond; ; x.Timeout *= 2 {
		_, err := e.Exec(w.ctx(), sandbox.Request{Exec: x, Output: newOutput()})
		if idOf(err) == ErrReach && x.Timeout < patience {
			continue
		}
		if !errors.Is(err, sdk.DeadlineExceeded) || sdk.IsRetryable(err) || idOf(err) != ErrGivenUp {
			t.Errorf("got %v", err)
		}
		break
	}
	ctx, cancel := context.WithTimeout(w.ctx(), 50*time.Millisecond)
	defer cancel()
	if _, err := e.Exec(ctx, sandbox.Request{Exec: exec("true"), Output: newOutput()}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestDeadlineBeforeItsTimer: a server that acts on a deadline before our own timer does
// has not cancelled the call by itself.
func TestDeadlineBeforeItsTimer(t *testing.T) {
	late := lateTimer{t.Context(), time.Now().Add(-time.Millisecond)}
	reset := status.Error(codes.Canceled, "stream terminated by RST_STREAM with error code: CANCEL")
	e := &Environment{name: "far"}
	if err := e.failure(t.Context(), late, true, reset); !errors.Is(err, sdk.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := e.failure(late, late, true, reset); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := e.failure(t.Context(), t.Context(), true, reset); idOf(err) != ErrNoCode {
		t.Errorf("got %v", err)
	}
}

// idOf is the name of an error for `windlass explain`; empty is none.
func idOf(err error) string {
	var e *sdk.Error
	if errors.As(err, &e) {
		return e.ID
	}
	return ""
}

// TestErrorsHaveNames: what ends a call has a name for `windlass explain` at the
// caller's side too, and its words don't.
func TestErrorsHaveNames(t *testing.T) {
	e := &Environment{name: "far"}
	stopped, cancel := context.WithCancelCause(t.Context())
	cancel(errStopped)
	late, cancel := context.WithCancelCause(t.Context())
	cancel(errTimedOut)
	for _, k := range []struct {
		call      context.Context
		sent      bool
		err       error
		id, words string
	}{
		{t.Context(), true, status.Error(codes.ResourceExhausted, "exec: the runner has 8 jobs [runner.full]"), ErrFull, "exec on far: the runner has 8 jobs"},
		{t.Context(), true, status.Error(codes.Unknown, "run x: it ended as lost\n[a] [runner.job-ended]"), ErrEnded, "exec on far: run x: it ended as lost\n[a]"},
		{t.Context(), true, status.Error(codes.Unavailable, "run x: the runner is being stopped [runner.stopping]"), ErrStopping, "exec on far: run x: the runner is being stopped"},
		{t.Context(), false, status.Error(codes.Unavailable, "connection refused"), ErrReach, "nothing was sent: connection refused; check that the runner is up"},
		{t.Context(), true, status.Error(codes.Unavailable, "error reading from server: EOF"), ErrNoCode, "may have run: error reading from server: EOF; look for its run"},
		{t.Context(), true, status.Error(codes.InvalidArgument, "the list is [a] [b c]"), "", "the list is [a] [b c]"},
		{stopped, true, status.Error(codes.Canceled, "context canceled"), ErrGivenUp, "cancelled: the call was ended, and the runner cancels"},
		{late, true, status.Error(codes.DeadlineExceeded, "context deadline exceeded"), ErrGivenUp, "the time-out has passed: the call was ended"},
	} {
		if err := e.failure(t.Context(), k.call, k.sent, k.err); idOf(err) != k.id || !strings.Contains(err.Error(), k.words) || k.id != "" && strings.Contains(err.Error(), k.id) {
			t.Errorf("%v: %q, %v", k.err, idOf(err), err)
		}
	}
}

// lateTimer is a context whose deadline has passed, and whose timer hasn't fired yet.
type lateTimer struct {
	context.Context
	at time.Time
}

func (l lateTimer) Deadline() (time.Time, bool) { return l.at, true }

// TestCheck: every value that the wire has no place for is refused by its name, before
// anything is sent.
func TestCheck(t *testing.T) {
	e := &Environment{name: "far"}
	for field, x := range map[string]sandbox.Exec{
		"mounts":       {Mounts: []sdk.Mount{{Type: sdk.MountBind, Source: "/a", Target: "/b"}}},
		"tmpfs":        {Tmpfs: []sdk.Mount{{Type: sdk.MountTmpfs, Target: "/b"}}},
		"memory_limit": {Memory: 1 << 20},
		"cpu_limit":    {CPU: 500},
		"network":      {Network: "none"},
		"ttl":          {TTL: time.Minute},

		"start_timeout": {StartTimeout: time.Minute},

		"image_entrypoint":     {ImageEntrypoint: sdk.Argv{}},
		"allow_visible_secret": {AllowVisibleSecret: true},

		"command":    {Command: sdk.Argv{}},
		"command[1]": {Command: sdk.Argv{"a", "\xff"}},
		"env.A":      {Env: sdk.Env{"A": "\xff"}},
		"secrets":    {Env: sdk.Env{"A": "x"}, Secrets: map[string]sdk.SecretRef{"A": "secret://env/A"}},
	} {
		x.Image = "img"
		ps := e.Check(x)
		if len(ps) == 0 || ps[0].Field != field {
			t.Errorf("%s: %v", field, ps)
			continue
		}
		if _, err := e.Exec(t.Context(), sandbox.Request{Exec: x, Output: newOutput()}); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if ps := e.Check(sandbox.Exec{Image: "img", Command: sdk.Argv{"a"}, Env: sdk.Env{"B": "c"}, Secrets: map[string]sdk.SecretRef{"A": "secret://env/A"},
		WorkDir: "/w", Timeout: time.Second, Profile: sdk.ProfileStandard}); len(ps) != 0 {
		t.Errorf("refuses %v", ps)
	}
	fields := map[string]bool{}
	for _, f := range e.Support() {
		if fields[f.Field] || (f.Values == "") == (f.Refused == "") {
			t.Errorf("row %+v", f)
		}
		fields[f.Field] = true
	}
}

// TestRefusedJob: what the provider refuses comes with the field and no row.
func TestRefusedJob(t *testing.T) {
	w := newWorld(t)
	_, err := w.client(w.serve(w.options()), "ci").Exec(w.ctx(), sandbox.Request{Exec: exec("nonsense"), Output: newOutput()})
	if sdk.CodeOf(err) != sdk.InvalidArgument || !strings.Contains(err.Error(), "args[0]") || len(w.runs()) != 0 {
		t.Errorf("got %v, %d rows", err, len(w.runs()))
	}
}
