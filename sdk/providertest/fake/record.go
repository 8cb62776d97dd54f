package fake

import (
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// request is what a driver sends to make a job.
type request struct {
	Name  string   `json:"name"`
	Image string   `json:"image,omitzero"`
	Steps []Step   `json:"steps"`
	Args  sdk.Argv `json:"args,omitzero"`
	// Expand is what the cloud does to Args; empty is nothing.
	Expand   string   `json:"expand,omitzero"`
	Env      sdk.Env  `json:"env,omitzero"`
	Workdir  string   `json:"workdir,omitzero"`
	User     string   `json:"user,omitzero"`
	Grace    Duration `json:"grace"`
	Deadline Duration `json:"deadline,omitzero"`
	// Lines and Combined are how output is stored.
	Lines    bool `json:"lines,omitzero"`
	Combined bool `json:"combined,omitzero"`
	// TokenWindow is the cloud's rule; zero is none.
	TokenWindow Duration `json:"token_window,omitzero"`
}

// record is a job as it was accepted. It never changes.
type record struct {
	V         int       `json:"v"`
	ID        string    `json:"id"`
	RunID     sdk.ID    `json:"run_id"`
	AttemptID sdk.ID    `json:"attempt_id"`
	Attempt   int       `json:"attempt"`
	Owner     string    `json:"owner"`
	LedgerID  string    `json:"ledger_id"`
	Token     string    `json:"token,omitzero"`
	Accepted  time.Time `json:"accepted"`
	Expires   time.Time `json:"expires,omitzero"`
	Request   request   `json:"request"`
	// Secrets are SHA-256 sums of the values, or references that the cloud
	// fetches itself.
	Secrets map[string]string `json:"secrets,omitzero"`
	// Files are SHA-256 sums by path.
	Files map[string]string `json:"files,omitzero"`
	Stdin sdk.StdinMode     `json:"stdin,omitzero"`
	// StartDelay is the cloud's at that time.
	StartDelay Duration `json:"start_delay,omitzero"`
	NoExitCode bool     `json:"no_exit_code,omitzero"`
}

// cancelFact is the cancel of a job: TERM at the first one's time, and KILL at
// the earliest time that one of them set.
type cancelFact struct {
	At    time.Time `json:"at"`
	Grace Duration  `json:"grace"`
	Why   string    `json:"why,omitzero"`
}

func (c cancelFact) kill() time.Time { return c.At.Add(time.Duration(c.Grace)) }

// sooner returns c with the other's kill, where that comes first.
func (c cancelFact) sooner(other cancelFact) cancelFact {
	if other.kill().Before(c.kill()) {
		c.Grace = Duration(max(other.kill().Sub(c.At), 0))
	}
	return c
}

// stdinFact is the end of a job's standard input.
type stdinFact struct {
	At   time.Time `json:"at"`
	Data []byte    `json:"data"`
}

// view is a job with all that is known of it. It never changes either.
type view struct {
	rec     *record
	cancel  *cancelFact
	stdin   *stdinFact
	expires time.Time
	line    *timeline
}

func newView(rec *record, cancel *cancelFact, stdin *stdinFact, expires time.Time) *view {
	return &view{rec: rec, cancel: cancel, stdin: stdin, expires: expires, line: build(rec, cancel, stdin)}
}
