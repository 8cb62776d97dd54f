package launch

import (
	"encoding/json"
	"fmt"

	"github.com/windlass-run/windlass/sdk"
)

// Reader reads the launches of one provider.
type Reader[R any] struct {
	// Provider is the provider's name, Identity what its launches must have.
	Provider string
	Identity sdk.Identity
	// Decode reads a launch's request, which PrepareJob has written.
	Decode func(json.RawMessage) (R, error)
}

// Read returns the request of a launch, ok false where it has none. A launch of
// another provider, or of a newer version, is refused.
func (r Reader[R]) Read(op string, l sdk.Launch) (req R, ok bool, _ error) {
	if err := l.Check(op, r.Identity); err != nil {
		return req, false, err
	}
	if len(l.Request) == 0 {
		return req, false, nil
	}
	req, err := r.Decode(l.Request)
	if err != nil {
		return req, false, r.invalid(op, fmt.Errorf("read the launch: %w", err))
	}
	return req, true, nil
}

// ToSend returns the request of a launch that may be sent: one without problems.
func (r Reader[R]) ToSend(op string, l sdk.Launch) (R, error) {
	req, ok, err := r.Read(op, l)
	switch {
	case err != nil:
		return req, err
	case len(l.Problems) > 0:
		return req, r.invalid(op, fmt.Errorf("the launch has problems: %s", sdk.JoinProblems(l.Problems)))
	case !ok:
		return req, r.invalid(op, fmt.Errorf("the launch has no request"))
	}
	return req, nil
}

func (r Reader[R]) invalid(op string, err error) error {
	return &sdk.Error{Code: sdk.InvalidArgument, Op: op, Provider: r.Provider, Err: err}
}
