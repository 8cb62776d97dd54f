package wire

import (
	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
)

func ambient(a *sdk.Ambient) *pb.Ambient {
	if a == nil {
		return nil
	}
	return &pb.Ambient{Dir: a.Dir, Env: a.Env}
}

func unambient(m *pb.Ambient) *sdk.Ambient {
	if m == nil {
		return nil
	}
	return &sdk.Ambient{Dir: m.GetDir(), Env: each(m.GetEnv(), same)}
}

// EncodePrepareJobRequest returns r as a message.
func EncodePrepareJobRequest(r sdk.PrepareJobRequest) (*pb.PrepareJobRequest, error) {
	c := request("encode PrepareJob")
	return encoded(c, &pb.PrepareJobRequest{Spec: c.spec(r.Spec), RunId: idBytes(r.RunID), AttemptId: idBytes(r.AttemptID),
		Attempt: c.int32("attempt", r.Attempt), Expires: c.stamp("expires", r.Expires), Ambient: ambient(r.Ambient)})
}

// DecodePrepareJobRequest reads what EncodePrepareJobRequest wrote.
func DecodePrepareJobRequest(m *pb.PrepareJobRequest) (sdk.PrepareJobRequest, error) {
	c := request("decode PrepareJob")
	c.known("", m)
	return decoded(c, sdk.PrepareJobRequest{Spec: c.unspec(m.GetSpec()), RunID: c.id("run_id", m.GetRunId()), AttemptID: c.id("attempt_id", m.GetAttemptId()),
		Attempt: c.count("attempt", m.GetAttempt()), Expires: c.time("expires", m.GetExpires()), Ambient: unambient(m.GetAmbient())})
}

// EncodePrepareJobResponse returns a launch as a message.
func EncodePrepareJobResponse(l sdk.Launch) (*pb.PrepareJobResponse, error) {
	c := reply("encode PrepareJob's launch")
	return encoded(c, &pb.PrepareJobResponse{Launch: c.launch(l)})
}

// DecodePrepareJobResponse reads what EncodePrepareJobResponse wrote.
func DecodePrepareJobResponse(m *pb.PrepareJobResponse) (sdk.Launch, error) {
	c := reply("decode PrepareJob's launch")
	return decoded(c, c.unlaunch(m.GetLaunch()))
}

// EncodeRunJobRequest returns r as the first message of RunJob; Stdin and Progress
// are wanted where they are set, and travel in the stream.
func EncodeRunJobRequest(r sdk.RunJobRequest) (*pb.RunJobRequest, error) {
	c := request("encode RunJob")
	return encoded(c, &pb.RunJobRequest{Part: &pb.RunJobRequest_Start{Start: &pb.RunJobStart{
		Launch: c.launch(r.Launch), Ambient: ambient(r.Ambient), Stdin: r.Stdin != nil, Progress: r.Progress != nil}}})
}

// DecodeRunJobRequest reads what EncodeRunJobRequest wrote, without Stdin and
// Progress, and says which of them are wanted.
func DecodeRunJobRequest(m *pb.RunJobRequest) (r sdk.RunJobRequest, stdin, progress bool, err error) {
	c := request("decode RunJob")
	c.known("", m)
	start := m.GetStart()
	if c.given("start", start) {
		r = sdk.RunJobRequest{Launch: c.unlaunch(start.GetLaunch()), Ambient: unambient(start.GetAmbient())}
	}
	if c.err != nil {
		return sdk.RunJobRequest{}, false, false, c.err
	}
	return r, start.GetStdin(), start.GetProgress(), nil
}

// EncodeRunJobResult returns r as a reply of RunJob.
func EncodeRunJobResult(r sdk.RunJobResult) (*pb.RunJobResponse, error) {
	c := reply("encode RunJob's result")
	return encoded(c, &pb.RunJobResponse{Part: &pb.RunJobResponse_Result{Result: &pb.RunJobResult{Handle: c.handle(r.Handle), Adopted: r.Adopted}}})
}

// EncodeProgress returns a line as a reply of RunJob.
func EncodeProgress(line string) *pb.RunJobResponse {
	return &pb.RunJobResponse{Part: &pb.RunJobResponse_Progress{Progress: clip(line, maxText)}}
}

// DecodeRunJobResult reads what EncodeRunJobResult wrote. A reply without a handle is
// Internal: it proves nothing.
func DecodeRunJobResult(m *pb.RunJobResponse) (sdk.RunJobResult, error) {
	c := reply("decode RunJob's result")
	res := m.GetResult()
	return decoded(c, sdk.RunJobResult{Handle: c.unhandle(res.GetHandle()), Adopted: res.GetAdopted()})
}

