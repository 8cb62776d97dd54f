package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/windlass-run/windlass/sdk"
)

// HeadFile is the name, in the state directory, of the file that keeps the
// end of the chain apart from the ledger.
const HeadFile = "ledger.head"

// ReadHead reads a head file. It returns nil when there is none, and DataLoss
// when it holds something else.
func ReadHead(path string) (*Head, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &sdk.Error{Code: sdk.FailedPrecondition, Op: "read head", Err: err}
	}
	var h Head
	if err := json.Unmarshal(b, &h); err != nil || h.LedgerID == "" || h.Count < 0 || h.Hash == "" {
		return nil, &sdk.Error{Code: sdk.DataLoss, Op: "read head", Err: fmt.Errorf("%s is not a head file (%w)", path, err),
			Remedy: "move it away; verification then has nothing to compare the end of the ledger with"}
	}
	return &h, nil
}

// WriteHead replaces a head file, durably and in one step, with mode 0600.
func WriteHead(path string, h Head) error { return placeHead(path, h, os.Rename) }

// NewHead makes a head file, durably and in one step, unless one is there.
func NewHead(path string, h Head) error {
	return placeHead(path, h, func(from, to string) error {
		if err := os.Link(from, to); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return os.Remove(from)
	})
}

// placeHead writes a file beside path and has it put there.
func placeHead(path string, h Head, place func(from, to string) error) (err error) {
	b, err := sdk.EncodeCanonical(h)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write head: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write head: %w", errors.Join(err, f.Close(), os.Remove(f.Name())))
		}
	}()
	if _, err := f.Write(append(b, '\n')); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return place(f.Name(), path)
}
