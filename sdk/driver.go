package sdk

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"
)

// Driver is the code for one kind of backend.
type Driver struct {
	// Kind is the backend's name, such as "docker".
	Kind string
	// Doc says in one sentence what it runs on.
	Doc string
	// Config describes what stands under `config:` of a provider, Options what
	// stands in JobSpec.Options.
	Config, Options Schema
	// Capabilities are the names of what every provider of this driver can do, of
	// Capabilities and in its order: CapabilitiesOf has them of the provider's type. They
	// are known before anything is opened, and a plugin whose provider can do less, or
	// more, isn't opened.
	Capabilities []string
	// Guarantees is the best that the driver gives; Info has what it gives as
	// it was opened.
	Guarantees Guarantees
	// Support maps JobSpec's fields to what is honoured, for the documents;
	// PrepareJob's problems decide.
	Support []FieldSupport
	// Schemes are the schemes of secret references that it passes on or seals.
	Schemes []string
	// VisibleSchemes are those of Schemes whose values become variables that
	// anyone who may describe the job can read, whatever Guarantees.Secrets says
	// of the others; PrepareJob refuses them without AllowVisibleSecret.
	VisibleSchemes []string
	// Resources are the types that its ResourceDriver keeps; none where it has none.
	Resources []ResourceType
	// Open returns a provider. It reaches no network, unless the identity can't
	// be known otherwise: Check does.
	Open func(ctx context.Context, r OpenRequest) (Provider, error)
}

// OpenRequest brings a driver all that it may use of the world outside.
type OpenRequest struct {
	// Name is the provider's configured name.
	Name string
	// Config is raw JSON that Driver.Config has accepted; nil is empty.
	Config json.RawMessage
	// Credentials are values by name (AWS_ACCESS_KEY_ID, KUBECONFIG, ...), as
	// CredentialResolver found them.
	Credentials map[string]string
	// AmbientCredentials allows the vendor's own chain.
	AmbientCredentials bool
	Secrets            SecretResolver
	Clock              Clock
	IDs                IDSource
	Log                *slog.Logger
	// Owner is the installation, LedgerID the ledger that it writes to.
	Owner, LedgerID string
	// StateDir is a folder of mode 0700 that belongs to this provider's kind
	// alone; it exists.
	StateDir string
	// CallTimeout bounds one call to the backend; zero is 30 s.
	CallTimeout time.Duration
	// Executable is the path under which this program can be started again.
	Executable string
}

// Filled returns r with a clock and a log where it has none: the system's clock,
// and a log that discards.
func (r OpenRequest) Filled() OpenRequest {
	if r.Clock == nil {
		r.Clock = SystemClock()
	}
	if r.Log == nil {
		r.Log = slog.New(slog.DiscardHandler)
	}
	return r
}

// Provider is a configured backend. Its methods, and those of its
// capabilities, are safe for concurrent use.
type Provider interface {
	// Info returns at once, without reaching the backend.
	Info() Info
	// Check proves reach and rights. It changes nothing.
	Check(ctx context.Context, r CheckRequest) (CheckResult, error)
	// Close frees what Open took. Jobs go on.
	Close() error
}

// Info describes a provider as it was opened.
type Info struct {
	Name       string
	Kind       string
	Identity   Identity
	Guarantees Guarantees
	// BatchMax is the most handles that JobStatuses takes; zero is no limit.
	BatchMax int
	// Rate is the backend's limit of calls a second for polling; zero is none
	// known. Burst is how many may come at once.
	Rate  float64
	Burst int
	// MaxInFlight bounds concurrent runs; zero is no limit.
	MaxInFlight int
}

// CheckRequest asks for a check.
type CheckRequest struct{}

// CheckResult is what a check found.
type CheckResult struct {
	Items []CheckItem
}

// CheckItem is one thing that was looked at.
type CheckItem struct {
	// Name is what, such as "engine" or "ecs:RunTask".
	Name string
	OK   bool
	// Detail is what was found; Remedy what to do when it is not OK.
	Detail, Remedy string
}
