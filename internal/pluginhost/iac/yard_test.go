//go:build linux

package iac

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
)

// patience bounds what must happen, however slow the machine.
const patience = 60 * time.Second

// jobVariable is in the environment of everything that a yard runs.
const jobVariable = "WL_YARD_JOB"

// yard is a plugin of the published wire whose jobs are processes of a shell. Whatever a
// handle has besides its ID must come back as it went.
type yard struct {
	pb.UnimplementedIaCProviderRequiredServer
	pb.UnimplementedIaCProviderRunnerServer
	pb.UnimplementedIaCProviderJobCancelerServer

	// hooks are asked before a method is carried out, or after it; set before use.
	hooks hooks
	// live streams end with the job; the others give what there is.
	live bool

	mu      sync.Mutex
	jobs    map[string]*yardJob
	specs   []*pb.JobSpec
	configs []string
	secrets map[string][]byte
	calls   map[string]int
}

// hooks stand in for a yard's own methods where they aren't nil.
type hooks struct {
	run    func(ctx context.Context, m *pb.JobSpec) (*pb.JobHandle, error)
	status func(h *pb.JobHandle) (*pb.JobStatusReply, error)
	cancel func(h *pb.JobHandle) error
	logs   func(s grpc.ServerStreamingServer[pb.LogChunk]) error
	name   func() (*pb.NameResponse, error)
}

type yardJob struct {
	handle *pb.JobHandle
	cmd    *exec.Cmd

	mu      sync.Mutex
	log     []*pb.LogChunk
	changed chan struct{}
	state   pb.JobState
	code    int32
	killed  bool
}

func newYard() *yard {
	return &yard{jobs: map[string]*yardJob{}, secrets: map[string][]byte{}, calls: map[string]int{}}
}

func (y *yard) count(method string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.calls[method]++
}

func (y *yard) called(method string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.calls[method]
}

func (y *yard) sent() []*pb.JobSpec {
	y.mu.Lock()
	defer y.mu.Unlock()
	return append([]*pb.JobSpec(nil), y.specs...)
}

func (y *yard) Initialize(_ context.Context, m *pb.InitializeRequest) (*pb.InitializeResponse, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.configs = append(y.configs, string(m.GetConfigJson()))
	return &pb.InitializeResponse{}, nil
}

func (y *yard) Name(context.Context, *pb.NameRequest) (*pb.NameResponse, error) {
	if y.hooks.name != nil {
		return y.hooks.name()
	}
	return &pb.NameResponse{Name: "yard"}, nil
}

func (y *yard) Version(context.Context, *pb.VersionRequest) (*pb.VersionResponse, error) {
	return &pb.VersionResponse{Version: "1.2.3"}, nil
}

func (y *yard) Capabilities(context.Context, *pb.CapabilitiesRequest) (*pb.CapabilitiesResponse, error) {
	return &pb.CapabilitiesResponse{ComputePlanVersion: "v2"}, nil
}

func (y *yard) RunJob(ctx context.Context, m *pb.JobSpec) (*pb.JobHandle, error) {
	y.mu.Lock()
	y.specs = append(y.specs, m)
	n := len(y.specs)
	y.mu.Unlock()
	if y.hooks.run != nil {
		return y.hooks.run(ctx, m)
	}
	return y.start(fmt.Sprintf("job-%d", n), m)
}

