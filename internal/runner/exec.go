package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/sandboxpb"
)

// profileHeader is a header of an answer, beside the protocol's messages: the profile
// that the job got, which may be stricter than the one that was asked for. Who
// doesn't know it misses nothing that the protocol has.
const profileHeader = "windlass-security-profile"

// opExec is the operation that errors of a call name; the client says it in its own way.
const opExec = "exec"

// secretPrefix begins a variable's value that is a reference.
const secretPrefix = "secret://"

var _ sandboxpb.SandboxExecServiceServer = (*Server)(nil)

// Exec runs one job for as long as its caller stays, and streams its output. The
// call's end, whatever ended it, is the job's; a call that the caller gave up
// returns when the job is proven to be gone.
func (s *Server) Exec(req *sandboxpb.SandboxExecRequest, stream grpc.ServerStreamingServer[sandboxpb.SandboxExecChunk]) error {
	return s.status(s.exec(stream.Context(), req, stream.Send), req)
}

func (s *Server) exec(ctx context.Context, req *sandboxpb.SandboxExecRequest, send func(*sandboxpb.SandboxExecChunk) error) error {
	acc, err := s.door.enter(ctx)
	if err != nil {
		s.o.Log.Warn("refused a caller", "err", err)
		return err
	}
	log := s.o.Log.With("client", acc.Name)
	spec, err := specOf(req, acc)
	if err != nil {
		log.Warn("refused a job", "err", err)
		return err
	}
	spec.StartTimeout = s.o.StartTimeout
	if deadline, ok := ctx.Deadline(); ok {
		spec.Timeout = timeoutOf(time.Until(deadline))
	}
	if !s.begin() {
		return stoppingError()
	}
	release, err := s.places.take(acc.Client)
	if err != nil {
		s.done()
		log.Warn("refused a job", "err", err)
		return err
	}
	defer release()
	j, err := s.submit(ctx, spec, acc.Name, log)
	if err != nil {
		s.done()
		return err
	}
	// A caller that has left by now is found by the first of its output.
	_ = grpc.SendHeader(ctx, metadata.Pairs(profileHeader, string(spec.Profile)))
	j.log.Info("job begins", "image", spec.Image, "asked", req.GetProfile(), "profile", spec.Profile)
	return j.see(ctx, send)
}

func (s *Server) submit(ctx context.Context, spec sdk.JobSpec, client string, log *slog.Logger) (*job, error) {
	// A caller that leaves now must not leave a row that nobody knows of: the
	// job is submitted, and then cancelled.
	sub, err := s.o.Engine.Submit(context.WithoutCancel(ctx), control.SubmitRequest{Provider: s.o.Provider, Spec: spec, Actor: client,
		IdempotencyKey: requestPrefix + s.o.IDs.NewID().String()})
	if err != nil {
		log.Warn("refused a job", "err", err)
		return nil, err
	}
	return &job{s: s, id: sub.Run.ID, actor: client, log: log.With("run", sub.Run.ID)}, nil
}

// specOf turns a request into the job that the client may run.
func specOf(req *sandboxpb.SandboxExecRequest, acc *account) (sdk.JobSpec, error) {
	spec := sdk.JobSpec{V: sdk.SpecVersion, Image: req.GetImage(), Workdir: req.GetWorkdir()}
	var err error
	if spec.Profile, err = clamp(req.GetProfile(), acc.Profile); err != nil {
		return spec, err
	}
	if len(req.GetCommand()) > 0 {
		spec.Args = req.GetCommand()
	}
	for name, value := range req.GetEnv() {
		if !strings.HasPrefix(value, secretPrefix) {
			if spec.Env == nil {
				spec.Env = sdk.Env{}
			}
			spec.Env[name] = value
			continue
		}
		if !acc.allow.allows(value) {
			return spec, &sdk.Error{Code: sdk.PermissionDenied, Op: opExec, Field: "env." + name, ID: ErrSecret,
				Err: fmt.Errorf("%s may not use %s", acc.Name, value)}
		}
		if spec.Secrets == nil {
			spec.Secrets = map[string]sdk.SecretRef{}
		}
		spec.Secrets[name] = sdk.SecretRef(value)
	}
	return spec, nil
}

// longest is how long a time-out can be that is worth setting.
const longest = 365 * 24 * time.Hour

// timeoutOf is the job's own time-out for a call that has so long left, in whole
// seconds and not before the call's end, which is what ends the job: this one ends it
// where the server has died.
func timeoutOf(left time.Duration) time.Duration {
	if left > longest { // also what gRPC makes of hours that don't fit a Duration
		return 0
	}
	return max(left.Truncate(time.Second)+time.Second, time.Second)
}

func stoppingError() error {
	return &sdk.Error{Code: sdk.Unavailable, Op: opExec, ID: ErrStopping, Err: errors.New("the runner is being stopped")}
}
