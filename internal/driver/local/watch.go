//go:build linux || darwin

package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
	"github.com/windlass-run/windlass/internal/driver/local/supervisor"
	"github.com/windlass-run/windlass/sdk"
)

// WatchJobs reads on in the file of changes, to which every supervisor adds a
// line when its job starts and when it has ended.
func (p *provider) WatchJobs(ctx context.Context, r sdk.WatchJobsRequest) iter.Seq2[sdk.WatchEvent, error] {
	const op = "watch jobs"
	return func(yield func(sdk.WatchEvent, error) bool) {
		fail := func(err error) { yield(sdk.WatchEvent{}, p.fail(op, err)) }
		w := &changes{path: filepath.Join(p.state, supervisor.ChangesFile)}
		if err := w.start(r.Resume); err != nil {
			fail(err)
			return
		}
		n := p.watcher.notifier()
		defer n.close()
		n.names(p.state)
		tick := time.NewTicker(n.every())
		defer tick.Stop()
		for {
			if ctx.Err() != nil {
				fail(context.Cause(ctx))
				return
			}
			n.next(w.path) // before the look, so that nothing falls between
			before := w.resume()
			ids, all, err := w.read()
			if err != nil {
				fail(err)
				return
			}
			if all && !yield(sdk.WatchEvent{Resume: before}, nil) {
				return
			}
			for i, id := range ids {
				// Only the last event of a batch stands for all of it.
				resume := before
				if i == len(ids)-1 {
					resume = w.resume()
				}
				if p.concerns(id, r.Owner) && !yield(sdk.WatchEvent{AttemptID: id, Resume: resume}, nil) {
					return
				}
			}
			select {
			case <-n.c:
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// concerns reports whether an attempt is an owner's; one that is gone may be.
func (p *provider) concerns(id sdk.ID, owner string) bool {
	if owner == "" {
		return true
	}
	l, err := attempt.Read[attempt.Launch](attempt.In(p.state, id), attempt.LaunchFile)
	return err != nil || l.Owner == owner
}

// changes is a place in the file of changes.
type changes struct {
	path string
	at   int64
	// lost: there may be changes before at that were not read.
	lost bool
}

func (w *changes) start(resume string) error {
	size, err := w.size()
	if err != nil {
		return err
	}
	w.at = size
	if resume == "" {
		return nil
	}
	at, err := strconv.ParseInt(resume, 10, 64)
	if err != nil || at < 0 {
		return sdk.Errorf(sdk.InvalidArgument, "read resume", "%q is no place in the changes", resume)
	}
	if at <= size {
		w.at = at
	} else {
		w.lost = true
	}
	return nil
}

func (w *changes) size() (int64, error) {
	st, err := os.Stat(w.path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at changes: %w", err)
	}
	return st.Size(), nil
}

func (w *changes) resume() string { return strconv.FormatInt(w.at, 10) }

// read returns the attempts that changed since; all means that any may have.
func (w *changes) read() (ids []sdk.ID, all bool, err error) {
	size, err := w.size()
	if err != nil {
		return nil, false, err
	}
	all = w.lost
	w.lost = false
	if size < w.at {
		w.at, all = 0, true // the file began anew
	}
	if size == w.at {
		return nil, all, nil
	}
	f, err := os.Open(w.path)
	if err != nil {
		return nil, false, fmt.Errorf("read changes: %w", err)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, w.at, size-w.at))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, false, fmt.Errorf("read changes: %w", err)
	}
	whole := bytes.LastIndexByte(b, '\n') + 1
	w.at += int64(whole)
	seen := map[sdk.ID]bool{}
	for line := range bytes.Lines(b[:whole]) {
		id, err := sdk.ParseID(string(bytes.TrimSpace(line)))
		if err != nil {
			all = true
		} else if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, all, nil
}