func (y *yard) start(id string, m *pb.JobSpec) (*pb.JobHandle, error) {
	j := &yardJob{changed: make(chan struct{}), state: pb.JobState_JOB_STATE_RUNNING,
		handle: &pb.JobHandle{Id: id, Name: m.GetName(), Provider: "yard-1", Metadata: map[string]string{"": "x", "provider": "p", "metadata.a": "é"}}}
	j.cmd = exec.CommandContext(context.Background(), "/bin/sh", "-c", m.GetRunCommand())
	j.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), jobVariable + "=" + y.mark(id)}
	for k, v := range m.GetEnvVars() {
		j.cmd.Env = append(j.cmd.Env, k+"="+v)
	}
	y.mu.Lock()
	for k, ref := range m.GetEnvVarsSecret() {
		v, ok := y.secrets[ref]
		if !ok {
			y.mu.Unlock()
			return nil, status.Errorf(codes.NotFound, "no secret %s", ref)
		}
		j.cmd.Env = append(j.cmd.Env, k+"="+string(v))
	}
	y.jobs[id] = j
	y.mu.Unlock()
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := j.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := j.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := j.cmd.Start(); err != nil {
		return nil, err
	}
	var reads sync.WaitGroup
	reads.Go(func() { j.copy(stdout, "stdout") })
	reads.Go(func() { j.copy(stderr, "job/STDERR") })
	go func() {
		reads.Wait()
		_ = j.cmd.Wait() // the state has it
		j.mu.Lock()
		defer j.mu.Unlock()
		switch st := j.cmd.ProcessState; {
		case j.killed:
			j.state = pb.JobState_JOB_STATE_CANCELLED
		case st.Success():
			j.state = pb.JobState_JOB_STATE_SUCCEEDED
		default:
			j.state, j.code = pb.JobState_JOB_STATE_FAILED, int32(st.ExitCode())
			if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
				j.code = 128 + int32(ws.Signal())
			}
		}
		j.tell()
	}()
	return j.handle, nil
}

// tell wakes who follows; the lock is held.
func (j *yardJob) tell() {
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *yardJob) copy(r io.Reader, source string) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		j.mu.Lock()
		if n > 0 {
			j.log = append(j.log, &pb.LogChunk{Data: bytes.Clone(buf[:n]), Source: source})
			j.tell()
		}
		j.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// find refuses a handle that isn't the one that was given.
func (y *yard) find(h *pb.JobHandle) (*yardJob, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	j := y.jobs[h.GetId()]
	if j == nil {
		return nil, status.Error(codes.NotFound, "no such job")
	}
	if !proto.Equal(j.handle, h) {
		return nil, status.Errorf(codes.InvalidArgument, "the handle came back as %v", h)
	}
	return j, nil
}

func (y *yard) JobStatus(_ context.Context, h *pb.JobHandle) (*pb.JobStatusReply, error) {
	if y.hooks.status != nil {
		return y.hooks.status(h)
	}
	j, err := y.find(h)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return &pb.JobStatusReply{Handle: j.handle, State: j.state, ExitCode: j.code, Message: "as the yard has it"}, nil
}

func (y *yard) JobLogs(h *pb.JobHandle, s grpc.ServerStreamingServer[pb.LogChunk]) error {
	if y.hooks.logs != nil {
		return y.hooks.logs(s)
	}
	j, err := y.find(h)
	if err != nil {
		return err
	}
	for i := 0; ; {
		j.mu.Lock()
		log, changed, ended := j.log[i:], j.changed, j.state != pb.JobState_JOB_STATE_RUNNING
		j.mu.Unlock()
		for _, c := range log {
			if err := s.Send(c); err != nil {
				return err
			}
			i++
		}
		if ended && y.live {
			return s.Send(&pb.LogChunk{Eof: true})
		}
		if !y.live {
			return nil
		}
		select {
		case <-changed:
		case <-s.Context().Done():
			return s.Context().Err()
		}
	}
}

func (y *yard) CancelJob(_ context.Context, h *pb.JobHandle) (*emptypb.Empty, error) {
	if y.hooks.cancel != nil {
		return &emptypb.Empty{}, y.hooks.cancel(h)
	}
	j, err := y.find(h)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.state != pb.JobState_JOB_STATE_RUNNING {
		return nil, status.Error(codes.FailedPrecondition, "the job has ended")
	}
	j.killed = true
	killAll(y.mark(j.handle.GetId()))
	return &emptypb.Empty{}, nil
}

// mark is what a job's processes have in their environment: another yard, of this test or of
// one that runs beside it, has jobs of the same names.
func (y *yard) mark(id string) string { return fmt.Sprintf("%d-%p-%s", os.Getpid(), y, id) }

// killAll kills every process of a job, in whatever session it is.
func killAll(mark string) {
	for killed := true; killed; {
		killed = false
		files, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil || !bytes.Contains(append(b, 0), []byte(jobVariable+"="+mark+"\x00")) {
				continue
			}
			var pid int
			if _, err := fmt.Sscanf(f, "/proc/%d/environ", &pid); err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed = !gone(pid)
			}
		}
	}
}

