package joblog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// The stable IDs of this package's errors in `windlass explain`.
const (
	// ErrIDExpired marks the NotFound of a log that retention removed.
	ErrIDExpired = "logs.expired"
	// ErrIDFenced marks the Aborted of a writer that another holder replaced.
	ErrIDFenced = "logs.fenced"
	// ErrIDDisk marks the errors of a disk that is full or fails.
	ErrIDDisk = "logs.disk"
)

// Defaults of Options.
const (
	DefaultMaxBytes     = 256 << 20
	DefaultSegmentBytes = 8 << 20
	DefaultFlushEvery   = 20 * time.Millisecond
	DefaultMaxOpen      = 4096
	// MinMaxBytes is the smallest cap that leaves room for head and tail.
	MinMaxBytes = 64 << 10
)

// Key names a log: one attempt of a run. Attempts count from 0 or 1, as the
// caller likes.
type Key struct {
	Run     sdk.ID
	Attempt int
}

// Options configure a Store. The zero value is good.
type Options struct {
	// MaxBytes caps the disk use of one attempt, at least MinMaxBytes; 0 is
	// DefaultMaxBytes. A quarter is kept for the head, the rest is the tail.
	MaxBytes int64
	// SegmentBytes is the size of a segment, which is also what the cap drops
	// at a time; 0 is DefaultSegmentBytes. It is lowered to an eighth of
	// MaxBytes.
	SegmentBytes int64
	// FlushEvery is how long appended bytes may stay out of readers' sight; 0
	// is DefaultFlushEvery, negative leaves flushing to the caller.
	FlushEvery time.Duration
	// Clock stamps gaps and tombstones; nil is the machine's.
	Clock sdk.Clock
	// FS is the file system; nil is the host's.
	FS FS
	// MaxOpen is how many files all writers together keep open; 0 is a quarter of
	// what the process may open, at most DefaultMaxOpen.
	MaxOpen int
	// Reading makes no folder: logs are only read, if there are any.
	Reading bool
}

// Store is a folder of logs. Any number of stores, in any number of processes,
// may use one folder. It is safe for concurrent use.
type Store struct {
	dir        string
	fs         FS
	files      *pool
	clock      sdk.Clock
	maxBytes   int64
	segBytes   int64
	flushEvery time.Duration
	// flushAt is how much is buffered before it is written, keepAtMost how
	// much is kept while the disk refuses it.
	flushAt, keepAtMost int

	mu      sync.Mutex
	writers map[Key]*Writer
	bells   map[Key]*bell
}

// Open makes the folder, with mode 0700, if need be and not told otherwise. It reads no log.
func Open(dir string, o Options) (*Store, error) {
	const op = "open log store"
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = DefaultSegmentBytes
	}
	if o.FlushEvery == 0 {
		o.FlushEvery = DefaultFlushEvery
	}
	if o.Clock == nil {
		o.Clock = sdk.SystemClock()
	}
	if o.MaxBytes < MinMaxBytes {
		return nil, sdk.Errorf(sdk.InvalidArgument, op, "a cap of %d bytes is too small, the least is %d", o.MaxBytes, MinMaxBytes)
	}
	if o.SegmentBytes < 0 {
		return nil, sdk.Errorf(sdk.InvalidArgument, op, "a segment of %d bytes is impossible", o.SegmentBytes)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if o.FS == nil {
		o.FS = OS(dir)
	}
	if o.MaxOpen <= 0 {
		o.MaxOpen = max(min(openLimit()/4, DefaultMaxOpen), 2)
	}
	if !o.Reading {
		if err := o.FS.MkdirAll(dir, 0o700); err != nil {
			return nil, diskError(op, err)
		}
	}
	return &Store{
		dir: dir, fs: o.FS, files: newPool(o.FS, o.MaxOpen), clock: o.Clock, maxBytes: o.MaxBytes,
		segBytes: max(min(o.SegmentBytes, o.MaxBytes/8), MinMaxBytes/8), flushEvery: o.FlushEvery,
		flushAt: flushAt, keepAtMost: keepAtMost,
		writers: map[Key]*Writer{}, bells: map[Key]*bell{},
	}, nil
}

