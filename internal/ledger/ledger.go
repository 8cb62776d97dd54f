// Package ledger is the record of everything that Windlass did: one row per
// mutating action, its attempts, and an append-only chain of events.
//
// Events are the truth. A row is what its events fold into, and both are
// written in one transaction, so that neither can be there without the other.
// The package holds the types, the fold and the interface; sub-packages hold
// the stores, and ledgertest the suite that each of them passes.
package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Phase is how far an attempt has come. It only grows, but for kept, which
// stands where cleaned would.
type Phase string

// The phases, in order. PhaseIntent: the launch is stored, nothing was sent.
// PhaseSubmitting: it may have been sent. PhaseSubmitted: a handle is known.
// PhaseEnded: the end is proven, or given up. PhaseDrained: captured output is
// synced. PhaseCleaned: nothing is left; PhaseKept: left there on request.
const (
	PhaseIntent     Phase = "intent"
	PhaseSubmitting Phase = "submitting"
	PhaseSubmitted  Phase = "submitted"
	PhaseRunning    Phase = "running"
	PhaseEnded      Phase = "ended"
	PhaseDrained    Phase = "drained"
	PhaseCleaned    Phase = "cleaned"
	PhaseKept       Phase = "kept"
)

// Final reports whether nothing is left to do.
func (p Phase) Final() bool { return p == PhaseCleaned || p == PhaseKept }

// Run is a row of workload_runs: one mutating action.
type Run struct {
	ID sdk.ID
	// Actor is who asked; never empty.
	Actor string
	// Action is the verb, such as "run" or "svc.scale".
	Action string
	// Target is what it acts on; for a run, the image or program.
	Target   string
	Provider string
	Identity sdk.Identity
	// RequestID is the idempotency key, unique where it is not empty.
	RequestID string
	SpecHash  string
	// Spec is the canonical spec, without secret values.
	Spec []byte
	Name string
	// Settings are the engine's own for this run, canonical JSON.
	Settings    []byte
	RequestedAt time.Time

	// What follows is folded from events.

	// Attempt is the number of the latest attempt, from 1; 0 is none yet.
	Attempt    int
	Phase      Phase
	State      sdk.JobState
	Reason     sdk.Reason
	ExitCode   *int
	Signal     string
	OOM        bool
	Message    string
	StartedAt  time.Time
	EndedAt    time.Time
	FinishedAt time.Time
	// Verdict is the worst of the attempts' verdicts.
	Verdict sdk.Verdict
	// Cancel is set once somebody asked to end the run.
	CancelAt  time.Time
	CancelBy  string
	CancelWhy string
	// NotBefore delays the next attempt's send.
	NotBefore time.Time
	// Events counts the run's events.
	Events int64

	// Holder is who drives the run, zero when nobody does; Fence grows with
	// every change of holder. Neither is folded from events.
	Holder sdk.ID
	Fence  int64
}

// Open reports whether there is still something to do for the run.
func (r Run) Open() bool { return r.FinishedAt.IsZero() }

// Attempt is a row of run_attempts: one launch.
type Attempt struct {
	Run    sdk.ID
	Number int
	ID     sdk.ID
	// Launch and Handle are canonical JSON.
	Launch []byte
	Handle []byte
	// SentAt is the first send, zero before it.
	SentAt   time.Time
	Phase    Phase
	State    sdk.JobState
	Reason   sdk.Reason
	ExitCode *int
	Signal   string
	OOM      bool
	Launches int
	Message  string
	// Raw are the provider's own words.
	Raw       map[string]string
	CreatedAt time.Time
	// StartedAt and EndedAt are the backend's times, SeenRunning ours.
	StartedAt   time.Time
	SeenRunning time.Time
	EndedAt     time.Time
	Verdict     sdk.Verdict
	// CleanupErr is the last failure of the clean-up; empty when there is none.
	CleanupErr string
}

// Event is one link of the chain.
type Event struct {
	// Seq counts from 1 over the whole ledger, without gaps.
	Seq     int64
	At      time.Time
	Run     sdk.ID
	Attempt int
	Kind    Kind
	// Actor is who caused it: a user, or a holder such as "keeper".
	Actor string
	// Change is the canonical JSON of a Change.
	Change []byte
	// Prev is the hash of the event before, Hash that of this one, both
	// lower-case hex of SHA-256.
	Prev, Hash string
}

