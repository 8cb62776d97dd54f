// Package attempt is the folder of one attempt of a local job: what is known
// of it, durable and readable by any process of its owner. The lock in it is
// held by whoever starts the attempt, and then by its supervisor to the end.
package attempt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/windlass-run/windlass/sdk"
)

// The files of a folder.
const (
	LockFile    = "lock"
	LaunchFile  = "launch.json"
	BegunFile   = "begun.json"
	StartedFile = "started.json"
	EndFile     = "end.json"
	CancelFile  = "cancel.json"
	ExpiresFile = "expires.json"
	OutputFile  = "output"
	StdinFile   = "stdin"
	ErrorsFile  = "supervisor.log"
	// spareFile holds room for the end record on a disk that is full by then.
	spareFile = "end.spare"
)

// spareSize is room enough for an End.
const spareSize = 8 << 10

// gonePrefix names folders that are being removed.
const gonePrefix = ".gone-"

// ErrNone says that a record isn't there.
var ErrNone = fs.ErrNotExist

// Folder is the path of an attempt's folder.
type Folder string

// In returns the folder of an attempt below a provider's state folder.
func In(state string, id sdk.ID) Folder { return Folder(filepath.Join(state, id.String())) }

// Path returns the path of a file in the folder.
func (f Folder) Path(file string) string { return filepath.Join(string(f), file) }

// Exists reports whether the folder is there.
func (f Folder) Exists() (bool, error) {
	_, err := os.Lstat(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for attempt: %w", err)
	}
	return true, nil
}

// Has reports whether a file is there.
func (f Folder) Has(file string) bool {
	_, err := os.Lstat(f.Path(file))
	return err == nil
}

// Read reads a record. It returns ErrNone when there is none, and
// FailedPrecondition when a newer program wrote it.
func Read[T any](f Folder, file string) (T, error) {
	var out T
	b, err := os.ReadFile(f.Path(file))
	if err != nil {
		return out, fmt.Errorf("read record: %w", err)
	}
	var version struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(b, &version); err != nil {
		return out, sdk.Errorf(sdk.DataLoss, "read record", "%s: %w", f.Path(file), err)
	}
	if version.V > Version {
		return out, &sdk.Error{Code: sdk.FailedPrecondition, Op: "read record", Remedy: "use a newer windlass",
			Err: fmt.Errorf("%s has version %d, this program reads up to %d", f.Path(file), version.V, Version)}
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return out, sdk.Errorf(sdk.DataLoss, "read record", "%s: %w", f.Path(file), err)
	}
	return out, nil
}

// Durability says what a Write waits for.
type Durability int

// Visible: every process sees the record. Durable: it outlives a crash of the
// machine too.
const (
	Visible Durability = iota
	Durable
)

// temporaries tells apart the temporary files of one process.
var temporaries atomic.Uint64

// Write writes a record in one step: readers see the whole of it or nothing.
func Write(f Folder, file string, v any, d Durability) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	tmp := f.Path(fmt.Sprintf(".%s.%d.%d", file, os.Getpid(), temporaries.Add(1)))
	h, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	_, err = h.Write(b)
	if err == nil && d == Durable {
		err = h.Sync()
	}
	if cerr := h.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, f.Path(file))
	}
	if err != nil {
		_ = os.Remove(tmp)
		return fmt.Errorf("write record: %w", err)
	}
	if d == Durable {
		return f.Sync()
	}
	return nil
}

// Sync makes the folder's list of files durable.
func (f Folder) Sync() error {
	if err := SyncDir(string(f)); err != nil {
		return fmt.Errorf("sync attempt: %w", err)
	}
	return nil
}

// SyncDir makes the list of files of any folder durable.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// Reserve makes room for the end record, so that a full disk can't keep the
// job's end from being recorded. Where the file system has no such thing it
// still takes the blocks by writing them.
func (f Folder) Reserve() error {
	h, err := os.OpenFile(f.Path(spareFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("reserve end record: %w", err)
	}
	err = allocate(h, spareSize)
	if cerr := h.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("reserve end record: %w", err)
	}
	return nil
}

// WriteEnd writes the final record durably into the room of Reserve. Once it
// returns nil the attempt has ended for everybody; visible is called as soon
// as readers see it, which is before the folder's own sync.
func (f Folder) WriteEnd(e End, visible func()) error {
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write end record: %w", err)
	}
	h, err := os.OpenFile(f.Path(spareFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("write end record: %w", err)
	}
	_, err = h.WriteAt(b, 0)
	if err == nil {
		err = h.Truncate(int64(len(b)))
	}
	if err == nil {
		err = h.Sync()
	}
	if cerr := h.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Path(spareFile), f.Path(EndFile))
	}
	if err != nil {
		return fmt.Errorf("write end record: %w", err)
	}
	visible()
	return f.Sync()
}

// Discard removes the folder. It is out of sight at once: a crash on the way
// leaves a folder that Leftovers finds.
func (f Folder) Discard() error {
	state, id := filepath.Split(string(f))
	for n := 0; ; n++ {
		gone := filepath.Join(state, gonePrefix+id+"-"+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(n))
		err := os.Rename(string(f), gone)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = os.RemoveAll(gone)
		}
		if err != nil {
			return fmt.Errorf("remove attempt: %w", err)
		}
		return nil
	}
}

// Leftovers returns the paths of folders whose removal was cut short, of all
// attempts below state or, with an ID, of one.
func Leftovers(state string, id sdk.ID) ([]string, error) {
	list, err := os.ReadDir(state)
	if err != nil {
		return nil, fmt.Errorf("list attempts: %w", err)
	}
	var out []string
	for _, e := range list {
		if strings.HasPrefix(e.Name(), gonePrefix+id.String()) {
			out = append(out, filepath.Join(state, e.Name()))
		}
	}
	return out, nil
}

// List returns the attempts below a state folder, in order of age.
func List(state string) ([]sdk.ID, error) {
	list, err := os.ReadDir(state)
	if err != nil {
		return nil, fmt.Errorf("list attempts: %w", err)
	}
	var out []sdk.ID
	for _, e := range list {
		if id, err := sdk.ParseID(e.Name()); err == nil && e.IsDir() {
			out = append(out, id)
		}
	}
	return out, nil
}

// LeftoverOf returns the attempt that a path of Leftovers belonged to; it is
// zero for any other path.
func LeftoverOf(path string) sdk.ID {
	name, ok := strings.CutPrefix(filepath.Base(path), gonePrefix)
	if !ok || len(name) < sdk.IDLen {
		return sdk.ID{}
	}
	id, err := sdk.ParseID(name[:sdk.IDLen])
	if err != nil {
		return sdk.ID{}
	}
	return id
}