const tombSuffix = ".expired"

func (s *Store) runDir(run sdk.ID) string { return filepath.Join(s.dir, run.String()) }
func (s *Store) tomb(run sdk.ID) string   { return s.runDir(run) + tombSuffix }
func (s *Store) attemptDir(k Key) string {
	return filepath.Join(s.runDir(k.Run), strconv.Itoa(k.Attempt))
}
func (k Key) String() string { return fmt.Sprintf("run %s attempt %d", k.Run, k.Attempt) }
func (k Key) check(op string) error {
	if k.Run.IsZero() || k.Attempt < 0 {
		return sdk.Errorf(sdk.InvalidArgument, op, "run %q and attempt %d name no log", k.Run, k.Attempt)
	}
	return nil
}

// expired returns the error of a log that retention removed, or nil when
// retention did not remove it.
func (s *Store) expired(op string, run sdk.ID) error {
	switch _, err := s.fs.Stat(s.tomb(run)); {
	case err == nil:
		return &sdk.Error{Code: sdk.NotFound, ID: ErrIDExpired, Op: op, Remedy: "retention.logs says how long output is kept",
			Err: fmt.Errorf("the output of run %s was removed, by windlass rm or as retention.logs says", run.Short())}
	case isMissing(err):
		return nil
	default:
		return diskError(op, err)
	}
}

// diskError classes what a file system returned.
func diskError(op string, err error) error {
	if err == nil {
		return nil
	}
	e := &sdk.Error{Code: sdk.Unavailable, ID: ErrIDDisk, Op: op, Retryable: true, Err: err}
	switch {
	case isFull(err):
		e.Code, e.Remedy = sdk.ResourceExhausted, "make room on the disk"
	case errors.Is(err, os.ErrPermission):
		e.Code, e.Retryable, e.Remedy = sdk.PermissionDenied, false, "give the user of windlass the right to write there"
	}
	return e
}

