package sdk

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"
)

// ID names a run, an attempt or a ledger. It is a UUIDv7 (RFC 9562 §5.7) with
// one text form: 26 characters of Crockford's base32 in lower case, which
// sort by time and are legal in DNS labels, tags and file names.
type ID [16]byte

const (
	idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"
	// IDLen is the length in bytes of an ID's text form.
	IDLen = 26
	// ShortIDLen is how many of its last characters stand for an ID on a screen.
	ShortIDLen = 10
	// MinIDSuffix is the shortest suffix that may stand for an ID.
	MinIDSuffix = 6
)

// IDSource makes new IDs; tests bring their own. Implementations are safe for
// concurrent use and never give the same ID twice.
type IDSource interface {
	NewID() ID
}

// NewIDSource returns a source of random IDs whose time comes from clock. IDs
// of one source are strictly increasing, also when the clock steps back.
func NewIDSource(clock Clock) IDSource { return &idSource{clock: clock} }

type idSource struct {
	clock Clock
	mu    sync.Mutex
	last  uint64 // 48 bits of milliseconds and 12 bits of sequence
}

func (s *idSource) NewID() ID {
	now := s.clock.Now()
	stamp := uint64(now.UnixMilli()) << 12
	stamp |= uint64(now.Nanosecond()%int(time.Millisecond)) * 4096 / uint64(time.Millisecond)
	s.mu.Lock()
	if stamp <= s.last {
		stamp = s.last + 1
	}
	s.last = stamp
	s.mu.Unlock()

	var id ID
	// crypto/rand.Read never fails since Go 1.24: it ends the program instead.
	_, _ = rand.Read(id[8:])
	binary.BigEndian.PutUint64(id[:8], stamp>>12<<16|0x7000|stamp&0xfff)
	id[8] = id[8]&0x3f | 0x80
	return id
}

// ParseID reads the text form of an ID. Anything else is InvalidArgument.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != IDLen {
		return id, &Error{Code: InvalidArgument, Op: "parse id", Err: fmt.Errorf("%q has %d characters, an ID has %d", s, len(s), IDLen)}
	}
	var hi, lo uint64
	for i := 0; i < len(s); i++ {
		v := idValue(s[i])
		if v < 0 || (i == 0 && v > 7) {
			return ID{}, &Error{Code: InvalidArgument, Op: "parse id", Err: fmt.Errorf("%q is not an ID: character %d is %q", s, i+1, s[i])}
		}
		hi = hi<<5 | lo>>59
		lo = lo<<5 | uint64(v)
	}
	binary.BigEndian.PutUint64(id[:8], hi)
	binary.BigEndian.PutUint64(id[8:], lo)
	if id.IsZero() {
		return ID{}, &Error{Code: InvalidArgument, Op: "parse id", Err: fmt.Errorf("%q is no ID: all of it is zero", s)}
	}
	return id, nil
}

func idValue(c byte) int {
	for i := 0; i < len(idAlphabet); i++ {
		if idAlphabet[i] == c {
			return i
		}
	}
	return -1
}

// String returns the text form; the zero ID's is empty.
func (id ID) String() string {
	if id.IsZero() {
		return ""
	}
	hi, lo := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	var b [IDLen]byte
	for i := IDLen - 1; i >= 0; i-- {
		b[i] = idAlphabet[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(b[:])
}

// Short returns the last ten characters, the form for people.
func (id ID) Short() string {
	s := id.String()
	if len(s) < ShortIDLen {
		return s
	}
	return s[len(s)-ShortIDLen:]
}

// IsZero reports whether id is unset.
func (id ID) IsZero() bool { return id == ID{} }

// Time returns when the ID was made, to the millisecond.
func (id ID) Time() time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16))
}

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; empty text is the zero ID.
func (id *ID) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*id = ID{}
		return nil
	}
	v, err := ParseID(string(b))
	if err != nil {
		return err
	}
	*id = v
	return nil
}
