package runner

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/sandboxpb"
)

// ClientOptions says where a remote runner is, and who we are there.
type ClientOptions struct {
	// Name is what exec_env says.
	Name string
	// Address is HOST:PORT.
	Address string
	// ServerName is the name that the runner's certificate must have; empty is
	// the address's host.
	ServerName string
	// CAFile has the CAs of the runner's certificate, PEM; empty is the system's.
	CAFile string
	// CertFile and KeyFile are our own, PEM; both or neither.
	CertFile, KeyFile string
	// Token lets us in without a certificate, or beside one; the zero value is none.
	Token sdk.SecretValue
}

// Environment runs executions on a remote runner. Its connection is made at the
// first one, over TLS 1.3 alone.
type Environment struct {
	name   string
	conn   *grpc.ClientConn
	client sandboxpb.SandboxExecServiceClient
}

var _ sandbox.Environment = (*Environment)(nil)

// NewEnvironment reads the files and connects to nothing yet. Close frees it.
func NewEnvironment(o ClientOptions) (*Environment, error) {
	fail := func(err error) (*Environment, error) {
		return nil, fmt.Errorf("remote runner %s: %w", o.Name, err)
	}
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return fail(tlsError(fmt.Errorf("the address %q isn't HOST:PORT", o.Address)))
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: o.ServerName}
	if c.ServerName == "" {
		c.ServerName = host
	}
	if o.CAFile != "" {
		if c.RootCAs, err = readPool(o.CAFile); err != nil {
			return fail(err)
		}
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return fail(tlsError(errors.New("a certificate needs its key, and a key its certificate")))
	}
	if o.CertFile != "" {
		pair, err := readPair(o.CertFile, o.KeyFile)
		if err != nil {
			return fail(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	// Nothing is sent twice but what the server has provably not seen: gRPC's own
	// retries are off, and so are those that a name server could ask for.
	opts := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(c)), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: aliveEvery, Timeout: aliveWithin})}
	if len(o.Token.Reveal()) > 0 {
		opts = append(opts, grpc.WithPerRPCCredentials(token{o.Token}))
	}
	conn, err := grpc.NewClient(o.Address, opts...)
	if err != nil {
		return fail(tlsError(err))
	}
	return &Environment{name: o.Name, conn: conn, client: sandboxpb.NewSandboxExecServiceClient(conn)}, nil
}

// token is a client's token, which goes over TLS alone.
type token struct{ value sdk.SecretValue }

var _ credentials.PerRPCCredentials = token{}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{authHeader: bearer + string(t.value.Reveal())}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (token) RequireTransportSecurity() bool { return true }

// Close ends the connection, and with it the executions that go on.
func (e *Environment) Close() error { return e.conn.Close() }

// Name implements sandbox.Environment.
func (e *Environment) Name() string { return e.name }

// notCarried is why a value is refused that the wire has no place for.
const notCarried = "a remote runner's protocol has no place for it"

// Support implements sandbox.Environment.
func (*Environment) Support() []sdk.FieldSupport {
	return []sdk.FieldSupport{
		{Field: "image", Values: "any"},
		{Field: "command", Values: "any list of UTF-8 but the empty one"},
		{Field: "env", Values: "UTF-8"},
		{Field: "secrets", Values: "references that the runner allows this client; the runner's own provider delivers them"},
		{Field: "work_dir", Values: "any"},
		{Field: "timeout", Values: "the deadline of the call, from its start"},
		{Field: "security_profile", Values: "strict, standard, permissive; lowered to what the runner allows this client"},
		{Field: "image_entrypoint", Refused: notCarried},
		{Field: "allow_visible_secret", Refused: notCarried},
		{Field: "mounts", Refused: notCarried},
		{Field: "tmpfs", Refused: notCarried},
		{Field: "memory_limit", Refused: notCarried},
		{Field: "cpu_limit", Refused: notCarried},
		{Field: "network", Refused: notCarried},
		{Field: "start_timeout", Refused: notCarried},
		{Field: "ttl", Refused: notCarried},
	}
}

// Check implements sandbox.Environment.
func (e *Environment) Check(x sandbox.Exec) []sdk.Problem {
	ps := append(x.Validate(), sandbox.Refused(e, x)...)
	if x.Command != nil && len(x.Command) == 0 {
		ps = append(ps, sdk.Problem{Field: "command", Message: "is empty, which the protocol can't tell from one that is unset", Code: sdk.Unimplemented})
	}
	text := func(field, s string) {
		if !utf8.ValidString(s) {
			ps = append(ps, sdk.Problem{Field: field, Message: "isn't UTF-8, and the protocol carries nothing else", Code: sdk.Unimplemented})
		}
	}
	text("image", x.Image)
	text("work_dir", x.WorkDir)
	for i, arg := range x.Command {
		text(fmt.Sprintf("command[%d]", i), arg)
	}
	for name, value := range x.Env {
		text("env."+name, name+value)
	}
	return ps
}

// Ask implements sandbox.Environment.
func (*Environment) Ask(context.Context, sandbox.Exec) []error { return nil }

// Causes of a call's end that are ours.
var (
	errStopped  = errors.New("stopped")
	errTimedOut = errors.New("timed out")
	errDone     = errors.New("done")
)

