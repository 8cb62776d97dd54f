package iac

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// position is a place in a log, by stream.
type position map[sdk.Stream]*place

// place is how many bytes of a stream were given, with their SHA-256: a reading that
// begins anew passes over as many, and finds out whether they are the same.
type place struct {
	n   int64
	sum []byte
	// hash, when not nil, is that of the n bytes, in place of sum.
	hash hash.Hash
}

func (p *place) digest() []byte {
	if p.hash != nil {
		return p.hash.Sum(nil)
	}
	return p.sum
}

// streams are those that a log can have.
func streams() []sdk.Stream {
	return []sdk.Stream{sdk.StreamStdout, sdk.StreamStderr, sdk.StreamCombined}
}

// total is how many bytes were given.
func (p position) total() (n int64) {
	for _, at := range p {
		n += at.n
	}
	return n
}

// cursor returns the position as a cursor of a kind's.
func (p position) cursor(kind string) *sdk.LogCursor {
	c := &sdk.LogCursor{V: sdk.CursorVersion, Kind: kind}
	for s, at := range p {
		if at.n == 0 {
			continue
		}
		if c.Position == nil {
			c.Position = map[string]string{}
		}
		c.Position[string(s)] = strconv.FormatInt(at.n, 10) + ":" + hex.EncodeToString(at.digest())
	}
	return c
}

// readCursor reads what cursor wrote; nil is the log's beginning. A cursor of a newer
// version is FailedPrecondition, anything else that isn't one of kind's InvalidArgument.
func readCursor(c *sdk.LogCursor, kind string) (position, error) {
	p := position{}
	for _, s := range streams() {
		p[s] = &place{}
	}
	if c == nil {
		return p, nil
	}
	bad := func(format string, args ...any) (position, error) {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: opLogs, Field: "cursor", Err: fmt.Errorf(format, args...)}
	}
	if c.V > sdk.CursorVersion {
		return nil, &sdk.Error{Code: sdk.FailedPrecondition, Op: opLogs, Field: "cursor", Remedy: "use a newer windlass",
			Err: fmt.Errorf("version %d, this program reads up to %d", c.V, sdk.CursorVersion)}
	}
	if c.Kind != kind {
		return bad("is of kind %q, this is %q", c.Kind, kind)
	}
	for name, v := range c.Position {
		at, ok := p[sdk.Stream(name)]
		if !ok {
			return bad("has the stream %q", name)
		}
		count, sum, _ := strings.Cut(v, ":")
		n, err := strconv.ParseInt(count, 10, 64)
		raw, err2 := hex.DecodeString(sum)
		if err != nil || err2 != nil || n <= 0 || len(raw) != sha256.Size {
			return bad("%s: %q is no count and SHA-256", name, v)
		}
		at.n, at.sum = n, raw
	}
	return p, nil
}

// replay is one reading of a log from its beginning.
type replay struct {
	at   position
	seen map[sdk.Stream]*place
}

func newReplay(at position) *replay {
	r := &replay{at: at, seen: map[sdk.Stream]*place{}}
	for _, s := range streams() {
		at[s].sum, at[s].hash = at[s].digest(), nil
		r.seen[s] = &place{hash: sha256.New()}
	}
	return r
}

// pass returns what of data wasn't given before. changed says that what was isn't what
// the log has now in its place.
func (r *replay) pass(s sdk.Stream, data []byte) (fresh []byte, changed bool) {
	seen, at := r.seen[s], r.at[s]
	over := min(at.n-seen.n, int64(len(data)))
	if over <= 0 {
		return data, false
	}
	seen.hash.Write(data[:over]) // it never fails
	seen.n += over
	if seen.n == at.n {
		changed = !bytes.Equal(seen.digest(), at.sum)
		*at = *seen
	}
	return data[over:], changed
}

// add moves the position behind data, which pass returned and which was given.
func (r *replay) add(s sdk.Stream, data []byte) {
	seen := r.seen[s]
	seen.hash.Write(data)
	seen.n += int64(len(data))
	*r.at[s] = *seen
}

// whole reports whether the reading had all that was given before.
func (r *replay) whole() bool {
	for s, at := range r.at {
		if r.seen[s].n < at.n {
			return false
		}
	}
	return true
}
