package plugin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

const (
	// handleKey is the member of JobHandle.metadata with our handle, which the host sends
	// back as it came.
	handleKey = "windlass.handle"
	// settleTime bounds the search for a job whose reply was lost, settlePause is between
	// two looks.
	settleTime, settlePause = 20 * time.Second, time.Second
	// cancelTime bounds a cancel for a caller who has left.
	cancelTime = 10 * time.Second
)

// iacRunner serves IaCProviderRunner; iaclogs.go has JobLogs.
type iacRunner struct {
	iacpb.UnimplementedIaCProviderRunnerServer
	p *iacProvider
}

var _ iacpb.IaCProviderRunnerServer = (*iacRunner)(nil)

// iacCanceler serves IaCProviderJobCanceler.
type iacCanceler struct {
	iacpb.UnimplementedIaCProviderJobCancelerServer
	p *iacProvider
}

var _ iacpb.IaCProviderJobCancelerServer = (*iacCanceler)(nil)

// RunJob starts one job. That wire has no key, so a job that perhaps runs is looked for
// here: what can't be cleared up is Unknown, which no host takes for transient. A job
// whose caller has left is cancelled, since nobody gets its handle.
func (r *iacRunner) RunJob(ctx context.Context, m *iacpb.JobSpec) (*iacpb.JobHandle, error) {
	h, err := r.run(ctx, m)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	out, err := encodeHandle(h)
	return out, wire.Status(ctx, err)
}

func (r *iacRunner) run(ctx context.Context, m *iacpb.JobSpec) (sdk.JobHandle, error) {
	jobs, provider, err := opened(r.p, sdk.Runner())
	if err != nil {
		return sdk.JobHandle{}, err
	}
	g := provider.Info().Guarantees
	spec, err := jobSpec(m, g)
	if err != nil {
		return sdk.JobHandle{}, err
	}
	ask := sdk.PrepareJobRequest{Spec: spec, RunID: r.p.ids.NewID(), AttemptID: r.p.ids.NewID(), Attempt: 1, Expires: r.p.s.clock.Now().Add(iacExpiry)}
	if g.Ambient {
		dir, err := os.Getwd()
		if err != nil {
			return sdk.JobHandle{}, &sdk.Error{Code: sdk.Internal, Op: "run job", Err: err}
		}
		ask.Ambient = &sdk.Ambient{Dir: dir}
	}
	launch, err := jobs.PrepareJob(ctx, ask)
	if err != nil {
		return sdk.JobHandle{}, err
	}
	if ps := launch.Problems; len(ps) > 0 {
		// Never Unimplemented: a host reads that as a service that isn't there.
		told := make(sdk.Problems, len(ps))
		for i, p := range ps {
			p.Field = publishedField(p.Field)
			told[i] = p
		}
		return sdk.JobHandle{}, &sdk.Error{Code: sdk.InvalidArgument, Op: "run job", Field: told[0].Field, Err: told}
	}
	sent := r.p.s.clock.Now()
	res, err := jobs.RunJob(ctx, sdk.RunJobRequest{Launch: launch, Ambient: ask.Ambient})
	h := res.Handle
	if err != nil {
		if sdk.IsClear(err) {
			return sdk.JobHandle{}, err
		}
		if h, err = r.settle(ctx, provider, launch, sent, err); err != nil {
			return sdk.JobHandle{}, err
		}
	}
	if ctx.Err() != nil {
		return sdk.JobHandle{}, errors.Join(&sdk.Error{Code: sdk.CodeOf(ctx.Err()), Op: "run job", Err: context.Cause(ctx)}, r.abandon(ctx, provider, h))
	}
	return h, nil
}

