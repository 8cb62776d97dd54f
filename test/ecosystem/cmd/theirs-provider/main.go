// Command theirs-provider is a provider plugin on the ecosystem's own SDK, as anybody
// would publish it: it knows nothing of Windlass, and can't cancel. Its jobs are processes
// of a shell, and its image says what goes wrong; its resources are files.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/GoCodeAlone/workflow/plugin/external/proto"
	"github.com/GoCodeAlone/workflow/plugin/external/sdk"
)

// Under the name "keeper" it keeps resources and runs no jobs, under "runner" it is the
// other way round, and under any other name it does both.
func main() {
	b := &base{}
	r := &runner{base: b, jobs: map[string]*job{}}
	var served any
	switch filepath.Base(os.Args[0]) {
	case "keeper":
		served = &struct {
			*base
			resources
		}{base: b}
	case "runner":
		served = r
	default:
		served = &struct {
			*runner
			resources
		}{runner: r}
	}
	sdk.ServeIaCPlugin(served, sdk.IaCServeOptions{})
}

// base is what every provider has.
type base struct {
	pb.UnimplementedIaCProviderRequiredServer

	mu     sync.Mutex
	region string
}

// runner runs jobs.
type runner struct {
	*base
	pb.UnimplementedIaCProviderRunnerServer

	jobs map[string]*job
}

type job struct {
	spec   *pb.JobSpec
	done   chan struct{}
	out    bytes.Buffer
	errs   bytes.Buffer
	failed error
}

func (p *base) Initialize(_ context.Context, r *pb.InitializeRequest) (*pb.InitializeResponse, error) {
	var config struct{ Region string }
	if err := json.Unmarshal(r.GetConfigJson(), &config); err != nil || config.Region == "" {
		return nil, status.Error(codes.InvalidArgument, "no region is configured")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.region = config.Region
	return &pb.InitializeResponse{}, nil
}

func (p *base) Name(context.Context, *pb.NameRequest) (*pb.NameResponse, error) {
	return &pb.NameResponse{Name: "theirs"}, nil
}

func (p *base) Version(context.Context, *pb.VersionRequest) (*pb.VersionResponse, error) {
	return &pb.VersionResponse{Version: "0.1.0"}, nil
}

func (p *base) Capabilities(context.Context, *pb.CapabilitiesRequest) (*pb.CapabilitiesResponse, error) {
	return &pb.CapabilitiesResponse{ComputePlanVersion: "v2"}, nil
}

func (p *runner) RunJob(_ context.Context, s *pb.JobSpec) (*pb.JobHandle, error) {
	if s.GetKind() != "EPHEMERAL" || s.GetCron() != "" || s.GetAlerts() != nil || s.GetLogDestinations() != nil {
		return nil, status.Errorf(codes.InvalidArgument, "this is no job to run once: %v", s)
	}
	if name, ok := strings.CutPrefix(s.GetImage(), "code:"); ok {
		for c := codes.OK; c <= codes.Unauthenticated; c++ {
			if c.String() == name {
				return nil, status.Errorf(c, "as the image says")
			}
		}
	}
	if s.GetImage() == "plain" {
		return nil, errors.New("something went wrong on the way back")
	}
	j := &job{spec: s, done: make(chan struct{})}
	cmd := exec.Command("/bin/sh", "-c", s.GetRunCommand())
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	for k, v := range s.GetEnvVars() {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	for k, ref := range s.GetEnvVarsSecret() {
		cmd.Env = append(cmd.Env, k+"=value of "+ref)
	}
	cmd.Stdout, cmd.Stderr = &j.out, &j.errs
	if err := cmd.Start(); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	go func() {
		j.failed = cmd.Wait()
		close(j.done)
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	id := fmt.Sprintf("%s-%d", p.region, len(p.jobs)+1)
	p.jobs[id] = j
	return &pb.JobHandle{Id: id, Name: s.GetName(), Provider: "theirs", Metadata: map[string]string{"region": p.region}}, nil
}

func (p *runner) find(h *pb.JobHandle) (*job, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	j := p.jobs[h.GetId()]
	if j == nil || h.GetMetadata()["region"] != p.region || h.GetProvider() != "theirs" || h.GetName() != j.spec.GetName() {
		return nil, status.Errorf(codes.NotFound, "no job %v", h)
	}
	return j, nil
}

func (p *runner) JobStatus(_ context.Context, h *pb.JobHandle) (*pb.JobStatusReply, error) {
	j, err := p.find(h)
	if err != nil {
		return nil, err
	}
	out := &pb.JobStatusReply{Handle: h, State: pb.JobState_JOB_STATE_RUNNING}
	select {
	case <-j.done:
	default:
		return out, nil
	}
	exit := new(exec.ExitError)
	switch {
	case j.spec.GetImage() == "odd":
		out.State = pb.JobState_JOB_STATE_FAILED // and no code
	case j.failed == nil:
		out.State = pb.JobState_JOB_STATE_SUCCEEDED
	case errors.As(j.failed, &exit):
		out.State, out.ExitCode = pb.JobState_JOB_STATE_FAILED, int32(exit.ExitCode())
	default:
		out.State, out.Message = pb.JobState_JOB_STATE_FAILED, j.failed.Error()
	}
	return out, nil
}

// JobLogs holds until the job is over and sends each stream in one message, as plugins do.
func (p *runner) JobLogs(h *pb.JobHandle, s pb.IaCProviderRunner_JobLogsServer) error {
	j, err := p.find(h)
	if err != nil {
		return err
	}
	select {
	case <-j.done:
	case <-s.Context().Done():
		return s.Context().Err()
	}
	for _, c := range []*pb.LogChunk{{Data: j.out.Bytes(), Source: "stdout"}, {Data: j.errs.Bytes(), Source: "stderr"}, {Eof: true}} {
		if err := s.Send(c); err != nil {
			return err
		}
	}
	return nil
}