// Exec implements sandbox.Environment. A remote runner proves at its side that
// what was cancelled is gone, and records it there: its wire can't tell.
func (e *Environment) Exec(ctx context.Context, r sandbox.Request) (sandbox.Result, error) {
	if ps := e.Check(r.Exec); len(ps) > 0 {
		return sandbox.Result{}, &sdk.Error{Code: ps[0].Code, Op: "exec on " + e.name, Field: ps[0].Field, ID: ErrWire, Err: errors.New(sdk.JoinProblems(ps))}
	}
	begun := time.Now()
	call, end := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end(errDone)
	if r.Exec.Timeout > 0 {
		var cancel context.CancelFunc
		call, cancel = context.WithTimeoutCause(call, r.Exec.Timeout, errTimedOut)
		defer cancel()
	}
	if r.Stop != nil {
		wg.Go(func() {
			select {
			case <-r.Stop:
				end(errStopped)
			case <-call.Done():
			}
		})
	}
	code, err := e.stream(call, r)
	if err != nil {
		return sandbox.Result{}, e.failure(ctx, call, err)
	}
	res := sandbox.Result{State: sdk.StateSucceeded, ExitCode: &code, Profile: r.Exec.Profile, Duration: time.Since(begun)}
	if res.Profile == sdk.ProfileUnset {
		res.Profile = sdk.ProfileStrict
	}
	if code != 0 {
		res.State = sdk.StateFailed
	}
	return res, nil
}

// stream makes the call and passes its output on, to the first exit code.
func (e *Environment) stream(ctx context.Context, r sandbox.Request) (int, error) {
	s, err := e.client.Exec(ctx, requestOf(r.Exec))
	if err != nil {
		return 0, err
	}
	listening := true
	write := func(to sdk.Stream, data []byte) {
		if listening && len(data) > 0 {
			listening = r.Output.Write(to, data) == nil
		}
	}
	for {
		m, err := s.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return 0, &sdk.Error{Code: sdk.Unknown, ID: ErrNoCode, Err: errors.New("the stream ended without an exit code, so what became of the command isn't known")}
		case err != nil:
			return 0, err
		}
		switch c := m.GetChunk().(type) {
		case *sandboxpb.SandboxExecChunk_Stdout:
			write(sdk.StreamStdout, c.Stdout)
		case *sandboxpb.SandboxExecChunk_Stderr:
			write(sdk.StreamStderr, c.Stderr)
		case *sandboxpb.SandboxExecChunk_ExitCode:
			return int(c.ExitCode), nil
		default:
			return 0, &sdk.Error{Code: sdk.Unknown, ID: ErrNoCode, Err: errors.New("the runner sent a message that is neither output nor an exit code")}
		}
	}
}

// requestOf is an execution on the wire: references go as they are.
func requestOf(x sandbox.Exec) *sandboxpb.SandboxExecRequest {
	req := &sandboxpb.SandboxExecRequest{Profile: string(x.Profile), Image: x.Image, Command: x.Command, Workdir: x.WorkDir}
	if req.Profile == "" {
		req.Profile = string(sdk.ProfileStrict)
	}
	if len(x.Env)+len(x.Secrets) > 0 {
		req.Env = make(map[string]string, len(x.Env)+len(x.Secrets))
	}
	for name, value := range x.Env {
		req.Env[name] = value
	}
	for name, ref := range x.Secrets {
		req.Env[name] = string(ref)
	}
	return req
}

// failure is a call's error as the caller of Exec sees it. A deadline of ours is
// one, whatever the wire says of it, and never worth a new try by itself.
func (e *Environment) failure(ctx, call context.Context, err error) error {
	out := &sdk.Error{Code: codeFrom(err), Op: "exec on " + e.name, Err: err}
	var own *sdk.Error
	if errors.As(err, &own) {
		out.Code, out.ID = own.Code, own.ID
	} else if st, ok := status.FromError(err); ok {
		out.ID, out.Err = named(st.Message())
	}
	switch cause := context.Cause(call); {
	case ctx.Err() != nil:
		return fmt.Errorf("exec on %s: %w", e.name, context.Cause(ctx))
	case passed(ctx):
		return fmt.Errorf("exec on %s: %w", e.name, context.DeadlineExceeded)
	case errors.Is(cause, errStopped):
		out.Code, out.ID, out.Err = sdk.Canceled, ErrEnded, errors.New("cancelled; the runner was told, and ends the command")
	case errors.Is(cause, errTimedOut), passed(call):
		out.Code, out.ID, out.Err = sdk.DeadlineExceeded, ErrEnded, errors.New("the time-out has passed; the runner was told, and ends the command")
	case out.Code == sdk.Unavailable && out.ID == "":
		out.ID, out.Remedy = ErrReach, "check that the runner is up, its address, and the certificates of both sides"
	}
	return out
}

// namedWords are a runner's words with a name for `windlass explain` at their end, as
// its own errors have one: "it is full [runner.full]".
var namedWords = regexp.MustCompile(`(?s)^(.*) \[([a-z]+(?:\.[a-z]+(?:-[a-z]+)*)+)\]$`)

// named parts the name from the words; it is empty where there is none.
func named(words string) (id string, err error) {
	if m := namedWords.FindStringSubmatch(words); m != nil {
		return m[2], errors.New(m[1])
	}
	return "", errors.New(words)
}

// passed reports that a deadline has passed, though the timer that ends the context
// may be late, so that the server was first to act on it.
func passed(ctx context.Context) bool {
	d, ok := ctx.Deadline()
	return ok && !time.Now().Before(d)
}