// Kind names what happened.
type Kind string

// The kinds of events.
const (
	KindRequested  Kind = "requested"  // the row was made
	KindIntent     Kind = "intent"     // an attempt's launch was stored
	KindSubmitting Kind = "submitting" // the launch is about to be sent
	KindSubmitted  Kind = "submitted"  // there is a handle
	KindAdopted    Kind = "adopted"    // a handle was found
	KindRefused    Kind = "refused"    // the backend refused for good
	KindWaiting    Kind = "waiting"    // queued, or no capacity yet
	KindObserved   Kind = "observed"   // the state changed
	KindRunning    Kind = "running"
	KindEnded      Kind = "ended"
	KindDrained    Kind = "drained"
	KindCleaned    Kind = "cleaned"
	KindKept       Kind = "kept"
	KindCleanupErr Kind = "cleanup_failed"
	KindCancelAsk  Kind = "cancel_requested"
	KindCancelSent Kind = "cancel_sent"
	KindDeadline   Kind = "deadline" // a time-out passed
	KindRetry      Kind = "retry"    // another attempt follows
	KindTaken      Kind = "taken"    // a holder took the run from another
	KindAbandoned  Kind = "abandoned"
	KindFinished   Kind = "finished" // nothing is left to do
	KindNote       Kind = "note"
	KindRemoved    Kind = "removed" // an object was removed by the reaper
	KindCheckpoint Kind = "checkpoint"
)

// Change is what an event sets. A nil or zero member sets nothing.
type Change struct {
	V int `json:"v"`
	// Requested makes the row; only the first event of a run has it.
	Requested *Requested `json:"requested,omitzero"`
	// Launched makes an attempt; only KindIntent has it.
	Launched  *Launched         `json:"launched,omitzero"`
	Phase     Phase             `json:"phase,omitzero"`
	State     sdk.JobState      `json:"state,omitzero"`
	Reason    *sdk.Reason       `json:"reason,omitzero"`
	ExitCode  *int              `json:"exit_code,omitzero"`
	Signal    string            `json:"signal,omitzero"`
	OOM       bool              `json:"oom,omitzero"`
	Launches  int               `json:"launches,omitzero"`
	Message   *string           `json:"message,omitzero"`
	Raw       map[string]string `json:"raw,omitzero"`
	Handle    json.RawMessage   `json:"handle,omitzero"`
	SentAt    time.Time         `json:"sent_at,omitzero"`
	CreatedAt time.Time         `json:"created_at,omitzero"`
	StartedAt time.Time         `json:"started_at,omitzero"`
	// SeenRunning is our clock's first sight of running.
	SeenRunning time.Time   `json:"seen_running,omitzero"`
	EndedAt     time.Time   `json:"ended_at,omitzero"`
	Verdict     sdk.Verdict `json:"verdict,omitzero"`
	CleanupErr  *string     `json:"cleanup_error,omitzero"`
	CancelBy    string      `json:"cancel_by,omitzero"`
	CancelWhy   string      `json:"cancel_why,omitzero"`
	NotBefore   time.Time   `json:"not_before,omitzero"`
	// AttemptOnly: State and what goes with it are the attempt's alone,
	// because another attempt follows.
	AttemptOnly bool `json:"attempt_only,omitzero"`
	// Finished: nothing is left to do for the run.
	Finished bool `json:"finished,omitzero"`
	// Checkpoint says what pruning took out of the chain; only KindCheckpoint
	// has it, and its event has no run.
	Checkpoint *Checkpoint `json:"checkpoint,omitzero"`
	// Detail is for people and for audit; it folds into nothing.
	Detail map[string]string `json:"detail,omitzero"`
}

// Requested is what a row starts with.
type Requested struct {
	Actor     string          `json:"actor"`
	Action    string          `json:"action"`
	Target    string          `json:"target,omitzero"`
	Provider  string          `json:"provider"`
	Identity  sdk.Identity    `json:"identity"`
	RequestID string          `json:"request_id,omitzero"`
	SpecHash  string          `json:"spec_hash,omitzero"`
	Spec      json.RawMessage `json:"spec,omitzero"`
	Name      string          `json:"name,omitzero"`
	Settings  json.RawMessage `json:"settings,omitzero"`
}

