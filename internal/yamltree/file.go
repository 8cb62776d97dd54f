package yamltree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/windlass-run/windlass/sdk"
)

// Source says which file is read, and how its errors begin.
type Source struct {
	// Path is as it was given; "-" is standard input, and Dir the absolute folder that
	// a relative one starts at.
	Path, Dir string
	Stdin     io.Reader
	// Op is what is being done, What the kind of file in the plural, and ID the stable
	// name of what is wrong with one.
	Op, What, ID string
}

// Document is a file as it was read.
type Document struct {
	// Name is what it is called, Dir the absolute folder of relative paths in it.
	Name, Dir string
	// Data has at most MaxBytes bytes, and one more of a file that has more.
	Data []byte
}

// Read reads a file. One that isn't there is NotFound, one that can't be read
// FailedPrecondition. The end of ctx ends the wait for one who has yet to write it: a
// terminal, a pipe. What is written then is read and dropped.
func Read(ctx context.Context, s Source) (Document, error) {
	var t Document
	var err error
	read := make(chan struct{})
	go func() {
		defer close(read)
		t, err = s.read()
	}()
	select {
	case <-read:
		return t, err
	case <-ctx.Done():
		return Document{}, context.Cause(ctx)
	}
}

func (s Source) read() (Document, error) {
	if s.Path == "-" {
		data, err := io.ReadAll(io.LimitReader(s.Stdin, MaxBytes+1))
		if err != nil {
			return Document{}, sdk.Errorf(sdk.Unknown, s.Op, "standard input: %w", err)
		}
		return Document{Name: "standard input", Dir: s.Dir, Data: data}, nil
	}
	full := s.Path
	if !filepath.IsAbs(full) {
		full = filepath.Join(s.Dir, full)
	}
	h, err := os.Open(full)
	if err != nil {
		e := s.failed(err)
		e.Remedy = "name a file of " + s.What + ", or - for standard input"
		return Document{}, e
	}
	data, err := io.ReadAll(io.LimitReader(h, MaxBytes+1))
	if err = errors.Join(err, h.Close()); err != nil {
		return Document{}, s.failed(err)
	}
	return Document{Name: s.Path, Dir: filepath.Dir(full), Data: data}, nil
}

// failed names the file as it was given.
func (s Source) failed(err error) *sdk.Error {
	e := &sdk.Error{Code: sdk.FailedPrecondition, Op: s.Op, ID: s.ID}
	if errors.Is(err, os.ErrNotExist) {
		e.Code = sdk.NotFound
	}
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	e.Err = fmt.Errorf("%s: %w", s.Path, err)
	return e
}
