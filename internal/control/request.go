package control

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// Backend is a provider as it is configured.
type Backend struct {
	sdk.Provider
	// Name is the configured name.
	Name   string
	Driver *sdk.Driver
	// PollInterval is the time between looks at one job; zero is 2 s.
	PollInterval time.Duration
	// CallTimeout bounds one call; zero is 30 s.
	CallTimeout time.Duration
	// MaxInFlight bounds the runs that may have something on the backend at once,
	// ended ones until they are cleaned up; zero is the provider's own bound, or
	// none.
	MaxInFlight int
	// SubmitRate bounds launches a second; zero is none.
	SubmitRate float64
}

// absent is the error of using a capability that the provider lacks.
func (b Backend) absent(capability string) error {
	return sdk.Absent(b.Name, b.Info().Kind, capability)
}

// Providers opens providers by their configured name, each once.
type Providers interface {
	Backend(ctx context.Context, name string) (Backend, error)
	// BackendFor opens the provider of a run that stands in the ledger: the one
	// of its name, and of its identity.
	BackendFor(ctx context.Context, run ledger.Run) (Backend, error)
	// Names lists what is configured.
	Names() []string
}

// CleanupPolicy says when what a run made is removed.
type CleanupPolicy string

// The policies.
const (
	CleanupAlways    CleanupPolicy = "always"
	CleanupOnSuccess CleanupPolicy = "on-success"
	CleanupNever     CleanupPolicy = "never"
)

// SubmitRequest asks for a run.
type SubmitRequest struct {
	Provider string
	Spec     sdk.JobSpec
	// Actor is who asks; never empty.
	Actor string
	// IdempotencyKey makes a second request with the same key and spec the same
	// run, and one with another spec AlreadyExists.
	IdempotencyKey string
	Cleanup        CleanupPolicy
	// AllowNoCancel permits a provider that can't end jobs. A cancel and a time-out then
	// end nothing: the run says so, and goes on to its own end.
	AllowNoCancel bool
	// Ambient is what a local job inherits; it is spooled with mode 0600 until
	// clean-up and stands in no ledger.
	Ambient *sdk.Ambient
	// Stdin is read whole before launch when Spec.Stdin is spooled, and copied
	// to the job while the process lives when it is attached.
	Stdin io.Reader
	// Park leaves the sending to another holder, whom the run must be handed
	// to: a process that ends sooner than the job can't feed it its input.
	Park bool
	// Progress takes short lines, such as a pull's.
	Progress func(line string)
}

// Submitted is a run that has its row.
type Submitted struct {
	Run ledger.Run
	// Existing: the idempotency key named a run that was there.
	Existing bool
	// Launch is what will be sent.
	Launch sdk.Launch
}

// Plan is what a dry run shows.
type Plan struct {
	Provider   string
	Identity   sdk.Identity
	Guarantees sdk.Guarantees
	Launch     sdk.Launch
}

// ProblemsError is a refusal before launch, with every problem.
type ProblemsError struct {
	Provider string
	Problems []sdk.Problem
}

// Error lists the problems in one line.
func (e *ProblemsError) Error() string {
	return "run on " + e.Provider + ": " + sdk.JoinProblems(e.Problems)
}

// Unwrap gives the class of the first problem.
func (e *ProblemsError) Unwrap() error {
	if len(e.Problems) > 0 && e.Problems[0].Code != 0 {
		return e.Problems[0].Code
	}
	return sdk.InvalidArgument
}

// settings is the engine's own part of a run's row.
type settings struct {
	V       int           `json:"v"`
	Cleanup CleanupPolicy `json:"cleanup"`
	Ambient bool          `json:"ambient,omitzero"`
	// StdinHash names the spooled input.
	StdinHash string `json:"stdin_hash,omitzero"`
}

func decodeSettings(b []byte) (settings, error) {
	s := settings{V: 1, Cleanup: CleanupAlways}
	if len(b) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, sdk.Errorf(sdk.DataLoss, "read run settings", "%w", err)
	}
	return s, nil
}
