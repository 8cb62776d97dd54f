package aci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// spool is a folder for the logs of groups that were stopped, from the last read
// before the stop: afterwards Azure shows little of them, or nothing. Every
// process of the state directory reads it. Empty is none.
type spool string

func (s spool) file(id string) string { return filepath.Join(string(s), id+".log") }

// keep stores a log, unless a longer one is there: a read that came behind
// another's stop is the shorter.
func (s spool) keep(id, text string) error {
	if s == "" {
		return nil
	}
	if old, err := os.Stat(s.file(id)); err == nil && old.Size() >= int64(len(text)) {
		return nil
	}
	if err := os.MkdirAll(string(s), 0o700); err != nil {
		return fmt.Errorf("keep log: %w", err)
	}
	f, err := os.CreateTemp(string(s), id+".*.tmp")
	if err != nil {
		return fmt.Errorf("keep log: %w", err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), s.file(id))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error tells more
		return fmt.Errorf("keep log: %w", err)
	}
	return nil
}

// read returns a log that was kept, empty for none.
func (s spool) read(id string) (string, error) {
	if s == "" {
		return "", nil
	}
	text, err := os.ReadFile(s.file(id))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read kept log: %w", err)
	}
	return string(text), nil
}

// remove forgets a log.
func (s spool) remove(id string) error {
	if s == "" {
		return nil
	}
	if err := os.Remove(s.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove kept log: %w", err)
	}
	return nil
}
