package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// remoteLook is the time between looks at a job without a row.
const remoteLook = 2 * time.Second

// RemoteView is a job as its provider knows it, without a row.
type RemoteView struct {
	Run       string            `json:"run" doc:"The run's ID."`
	Provider  string            `json:"provider" doc:"Where it was found."`
	Object    string            `json:"object" doc:"The provider's own ID of the job."`
	Attempt   int               `json:"attempt" doc:"Number of the attempt."`
	Owner     string            `json:"owner" doc:"Installation that made it."`
	State     sdk.JobState      `json:"state" doc:"State of the job."`
	Reason    sdk.Reason        `json:"reason,omitzero" doc:"Why it is in that state."`
	Why       string            `json:"why,omitzero" doc:"The reason in words."`
	ExitCode  *int              `json:"exit_code" doc:"Exit code; null when none is known."`
	Signal    string            `json:"signal,omitzero" doc:"Name of the signal that ended it."`
	Message   string            `json:"message,omitzero" doc:"One line for people."`
	Raw       map[string]string `json:"provider_says,omitzero" doc:"The provider's own words by field."`
	StartedAt *time.Time        `json:"started_at" doc:"When it began to run."`
	EndedAt   *time.Time        `json:"ended_at" doc:"When it ended."`
}

// remoteStatus shows a run that is found by its labels alone.
func remoteStatus(ctx context.Context, f *Factory, provider, ref string, asJSON bool) error {
	id, err := parseRunID(ref)
	if err != nil {
		return err
	}
	s, err := f.open(ctx)
	if err != nil {
		return err
	}
	job, err := s.Engine.Remote(ctx, provider, id)
	if err != nil {
		return &runError{id, err}
	}
	st := job.Status
	v := RemoteView{Run: id.String(), Provider: provider, Object: job.Found.Handle.ID, Attempt: job.Found.Attempt, Owner: job.Found.Owner,
		State: st.State, Reason: st.Reason, Why: whyWords(st.State, st.Reason), ExitCode: st.ExitCode, Signal: st.Signal, Message: st.Message,
		Raw: st.Raw, StartedAt: timeOrNil(st.StartedAt), EndedAt: timeOrNil(st.EndedAt)}
	if asJSON {
		return writeJSON(f.Streams.Out, v)
	}
	t := &fields{s: f.Streams}
	t.add("Run", v.Run)
	state := string(v.State)
	if v.Reason != "" {
		state += " (" + string(v.Reason) + ")"
	}
	t.styled("State", state, stateStyle(v.State))
	t.add("Why", v.Why)
	t.add("Message", v.Message)
	if v.ExitCode != nil {
		t.add("Exit code", strconv.Itoa(*v.ExitCode))
	}
	t.add("Signal", v.Signal)
	t.add("Provider", provider+" ("+job.Found.Handle.Identity.String()+"), "+v.Object)
	t.add("Attempt", strconv.Itoa(v.Attempt))
	t.add("Owner", v.Owner)
	if v.StartedAt != nil {
		t.add("Started", stamp(*v.StartedAt))
	}
	if v.EndedAt != nil {
		t.add("Ended", stamp(*v.EndedAt))
	}
	for _, k := range sortedKeys(v.Raw) {
		t.add("Provider: "+k, v.Raw[k])
	}
	t.add("Record", "this is what the provider says; the ledger here was not asked")
	t.add("Next", "windlass logs --on "+provider+" "+v.Run)
	t.add("", "windlass adopt --on "+provider+" "+v.Run)
	return t.print()
}
