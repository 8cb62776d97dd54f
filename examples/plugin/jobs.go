//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// A job's folder bears the attempt's ID. It holds the launch; output; work, where the job
// runs; lock, which its shell holds while it lives; cancelled, once asked for; and ended,
// the exit code and a newline. A job's processes have its ID in the variable mark.
const script, mark, pause = `"$@" 3>&-; echo $? >"$0/ended"`, "FOLDER_JOB", 20 * time.Millisecond

// request is what a launch sends.
type request struct {
	Command sdk.Argv `json:"command"`
	Env     sdk.Env  `json:"env"`
	Dir     string   `json:"dir"`
}

// PrepareJob changes nothing, and tells all problems at once.
func (p *provider) PrepareJob(_ context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	ps := slices.Concat(sdk.ValidateSpec(r.Spec), sdk.Refused(r.Spec, support()), driver().Options.Validate("options", r.Spec.Options))
	q := request{append(append(sdk.Argv{}, r.Spec.Entrypoint...), r.Spec.Args...), sdk.Env{"PATH": "/usr/local/bin:/usr/bin:/bin"}, r.Spec.Workdir}
	maps.Copy(q.Env, r.Spec.Env)
	q.Env[mark] = r.AttemptID.String()
	if len(q.Command) == 0 || strings.Contains(q.Command[0], "=") { // env would take it for a variable
		ps = append(ps, sdk.Problem{Field: "args", Message: "the command is missing, or has = in its name", Code: sdk.InvalidArgument})
	}
	raw, err := json.Marshal(q)
	return sdk.Launch{V: sdk.LaunchVersion, Kind: kind, Identity: p.self, RunID: r.RunID, AttemptID: r.AttemptID, Attempt: r.Attempt, Owner: p.opened.Owner, LedgerID: p.opened.LedgerID,
		Names: map[string]string{"job": r.AttemptID.String()}, Request: raw, Stdin: r.Spec.Stdin, Resubmit: sdk.ResubmitRule{By: sdk.SubmitByName}, Problems: ps, Expires: r.Expires}, err
}

// RunJob makes the folder whole and locked, and then moves it to its place, which works
// once: who comes second adopts the job. Its shell inherits the lock.
func (p *provider) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	raw, err := r.Launch.Encode()
	if err := errors.Join(ctx.Err(), err, r.Launch.Check("run job", p.self)); err != nil {
		return sdk.RunJobResult{}, err
	}
	id := r.Launch.AttemptID.String()
	adopted, err := p.start(filepath.Join(p.self.Endpoint, id), raw, r.Launch.Request)
	if err != nil { // nothing was started
		return sdk.RunJobResult{}, sdk.Errorf(sdk.FailedPrecondition, "run job", "%w", err)
	}
	return sdk.RunJobResult{Handle: sdk.JobHandle{V: sdk.HandleVersion, Kind: kind, Identity: p.self, ID: id}, Adopted: adopted}, nil
}

func (p *provider) start(dir string, launch, raw []byte) (adopted bool, err error) {
	stage, err := os.MkdirTemp(p.self.Endpoint, ".new-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(stage) }() // it has moved, or isn't needed
	var q request
	lock, err1 := os.Create(filepath.Join(stage, "lock"))
	out, err2 := os.OpenFile(filepath.Join(stage, "output"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	defer func() { _, _ = lock.Close(), out.Close() }() // the job has them
	if err := errors.Join(err1, err2, json.Unmarshal(raw, &q), os.Mkdir(filepath.Join(stage, "work"), 0o700), os.WriteFile(filepath.Join(stage, "launch"), launch, 0o600), syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)); err != nil {
		return false, err
	}
	if err := os.Rename(stage, dir); err != nil {
		return errors.Is(err, fs.ErrExist), ignore(err, fs.ErrExist)
	}
	argv := []string{"-c", script, dir, "env", "--"} // a shell would drop some variables
	for k, v := range q.Env {
		argv = append(argv, k+"="+v)
	}
	cmd := exec.CommandContext(context.Background(), "/bin/sh", append(argv, q.Command...)...) // outlives the plugin
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = []string{mark + "=" + q.Env[mark], "PATH=" + q.Env["PATH"]}, cmp.Or(q.Dir, filepath.Join(dir, "work")), out, out
	cmd.ExtraFiles, cmd.SysProcAttr = []*os.File{lock}, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return false, errors.Join(err, os.RemoveAll(dir))
	}
	go func() { _ = cmd.Wait() }() // so that no zombie stays
	return false, nil
}

func ignore(err, harmless error) error {
	if errors.Is(err, harmless) {
		return nil
	}
	return err
}

// at returns the folder of a job, and whether it lives; none is NotFound.
func (p *provider) at(ctx context.Context, op string, h sdk.JobHandle) (dir string, alive bool, err error) {
	id, err := sdk.ParseID(h.ID)
	if err := errors.Join(ctx.Err(), err, h.Check(op, p.self)); err != nil {
		return "", false, err
	}
	dir = filepath.Join(p.self.Endpoint, id.String())
	lock, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		return dir, false, sdk.Errorf(sdk.NotFound, op, "%w", err)
	}
	defer func() { _ = lock.Close() }()
	return dir, syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil, nil
}

