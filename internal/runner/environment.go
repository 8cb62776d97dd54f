package runner

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
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

// Combined implements sandbox.Environment.
func (*Environment) Combined() bool { return false }

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
	req := requestOf(r.Exec)
	res := sandbox.Result{State: sdk.StateSucceeded, Profile: sdk.Profile(req.GetProfile())}
	code, sent, err := e.stream(call, req, r.Output, &res.Profile)
	if err == nil {
		res.ExitCode = &code
	} else if err = e.failure(ctx, call, sent, err); !notRunnable(err, &res) {
		return sandbox.Result{}, err
	}
	if res.ExitCode == nil || code != 0 {
		res.State = sdk.StateFailed
	}
	res.Duration = time.Since(begun)
	return res, nil
}

// notRunnable reports an end that is one of the command and no failure of the call:
// that it isn't there, or is no program. It has no code, since no process had one.
func notRunnable(err error, res *sandbox.Result) bool {
	var e *sdk.Error
	if !errors.As(err, &e) {
		return false
	}
	words := ""
	switch e.ID {
	case ErrNotFound:
		res.NotFound, words = true, notFoundWords
	case ErrNotExecutable:
		res.NotExecutable, words = true, notExecutableWords
	default:
		return false
	}
	res.Message = e.Err.Error()
	if _, own, ok := strings.Cut(res.Message, words); ok {
		res.Message = own
	}
	return true
}

// stream makes the call and passes its output on, to the first exit code. The
// profile becomes the one that the runner tells, where it tells one. sent is false
// where nothing of the call has reached the runner.
func (e *Environment) stream(ctx context.Context, req *sandboxpb.SandboxExecRequest, to sandbox.Output, profile *sdk.Profile) (code int, sent bool, err error) {
	s, err := e.client.Exec(ctx, req)
	if err != nil {
		// gRPC returns an error here only where it got no connection for the call, or
		// none that took it; what fails later comes from Recv.
		return 0, false, err
	}
	if h, err := s.Header(); err == nil {
		*profile = lowered(h, *profile, to)
	}
	listening := true
	write := func(stream sdk.Stream, data []byte) {
		if listening && len(data) > 0 {
			listening = to.Write(stream, data) == nil
		}
	}
	for {
		m, err := s.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return 0, true, &sdk.Error{Code: sdk.Unknown, ID: ErrNoCode, Err: errors.New("the stream ended without an exit code, so what became of the command isn't known")}
		case err != nil:
			return 0, true, err
		}
		switch c := m.GetChunk().(type) {
		case *sandboxpb.SandboxExecChunk_Stdout:
			write(sdk.StreamStdout, c.Stdout)
		case *sandboxpb.SandboxExecChunk_Stderr:
			write(sdk.StreamStderr, c.Stderr)
		case *sandboxpb.SandboxExecChunk_ExitCode:
			return int(c.ExitCode), true, nil
		default:
			return 0, true, &sdk.Error{Code: sdk.Unknown, ID: ErrNoCode, Err: errors.New("the runner sent a message that is neither output nor an exit code")}
		}
	}
}

// lowered returns the profile that the runner has told of in its headers, and notes
// where that isn't the one that was asked for. Other runners tell none.
func lowered(h metadata.MD, asked sdk.Profile, to sandbox.Output) sdk.Profile {
	told := h.Get(profileHeader)
	if len(told) != 1 || !slices.Contains(sandbox.Profiles(), sdk.Profile(told[0])) || told[0] == string(asked) {
		return asked
	}
	to.Note(fmt.Sprintf("security_profile is %s, and not %s: the runner gives this client no other", told[0], asked))
	return sdk.Profile(told[0])
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
func (e *Environment) failure(ctx, call context.Context, sent bool, err error) error {
	switch cause := context.Cause(call); {
	case ctx.Err() != nil:
		return fmt.Errorf("exec on %s: %w", e.name, context.Cause(ctx))
	case passed(ctx):
		return fmt.Errorf("exec on %s: %w", e.name, context.DeadlineExceeded)
	case errors.Is(cause, errStopped) && sent:
		return e.ended(sdk.Canceled, "cancelled")
	case errors.Is(cause, errStopped):
		return &sdk.Error{Code: sdk.Canceled, Op: "exec on " + e.name, Err: errors.New("cancelled before the runner was reached; nothing was sent")}
	case (errors.Is(cause, errTimedOut) || passed(call)) && sent:
		return e.ended(sdk.DeadlineExceeded, "the time-out has passed")
	}
	out := &sdk.Error{Code: codeFrom(err), Op: "exec on " + e.name, Err: err}
	var own *sdk.Error
	if errors.As(err, &own) {
		out.Code, out.ID = own.Code, own.ID
	} else if st, ok := status.FromError(err); ok {
		out.ID, out.Err = named(strings.TrimPrefix(st.Message(), opExec+": "))
	}
	switch {
	case out.ID != "":
	case !sent && (out.Code == sdk.Unavailable || passed(call)):
		out.Code, out.ID, out.Remedy = sdk.Unavailable, ErrReach, "check that the runner is up, its address, and the certificates of both sides"
		out.Err = fmt.Errorf("nothing was sent: %w", out.Err)
	case sent && !refusal(out.Code):
		out.Err = fmt.Errorf("the call broke off without an exit code, and the command may have run: %w", out.Err)
		out.Code, out.ID, out.Remedy = sdk.Unknown, ErrNoCode, lookThere
	}
	return out
}

// lookThere is where the outcome stands that the wire didn't bring.
const lookThere = "look for its run on the runner's machine, with windlass ps -a; nothing is sent again"

// ended is the end of a call that we gave up. That the runner has heard of it isn't
// known here, nor what has become of the command since.
func (e *Environment) ended(code sdk.Code, why string) error {
	return &sdk.Error{Code: code, Op: "exec on " + e.name, ID: ErrGivenUp,
		Err:    errors.New(why + ": the call was ended, and the runner cancels the command and proves that at its own side"),
		Remedy: "windlass ps -a on the runner's machine tells what became of it"}
}

// refusal reports a class by which a runner says that it has not begun. All others
// are also those of connections that break, and of servers that die.
func refusal(c sdk.Code) bool {
	switch c {
	case sdk.InvalidArgument, sdk.NotFound, sdk.PermissionDenied, sdk.Unauthenticated, sdk.FailedPrecondition, sdk.OutOfRange, sdk.Unimplemented:
		return true
	}
	return false
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
