package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

const (
	// graceTime is how long a plugin has to end by itself once it was asked to.
	graceTime = 3 * time.Second
	// probeTime is how long one that seems to hang has to answer anything at all.
	probeTime = 10 * time.Second
)

// process is a plugin's process that has got ready.
type process struct {
	plugin config.Plugin
	client *goplugin.Client
	child  *child
	words  *words
	dir    string
	conn   grpc.ClientConnInterface
	// address is its socket; empty where only this process may speak to it.
	address  string
	contract Contract
	mtls     bool
	// told: it was initialized; under the lock of its place.
	told bool
	// program is the file that was started, and sum its SHA-256; under the lock of its place.
	program fs.FileInfo
	sum     string

	probing sync.Mutex
	// mute: it answered nothing, and was killed.
	mute atomic.Bool
	stop func()
}

// start starts a plugin's program with nothing of our environment but env, and waits
// until it is ready, at most limit. Whoever has it stops it. born is called before there is
// a process, and what it returns when nothing is left of it.
func start(ctx context.Context, o *Options, p config.Plugin, env []string, born func(*process) (ended func())) (_ *process, err error) {
	program, sum, err := verify(p)
	if err != nil {
		return nil, err
	}
	manifest, err := readManifest(p.Path)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(temp(o), dirPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return nil, fmt.Errorf("start plugin %s: %w", p.Name, err)
	}
	pr := &process{plugin: p, dir: dir, program: program, sum: sum, words: newWords(o.Log.With("plugin", p.Name), o.Redact, time.Now)}
	cmd := exec.Command(p.Path) //nolint:noctx // it outlives the call that needs it first
	cmd.Dir = filepath.Dir(p.Path)
	pr.child = newChild(cmd, pr.words)
	over := born(pr)
	pr.stop = sync.OnceFunc(func() {
		pr.end()
		over()
	})
	defer func() {
		if err != nil {
			pr.stop()
		}
	}()
	pr.mtls = o.MTLS || runtime.GOOS == "windows"
	pr.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  plugin.Handshake(),
		Plugins:          goplugin.PluginSet{plugin.SetKey: nothing{}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		Logger:           hclog.NewNullLogger(),
		SyncStdout:       pr.words, SyncStderr: pr.words,
		StartTimeout: o.StartTime + graceTime, // ours comes first, and ends the process
		SkipHostEnv:  true,
		// A socket in a private folder is reached by this user alone; a port isn't.
		AutoMTLS:         pr.mtls,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: dir},
		GRPCDialOptions:  wire.DialOptions(),
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, sockets string) (runner.Runner, error) {
			cmd.Env = append(slices.Clone(env), spec.Env...)
			// Where old versions of go-plugin put their sockets.
			cmd.Env = append(cmd.Env, "TMPDIR="+sockets)
			return pr.child, nil
		},
	})
	ctx, cancel := context.WithTimeout(ctx, o.StartTime)
	defer cancel()
	if err := pr.connect(ctx); err != nil {
		return nil, pr.notReady(ctx, err)
	}
	if pr.contract, err = ask(ctx, pr.conn, manifest); err != nil {
		return nil, pr.notReady(ctx, err)
	}
	return pr, nil
}

// connect starts the process and has it say where it listens. Whatever it does, this
// ends with ctx.
func (p *process) connect(ctx context.Context) error {
	type result struct {
		c   goplugin.ClientProtocol
		err error
	}
	done := make(chan result, 1)
	go func() {
		c, err := p.client.Client()
		done <- result{c, err}
	}()
	var res result
	select {
	case res = <-done:
	case <-ctx.Done():
		p.child.end()
		<-done
		return context.Cause(ctx)
	}
	if res.err != nil {
		return res.err
	}
	g, ok := res.c.(*goplugin.GRPCClient)
	if !ok {
		return errors.New("it doesn't speak gRPC")
	}
	p.conn = g.Conn
	if r := p.client.ReattachConfig(); !p.mtls && r != nil && r.Addr != nil && r.Addr.Network() == "unix" {
		p.address = r.Addr.String()
	}
	return nil
}

// notReady is the error of a process that didn't get ready, with its last words.
func (p *process) notReady(ctx context.Context, cause error) error {
	p.child.end()
	if p.child.started() {
		<-p.child.ended // so that its last words are whole
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		cause = errors.New("it took too long")
	} else if ctx.Err() != nil {
		return &sdk.Error{Code: sdk.CodeOf(ctx.Err()), Op: "start plugin " + p.plugin.Name, Unreached: true, Err: cause}
	}
	// go-plugin has three lines for it, about its own history.
	if rest, ok := strings.CutPrefix(cause.Error(), "Unrecognized remote plugin message: "); ok {
		first, _, _ := strings.Cut(rest, "\n")
		if cause = errors.New("it ended before it was ready"); first != "" {
			cause = fmt.Errorf("it is no plugin: the first line that it printed is %.100q", p.words.redact(first))
		}
	}
	if told := p.unfit(cause); told != nil {
		return told
	}
	if last := p.words.lastWords(); last != "" {
		cause = fmt.Errorf("%w; its last words: %s", cause, last)
	}
	return &sdk.Error{Code: sdk.Unavailable, Op: "start plugin " + p.plugin.Name, ID: ErrNotReady, Unreached: true, Err: cause,
		Remedy: "windlass plugin check " + p.plugin.Name + " looks at it"}
}