// JobStatus invents nothing: a job that is gone without a last word is lost.
func (p *provider) JobStatus(ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	dir, alive, err := p.at(ctx, "job status", r.Handle)
	if err != nil {
		return sdk.JobStatusResult{}, err
	}
	word, _ := os.ReadFile(filepath.Join(dir, "ended")) // none is no word
	code, err := strconv.Atoi(strings.TrimSuffix(string(word), "\n"))
	_, cancelled := os.Stat(filepath.Join(dir, "cancelled"))
	switch {
	case alive:
		return sdk.JobStatusResult{State: sdk.StateRunning}, nil
	case err == nil && code == 0:
		return sdk.JobStatusResult{State: sdk.StateSucceeded, Reason: sdk.ReasonCompleted, ExitCode: &code}, nil
	case err == nil:
		return sdk.JobStatusResult{State: sdk.StateFailed, Reason: sdk.ReasonNonzeroExit, ExitCode: &code}, nil
	case cancelled == nil:
		return sdk.JobStatusResult{State: sdk.StateCancelled, Reason: sdk.ReasonCancelled}, nil
	}
	return sdk.JobStatusResult{State: sdk.StateLost, Reason: sdk.ReasonLost}, nil
}

// CancelJob kills what bears the job's mark, in whatever session, until nothing does.
func (p *provider) CancelJob(ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	dir, alive, err := p.at(ctx, "cancel job", r.Handle)
	if err != nil || !alive {
		return sdk.CancelJobResult{Gone: err == nil || errors.Is(err, sdk.NotFound)}, ignore(err, sdk.NotFound)
	}
	err = os.WriteFile(filepath.Join(dir, "cancelled"), nil, 0o600)
	for err == nil && (kill(r.Handle.ID) > 0 || alive) {
		if _, alive, err = p.at(ctx, "cancel job", r.Handle); err == nil {
			err = p.opened.Clock.Sleep(ctx, pause)
		}
	}
	return sdk.CancelJobResult{Accepted: err == nil, Gone: err == nil}, err
}

func kill(id string) (n int) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is right
	for _, f := range environs {
		env, _ := os.ReadFile(f) // empty when it has ended
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if bytes.Contains(append([]byte{0}, env...), []byte("\x00"+mark+"="+id+"\x00")) && syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

// CleanupJob removes the folder of a job that has ended.
func (p *provider) CleanupJob(ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	dir, alive, err := p.at(ctx, "clean up job", r.Handle)
	if alive {
		err = sdk.Errorf(sdk.FailedPrecondition, "clean up job", "it still runs")
	}
	if err != nil {
		return sdk.CleanupJobResult{}, ignore(err, sdk.NotFound)
	}
	return sdk.CleanupJobResult{Removed: []string{dir}}, os.RemoveAll(dir)
}

// JobLogs asks whether the job lives before each look, so that the end is proven.
func (p *provider) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		var at int64
		if r.Cursor != nil {
			at, _ = strconv.ParseInt(r.Cursor.Position["at"], 10, 64) // as written below
		}
		item := func(e *sdk.LogChunk, end *sdk.LogEnd) sdk.LogItem {
			return sdk.LogItem{Entry: e, End: end, Cursor: &sdk.LogCursor{V: sdk.CursorVersion, Kind: kind, Position: map[string]string{"at": strconv.FormatInt(at, 10)}}}
		}
		for more := true; more; {
			dir, alive, err := p.at(ctx, "job logs", r.Handle)
			data, rerr := read(filepath.Join(dir, "output"), at)
			at += int64(len(data))
			switch {
			case err != nil || rerr != nil:
				yield(sdk.LogItem{}, cmp.Or(err, rerr))
				return
			case len(data) > 0:
				more = yield(item(&sdk.LogChunk{Stream: sdk.StreamCombined, Data: data, LineEnd: sdk.LineEndKept}, nil), nil)
			case !alive:
				yield(item(nil, &sdk.LogEnd{Verdict: sdk.VerdictComplete}), nil)
				return
			case !r.Follow:
				yield(item(nil, &sdk.LogEnd{Verdict: sdk.VerdictQuiet}), nil)
				return
			default:
				_ = p.opened.Clock.Sleep(ctx, pause) // the next look sees that ctx has ended
			}
		}
	}
}

func read(file string, at int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.NewSectionReader(f, at, 64<<10))
}
