package fake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// folder is the store that several processes share. A job is a file that is
// linked into place whole and never changes; each fact about it is another
// file beside. So nothing needs a lock, and a crash leaves nothing half done.
//
//	jobs/ID.job .cancel .kill .stdin .expires
//	resources/NAME      a resource, replaced as a whole
//	made/ATTEMPT/ID     one empty file for each object that was ever made
//	marks/KEY/ID.N      marks of removed jobs
//	calls/OP            one byte a call
//	claims/NAME
//	workloads/PATH/N    the versions of a workload, see workloadstore.go
//	block/OP            made by hand: calls of OP hang while it is there
//	requests.jsonl      recorded requests
type folder struct {
	dir   string
	clock sdk.Clock
}

// margin is how long writing a fact may take: facts hold from then on.
const margin = 10 * time.Millisecond

var _ store = (*folder)(nil)

func newFolder(dir string, clock sdk.Clock) (*folder, error) {
	for _, sub := range []string{"jobs", "resources", "made", "marks", "calls", "claims", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("open fake cloud: %w", err)
		}
	}
	return &folder{dir: dir, clock: clock}, nil
}

func (f *folder) path(parts ...string) string {
	return filepath.Join(append([]string{f.dir}, parts...)...)
}

func (f *folder) job(id, kind string) string { return f.path("jobs", id+"."+kind) }

// temp writes a whole file under a name of its own.
func (f *folder) temp(data []byte) (string, error) {
	t, err := os.CreateTemp(f.path("tmp"), "new-*")
	if err != nil {
		return "", err
	}
	_, err = t.Write(data)
	if err = errors.Join(err, t.Close()); err != nil {
		_ = os.Remove(t.Name())
		return "", err
	}
	return t.Name(), nil
}

// writeOnce makes a file with its whole content, unless it exists.
func (f *folder) writeOnce(name string, v any) (bool, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return false, err
	}
	tmp, err := f.temp(data)
	if err != nil {
		return false, err
	}
	defer func() { _ = os.Remove(tmp) }()
	err = os.Link(tmp, name)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// read returns false for a file that isn't there.
func read(name string, into any) (bool, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	return true, nil
}

func (f *folder) create(rec *record) (bool, error) {
	created, err := f.writeOnce(f.job(rec.ID, "job"), rec)
	if err != nil || !created {
		return false, err
	}
	dir := f.path("made", rec.AttemptID.String())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	// A job that was removed and made again counts again.
	t, err := os.CreateTemp(dir, rec.ID+"-*")
	if err != nil {
		return false, err
	}
	return true, t.Close()
}

func (f *folder) load(id string) (*view, error) {
	if !plainName(id) {
		return nil, nil
	}
	rec := &record{}
	ok, err := read(f.job(id, "job"), rec)
	if err != nil || !ok {
		return nil, err
	}
	var cancel *cancelFact
	var stdin *stdinFact
	expires := rec.Expires
	var c cancelFact
	if ok, err := read(f.job(id, "cancel"), &c); err != nil {
		return nil, err
	} else if ok {
		cancel = &c
		var kill cancelFact
		if ok, err := read(f.job(id, "kill"), &kill); err != nil {
			return nil, err
		} else if ok {
			c = c.sooner(kill)
		}
	}
	var s stdinFact
	if ok, err := read(f.job(id, "stdin"), &s); err != nil {
		return nil, err
	} else if ok {
		stdin = &s
	}
	if _, err := read(f.job(id, "expires"), &expires); err != nil {
		return nil, err
	}
	return newView(rec, cancel, stdin, expires), nil
}

