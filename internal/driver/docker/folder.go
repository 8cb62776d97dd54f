package docker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

const (
	secretDir  = "s"
	fileDir    = "f"
	noteFile   = "note.json"
	folderMode = 0o700
	// secretMode lets whatever user the job runs as read the file inside the
	// container; on this machine the folder around it keeps everyone out.
	secretMode = 0o444
)

// folders keeps, for each attempt, a folder on this machine with what is
// mounted into the container. Its place follows from the attempt's ID.
type folders struct {
	base string
	// endpoint tells apart the attempts of several engines.
	endpoint string
	// shared: the folder around base lies where others may write too, so that
	// it must be proven to be ours.
	shared bool
}

// note says whose a folder is, so that it can be found and removed without the
// container that it was made for.
type note struct {
	Endpoint string    `json:"endpoint"`
	RunID    sdk.ID    `json:"run_id"`
	Attempt  sdk.ID    `json:"attempt_id"`
	Owner    string    `json:"owner"`
	LedgerID string    `json:"ledger_id"`
	Made     time.Time `json:"made"`
	Expires  time.Time `json:"expires"`
}

func newFolders(root, endpoint string, shared bool) *folders {
	return &folders{base: filepath.Join(root, "attempts"), endpoint: endpoint, shared: shared}
}

func (f *folders) path(attempt sdk.ID) string { return filepath.Join(f.base, attempt.String()) }

// secretPath and filePath are where a secret or the i-th input file will lie.
func (f *folders) secretPath(attempt sdk.ID, name string) string {
	return filepath.Join(f.path(attempt), secretDir, name)
}

func (f *folders) filePath(attempt sdk.ID, i int) string {
	return filepath.Join(f.path(attempt), fileDir, strconv.Itoa(i))
}

// prepare makes the attempt's folder, or finds the one of an earlier send.
func (f *folders) prepare(n note) error {
	if f.shared {
		if err := privateDir(filepath.Dir(f.base)); err != nil {
			return err
		}
	}
	dir := f.path(n.Attempt)
	for _, d := range []string{f.base, dir, filepath.Join(dir, secretDir), filepath.Join(dir, fileDir)} {
		if err := os.Mkdir(d, folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return put(filepath.Join(dir, noteFile), data, 0o600)
}

// put writes a file whole: under its name stands the whole content or nothing.
func put(name string, data []byte, mode os.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), ".new-")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// remove removes an attempt's folder; ok is false when there was none.
func (f *folders) remove(attempt sdk.ID) (ok bool, err error) {
	dir := f.path(attempt)
	if _, err := os.Lstat(dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	return true, os.RemoveAll(dir)
}

// list returns the notes of all folders of this engine. A folder without one is
// still being made, or was left by a crash before anything was put into it.
func (f *folders) list() ([]note, error) {
	entries, err := os.ReadDir(f.base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []note
	for _, e := range entries {
		id, err := sdk.ParseID(e.Name())
		if err != nil || !e.IsDir() {
			continue
		}
		n, err := f.note(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile, or still being made
		}
		if err != nil {
			return nil, err
		}
		if n.Endpoint == f.endpoint {
			out = append(out, n)
		}
	}
	return out, nil
}

func (f *folders) note(attempt sdk.ID) (note, error) {
	var n note
	name := filepath.Join(f.path(attempt), noteFile)
	data, err := os.ReadFile(name)
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(data, &n); err != nil {
		return n, fmt.Errorf("read %s: %w", name, err)
	}
	return n, nil
}

// numericUser returns the user ID of a JobSpec.User that is a number.
func numericUser(user string) (uid int, ok bool) {
	name, _, _ := strings.Cut(user, ":")
	uid, err := strconv.Atoi(name)
	return uid, err == nil && uid >= 0
}