// settle looks for the job of a launch whose RunJob failed with unclear. It returns its
// handle, or unclear where the job is proven absent, or Unknown.
func (r *iacRunner) settle(ctx context.Context, provider sdk.Provider, launch sdk.Launch, sent time.Time, unclear error) (sdk.JobHandle, error) {
	lost := func(why error) (sdk.JobHandle, error) {
		return sdk.JobHandle{}, &sdk.Error{Code: sdk.Unknown, Op: "run job", Provider: provider.Info().Name, Reason: sdk.ReasonSubmitUnconfirmed,
			Remedy: "look for attempt " + launch.AttemptID.String() + " on the backend before it is run again",
			Err:    fmt.Errorf("the job may run, its start is not confirmed: %w", errors.Join(unclear, why))}
	}
	find, ok := sdk.Of(provider, sdk.Finder())
	if !ok {
		return lost(nil)
	}
	ctx, cancel := r.p.until(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	for {
		found, err := find.FindJobs(ctx, sdk.FindJobsRequest{Launch: &launch, SentAt: sent})
		switch {
		case err != nil && !sdk.IsRetryable(err):
			return lost(err)
		case err == nil && found.Outcome == sdk.FindFound && len(found.Jobs) > 0:
			return found.Jobs[0].Handle, nil
		case err == nil && found.Outcome == sdk.FindAbsent:
			return sdk.JobHandle{}, unclear
		case err == nil && found.VisibleAt.IsZero():
			return lost(nil)
		}
		if r.p.s.clock.Sleep(ctx, settlePause) != nil {
			return lost(err)
		}
	}
}

// abandon cancels a job whose caller has left.
func (r *iacRunner) abandon(ctx context.Context, provider sdk.Provider, h sdk.JobHandle) error {
	c, ok := sdk.Of(provider, sdk.Canceler())
	if !ok {
		return fmt.Errorf("job %s goes on: the provider can't cancel", h.ID)
	}
	ctx, cancel := r.p.until(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	_, err := c.CancelJob(ctx, sdk.CancelJobRequest{Handle: h, Why: "its caller has left"})
	return err
}

func (r *iacRunner) JobStatus(ctx context.Context, m *iacpb.JobHandle) (*iacpb.JobStatusReply, error) {
	out, err := r.status(ctx, m)
	return out, wire.Status(ctx, err)
}

func (r *iacRunner) status(ctx context.Context, m *iacpb.JobHandle) (*iacpb.JobStatusReply, error) {
	jobs, _, err := opened(r.p, sdk.Runner())
	if err != nil {
		return nil, err
	}
	h, err := decodeHandle(m)
	if err != nil {
		return nil, err
	}
	res, err := jobs.JobStatus(ctx, sdk.JobStatusRequest{Handle: h})
	if err != nil {
		return nil, err
	}
	if res.Handle != nil {
		if m, err = encodeHandle(*res.Handle); err != nil {
			return nil, err
		}
	}
	return statusReply(m, res)
}

func (c *iacCanceler) CancelJob(ctx context.Context, m *iacpb.JobHandle) (*emptypb.Empty, error) {
	jobs, _, err := opened(c.p, sdk.Canceler())
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	h, err := decodeHandle(m)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	res, err := jobs.CancelJob(ctx, sdk.CancelJobRequest{Handle: h, Why: "cancelled by the host"})
	if err == nil && !res.Accepted && !res.Gone {
		err = sdk.Errorf(sdk.Aborted, "cancel job", "the backend didn't take it: %s", res.Evidence)
	}
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	return &emptypb.Empty{}, nil
}

// encodeHandle returns a handle as that wire has it.
func encodeHandle(h sdk.JobHandle) (*iacpb.JobHandle, error) {
	b, err := h.Encode()
	if err != nil {
		return nil, &sdk.Error{Code: sdk.Internal, Op: "encode handle", Err: err}
	}
	return &iacpb.JobHandle{Id: h.ID, Name: h.Name, Provider: h.Kind, Metadata: map[string]string{handleKey: string(b)}}, nil
}

// decodeHandle reads what encodeHandle wrote.
func decodeHandle(m *iacpb.JobHandle) (sdk.JobHandle, error) {
	text, ok := m.GetMetadata()[handleKey]
	if !ok {
		return sdk.JobHandle{}, &sdk.Error{Code: sdk.InvalidArgument, Op: "read handle", Field: "metadata", Remedy: "send the handle as RunJob gave it",
			Err: fmt.Errorf("has no %s", handleKey)}
	}
	h, err := sdk.DecodeHandle([]byte(text))
	if err != nil {
		return sdk.JobHandle{}, err
	}
	if h.ID != m.GetId() {
		return sdk.JobHandle{}, &sdk.Error{Code: sdk.InvalidArgument, Op: "read handle", Field: "id", Remedy: "send the handle as RunJob gave it",
			Err: errors.New("isn't that of its metadata")}
	}
	return h, nil
}

// noExitCode stands where that wire can't leave an exit code out, beside an end that is
// no success.
const noExitCode = -1

func statusReply(h *iacpb.JobHandle, r sdk.JobStatusResult) (*iacpb.JobStatusReply, error) {
	m := &iacpb.JobStatusReply{Handle: h, Message: r.Message}
	switch r.State {
	case sdk.StatePending:
		m.State = iacpb.JobState_JOB_STATE_PENDING
	case sdk.StateRunning:
		m.State = iacpb.JobState_JOB_STATE_RUNNING
	case sdk.StateSucceeded:
		m.State = iacpb.JobState_JOB_STATE_SUCCEEDED
	case sdk.StateFailed, sdk.StateLost:
		m.State = iacpb.JobState_JOB_STATE_FAILED
	case sdk.StateCancelled:
		m.State = iacpb.JobState_JOB_STATE_CANCELLED
	default:
		m.State = iacpb.JobState_JOB_STATE_UNSPECIFIED
	}
	switch {
	case r.ExitCode != nil && (*r.ExitCode > math.MaxInt32 || *r.ExitCode < math.MinInt32):
		return nil, sdk.Errorf(sdk.Internal, "encode status", "exit code %d is too large for this wire", *r.ExitCode)
	case r.ExitCode != nil:
		m.ExitCode = int32(*r.ExitCode)
	case r.State.Terminal() && r.State != sdk.StateSucceeded:
		m.ExitCode = noExitCode
	}
	reason := string(r.Reason)
	if r.State == sdk.StateLost && r.Reason != sdk.ReasonLost {
		reason = "lost: " + reason
	}
	switch {
	case r.State == sdk.StateLost && m.Message == "":
		m.Message = reason + ": the backend no longer knows the job, and its end was not seen"
	case m.Message == "":
		m.Message = reason
	case reason != "":
		m.Message = reason + ": " + m.Message
	}
	return m, nil
}