// EncodeJobStatusRequest returns r as a message.
func EncodeJobStatusRequest(r sdk.JobStatusRequest) (*pb.JobStatusRequest, error) {
	c := request("encode JobStatus")
	return encoded(c, &pb.JobStatusRequest{Handle: c.handle(r.Handle)})
}

// DecodeJobStatusRequest reads what EncodeJobStatusRequest wrote.
func DecodeJobStatusRequest(m *pb.JobStatusRequest) (sdk.JobStatusRequest, error) {
	c := request("decode JobStatus")
	c.known("", m)
	return decoded(c, sdk.JobStatusRequest{Handle: c.unhandle(m.GetHandle())})
}

// EncodeJobStatusResponse returns r as a message.
func EncodeJobStatusResponse(r sdk.JobStatusResult) (*pb.JobStatusResponse, error) {
	c := reply("encode JobStatus's result")
	return encoded(c, c.status(r))
}

func (c *coder) status(r sdk.JobStatusResult) *pb.JobStatusResponse {
	m := &pb.JobStatusResponse{
		State: string(r.State), Reason: string(r.Reason), Signal: plain(r.Signal), OomObserved: r.OOMObserved,
		Launches:  c.int32("launches", r.Launches),
		CreatedAt: c.stamp("created_at", r.CreatedAt), StartedAt: c.stamp("started_at", r.StartedAt), EndedAt: c.stamp("ended_at", r.EndedAt),
		Message: clip(r.Message, MaxWord), Raw: clipMap(r.Raw, MaxWord),
	}
	if r.Handle != nil {
		m.Handle = c.handle(*r.Handle)
	}
	if r.ExitCode != nil {
		n := int64(*r.ExitCode)
		m.ExitCode = &n
	}
	return m
}

// Members of JobStatusResult.Raw that hold a plugin's word for a state or reason that
// the contract doesn't have.
const (
	RawState  = "plugin_state"
	RawReason = "plugin_reason"
)

// DecodeJobStatusResponse reads what EncodeJobStatusResponse wrote. A state that the
// contract doesn't have is StateUnknown, a reason ReasonUnknown; the plugin's words
// stand in Raw.
func DecodeJobStatusResponse(m *pb.JobStatusResponse) (sdk.JobStatusResult, error) {
	c := reply("decode JobStatus's result")
	c.given("result", m)
	return decoded(c, c.unstatus(m))
}

func (c *coder) unstatus(m *pb.JobStatusResponse) sdk.JobStatusResult {
	r := sdk.JobStatusResult{
		State: sdk.JobState(m.GetState()), Reason: reason(m.GetReason()), Signal: m.GetSignal(), OOMObserved: m.GetOomObserved(),
		Launches:  c.count("launches", m.GetLaunches()),
		CreatedAt: c.time("created_at", m.GetCreatedAt()), StartedAt: c.time("started_at", m.GetStartedAt()), EndedAt: c.time("ended_at", m.GetEndedAt()),
		Message: m.GetMessage(), Raw: mapOf(m.GetRaw(), same),
	}
	if m.GetHandle() != nil {
		h := c.unhandle(m.GetHandle())
		r.Handle = &h
	}
	if m != nil && m.ExitCode != nil {
		n := int(m.GetExitCode())
		if int64(n) != m.GetExitCode() {
			c.fail("exit_code", "%d is no exit code", m.GetExitCode())
		}
		r.ExitCode = &n
	}
	note := func(key, word string) {
		if r.Raw == nil {
			r.Raw = map[string]string{}
		}
		r.Raw[key] = word
	}
	if string(r.Reason) != m.GetReason() {
		note(RawReason, m.GetReason())
	}
	if !r.State.Valid() {
		note(RawState, m.GetState())
		if r.Reason != sdk.ReasonUnknown {
			note(RawReason, m.GetReason())
		}
		r.State, r.Reason = sdk.StateUnknown, sdk.ReasonUnknown
	}
	return r
}

func reason(s string) sdk.Reason {
	r := sdk.Reason(s)
	if _, ok := r.Rule(); ok || s == "" {
		return r
	}
	return sdk.ReasonUnknown
}

// EncodeFindJobsRequest returns r as a message.
func EncodeFindJobsRequest(r sdk.FindJobsRequest) (*pb.FindJobsRequest, error) {
	c := request("encode FindJobs")
	m := &pb.FindJobsRequest{SentAt: c.stamp("sent_at", r.SentAt), RunId: idBytes(r.RunID), Owner: r.Owner}
	if r.Launch != nil {
		m.Launch = c.launch(*r.Launch)
	}
	return encoded(c, m)
}