// gone reports whether a process is none any more, or only waits to be reaped.
func gone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}

func (y *yard) close() {
	y.mu.Lock()
	jobs := maps.Clone(y.jobs)
	y.mu.Unlock()
	for id, j := range jobs {
		killAll(y.mark(id))
		for {
			j.mu.Lock()
			over, changed := j.state != pb.JobState_JOB_STATE_RUNNING, j.changed
			j.mu.Unlock()
			if over {
				break
			}
			<-changed
		}
	}
}

// link is a yard's server, whose connections can be cut.
type link struct {
	conn  *grpc.ClientConn
	lis   *cutListener
	fault faults
}

// cutListener remembers its connections.
type cutListener struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (l *cutListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		l.conns = append(l.conns, c)
		l.mu.Unlock()
	}
	return c, err
}

// cut closes every connection there is.
func (l *cutListener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close() // it may be closed already
	}
	l.conns = nil
}

// services are those of a yard; a plugin of the first version has no canceler.
func services(cancels bool) []string {
	all := []string{serviceRequired, serviceRunner}
	if cancels {
		all = append(all, serviceCanceler)
	}
	return all
}

// serve serves a yard on a unix socket.
func serve(t testing.TB, y *yard, cancels bool) *link {
	t.Helper()
	dir, err := os.MkdirTemp("", "iac") // short: a socket's path is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	sock := filepath.Join(dir, "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	k := &link{lis: &cutListener{Listener: l}}
	k.fault.cut = k.lis.cut
	g := grpc.NewServer(grpc.UnaryInterceptor(k.fault.unary(y)), grpc.StreamInterceptor(k.fault.stream(y)))
	pb.RegisterIaCProviderRequiredServer(g, y)
	pb.RegisterIaCProviderRunnerServer(g, y)
	if cancels {
		pb.RegisterIaCProviderJobCancelerServer(g, y)
	}
	done := make(chan error, 1)
	go func() { done <- g.Serve(k.lis) }()
	if k.conn, err = grpc.NewClient("unix:"+sock, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		y.close()
		_ = k.conn.Close()
		g.Stop()
		if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return k
}

// driverOf returns the driver of a yard.
func driverOf(t testing.TB, y *yard, cancels bool) (sdk.Driver, *link) {
	t.Helper()
	k := serve(t, y, cancels)
	d, err := Driver(Plugin{Kind: "theirs", Conn: k.conn, Services: services(cancels)})
	if err != nil {
		t.Fatal(err)
	}
	return d, k
}

// opened is a provider on a yard.
type opened struct {
	sdk.Provider
	*link
	run    sdk.JobRunner
	cancel sdk.JobCanceler
	logs   sdk.JobLogger
}

// openYard opens a provider with a config in JSON.
func openYard(t testing.TB, y *yard, cancels bool, config string) opened {
	t.Helper()
	d, k := driverOf(t, y, cancels)
	p, err := d.Open(t.Context(), sdk.OpenRequest{Name: "here", Config: []byte(config), Owner: "owner", LedgerID: "ledger"})
	if err != nil {
		t.Fatal(err)
	}
	o := opened{Provider: p, link: k}
	o.run, _ = sdk.Of(p, sdk.Runner())
	o.cancel, _ = sdk.Of(p, sdk.Canceler())
	o.logs, _ = sdk.Of(p, sdk.Logger())
	return o
}

// prepare returns the launch of a spec, to which it gives an image.
func (o opened) prepare(t testing.TB, spec sdk.JobSpec) sdk.Launch {
	t.Helper()
	if spec.Image == "" {
		spec.Image = "app:1"
	}
	ids := sdk.NewIDSource(sdk.SystemClock())
	l, err := o.run.PrepareJob(t.Context(), sdk.PrepareJobRequest{Spec: spec, RunID: ids.NewID(), AttemptID: ids.NewID(), Attempt: 1})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// start runs a command.
func (o opened) start(t testing.TB, argv ...string) sdk.JobHandle {
	t.Helper()
	l := o.prepare(t, sdk.JobSpec{Args: argv})
	if len(l.Problems) > 0 {
		t.Fatal(sdk.JoinProblems(l.Problems))
	}
	res, err := o.run.RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
	if err != nil {
		t.Fatal(err)
	}
	return res.Handle
}
