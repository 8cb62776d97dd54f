//go:build linux || darwin

package local

import (
	"encoding/json"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
	"github.com/windlass-run/windlass/internal/driver/local/cgroup"
	"github.com/windlass-run/windlass/sdk"
)

// request is Launch.Request: the job without what it inherits and without
// secrets.
type request struct {
	V    int      `json:"v"`
	Name string   `json:"name,omitzero"`
	Args sdk.Argv `json:"args"`
	Env  sdk.Env  `json:"env,omitzero"`
	// Dir is empty for the submitter's.
	Dir       string            `json:"dir,omitzero"`
	User      *attempt.User     `json:"user,omitzero"`
	Limits    cgroup.Limits     `json:"limits,omitzero"`
	Grace     time.Duration     `json:"grace"`
	Deadline  time.Duration     `json:"deadline,omitzero"`
	MaxOutput int64             `json:"max_output"`
	NoCgroup  bool              `json:"no_cgroup,omitzero"`
	Labels    map[string]string `json:"labels,omitzero"`
}

const requestVersion = 1

func (p *provider) decodeRequest(op string, l sdk.Launch) (request, error) {
	var r request
	if l.V > sdk.LaunchVersion || l.Kind != Kind {
		return r, p.failf(sdk.FailedPrecondition, op, "a launch of kind %q and version %d is not for this driver", l.Kind, l.V)
	}
	if err := p.identity.Check(op, l.Identity); err != nil {
		return r, p.fail(op, err)
	}
	if len(l.Problems) > 0 {
		return r, p.failf(sdk.InvalidArgument, op, "%s", sdk.JoinProblems(l.Problems))
	}
	if err := json.Unmarshal(l.Request, &r); err != nil {
		return r, p.failf(sdk.InvalidArgument, op, "the launch has no request that can be read: %w", err)
	}
	if r.V > requestVersion {
		return r, &sdk.Error{Code: sdk.FailedPrecondition, Op: op, Provider: p.name, Remedy: "use a newer windlass",
			Err: sdk.Errorf(sdk.FailedPrecondition, "read request", "version %d, this program reads up to %d", r.V, requestVersion)}
	}
	if len(r.Args) == 0 || l.AttemptID.IsZero() {
		return r, p.failf(sdk.InvalidArgument, op, "the launch has no command or no attempt")
	}
	return r, nil
}
