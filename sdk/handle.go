package sdk

import "fmt"

// Identity says which backend a handle belongs to. A handle whose identity is
// not the provider's is refused with FailedPrecondition.
type Identity struct {
	Kind     string `json:"kind"`
	Account  string `json:"account,omitzero"`
	Region   string `json:"region,omitzero"`
	Endpoint string `json:"endpoint,omitzero"`
}

// String returns the identity in one line, for people.
func (i Identity) String() string {
	s := i.Kind
	for _, p := range []string{i.Account, i.Region, i.Endpoint} {
		if p != "" {
			s += "/" + p
		}
	}
	return s
}

// Check returns FailedPrecondition when other is not i.
func (i Identity) Check(op string, other Identity) error {
	if i == other {
		return nil
	}
	return &Error{Code: FailedPrecondition, Op: op, Remedy: "use the provider that the run was submitted with",
		Err: fmt.Errorf("the handle belongs to %s, this provider is %s", other, i)}
}

// HandleVersion is the newest version of JobHandle that this package reads.
const HandleVersion = 1

// JobHandle is what a driver needs to find its job again, from any machine and
// after any crash: small, versioned, without secrets.
type JobHandle struct {
	V        int               `json:"v"`
	Kind     string            `json:"kind"`
	Identity Identity          `json:"identity"`
	ID       string            `json:"id"`
	Name     string            `json:"name,omitzero"`
	Metadata map[string]string `json:"metadata,omitzero"`
}

// Encode returns the canonical JSON.
func (h JobHandle) Encode() ([]byte, error) { return EncodeCanonical(h) }

// DecodeHandle reads a JobHandle. A handle of a newer version is
// FailedPrecondition, never NotFound; anything malformed is InvalidArgument.
func DecodeHandle(data []byte) (JobHandle, error) {
	var h JobHandle
	if err := decodeCanonical("handle", data, HandleVersion, &h); err != nil {
		return JobHandle{}, err
	}
	if h.Kind == "" || h.ID == "" {
		return JobHandle{}, Errorf(InvalidArgument, "decode handle", "kind or id is empty")
	}
	return h, nil
}

// Check refuses a handle of another provider, or of a newer version.
func (h JobHandle) Check(op string, self Identity) error {
	if h.V > HandleVersion {
		return &Error{Code: FailedPrecondition, Op: op, Remedy: "use a newer windlass",
			Err: fmt.Errorf("handle of version %d, this program reads up to %d", h.V, HandleVersion)}
	}
	return self.Check(op, h.Identity)
}

// CursorVersion is the newest version of LogCursor that this package reads.
const CursorVersion = 1

// LogCursor is a place in a log. It means something only to the driver that
// made it.
type LogCursor struct {
	V        int               `json:"v"`
	Kind     string            `json:"kind"`
	Position map[string]string `json:"position,omitzero"`
}

// Encode returns the canonical JSON.
func (c LogCursor) Encode() ([]byte, error) { return EncodeCanonical(c) }

// DecodeCursor reads a LogCursor, under DecodeHandle's rules.
func DecodeCursor(data []byte) (LogCursor, error) {
	var c LogCursor
	if err := decodeCanonical("cursor", data, CursorVersion, &c); err != nil {
		return LogCursor{}, err
	}
	return c, nil
}