// unfit is the error of a program that no start can make a plugin of this host: it isn't
// one of this system, or one of the two speaks a version that the other doesn't. It is nil
// for any other cause.
func (p *process) unfit(cause error) error {
	fail := func(id, remedy, format string, args ...any) error {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "start plugin " + p.plugin.Name, ID: id, Unreached: true, Remedy: remedy, Err: fmt.Errorf(format, args...)}
	}
	if errors.Is(cause, syscall.ENOEXEC) || errors.Is(cause, badImage) {
		return fail(ErrPlatform, "put the plugin's program for this system there; a script needs a first line such as #!/bin/sh",
			"%s is not a program of this system (%s/%s)", p.plugin.Path, runtime.GOOS, runtime.GOARCH)
	}
	// The numbers of go-plugin's own two sentences, which have line breaks and advice
	// for hosts in them.
	var theirs, ours int
	what := "its line of greeting has version %d, and this program takes %d"
	if _, err := fmt.Sscanf(cause.Error(), "incompatible core API version with plugin. Plugin version: %d, Core version: %d", &theirs, &ours); err != nil {
		what = "it speaks version %d of the plugins' handshake, and this program %d"
		if _, err := fmt.Sscanf(cause.Error(), "incompatible API version with plugin. Plugin version: %d, Client versions: [%d]", &theirs, &ours); err != nil {
			return nil
		}
	}
	who, remedy := "the plugin is too old for this windlass", "install a newer version of the plugin, or have it built with a newer SDK"
	if theirs > ours {
		who, remedy = "this windlass is too old for the plugin", "use a newer windlass, or an older version of the plugin"
	}
	return fail(ErrContract, remedy, what+": "+who, theirs, ours)
}

// badImage is how Windows says that a file is no program of it.
const badImage = syscall.Errno(193)

// current reports whether the process would be started as it is: its program may be, and
// has the bytes that it was started with. The place's lock is held.
func (p *process) current() bool {
	info, err := inspect(p.plugin)
	if err != nil {
		return false // whoever starts the next is told
	}
	if want, err := Expected(p.plugin); err != nil || want != "" && want != p.sum {
		return false
	}
	if sameFile(info, p.program) {
		return true
	}
	if sum, err := Sum(p.plugin.Path); err != nil || sum != p.sum {
		return false
	}
	p.program = info
	return true
}

// sameFile reports whether a file is the one that was seen before, and wasn't written since.
func sameFile(now, before fs.FileInfo) bool {
	return os.SameFile(now, before) && now.Size() == before.Size() && now.ModTime().Equal(before.ModTime())
}

// done is closed when the process has ended.
func (p *process) done() <-chan struct{} { return p.child.ended }

// why says how the process ended.
func (p *process) why() error {
	text := "it ended"
	if err := p.child.err; err != nil {
		text = err.Error()
	}
	if p.mute.Load() {
		text = "it answered nothing and was killed"
	}
	if last := p.words.lastWords(); last != "" {
		text += "; its last words: " + last
	}
	return errors.New(text)
}

// doubt kills a process that answers nothing at all any more.
func (p *process) doubt(patience time.Duration) {
	if !p.probing.TryLock() {
		return
	}
	defer p.probing.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := healthpb.NewHealthClient(p.conn).Check(ctx, &healthpb.HealthCheckRequest{Service: goplugin.GRPCServiceName})
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
		if status.Code(err) == codes.DeadlineExceeded { // else it may be ending by itself
			p.mute.Store(true)
		}
		p.child.end() // whoever sees its end logs it
	}
}

// end asks the process to end, and kills it when it doesn't, with its group. Nothing
// of it is left afterwards.
func (p *process) end() {
	t := time.AfterFunc(graceTime, p.child.end)
	defer t.Stop()
	p.client.Kill() // it waits for the process
	p.child.end()
	if p.child.started() {
		<-p.child.ended
	}
	p.words.end()
	_ = os.RemoveAll(p.dir)
}

// kill ends the process and what it has started, and doesn't wait.
func (p *process) kill() {
	p.child.end()
	_ = os.RemoveAll(p.dir)
}

// dirPrefix begins the names of the folders for sockets; the number of the process
// that made it follows.
const dirPrefix = "wlplug"

// temp is the folder in which those are made: a socket's path may have about 100 bytes,
// and go-plugin needs 60 of them.
func temp(o *Options) string {
	const longest = 40
	dir := o.TempDir
	if dir == "" {
		dir = os.TempDir()
	}
	if len(dir) > longest && runtime.GOOS != "windows" {
		return "/tmp"
	}
	return dir
}

// sweep removes the folders of hosts that were killed.
func sweep(temp string) {
	list, _ := filepath.Glob(filepath.Join(temp, dirPrefix+"*-*"))
	for _, dir := range list {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		if pid, err := strconv.Atoi(number); err == nil && !alive(pid) {
			_ = os.RemoveAll(dir) // another user's stays
		}
	}
}

// nothing is the plugin that go-plugin wants to know of: the connection is used as it is.
type nothing struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (nothing) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return errors.New("this end serves nothing")
}

func (nothing) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("the connection is used as it is")
}

var (
	_ goplugin.GRPCPlugin = nothing{}
	_ io.Writer           = (*words)(nil)
)
