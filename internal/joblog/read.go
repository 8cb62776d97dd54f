package joblog

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// ReadOptions say what to read. The zero value reads all that is there.
type ReadOptions struct {
	// From is where to go on; the zero Position is the start. One of another
	// attempt is InvalidArgument.
	From Position
	// Follow goes on until the log ends, and waits for one that isn't there
	// yet.
	Follow bool
	// Since leaves out entries with an earlier time. An entry without a time
	// counts as being as old as the newest before it, and is given when no
	// time is known yet.
	Since time.Time
	// Tail, when not nil, leaves out all but the last lines of the chosen
	// streams; 0 is none, negative is all. A line that has not ended yet
	// counts. Since chooses among these lines, and with From reading starts at
	// the later of the two, as with Docker and Kubernetes.
	Tail *int
	// Streams, when not empty, chooses streams. Gaps are always given, unless
	// they concern other streams alone.
	Streams []sdk.Stream
}

// Lines returns a ReadOptions.Tail of n lines.
func Lines(n int) *int { return &n }

// Item is one item of a log: exactly one of Entry, Gap and End is set.
type Item struct {
	// Entry and its Data are good until the next item is asked for.
	Entry *sdk.LogChunk
	// Continued says that the next entry of the same stream goes on with the
	// same chunk, which was too long for one.
	Continued bool
	Gap       *sdk.LogGap
	// End is the last item of a log that has ended.
	End *sdk.LogEnd
	// Pos is the place right behind this item.
	Pos Position
}

const (
	minPoll = 5 * time.Millisecond
	maxPoll = 100 * time.Millisecond
)

// Read reads a log while it is being written or afterwards. The chunks are not
// those that were appended; bytes, their order within a stream, their times
// and the arrival of items are. With Follow it waits for more, sees what this
// process appended at once and what another did within about 100 ms, and ends
// with End, with an error, or when ctx ends, which is an error too. Without
// Follow it stops where the log is at the moment; only a log that has ended
// brings an End. A log that isn't there yet is empty; one that retention
// removed is NotFound with the ID ErrIDExpired. The error comes last.
func (s *Store) Read(ctx context.Context, k Key, o ReadOptions) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		r, err := s.reader(k, o)
		if err != nil {
			yield(Item{}, err)
			return
		}
		defer r.close()
		if err := r.run(ctx, yield); err != nil {
			yield(Item{}, err)
		}
	}
}

type reader struct {
	s     *Store
	k     Key
	o     ReadOptions
	dir   string
	known headers
	bell  *bell
	mask  streamMask
	since stamp

	cur  *header
	scan *scanner
	// sealed says that scan.limit is where cur ends for good; next is what
	// follows it, nil for the end of the log.
	sealed bool
	next   *header
	// nextLimit is the limit of next.
	nextLimit int64
	// held: next is there, but what lies before it is not.
	held bool
	// mark is the newest checkpoint, capped whether the cap dropped anything.
	mark   *checkpoint
	capped bool
	// at is the place in the segment. While behind is set it lies before seen,
	// the place up to which all was shown, in some stream.
	at, seen state
	behind   bool
	// newest is the time of an entry that has none.
	newest stamp

	entry sdk.LogChunk
	gap   sdk.LogGap
	pause time.Duration
	stop  bool // the consumer has had enough
}

const opRead = "read log"

func (s *Store) reader(k Key, o ReadOptions) (*reader, error) {
	if err := k.check(opRead); err != nil {
		return nil, err
	}
	if !o.From.IsZero() && o.From.Attempt() != k.Attempt {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: opRead, Field: "from", Remedy: "start without a position, or read that attempt",
			Err: fmt.Errorf("the position belongs to attempt %d, not %d", o.From.Attempt(), k.Attempt)}
	}
	r := &reader{s: s, k: k, o: o, dir: s.attemptDir(k), known: headers{}, mask: allStreams, since: stampOf(o.Since)}
	if len(o.Streams) > 0 {
		r.mask = 0
		for _, name := range o.Streams {
			n, ok := streamNumber(name)
			if !ok {
				return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: opRead, Field: "streams", Err: fmt.Errorf("stream %q is unknown", name)}
			}
			r.mask |= 1 << n
		}
	}
	r.at, r.seen = newState(), o.From.state()
	r.newest = unknownTime
	r.bell = s.bell(k)
	return r, nil
}

func (r *reader) close() {
	r.s.dropBell(r.k)
	if r.scan != nil {
		_ = r.scan.close()
	}
}

type yielder = func(Item, error) bool

// run reads until the log ends, the consumer stops, or, without Follow, until
// there is no more.
func (r *reader) run(ctx context.Context, yield yielder) error {
	exists, placed := false, false
	for {
		// Taken before looking, so that nothing is missed in between.
		var rung <-chan struct{}
		if r.o.Follow {
			rung = r.bell.wait()
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%s: %w", opRead, context.Cause(ctx))
		}
		if r.scan != nil {
			if err := r.drain(ctx, yield); err != nil || r.stop {
				return err
			}
			if r.sealed {
				done, err := r.advance(yield)
				if done || err != nil {
					return err
				}
				if !r.held {
					continue
				}
			}
		}
		d, err := r.s.look(r.dir, r.known)
		switch {
		case isMissing(err):
			if err := r.s.expired(opRead, r.k.Run); err != nil {
				return err
			}
			if exists {
				return sdk.Errorf(sdk.NotFound, opRead, "%s: the log vanished", r.k)
			}
		case err != nil:
			return diskError(opRead, err)
		default:
			exists = true
			if r.mark, err = r.s.newest(r.dir, d.claims); err != nil {
				return diskError(opRead, err)
			}
			if !placed {
				switch err := r.place(d); {
				case isMissing(err):
					continue // the cap dropped a segment since we looked
				case err != nil:
					return diskError(opRead, err)
				}
			}
			moved, err := r.arrange(d, yield)
			if err != nil || r.stop {
				return err
			}
			placed = true
			if moved && !r.held {
				r.pause = 0
				continue
			}
			r.held = false
		}
		placed = true // what comes from now on is all new
		if !r.o.Follow {
			return nil
		}
		r.wait(ctx, rung)
	}
}

// place turns Since and Tail into a place.
func (r *reader) place(d folder) error {
	if r.o.Tail == nil || *r.o.Tail < 0 || len(d.chain) == 0 {
		return nil
	}
	p, err := r.tail(d, *r.o.Tail)
	if err != nil {
		return err
	}
	r.seen.raise(&p)
	return nil
}

// wait waits for the bell or a while, longer each time.
func (r *reader) wait(ctx context.Context, rung <-chan struct{}) {
	r.pause = min(max(2*r.pause, minPoll), maxPoll)
	t := time.NewTimer(r.pause)
	defer t.Stop()
	select {
	case <-rung:
	case <-t.C:
	case <-ctx.Done():
	}
}
