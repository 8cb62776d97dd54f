package sqlite

import (
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// The columns, in the order in which the functions of this file use them.
const (
	// runFixed are written once, runFolded with every event.
	runFixed = "id,actor,action,target,provider,kind,account,region,endpoint,request_id,spec_hash,name,requested_at,spec,settings"
	// runFolded leaves out finished_at, which indexes depend on: a statement
	// that doesn't name it leaves those indexes alone.
	runFolded  = "attempt,state,reason,exit_code,signal,oom,message,started_at,ended_at,verdict,cancel_at,cancel_by,cancel_why,not_before,events"
	runColumns = "num," + runFixed + "," + runFolded + ",phase,finished_at,holder,fence"

	attemptFixed   = "run,number,id,launch"
	attemptFolded  = "handle,sent_at,phase,state,reason,exit_code,signal,oom,launches,message,raw,created_at,started_at,seen_running,ended_at,verdict,cleanup_err"
	attemptColumns = "num," + attemptFixed + "," + attemptFolded

	eventColumns  = "seq,at,run,attempt,kind,actor,change,prev,hash"
	holderColumns = "id,kind,pid,host,version,lock_file,started,expires"
)

// assignments turns "a,b" into "a=?,b=?".
func assignments(columns string) string { return strings.ReplaceAll(columns, ",", "=?,") + "=?" }

func columnCount(columns string) int { return strings.Count(columns, ",") + 1 }

func (r row) int(i int) int64 {
	n, _ := r[i].(int64)
	return n
}

func (r row) text(i int) string {
	switch v := r[i].(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

func (r row) bytes(i int) []byte {
	switch v := r[i].(type) {
	case string:
		return []byte(v)
	case []byte:
		return append([]byte{}, v...)
	}
	return nil
}

func (r row) code(i int) *int {
	v, ok := r[i].(int64)
	if !ok {
		return nil
	}
	n := int(v)
	return &n
}

func (r row) time(i int) time.Time {
	v, ok := r[i].(int64)
	if !ok {
		return time.Time{}
	}
	return time.Unix(0, v).UTC()
}

func (r row) id(i int) (sdk.ID, error) {
	var id sdk.ID
	if r[i] == nil {
		return id, nil
	}
	err := id.UnmarshalText([]byte(r.text(i)))
	return id, err
}

func (r row) hash(i int) string {
	b, _ := r[i].([]byte)
	return hex.EncodeToString(b)
}

func timeValue(t time.Time) driver.Value {
	if t.IsZero() {
		return nil
	}
	return t.UnixNano()
}

func codeValue(c *int) driver.Value {
	if c == nil {
		return nil
	}
	return int64(*c)
}

func textOrNull(s string) driver.Value {
	if s == "" {
		return nil
	}
	return s
}

func jsonValue(b []byte) driver.Value {
	if b == nil {
		return nil
	}
	return string(b)
}

func boolValue(b bool) driver.Value {
	if b {
		return int64(1)
	}
	return int64(0)
}

func hashValue(h string) (driver.Value, error) {
	b, err := hex.DecodeString(h)
	return b, err
}

func appendRunFixed(a []driver.Value, r *ledger.Run) []driver.Value {
	return append(a, r.ID.String(), r.Actor, r.Action, r.Target, r.Provider, r.Identity.Kind, r.Identity.Account, r.Identity.Region,
		r.Identity.Endpoint, textOrNull(r.RequestID), r.SpecHash, r.Name, timeValue(r.RequestedAt), jsonValue(r.Spec), jsonValue(r.Settings))
}

func appendRunFolded(a []driver.Value, r *ledger.Run) []driver.Value {
	return append(a, int64(r.Attempt), string(r.State), string(r.Reason), codeValue(r.ExitCode), r.Signal, boolValue(r.OOM), r.Message,
		timeValue(r.StartedAt), timeValue(r.EndedAt), string(r.Verdict), timeValue(r.CancelAt), r.CancelBy, r.CancelWhy,
		timeValue(r.NotBefore), r.Events)
}

// readRun reads runColumns.
func readRun(r row) (run ledger.Run, num int64, err error) {
	if run.ID, err = r.id(1); err != nil {
		return run, 0, damaged("a run's id: %w", err)
	}
	run.Actor, run.Action, run.Target, run.Provider = r.text(2), r.text(3), r.text(4), r.text(5)
	run.Identity = sdk.Identity{Kind: r.text(6), Account: r.text(7), Region: r.text(8), Endpoint: r.text(9)}
	run.RequestID, run.SpecHash, run.Name, run.RequestedAt = r.text(10), r.text(11), r.text(12), r.time(13)
	run.Spec, run.Settings = r.bytes(14), r.bytes(15)
	run.Attempt, run.State, run.Reason = int(r.int(16)), sdk.JobState(r.text(17)), sdk.Reason(r.text(18))
	run.ExitCode, run.Signal, run.OOM, run.Message = r.code(19), r.text(20), r.int(21) != 0, r.text(22)
	run.StartedAt, run.EndedAt, run.Verdict = r.time(23), r.time(24), sdk.Verdict(r.text(25))
	run.CancelAt, run.CancelBy, run.CancelWhy, run.NotBefore = r.time(26), r.text(27), r.text(28), r.time(29)
	run.Events, run.Phase, run.FinishedAt = r.int(30), ledger.Phase(r.text(31)), r.time(32)
	if run.Holder, err = r.id(33); err != nil {
		return run, 0, damaged("the holder of run %s: %w", run.ID, err)
	}
	run.Fence = r.int(34)
	return run, r.int(0), nil
}

func appendAttemptFixed(v []driver.Value, a *ledger.Attempt) []driver.Value {
	return append(v, a.Run.String(), int64(a.Number), a.ID.String(), jsonValue(a.Launch))
}

func appendAttemptFolded(v []driver.Value, a *ledger.Attempt) ([]driver.Value, error) {
	var raw driver.Value
	if a.Raw != nil {
		b, err := sdk.EncodeCanonical(a.Raw)
		if err != nil {
			return nil, err
		}
		raw = string(b)
	}
	return append(v, jsonValue(a.Handle), timeValue(a.SentAt), string(a.Phase), string(a.State), string(a.Reason), codeValue(a.ExitCode),
		a.Signal, boolValue(a.OOM), int64(a.Launches), a.Message, raw, timeValue(a.CreatedAt), timeValue(a.StartedAt),
		timeValue(a.SeenRunning), timeValue(a.EndedAt), string(a.Verdict), a.CleanupErr), nil
}

// readAttempt reads attemptColumns.
func readAttempt(r row) (a ledger.Attempt, num int64, err error) {
	if a.Run, err = r.id(1); err != nil {
		return a, 0, damaged("an attempt's run: %w", err)
	}
	a.Number = int(r.int(2))
	if a.ID, err = r.id(3); err != nil {
		return a, 0, damaged("the id of attempt %d of run %s: %w", a.Number, a.Run, err)
	}
	a.Launch, a.Handle, a.SentAt, a.Phase = r.bytes(4), r.bytes(5), r.time(6), ledger.Phase(r.text(7))
	a.State, a.Reason, a.ExitCode, a.Signal = sdk.JobState(r.text(8)), sdk.Reason(r.text(9)), r.code(10), r.text(11)
	a.OOM, a.Launches, a.Message = r.int(12) != 0, int(r.int(13)), r.text(14)
	if r[15] != nil {
		if err := json.Unmarshal(r.bytes(15), &a.Raw); err != nil {
			return a, 0, damaged("the provider's words of attempt %d of run %s: %w", a.Number, a.Run, err)
		}
	}
	a.CreatedAt, a.StartedAt, a.SeenRunning, a.EndedAt = r.time(16), r.time(17), r.time(18), r.time(19)
	a.Verdict, a.CleanupErr = sdk.Verdict(r.text(20)), r.text(21)
	return a, r.int(0), nil
}

// readEvent reads eventColumns.
func readEvent(r row) (ev ledger.Event, err error) {
	ev.Seq, ev.At = r.int(0), r.time(1)
	if ev.Run, err = r.id(2); err != nil {
		return ev, damaged("the run of event %d: %w", ev.Seq, err)
	}
	ev.Attempt, ev.Kind, ev.Actor = int(r.int(3)), ledger.Kind(r.text(4)), r.text(5)
	ev.Change, ev.Prev, ev.Hash = r.bytes(6), r.hash(7), r.hash(8)
	return ev, nil
}

func appendHolder(v []driver.Value, h ledger.Holder) []driver.Value {
	return append(v, h.ID.String(), h.Kind, int64(h.PID), h.Host, h.Version, h.LockFile, timeValue(h.Started), timeValue(h.Expires))
}

// readHolder reads holderColumns.
func readHolder(r row) (h ledger.Holder, err error) {
	if h.ID, err = r.id(0); err != nil {
		return h, damaged("a holder's id: %w", err)
	}
	h.Kind, h.PID, h.Host, h.Version, h.LockFile = r.text(1), int(r.int(2)), r.text(3), r.text(4), r.text(5)
	h.Started, h.Expires = r.time(6), r.time(7)
	return h, nil
}

func damaged(format string, args ...any) error {
	return &sdk.Error{Code: sdk.DataLoss, Op: "read ledger", ID: idDamaged, Remedy: damagedRemedy, Err: fmt.Errorf(format, args...)}
}