// DecodeFindJobsRequest reads what EncodeFindJobsRequest wrote.
func DecodeFindJobsRequest(m *pb.FindJobsRequest) (sdk.FindJobsRequest, error) {
	c := request("decode FindJobs")
	c.known("", m)
	r := sdk.FindJobsRequest{SentAt: c.time("sent_at", m.GetSentAt()), RunID: c.id("run_id", m.GetRunId()), Owner: m.GetOwner()}
	if m.GetLaunch() != nil {
		l := c.unlaunch(m.GetLaunch())
		r.Launch = &l
	}
	return decoded(c, r)
}

// EncodeFindJobsResponse returns r as a message.
func EncodeFindJobsResponse(r sdk.FindJobsResult) (*pb.FindJobsResponse, error) {
	c := reply("encode FindJobs's result")
	return encoded(c, &pb.FindJobsResponse{Outcome: string(r.Outcome), VisibleAt: c.stamp("visible_at", r.VisibleAt),
		Jobs: each(r.Jobs, func(j sdk.FoundJob) *pb.FoundJob {
			return &pb.FoundJob{Handle: c.handle(j.Handle), RunId: idBytes(j.RunID), AttemptId: idBytes(j.AttemptID),
				Attempt: c.int32("jobs.attempt", j.Attempt), Owner: j.Owner, LedgerId: j.LedgerID}
		})})
}

// DecodeFindJobsResponse reads what EncodeFindJobsResponse wrote. An outcome that the
// contract doesn't have proves nothing, now or later.
func DecodeFindJobsResponse(m *pb.FindJobsResponse) (sdk.FindJobsResult, error) {
	c := reply("decode FindJobs's result")
	c.given("result", m)
	r := sdk.FindJobsResult{VisibleAt: c.time("visible_at", m.GetVisibleAt()),
		Outcome: word(m.GetOutcome(), "", sdk.FindFound, sdk.FindAbsent, sdk.FindNotVisible),
		Jobs: each(m.GetJobs(), func(j *pb.FoundJob) sdk.FoundJob {
			return sdk.FoundJob{Handle: c.unhandle(j.GetHandle()), RunID: c.id("jobs.run_id", j.GetRunId()), AttemptID: c.id("jobs.attempt_id", j.GetAttemptId()),
				Attempt: c.count("jobs.attempt", j.GetAttempt()), Owner: j.GetOwner(), LedgerID: j.GetLedgerId()}
		})}
	if r.Outcome == "" {
		r = sdk.FindJobsResult{Outcome: sdk.FindNotVisible}
	}
	return decoded(c, r)
}

// EncodeCancelJobRequest returns r as a message.
func EncodeCancelJobRequest(r sdk.CancelJobRequest) (*pb.CancelJobRequest, error) {
	c := request("encode CancelJob")
	return encoded(c, &pb.CancelJobRequest{Handle: c.handle(r.Handle), Grace: spanPtr(r.Grace), Why: plain(r.Why)})
}

// DecodeCancelJobRequest reads what EncodeCancelJobRequest wrote.
func DecodeCancelJobRequest(m *pb.CancelJobRequest) (sdk.CancelJobRequest, error) {
	c := request("decode CancelJob")
	c.known("", m)
	return decoded(c, sdk.CancelJobRequest{Handle: c.unhandle(m.GetHandle()), Grace: c.durationPtr("grace", m.GetGrace()), Why: m.GetWhy()})
}

// EncodeCancelJobResponse returns r as a message.
func EncodeCancelJobResponse(r sdk.CancelJobResult) (*pb.CancelJobResponse, error) {
	return encoded(reply("encode CancelJob's result"), &pb.CancelJobResponse{Accepted: r.Accepted, Gone: r.Gone, Evidence: plain(r.Evidence)})
}

// DecodeCancelJobResponse reads what EncodeCancelJobResponse wrote.
func DecodeCancelJobResponse(m *pb.CancelJobResponse) (sdk.CancelJobResult, error) {
	c := reply("decode CancelJob's result")
	c.given("result", m)
	return decoded(c, sdk.CancelJobResult{Accepted: m.GetAccepted(), Gone: m.GetGone(), Evidence: m.GetEvidence()})
}

// EncodeCleanupJobRequest returns r as a message.
func EncodeCleanupJobRequest(r sdk.CleanupJobRequest) (*pb.CleanupJobRequest, error) {
	c := request("encode CleanupJob")
	return encoded(c, &pb.CleanupJobRequest{Handle: c.handle(r.Handle)})
}

