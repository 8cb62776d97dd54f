package ledger

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// ExportVersion is the version of the export's format. A member may be added
// under the same version; a change of meaning is a new one.
const ExportVersion = 1

// ExportLine is one line of an export. Type says which member is set: "ledger"
// (the first line), "run", "attempt", "event", and "end" (the last line; an
// export without it was cut off). A run's line is followed by its attempts' and
// then its events', each in order. Times are RFC 3339 in UTC.
type ExportLine struct {
	Type    string         `json:"type"`
	Ledger  *ExportLedger  `json:"ledger,omitzero"`
	Run     *ExportRun     `json:"run,omitzero"`
	Attempt *ExportAttempt `json:"attempt,omitzero"`
	Event   *ExportEvent   `json:"event,omitzero"`
	End     *ExportEnd     `json:"end,omitzero"`
}

// ExportLedger names the ledger and the end of its chain when the export began.
type ExportLedger struct {
	V    int  `json:"v"`
	Head Head `json:"head"`
}

// ExportEnd counts the lines of each type.
type ExportEnd struct {
	Runs     int64 `json:"runs"`
	Attempts int64 `json:"attempts"`
	Events   int64 `json:"events"`
}

// ExportRun is a run's row. Spec is as RedactSpec gives it; SpecHash is that of
// the spec as it was.
type ExportRun struct {
	ID          sdk.ID          `json:"id"`
	Actor       string          `json:"actor"`
	Action      string          `json:"action"`
	Target      string          `json:"target,omitzero"`
	Provider    string          `json:"provider"`
	Identity    sdk.Identity    `json:"identity"`
	RequestID   string          `json:"request_id,omitzero"`
	SpecHash    string          `json:"spec_hash,omitzero"`
	Spec        json.RawMessage `json:"spec,omitzero"`
	Name        string          `json:"name,omitzero"`
	RequestedAt time.Time       `json:"requested_at"`
	Attempt     int             `json:"attempt"`
	Phase       Phase           `json:"phase,omitzero"`
	State       sdk.JobState    `json:"state"`
	Reason      sdk.Reason      `json:"reason,omitzero"`
	ExitCode    *int            `json:"exit_code"`
	Signal      string          `json:"signal,omitzero"`
	OOM         bool            `json:"oom,omitzero"`
	Message     string          `json:"message,omitzero"`
	StartedAt   time.Time       `json:"started_at,omitzero"`
	EndedAt     time.Time       `json:"ended_at,omitzero"`
	FinishedAt  time.Time       `json:"finished_at,omitzero"`
	Verdict     sdk.Verdict     `json:"verdict,omitzero"`
	CancelAt    time.Time       `json:"cancel_at,omitzero"`
	CancelBy    string          `json:"cancel_by,omitzero"`
	CancelWhy   string          `json:"cancel_why,omitzero"`
	Events      int64           `json:"events"`
}

// ExportAttempt is an attempt's row. Launch is as RedactLaunch gives it.
type ExportAttempt struct {
	Run         sdk.ID            `json:"run"`
	Number      int               `json:"number"`
	ID          sdk.ID            `json:"id"`
	Launch      json.RawMessage   `json:"launch,omitzero"`
	Handle      json.RawMessage   `json:"handle,omitzero"`
	SentAt      time.Time         `json:"sent_at,omitzero"`
	Phase       Phase             `json:"phase,omitzero"`
	State       sdk.JobState      `json:"state"`
	Reason      sdk.Reason        `json:"reason,omitzero"`
	ExitCode    *int              `json:"exit_code"`
	Signal      string            `json:"signal,omitzero"`
	OOM         bool              `json:"oom,omitzero"`
	Launches    int               `json:"launches,omitzero"`
	Message     string            `json:"message,omitzero"`
	Raw         map[string]string `json:"raw,omitzero"`
	CreatedAt   time.Time         `json:"created_at,omitzero"`
	StartedAt   time.Time         `json:"started_at,omitzero"`
	SeenRunning time.Time         `json:"seen_running,omitzero"`
	EndedAt     time.Time         `json:"ended_at,omitzero"`
	Verdict     sdk.Verdict       `json:"verdict,omitzero"`
	CleanupErr  string            `json:"cleanup_error,omitzero"`
}

// ExportEvent is a link of the chain. Change is as RedactChange gives it; Hash
// is over the change as it was.
type ExportEvent struct {
	Seq     int64           `json:"seq"`
	At      time.Time       `json:"at"`
	Run     sdk.ID          `json:"run"`
	Attempt int             `json:"attempt,omitzero"`
	Kind    Kind            `json:"kind"`
	Actor   string          `json:"actor"`
	Change  json.RawMessage `json:"change"`
	Prev    string          `json:"prev"`
	Hash    string          `json:"hash"`
}