// Launched is what an attempt starts with.
type Launched struct {
	ID     sdk.ID          `json:"id"`
	Launch json.RawMessage `json:"launch,omitzero"`
}

// Checkpoint is what pruning left out: the newest one holds for the whole chain
// before it, those before it are themselves pruned.
type Checkpoint struct {
	// Before: runs that finished before this time were removed.
	Before time.Time `json:"before"`
	// Runs is how many runs this pruning removed, Events how many events are
	// missing from the chain in all.
	Runs   int64 `json:"runs"`
	Events int64 `json:"events"`
	// Gaps are the missing ranges, in order.
	Gaps []Gap `json:"gaps,omitzero"`
}

// Gap is a range of events that is missing. Hash is that of its last event,
// to which the next one links.
type Gap struct {
	From int64  `json:"from"`
	To   int64  `json:"to"`
	Hash string `json:"hash"`
}

// NewEvent is an event before it has its place in the chain.
type NewEvent struct {
	Attempt int
	Kind    Kind
	Actor   string
	Change  Change
}

// Write is one atomic mutation of one run: all of its events or none.
type Write struct {
	Run sdk.ID
	// Holder and Fence, when Holder is not zero, must be the run's own, else
	// the write is Aborted: another holder has taken the run. KindRequested,
	// cancel requests and abandonment are written without.
	Holder sdk.ID
	Fence  int64
	// Claim makes Holder the holder of the run that this write creates, under
	// fence 1; Fence is not looked at.
	Claim bool
	// Admit, when not nil, makes the write wait its turn: it is applied only
	// while the provider has a free place, and no older run with a live holder
	// waits for one. Otherwise it is ResourceExhausted with ID "queue.full".
	Admit  *Admission
	Events []NewEvent
	// Stamp, when not nil, takes the time that the events got. Apply at that time
	// gives the rows that were written, without a look at them.
	Stamp *time.Time
}

// Admission is the rule of a provider's queue: at most Max runs may have something
// on the backend, first in, first out. A run keeps its place from the first send of
// an attempt until what that made was removed, or is kept or left on record: a
// backend counts what has ended, too. A run waits while its current attempt has the
// phase intent and its NotBefore has passed.
type Admission struct {
	Provider string
	Max      int
}

// FullError is the cause of "queue.full" where no place is free.
type FullError struct {
	Provider   string
	Taken, Max int
	// Stuck is the oldest of the runs that have ended and keep a place because their
	// clean-up failed when it was last tried; zero where there is none. Why is that
	// failure.
	Stuck sdk.ID
	Why   string
}

// Error counts the places, and names the run that can't be cleaned up.
func (e *FullError) Error() string {
	text := fmt.Sprintf("provider %s has %d of its %d places taken", e.Provider, e.Taken, e.Max)
	if !e.Stuck.IsZero() {
		text += fmt.Sprintf("; run %s has ended, and keeps its place until its clean-up succeeds, which is tried again: %s", e.Stuck.Short(), e.Why)
	}
	return text
}

// BehindError is the cause of "queue.full" where a place is free and another run
// is to have it.
type BehindError struct {
	Provider string
	// Ahead is the run whose turn it is.
	Ahead sdk.ID
}

// Error names the run ahead.
func (e *BehindError) Error() string {
	return fmt.Sprintf("run %s is older and waits for provider %s", e.Ahead.Short(), e.Provider)
}

// Holder is a process that drives runs, under a lease.
type Holder struct {
	ID sdk.ID
	// Kind is "keeper" or "command".
	Kind    string
	PID     int
	Host    string
	Version string
	// LockFile is held with flock while the process lives; its release ends
	// the lease at once.
	LockFile string
	Started  time.Time
	// Expires is when the lease lapses if it isn't renewed.
	Expires time.Time
}

// RunFilter chooses runs. The zero filter is all of them, newest first: in the
// order in which they were recorded, turned round.
type RunFilter struct {
	// Open: only runs with something left to do.
	Open bool
	// Holder: only runs that this holder drives.
	Holder   sdk.ID
	Provider string
	States   []sdk.JobState
	Action   string
	Target   string
	Name     string
	Actor    string
	// Since and Until bound RequestedAt: from Since on, before Until.
	Since time.Time
	Until time.Time
	// Suffix matches the end of the ID's text form, in either case.
	Suffix string
	// After continues behind this run, in the order of the listing; a run that
	// isn't there is NotFound.
	After sdk.ID
	// Limit bounds the answer; 0 is no bound.
	Limit int
	// OldestFirst turns the order round.
	OldestFirst bool
}