// DecodeCleanupJobRequest reads what EncodeCleanupJobRequest wrote.
func DecodeCleanupJobRequest(m *pb.CleanupJobRequest) (sdk.CleanupJobRequest, error) {
	c := request("decode CleanupJob")
	c.known("", m)
	return decoded(c, sdk.CleanupJobRequest{Handle: c.unhandle(m.GetHandle())})
}

// EncodeCleanupJobResponse returns r as a message.
func EncodeCleanupJobResponse(r sdk.CleanupJobResult) (*pb.CleanupJobResponse, error) {
	return encoded(reply("encode CleanupJob's result"), &pb.CleanupJobResponse{Removed: plains(r.Removed)})
}

// DecodeCleanupJobResponse reads what EncodeCleanupJobResponse wrote.
func DecodeCleanupJobResponse(m *pb.CleanupJobResponse) (sdk.CleanupJobResult, error) {
	c := reply("decode CleanupJob's result")
	c.given("result", m)
	return decoded(c, sdk.CleanupJobResult{Removed: each(m.GetRemoved(), same)})
}

// EncodeJobStatusesRequest returns r as a message.
func EncodeJobStatusesRequest(r sdk.JobStatusesRequest) (*pb.JobStatusesRequest, error) {
	c := request("encode JobStatuses")
	return encoded(c, &pb.JobStatusesRequest{Handles: each(r.Handles, c.handle)})
}

// DecodeJobStatusesRequest reads what EncodeJobStatusesRequest wrote.
func DecodeJobStatusesRequest(m *pb.JobStatusesRequest) (sdk.JobStatusesRequest, error) {
	c := request("decode JobStatuses")
	c.known("", m)
	return decoded(c, sdk.JobStatusesRequest{Handles: each(m.GetHandles(), c.unhandle)})
}

// EncodeJobStatusesResponse returns r as a message. A state that can't be carried is
// the error of its item.
func EncodeJobStatusesResponse(r sdk.JobStatusesResult) *pb.JobStatusesResponse {
	return &pb.JobStatusesResponse{Items: each(r.Items, func(i sdk.JobStatusItem) *pb.JobStatusItem {
		if i.Err != nil {
			return &pb.JobStatusItem{Error: EncodeError(i.Err)}
		}
		res, err := EncodeJobStatusResponse(i.Result)
		return &pb.JobStatusItem{Result: res, Error: EncodeError(err)}
	})}
}

// DecodeJobStatusesResponse reads what EncodeJobStatusesResponse wrote, for a call that
// asked for so many handles; another number of items is Internal. A state that can't
// be read is the error of its item.
func DecodeJobStatusesResponse(m *pb.JobStatusesResponse, asked int) (sdk.JobStatusesResult, error) {
	c := reply("decode JobStatuses's result")
	if n := len(m.GetItems()); n != asked {
		c.fail("items", "there are %d for %d handles", n, asked)
	}
	return decoded(c, sdk.JobStatusesResult{Items: each(m.GetItems(), func(i *pb.JobStatusItem) sdk.JobStatusItem {
		if i.GetError() != nil {
			return sdk.JobStatusItem{Err: DecodeError(i.GetError())}
		}
		res, err := DecodeJobStatusResponse(i.GetResult())
		return sdk.JobStatusItem{Result: res, Err: err}
	})})
}

// EncodeWatchJobsRequest returns r as a message.
func EncodeWatchJobsRequest(r sdk.WatchJobsRequest) (*pb.WatchJobsRequest, error) {
	return encoded(request("encode WatchJobs"), &pb.WatchJobsRequest{Owner: r.Owner, Resume: r.Resume})
}

// DecodeWatchJobsRequest reads what EncodeWatchJobsRequest wrote.
func DecodeWatchJobsRequest(m *pb.WatchJobsRequest) (sdk.WatchJobsRequest, error) {
	c := request("decode WatchJobs")
	c.known("", m)
	return decoded(c, sdk.WatchJobsRequest{Owner: m.GetOwner(), Resume: m.GetResume()})
}

// EncodeWatchJobsResponse returns an event as a message.
func EncodeWatchJobsResponse(e sdk.WatchEvent) (*pb.WatchJobsResponse, error) {
	return encoded(reply("encode WatchJobs's event"), &pb.WatchJobsResponse{AttemptId: idBytes(e.AttemptID), Resume: e.Resume})
}

// DecodeWatchJobsResponse reads what EncodeWatchJobsResponse wrote.
func DecodeWatchJobsResponse(m *pb.WatchJobsResponse) (sdk.WatchEvent, error) {
	c := reply("decode WatchJobs's event")
	return decoded(c, sdk.WatchEvent{AttemptID: c.id("attempt_id", m.GetAttemptId()), Resume: m.GetResume()})
}
