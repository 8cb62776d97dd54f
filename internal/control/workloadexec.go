package control

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/windlass-run/windlass/internal/failpoint"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// ExecRequest asks for a command inside an instance.
type ExecRequest struct {
	ChangeRequest
	// Session is the command with its streams; its Op is filled in.
	Session sdk.ExecWorkloadRequest
	// Record keeps what the session writes as the log of its row, which Follow
	// reads. What is typed isn't kept, but for what a terminal echoes.
	Record bool
}

// Exec is the end of a command inside an instance.
type Exec struct {
	Target sdk.Target
	// Row is the ledger's; zero for a dry run.
	Row    ledger.Run
	Result sdk.ExecWorkloadResult
	// Verdict says how much of the session was kept; empty where nothing was to be.
	Verdict sdk.Verdict
}

// Exec runs a command inside an instance, and returns when its output has come to
// its end. Its row is written before it is sent, with the command; the end goes
// into it. An end without an exit code isn't a success: the row is lost. Sessions
// don't wait for each other, nor for changes.
func (w *WorkloadRuntime) Exec(ctx context.Context, r ExecRequest) (Exec, error) {
	out := Exec{Target: r.Target}
	if r.Actor == "" {
		return out, sdk.Errorf(sdk.InvalidArgument, actionExec, "the actor is empty")
	}
	if len(r.Session.Command) == 0 || r.Session.Command[0] == "" {
		return out, sdk.Errorf(sdk.InvalidArgument, actionExec, "there is no command")
	}
	if err := r.Target.Check(); err != nil {
		return out, err
	}
	back, err := w.backend(ctx, r.Target.Provider, sdk.WorkloadExecs().String())
	if err != nil {
		return out, err
	}
	execer, err := able(back, sdk.WorkloadExecs())
	if err != nil {
		return out, err
	}
	switch g := back.Info().Guarantees.Workload.Exec; {
	case r.Session.Terminal != nil && !g.Terminal:
		return out, execLacks(back.Name, "tty", "it can't give the command a terminal")
	case r.Session.Stdin != nil && r.Session.Terminal == nil && !g.Stdin:
		return out, execLacks(back.Name, "stdin", "it can't give the command any input without a terminal")
	}
	s := r.Session
	s.Op = sdk.OpRequest{OpID: w.e.o.IDs.NewID(), Path: r.Target.Path, Expect: r.Expect, DryRun: r.DryRun}
	// The session's time is the command's, so there is no time-out of ours.
	send := func() (sdk.ExecWorkloadResult, error) {
		return shielded(actionExec, func() (sdk.ExecWorkloadResult, error) { return execer.ExecWorkload(ctx, s) })
	}
	if r.DryRun {
		out.Result, err = send()
		return out, named(err, back.Name)
	}
	var c Change
	v := verb{action: actionExec, args: execArgs{s.Command, s.Instance, s.Container, s.Terminal != nil, r.Record}}
	if err := w.before(ctx, back, s.Op, v, &c); err != nil {
		return out, named(err, back.Name)
	}
	w.closeSessions(ctx, r.Target)
	act, err := w.begin(ctx, r.Actor, back, s.Op, v, c)
	if err != nil {
		return out, err
	}
	var kept *transcript
	if r.Record {
		if kept, err = w.transcript(ctx, act.id, &s); err != nil {
			err = &sdk.Error{Code: sdk.CodeOf(err), Op: actionExec, Err: fmt.Errorf("what the session writes can't be kept, so nothing was run: %w", err)}
			return out, errors.Join(err, act.record(ctx, ledger.KindFinished, execEnd(sdk.ExecWorkloadResult{}, sdk.Errorf(sdk.FailedPrecondition, actionExec, "%w", err), w.e.o.Redact)))
		}
	}
	failpoint.Hit("call.svc.exec.before")
	res, err := send()
	failpoint.Hit("call.svc.exec.after")
	res.Why = w.e.o.Redact(res.Why)
	out.Result = res
	end := execEnd(res, err, w.e.o.Redact)
	if kept != nil {
		out.Verdict = kept.end()
		end.Detail["transcript"] = string(out.Verdict)
	}
	recErr := act.record(ctx, ledger.KindFinished, end)
	if row, rowErr := w.e.o.Store.Run(context.WithoutCancel(ctx), act.id); rowErr == nil {
		out.Row = row
	}
	return out, errors.Join(named(err, back.Name), recErr)
}

// execLacks refuses what a provider can't do for a session.
func execLacks(provider, field, why string) error {
	return &sdk.Error{Code: sdk.Unimplemented, Op: actionExec, Provider: provider, Field: field, Err: errors.New(why), Remedy: "leave it out"}
}

// execArgs is the spec of a row of exec: the command is what an audit asks for, as
// a job's is.
type execArgs struct {
	Command   sdk.Argv `json:"command"`
	Instance  string   `json:"instance,omitzero"`
	Container string   `json:"container,omitzero"`
	Terminal  bool     `json:"terminal,omitzero"`
	Record    bool     `json:"record,omitzero"`
}

// execEnd is the outcome of a session.
func execEnd(res sdk.ExecWorkloadResult, err error, redact func(string) string) ledger.Change {
	ch := ledger.Change{V: ledger.ChangeVersion, Finished: true, Detail: map[string]string{"instance": res.Instance}}
	say := func(s string) *string { return text(redact(strings.ToValidUTF8(s, "?"))) }
	switch {
	case err != nil && sdk.IsClear(err):
		ch.State, ch.Reason, ch.Message = sdk.StateFailed, reason(changeReason(err)), say(err.Error())
	case err != nil:
		ch.State, ch.Reason, ch.Message = sdk.StateLost, reason(sdk.ReasonSubmitUnconfirmed), say(err.Error())
	case res.ExitCode == nil:
		ch.State, ch.Reason, ch.Message = sdk.StateLost, reason(sdk.ReasonLost), say(res.Why)
	case *res.ExitCode == 0:
		ch.State, ch.Reason, ch.ExitCode = sdk.StateSucceeded, reason(sdk.ReasonCompleted), res.ExitCode
	default:
		ch.State, ch.Reason, ch.ExitCode = sdk.StateFailed, reason(sdk.ReasonNonzeroExit), res.ExitCode
	}
	return ch
}