// EventFilter chooses events, in order of Seq.
type EventFilter struct {
	Run   sdk.ID
	After int64
	// Kinds, when not empty, chooses by kind; it must be cheap for rare kinds.
	Kinds []Kind
	Limit int
}

// Head is the end of the chain.
type Head struct {
	LedgerID string `json:"ledger_id"`
	Count    int64  `json:"count"`
	Hash     string `json:"hash"`
}

// Store is a ledger. It is safe for concurrent use, also by several processes.
// A returned error has a code: Aborted for a lost fence, AlreadyExists for a
// request ID that is taken, NotFound for a run that isn't there,
// FailedPrecondition for a change of a terminal state and for a schema that a
// newer program wrote, ResourceExhausted for a full disk, DataLoss for a file
// that is damaged.
type Store interface {
	// ID is the ledger's random ID, made with it.
	ID() string
	// Writable says why nothing can be written, nil when it can.
	Writable() error
	// Write applies w durably: when it returns, the events are on disk. Many
	// concurrent writes share one commit. On a full disk, writes that make a
	// row are refused, while those of rows that exist still go through for a
	// while, so that what runs can be ended on record.
	Write(ctx context.Context, w Write) error
	// Run and Attempts read a run's rows; Attempts are in order of number.
	Run(ctx context.Context, id sdk.ID) (Run, error)
	Attempts(ctx context.Context, id sdk.ID) ([]Attempt, error)
	// RunByRequest finds the run of an idempotency key.
	RunByRequest(ctx context.Context, requestID string) (Run, error)
	Runs(ctx context.Context, f RunFilter) iter.Seq2[Run, error]
	Events(ctx context.Context, f EventFilter) iter.Seq2[Event, error]
	// CountOpen counts open runs of a provider whose current attempt may have
	// an object on the backend (submitting to drained).
	CountOpen(ctx context.Context, provider string) (int, error)

	// PutHolder makes or renews a holder's lease.
	PutHolder(ctx context.Context, h Holder) error
	// RemoveHolder ends a lease and leaves its runs without a holder.
	RemoveHolder(ctx context.Context, id sdk.ID) error
	Holders(ctx context.Context) ([]Holder, error)
	// Claim makes holder the holder of a run if its fence is still expected,
	// and returns the new fence; Aborted otherwise.
	Claim(ctx context.Context, run, holder sdk.ID, expected int64) (fence int64, err error)
	// ClaimAll claims every open run that has no holder, or one of dead, oldest
	// first and at most limit (0 is no bound), and returns the runs as claimed.
	ClaimAll(ctx context.Context, holder sdk.ID, dead []sdk.ID, limit int) ([]Run, error)
	// Release leaves a run without a holder; Aborted when fence is old.
	Release(ctx context.Context, run, holder sdk.ID, fence int64) error

	// Changed returns a channel that is closed at the next change of the
	// ledger, by this process or another; seen within about 100 ms.
	Changed() <-chan struct{}

	// Head is the end of the chain; Verify checks all of it against rows and
	// against known, the head kept outside.
	Head(ctx context.Context) (Head, error)
	Verify(ctx context.Context, known *Head) (Report, error)
	// Prune removes the runs that finished before a time, with their attempts
	// and events, writes a checkpoint into the chain that says what is missing,
	// and returns how many runs there were.
	Prune(ctx context.Context, before time.Time, actor string) (int, error)
	Close() error
}

// Report is what Verify found. An empty Faults is a sound ledger.
type Report struct {
	Head   Head
	Events int64
	Runs   int64
	Faults []Fault
}

// Fault is one thing that is wrong.
type Fault struct {
	// Seq is the event at which it shows, 0 when it is a row's.
	Seq int64
	Run sdk.ID
	// What is one of edited, removed, reordered, cut_off, row_differs, bad_head,
	// no_head.
	What string
	// Detail says what was expected and what was found.
	Detail string
}