// plainName keeps IDs that came from outside inside the folder.
func plainName(id string) bool {
	return id != "" && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func (f *folder) cancel(id string, c cancelFact) error {
	c.At = f.clock.Now().Add(margin)
	first, err := f.writeOnce(f.job(id, "cancel"), c)
	if err == nil && first {
		return f.withJob(id, "cancel")
	}
	if err != nil {
		return err
	}
	v, err := f.load(id)
	if err != nil || v == nil || v.cancel == nil || v.cancel.sooner(c) == *v.cancel {
		return err
	}
	if err := f.replace(f.job(id, "kill"), c); err != nil {
		return err
	}
	return f.withJob(id, "kill")
}

// withJob takes back what was written about a job that was removed meanwhile.
func (f *folder) withJob(id, kind string) error {
	if _, err := os.Lstat(f.job(id, "job")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Remove(f.job(id, kind)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f *folder) endStdin(id string, s stdinFact) error {
	s.At = f.clock.Now().Add(margin)
	if _, err := f.writeOnce(f.job(id, "stdin"), s); err != nil {
		return err
	}
	return f.withJob(id, "stdin")
}

func (f *folder) expire(id string, at time.Time) error {
	if err := f.replace(f.job(id, "expires"), at); err != nil {
		return err
	}
	return f.withJob(id, "expires")
}

// replace writes a whole file in one step.
func (f *folder) replace(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp, err := f.temp(data)
	if err != nil {
		return err
	}
	return os.Rename(tmp, name)
}

func (f *folder) remove(id string) (bool, error) {
	if !plainName(id) {
		return false, nil
	}
	err := os.Remove(f.job(id, "job"))
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for _, kind := range []string{"cancel", "kill", "stdin", "expires"} {
		if err := os.Remove(f.job(id, kind)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return there, err
		}
	}
	return there, nil
}

func (f *folder) ofAttempt(attempt sdk.ID) ([]*view, error) {
	return f.matching(jobPrefix+attempt.String(), func(r *record) bool { return r.AttemptID == attempt })
}

func (f *folder) ofRun(run sdk.ID) ([]*view, error) {
	return f.matching("", func(r *record) bool { return r.RunID == run })
}

func (f *folder) all() ([]*view, error) {
	return f.matching("", func(*record) bool { return true })
}

func (f *folder) matching(prefix string, want func(*record) bool) ([]*view, error) {
	entries, err := os.ReadDir(f.path("jobs"))
	if err != nil {
		return nil, err
	}
	var out []*view
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".job")
		if !ok || !strings.HasPrefix(id, prefix) {
			continue
		}
		v, err := f.load(id)
		if err != nil {
			return nil, err
		}
		if v != nil && want(v.rec) {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b *view) int { return strings.Compare(a.rec.ID, b.rec.ID) })
	return out, nil
}

func (f *folder) made(attempt sdk.ID) (int, error) { return f.files("made", attempt.String()) }

func (f *folder) files(parts ...string) (int, error) {
	entries, err := os.ReadDir(f.path(parts...))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return len(entries), err
}

// markDir is a folder's name for any key.
func (f *folder) markDir(key string) string { return fmt.Sprintf("%x", key) }

func (f *folder) marks(key string) (int, error) { return f.files("marks", f.markDir(key)) }

func (f *folder) keepMarks(keys []string) error {
	for _, k := range keys {
		dir := f.path("marks", f.markDir(k))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		t, err := os.CreateTemp(dir, "mark-*")
		if err != nil {
			return err
		}
		if err := t.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (f *folder) appendTo(name string, data []byte) (size int64, err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	_, err = file.Write(data)
	st, statErr := file.Stat()
	if err = errors.Join(err, statErr, file.Close()); err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f *folder) count(op Op) (int64, error) {
	return f.appendTo(f.path("calls", string(op)), []byte{'.'})
}

func (f *folder) counted(op Op) (int64, error) {
	st, err := os.Stat(f.path("calls", string(op)))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f *folder) claim(name string) (bool, error) {
	file, err := os.OpenFile(f.path("claims", name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, file.Close()
}

func (f *folder) keepBody(b Body) error {
	line, err := json.Marshal(b)
	if err != nil {
		return err
	}
	_, err = f.appendTo(f.path("requests.jsonl"), append(line, '\n'))
	return err
}

func (f *folder) bodies() ([]Body, error) {
	data, err := os.ReadFile(f.path("requests.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Body
	for line := range bytes.Lines(data) {
		var b Body
		if err := json.Unmarshal(line, &b); err != nil {
			return out, fmt.Errorf("read recorded requests: %w", err)
		}
		out = append(out, b)
	}
	return out, nil
}

func (f *folder) blocked(op Op) bool {
	_, err := os.Stat(f.path("block", string(op)))
	return err == nil
}

func (f *folder) poll() bool { return true }
