package iac

import (
	"context"
	"strconv"
	"strings"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
)

// maxMessage bounds what a state says, in bytes.
const maxMessage = 4 << 10

// JobStatus implements sdk.JobRunner.
func (p *provider) JobStatus(ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	const op = "job status"
	if err := p.absent(sdk.Runner().String()); err != nil {
		return sdk.JobStatusResult{}, err
	}
	h, err := p.theirs(op, r.Handle)
	if err != nil {
		return sdk.JobStatusResult{}, err
	}
	m, err := call(ctx, op, "IaCProviderRunner.JobStatus", h, pb.NewIaCProviderRunnerClient(p.conn.grpc).JobStatus)
	if err != nil {
		return sdk.JobStatusResult{}, named(err, p.info.Name)
	}
	// A reply without a handle is of the job that was asked for; one with another's is of no use.
	if id := m.GetHandle().GetId(); id != "" && id != h.GetId() {
		return sdk.JobStatusResult{}, p.nonsense(op, "told the state of job %.80q when it was asked for %.80q", id, h.GetId())
	}
	out := judge(m.GetState(), m.GetExitCode())
	message := strings.ToValidUTF8(m.GetMessage()[:min(len(m.GetMessage()), maxMessage)], "")
	out.Message = strings.Join(strings.Fields(message), " ")
	out.Raw = map[string]string{"state": m.GetState().String()}
	if m.GetExitCode() != 0 || m.GetState() == pb.JobState_JOB_STATE_SUCCEEDED {
		out.Raw["exit_code"] = strconv.Itoa(int(m.GetExitCode()))
	}
	if message != "" {
		out.Raw["message"] = message
	}
	return out, nil
}

// judge says what a state and a code mean together. On the wire a code that isn't there
// is 0, so that 0 counts beside SUCCEEDED alone; what is below 0 is none; and before the
// end there is no code. A job that succeeded with another code than 0 didn't: the
// process's own word is the nearer one. A state that isn't known ends nothing.
func judge(state pb.JobState, code int32) sdk.JobStatusResult {
	var exit *int
	if code > 0 {
		n := int(code)
		exit = &n
	}
	switch state {
	case pb.JobState_JOB_STATE_PENDING:
		return sdk.JobStatusResult{State: sdk.StatePending}
	case pb.JobState_JOB_STATE_RUNNING:
		return sdk.JobStatusResult{State: sdk.StateRunning}
	case pb.JobState_JOB_STATE_CANCELLED:
		return sdk.JobStatusResult{State: sdk.StateCancelled, Reason: sdk.ReasonCancelled, ExitCode: exit}
	case pb.JobState_JOB_STATE_SUCCEEDED:
		switch {
		case code == 0:
			return sdk.JobStatusResult{State: sdk.StateSucceeded, Reason: sdk.ReasonCompleted, ExitCode: new(int)}
		case code < 0:
			return sdk.JobStatusResult{State: sdk.StateSucceeded, Reason: sdk.ReasonCompleted}
		}
		return sdk.JobStatusResult{State: sdk.StateFailed, Reason: sdk.ReasonNonzeroExit, ExitCode: exit}
	case pb.JobState_JOB_STATE_FAILED:
		if exit != nil {
			return sdk.JobStatusResult{State: sdk.StateFailed, Reason: sdk.ReasonNonzeroExit, ExitCode: exit}
		}
		return sdk.JobStatusResult{State: sdk.StateFailed, Reason: sdk.ReasonUnknown}
	}
	return sdk.JobStatusResult{State: sdk.StateUnknown, Reason: sdk.ReasonUnknown}
}