// Remove deletes the logs of a run and leaves a tombstone, so that whoever asks
// for them later learns that retention took them: NotFound with the ID
// ErrIDExpired. It is idempotent. A run that this store has an open writer for
// is FailedPrecondition; keeping clear of other processes' is the caller's
// part.
func (s *Store) Remove(run sdk.ID) error {
	const op = "remove logs"
	if run.IsZero() {
		return sdk.Errorf(sdk.InvalidArgument, op, "no run is named")
	}
	s.mu.Lock()
	for k := range s.writers {
		if k.Run == run {
			s.mu.Unlock()
			return sdk.Errorf(sdk.FailedPrecondition, op, "run %s is still being captured", run)
		}
	}
	s.mu.Unlock()
	if _, err := s.fs.Stat(s.runDir(run)); err != nil {
		if isMissing(err) {
			return nil
		}
		return diskError(op, err)
	}
	f, err := s.fs.OpenFile(s.tomb(run), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil && !isFull(err) {
		return diskError(op, err)
	}
	if err == nil {
		// The name alone says it; the time inside is for people.
		_, err = f.WriteAt([]byte(s.clock.Now().UTC().Format(time.RFC3339)+"\n"), 0)
		if err = errors.Join(err, f.Close()); err != nil && !isFull(err) {
			return diskError(op, err)
		}
	}
	if err := s.fs.SyncDir(s.dir); err != nil && !isFull(err) {
		return diskError(op, err)
	}
	if err := s.fs.RemoveAll(s.runDir(run)); err != nil {
		return diskError(op, err)
	}
	s.ringRun(run)
	return nil
}

// Forget removes a run's logs and its tombstone: afterwards the store has never
// heard of the run.
func (s *Store) Forget(run sdk.ID) error {
	if err := s.Remove(run); err != nil {
		return err
	}
	if err := s.fs.Remove(s.tomb(run)); err != nil && !isMissing(err) {
		return diskError("forget logs", err)
	}
	return nil
}

// Purge forgets the runs of which gone says so: their logs, and the tombstones of
// those that were removed before.
func (s *Store) Purge(ctx context.Context, gone func(run sdk.ID) (bool, error)) error {
	const op = "purge logs"
	entries, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return diskError(op, err)
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", op, context.Cause(ctx))
		}
		name, dead := strings.CutSuffix(e.Name(), tombSuffix)
		id, err := sdk.ParseID(name)
		if err != nil || !dead && !e.IsDir() {
			continue // not ours
		}
		out, err := gone(id)
		if err != nil {
			return err
		}
		if out {
			if err := s.Forget(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// Runs returns every run that has a log, oldest first. The error comes last.
func (s *Store) Runs(ctx context.Context) iter.Seq2[sdk.ID, error] {
	return func(yield func(sdk.ID, error) bool) {
		entries, err := s.fs.ReadDir(s.dir)
		if err != nil {
			yield(sdk.ID{}, diskError("list logs", err))
			return
		}
		for _, e := range entries {
			if ctx.Err() != nil {
				yield(sdk.ID{}, fmt.Errorf("list logs: %w", context.Cause(ctx)))
				return
			}
			if !e.IsDir() {
				continue
			}
			if id, err := sdk.ParseID(e.Name()); err == nil && !yield(id, nil) {
				return
			}
		}
	}
}

// Attempts returns the attempts of a run that have a log, in order. A run
// whose logs retention removed is NotFound with the ID ErrIDExpired; one that
// has no log yet has no attempts.
func (s *Store) Attempts(run sdk.ID) ([]int, error) {
	const op = "list attempts"
	entries, err := s.fs.ReadDir(s.runDir(run))
	if isMissing(err) {
		return nil, s.expired(op, run)
	}
	if err != nil {
		return nil, diskError(op, err)
	}
	var out []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n >= 0 {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Size returns how many bytes a run's segments take on the disk, 0 when it has
// none.
func (s *Store) Size(run sdk.ID) (int64, error) {
	const op = "measure logs"
	attempts, err := s.fs.ReadDir(s.runDir(run))
	if err != nil && !isMissing(err) {
		return 0, diskError(op, err)
	}
	var total int64
	for _, a := range attempts {
		files, err := s.fs.ReadDir(filepath.Join(s.runDir(run), a.Name()))
		if err != nil && !isMissing(err) {
			return 0, diskError(op, err)
		}
		for _, f := range files {
			if !strings.HasSuffix(strings.TrimSuffix(f.Name(), packSuffix), segSuffix) {
				continue
			}
			info, err := f.Info()
			if isMissing(err) {
				continue
			}
			if err != nil {
				return 0, diskError(op, err)
			}
			total += info.Size()
		}
	}
	return total, nil
}

// Verdict returns the verdict of a log that has ended, and false for one that
// hasn't or isn't there. A log that retention removed is NotFound with the ID
// ErrIDExpired.
func (s *Store) Verdict(k Key) (sdk.Verdict, bool, error) {
	const op = "read log verdict"
	if err := k.check(op); err != nil {
		return "", false, err
	}
	dir := s.attemptDir(k)
	entries, err := s.fs.ReadDir(dir)
	if isMissing(err) {
		return "", false, s.expired(op, k.Run)
	}
	if err != nil {
		return "", false, diskError(op, err)
	}
	var claims []term
	for _, e := range entries {
		if t, ok := parseClaim(e.Name()); ok {
			claims = append(claims, t)
		}
	}
	slices.SortFunc(claims, term.compare)
	c, err := s.newest(dir, claims)
	if err != nil {
		return "", false, diskError(op, err)
	}
	if !c.final() {
		return "", false, nil
	}
	return c.Verdict, true, nil
}

// bell wakes the readers of one log in this process.
type bell struct {
	refs int
	mu   sync.Mutex
	// rung is nil while nobody waits.
	rung chan struct{}
}

func (b *bell) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}

// bell returns the bell of a log, to be given back with drop.
func (s *Store) bell(k Key) *bell {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.bells[k]
	if b == nil {
		b = &bell{}
		s.bells[k] = b
	}
	b.refs++
	return b
}

func (s *Store) dropBell(k Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.bells[k]; b != nil {
		if b.refs--; b.refs == 0 {
			delete(s.bells, k)
		}
	}
}

func (s *Store) ringRun(run sdk.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, b := range s.bells {
		if k.Run == run {
			b.ring()
		}
	}
}
