package sdk

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// LaunchVersion is the newest version of Launch that this package reads.
const LaunchVersion = 1

// Launch is what one attempt will send, worked out beforehand and stored
// before it is sent. Sending it again sends the identical request.
type Launch struct {
	V        int      `json:"v"`
	Kind     string   `json:"kind"`
	Identity Identity `json:"identity"`
	RunID    ID       `json:"run_id"`
	// AttemptID names the attempt on the backend; Attempt is its number, from 1.
	AttemptID ID     `json:"attempt_id"`
	Attempt   int    `json:"attempt"`
	Owner     string `json:"owner"`
	LedgerID  string `json:"ledger_id"`
	// Names are the names of the objects that it will make, by role.
	Names map[string]string `json:"names,omitzero"`
	// Token is the idempotency token, where the backend has one.
	Token string `json:"token,omitzero"`
	// Request is the exact request, without secret values.
	Request json.RawMessage `json:"request,omitzero"`
	// Secrets are the references that RunJob resolves or passes on.
	Secrets map[string]SecretRef `json:"secrets,omitzero"`
	// Files are input files, kept apart from the request.
	Files []InputFile `json:"files,omitzero"`
	Stdin StdinMode   `json:"stdin,omitzero"`
	// Resubmit says when the launch may be sent again after an unclear error.
	Resubmit ResubmitRule `json:"resubmit"`
	// Fitted are defaults that were changed to suit the backend, for
	// `run --dry-run`.
	Fitted []Fitted `json:"fitted,omitzero"`
	// Warnings are things that the user should know before launch.
	Warnings []string `json:"warnings,omitzero"`
	// Problems are reasons not to launch; a launch with any is not sent.
	Problems []Problem `json:"problems,omitzero"`
	// Read is what was read and must hold until it is sent (an image's digest
	// or entrypoint), so that a second send needs no second read.
	Read map[string]string `json:"read,omitzero"`
	// NativeDeadline is the backend's own time-out, zero when none is set.
	NativeDeadline time.Duration `json:"native_deadline,omitzero"`
	// Expires is when others may remove what the launch makes, if nobody
	// renews it.
	Expires time.Time `json:"expires,omitzero"`
}

// ResubmitRule says how a launch in doubt may be settled.
type ResubmitRule struct {
	By SubmitBy `json:"by"`
	// Window is how long an identical launch is deduplicated, from the first
	// send; zero is no such time.
	Window time.Duration `json:"window,omitzero"`
}

// Fitted is one default as the backend got it.
type Fitted struct {
	Field string `json:"field"`
	Value string `json:"value"`
	Why   string `json:"why,omitzero"`
}

// Encode returns the canonical JSON. Times are in UTC, and what problems quote
// is made UTF-8, since they are for people and may quote what is wrong.
func (l Launch) Encode() ([]byte, error) {
	l.Expires = l.Expires.UTC()
	if len(l.Problems) > 0 {
		ps := make([]Problem, len(l.Problems))
		for i, p := range l.Problems {
			p.Field, p.Value, p.Message = plainText(p.Field), plainText(p.Value), plainText(p.Message)
			ps[i] = p
		}
		l.Problems = ps
	}
	if len(l.Request) > 0 {
		r, err := CanonicalJSON(l.Request)
		if err != nil {
			return nil, &Error{Code: InvalidArgument, Op: "encode launch", Field: "request", Err: err}
		}
		l.Request = r
	}
	return EncodeCanonical(l)
}

func plainText(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// Check refuses a launch of a newer version, and one of another provider than
// self.
func (l Launch) Check(op string, self Identity) error {
	if l.V > LaunchVersion {
		return &Error{Code: FailedPrecondition, Op: op, Remedy: "use a newer windlass",
			Err: fmt.Errorf("launch of version %d, this program reads up to %d", l.V, LaunchVersion)}
	}
	return self.Check(op, l.Identity)
}

// DecodeLaunch reads a Launch, under DecodeHandle's rules.
func DecodeLaunch(data []byte) (Launch, error) {
	var l Launch
	if err := decodeCanonical("launch", data, LaunchVersion, &l); err != nil {
		return Launch{}, err
	}
	if l.Kind == "" || l.AttemptID.IsZero() {
		return Launch{}, Errorf(InvalidArgument, "decode launch", "kind or attempt_id is empty")
	}
	return l, nil
}
