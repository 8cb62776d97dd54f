package sdk

import (
	"encoding/json"
	"time"
)

// SpecVersion is the newest version of JobSpec that this package reads.
const SpecVersion = 1

// JobSpec describes a one-off job. What is unset is fitted to the backend;
// what is set is honoured or refused before launch, never dropped.
type JobSpec struct {
	V    int    `json:"v"`
	Name string `json:"name,omitzero"`
	// Image is the container image; empty on backends without containers.
	Image string `json:"image,omitzero"`
	// Entrypoint replaces the image's: nil leaves it, empty clears it.
	Entrypoint Argv `json:"entrypoint,omitzero"`
	// Args are the command's arguments, a list that no shell re-reads: nil
	// leaves the image's own, empty clears them.
	Args Argv `json:"args,omitzero"`
	// ImageEntrypoint tells a backend with a single list what the image's own
	// ENTRYPOINT is; nil is not told, empty is none.
	ImageEntrypoint Argv `json:"image_entrypoint,omitzero"`
	Env             Env  `json:"env,omitzero"`
	// Secrets maps names to references; values never stand here.
	Secrets map[string]SecretRef `json:"secrets,omitzero"`
	Workdir string               `json:"workdir,omitzero"`
	User    string               `json:"user,omitzero"`
	// CPU is in thousandths of a core, Memory and EphemeralStorage in bytes.
	CPU              int64 `json:"cpu,omitzero"`
	Memory           int64 `json:"memory,omitzero"`
	GPU              int64 `json:"gpu,omitzero"`
	EphemeralStorage int64 `json:"ephemeral_storage,omitzero"`
	// PIDs bounds the number of processes.
	PIDs int64 `json:"pids,omitzero"`
	// Timeout bounds the execution of one attempt, from the first sight of
	// running; zero is no bound.
	Timeout time.Duration `json:"timeout,omitzero"`
	// StartTimeout bounds the time from the first send to running.
	StartTimeout time.Duration `json:"start_timeout,omitzero"`
	// Grace is the time between asking to end and killing; nil is unset.
	Grace *time.Duration `json:"grace,omitzero"`
	// Retries is how many further attempts may follow a proven failure.
	Retries int               `json:"retries,omitzero"`
	Labels  map[string]string `json:"labels,omitzero"`
	Network string            `json:"network,omitzero"`
	Mounts  []Mount           `json:"mounts,omitzero"`
	Files   []InputFile       `json:"files,omitzero"`
	Stdin   StdinMode         `json:"stdin,omitzero"`
	Profile Profile           `json:"profile,omitzero"`
	// TTL is how long the backend keeps an ended job, at most, if nobody
	// cleans up; zero is unset.
	TTL time.Duration `json:"ttl,omitzero"`
	// AllowVisibleSecret permits secret values in places that anyone with
	// read access to the backend can see.
	AllowVisibleSecret bool `json:"allow_visible_secret,omitzero"`
	// Options are the kind's own, under its published schema.
	Options json.RawMessage `json:"options,omitzero"`
}

// Argv is a list of arguments. Each is any bytes but NUL; they travel as
// base64, so that nothing is lost in JSON.
type Argv []string

// MarshalJSON implements json.Marshaler.
func (a Argv) MarshalJSON() ([]byte, error) {
	if a == nil {
		return []byte("null"), nil
	}
	out := make([][]byte, len(a))
	for i, s := range a {
		out[i] = []byte(s)
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Argv) UnmarshalJSON(b []byte) error {
	var in [][]byte
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	if in == nil {
		*a = nil
		return nil
	}
	out := make(Argv, len(in))
	for i, s := range in {
		out[i] = string(s)
	}
	*a = out
	return nil
}

// IsZero reports whether the list is unset, which is not the same as empty.
func (a Argv) IsZero() bool { return a == nil }

// Env maps names of variables to values; values are any bytes but NUL and
// travel as base64.
type Env map[string]string

// MarshalJSON implements json.Marshaler.
func (e Env) MarshalJSON() ([]byte, error) {
	if e == nil {
		return []byte("null"), nil
	}
	out := make(map[string][]byte, len(e))
	for k, v := range e {
		out[k] = []byte(v)
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Env) UnmarshalJSON(b []byte) error {
	var in map[string][]byte
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	if in == nil {
		*e = nil
		return nil
	}
	out := make(Env, len(in))
	for k, v := range in {
		out[k] = string(v)
	}
	*e = out
	return nil
}

// MountType is the kind of a mount.
type MountType string

// The kinds of mounts.
const (
	MountBind   MountType = "bind"
	MountVolume MountType = "volume"
	MountTmpfs  MountType = "tmpfs"
)

// Mount puts a folder into the job.
type Mount struct {
	Type MountType `json:"type"`
	// Source is a path on the engine's machine for bind, a name for volume,
	// empty for tmpfs.
	Source   string `json:"source,omitzero"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only,omitzero"`
	// Size bounds a tmpfs, in bytes.
	Size int64 `json:"size,omitzero"`
}

// MaxInputBytes bounds the sum of a job's input files.
const MaxInputBytes = 512 << 10

// InputFile is a small file that the job finds at Path.
type InputFile struct {
	Path string `json:"path"`
	// Mode is the permission bits; zero is 0644.
	Mode int64  `json:"mode,omitzero"`
	Data []byte `json:"data"`
}

// StdinMode says where a job's standard input comes from.
type StdinMode string

// StdinNone is empty input. StdinAttached is a pipe of the attached command,
// whose loss is the end of input. StdinSpooled was read whole before launch.
const (
	StdinNone     StdinMode = ""
	StdinAttached StdinMode = "attached"
	StdinSpooled  StdinMode = "spooled"
)

// Profile is a named set of security settings.
type Profile string

// The profiles. None of them grants privileges beyond the backend's defaults.
const (
	ProfileUnset      Profile = ""
	ProfileStrict     Profile = "strict"
	ProfileStandard   Profile = "standard"
	ProfilePermissive Profile = "permissive"
)

// Encode returns the canonical JSON.
func (s JobSpec) Encode() ([]byte, error) {
	if s.V == 0 {
		s.V = SpecVersion
	}
	if len(s.Options) > 0 {
		o, err := CanonicalJSON(s.Options)
		if err != nil {
			return nil, &Error{Code: InvalidArgument, Op: "encode spec", Field: "options", Err: err}
		}
		s.Options = o
	}
	return EncodeCanonical(s)
}

// Hash returns the SHA-256 of the canonical JSON, in hex.
func (s JobSpec) Hash() (string, error) {
	b, err := s.Encode()
	if err != nil {
		return "", err
	}
	return HashCanonical(b), nil
}

// DecodeSpec reads a JobSpec, under DecodeHandle's rules.
func DecodeSpec(data []byte) (JobSpec, error) {
	var s JobSpec
	if err := decodeCanonical("spec", data, SpecVersion, &s); err != nil {
		return JobSpec{}, err
	}
	return s, nil
}