// Export writes the runs that f chooses, oldest first unless f has Limit or After, with
// their attempts and events, as one JSON object per line. Values that may be
// secret are [redacted]. It holds one run at a time, however large the ledger.
// A run that changes meanwhile is shown as it was read.
func Export(ctx context.Context, s Store, w io.Writer, f RunFilter) (ExportEnd, error) {
	var end ExportEnd
	head, err := s.Head(ctx)
	if err != nil {
		return end, fmt.Errorf("export ledger: %w", err)
	}
	if f.Limit == 0 && f.After.IsZero() {
		f.OldestFirst = true
	}
	buf := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(ExportLine{Type: "ledger", Ledger: &ExportLedger{V: ExportVersion, Head: head}}); err != nil {
		return end, fmt.Errorf("export ledger: %w", err)
	}
	for run, err := range s.Runs(ctx, f) {
		if err == nil {
			err = exportRun(ctx, s, enc, run, &end)
		}
		if err != nil {
			return end, fmt.Errorf("export ledger: %w", err)
		}
	}
	if err := enc.Encode(ExportLine{Type: "end", End: &end}); err != nil {
		return end, fmt.Errorf("export ledger: %w", err)
	}
	if err := buf.Flush(); err != nil {
		return end, fmt.Errorf("export ledger: %w", err)
	}
	return end, nil
}

func exportRun(ctx context.Context, s Store, enc *json.Encoder, r Run, end *ExportEnd) error {
	line := NewExportRun(r)
	if err := enc.Encode(ExportLine{Type: "run", Run: &line}); err != nil {
		return err
	}
	end.Runs++
	attempts, err := s.Attempts(ctx, r.ID)
	if err != nil {
		return err
	}
	for _, a := range attempts {
		line := NewExportAttempt(a)
		if err := enc.Encode(ExportLine{Type: "attempt", Attempt: &line}); err != nil {
			return err
		}
		end.Attempts++
	}
	for ev, err := range s.Events(ctx, EventFilter{Run: r.ID}) {
		if err != nil {
			return err
		}
		line := NewExportEvent(ev)
		if err := enc.Encode(ExportLine{Type: "event", Event: &line}); err != nil {
			return err
		}
		end.Events++
	}
	return nil
}

// NewExportRun is a run as it is exported.
func NewExportRun(r Run) ExportRun {
	return ExportRun{ID: r.ID, Actor: r.Actor, Action: r.Action, Target: r.Target, Provider: r.Provider, Identity: r.Identity,
		RequestID: r.RequestID, SpecHash: r.SpecHash, Spec: RedactSpec(r.Spec), Name: r.Name, RequestedAt: r.RequestedAt,
		Attempt: r.Attempt, Phase: r.Phase, State: r.State, Reason: r.Reason, ExitCode: r.ExitCode, Signal: r.Signal, OOM: r.OOM,
		Message: r.Message, StartedAt: r.StartedAt, EndedAt: r.EndedAt, FinishedAt: r.FinishedAt, Verdict: r.Verdict,
		CancelAt: r.CancelAt, CancelBy: r.CancelBy, CancelWhy: r.CancelWhy, Events: r.Events}
}

// NewExportAttempt is an attempt as it is exported.
func NewExportAttempt(a Attempt) ExportAttempt {
	return ExportAttempt{Run: a.Run, Number: a.Number, ID: a.ID, Launch: RedactLaunch(a.Launch), Handle: a.Handle, SentAt: a.SentAt,
		Phase: a.Phase, State: a.State, Reason: a.Reason, ExitCode: a.ExitCode, Signal: a.Signal, OOM: a.OOM, Launches: a.Launches,
		Message: a.Message, Raw: a.Raw, CreatedAt: a.CreatedAt, StartedAt: a.StartedAt, SeenRunning: a.SeenRunning,
		EndedAt: a.EndedAt, Verdict: a.Verdict, CleanupErr: a.CleanupErr}
}

// NewExportEvent is an event as it is exported.
func NewExportEvent(ev Event) ExportEvent {
	return ExportEvent{Seq: ev.Seq, At: ev.At, Run: ev.Run, Attempt: ev.Attempt, Kind: ev.Kind, Actor: ev.Actor,
		Change: RedactChange(ev.Change), Prev: ev.Prev, Hash: ev.Hash}
}
