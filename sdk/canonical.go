package sdk

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// EncodeCanonical returns the canonical JSON of v: keys sorted, no white
// space, no floats, bytes as base64. Two equal values have equal encodings,
// so the encoding can be hashed and compared. A float, or text that is not
// UTF-8, is InvalidArgument.
func EncodeCanonical(v any) ([]byte, error) {
	if err := checkText("", v); err != nil {
		return nil, &Error{Code: InvalidArgument, Op: "encode", Err: err}
	}
	raw, err := marshalPlain(v)
	if err != nil {
		return nil, &Error{Code: InvalidArgument, Op: "encode", Err: err}
	}
	if !utf8.Valid(raw) {
		return nil, Errorf(InvalidArgument, "encode", "text is not UTF-8")
	}
	return reorder(raw)
}

// HashCanonical returns the SHA-256 of an encoding, in hex.
func HashCanonical(encoded []byte) string {
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

// decodeCanonical reads what EncodeCanonical wrote, and nothing else: an
// unknown member, a second value, other white space or another order is
// InvalidArgument. A version above newest is FailedPrecondition: a newer
// program wrote it, and the thing that it speaks of may well exist.
func decodeCanonical(what string, data []byte, newest int, into any) error {
	op := "decode " + what
	var version struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return &Error{Code: InvalidArgument, Op: op, Err: err}
	}
	if version.V > newest {
		return &Error{Code: FailedPrecondition, Op: op, Remedy: "use a newer windlass",
			Err: fmt.Errorf("version %d, this program reads up to %d", version.V, newest)}
	}
	if version.V < 1 {
		return &Error{Code: InvalidArgument, Op: op, Err: errors.New("no version v")}
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return &Error{Code: InvalidArgument, Op: op, Err: err}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return &Error{Code: InvalidArgument, Op: op, Err: errors.New("more than one value")}
	}
	again, err := encodeAgain(into)
	if err != nil {
		return &Error{Code: InvalidArgument, Op: op, Err: err}
	}
	if !bytes.Equal(again, data) {
		return &Error{Code: InvalidArgument, Op: op, Err: errors.New("not in canonical form")}
	}
	return nil
}

// encodeAgain encodes as the value's own type does.
func encodeAgain(v any) ([]byte, error) {
	if e, ok := v.(interface{ Encode() ([]byte, error) }); ok {
		return e.Encode()
	}
	return EncodeCanonical(v)
}

func marshalPlain(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// CanonicalJSON returns raw JSON in canonical form. Floats, duplicate keys and
// text that is not UTF-8 are InvalidArgument.
func CanonicalJSON(raw []byte) ([]byte, error) {
	return canonicalize(raw)
}

// canonicalize takes JSON from anywhere.
func canonicalize(raw []byte) ([]byte, error) {
	if !utf8.Valid(raw) {
		return nil, Errorf(InvalidArgument, "encode", "text is not UTF-8")
	}
	if !json.Valid(raw) {
		return nil, &Error{Code: InvalidArgument, Op: "encode", Err: syntaxError(raw)}
	}
	return reorder(raw)
}

// syntaxError says what is wrong with JSON that isn't valid.
func syntaxError(raw []byte) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	var value json.RawMessage
	if err := dec.Decode(&value); err != nil {
		return err
	}
	return errors.New("more than one JSON value")
}

// reorder takes valid JSON in UTF-8.
func reorder(raw []byte) ([]byte, error) {
	if loneSurrogate(raw) {
		return nil, Errorf(InvalidArgument, "encode", "text has half of a surrogate pair")
	}
	c := canon{in: raw, out: make([]byte, 0, len(raw))}
	if err := c.value(0); err != nil {
		return nil, &Error{Code: InvalidArgument, Op: "encode", Err: err}
	}
	return c.out, nil
}

// loneSurrogate reports whether raw JSON has an escape such as \ud800 without
// its other half, which encoding/json would replace in silence.
func loneSurrogate(raw []byte) bool {
	unit := func(i int) (rune, bool) {
		if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(raw[i+2:i+6]), 16, 16)
		return rune(n), err == nil
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		r, ok := unit(i)
		if !ok {
			i++ // the escaped character, which may be a backslash
			continue
		}
		i += 5
		if !utf16.IsSurrogate(r) {
			continue
		}
		low, ok := unit(i + 1)
		if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// maxDepth bounds nesting, so that hostile input can't exhaust the stack.
const maxDepth = 100

// canon goes over valid JSON and writes it canonically.
type canon struct {
	in  []byte // what is left
	out []byte
	// spare holds members that have to change places.
	spare []byte
}

// member is one member of an object in out: its key, and where it stands, from
// the key's quote to the end of the value.
type member struct {
	key      string
	from, to int
}

// peek skips white space and returns the next byte.
func (c *canon) peek() byte {
	for i, b := range c.in {
		if b != ' ' && b != '\t' && b != '\n' && b != '\r' {
			c.in = c.in[i:]
			return b
		}
	}
	return 0
}

func (c *canon) value(depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested more than %d deep", maxDepth)
	}
	switch b := c.peek(); b {
	case '{':
		return c.object(depth)
	case '[':
		return c.array(depth)
	case '"':
		_, err := c.text()
		return err
	case 't', 'n':
		c.copy(len("true"))
	case 'f':
		c.copy(len("false"))
	default:
		return c.number()
	}
	return nil
}

// copy takes n bytes over as they are.
func (c *canon) copy(n int) {
	c.out = append(c.out, c.in[:n]...)
	c.in = c.in[n:]
}

func (c *canon) number() error {
	n := 0
	for n < len(c.in) && strings.IndexByte("0123456789+-.eE", c.in[n]) >= 0 {
		n++
	}
	switch t := c.in[:n]; {
	case bytes.ContainsAny(t, ".eE"):
		return fmt.Errorf("number %s is not an integer; write it as text", t)
	case string(t) == "-0":
		c.in = c.in[1:]
		n--
	}
	c.copy(n)
	return nil
}

// text takes a string over, and returns what it says. Escapes are written as
// encoding/json writes them.
func (c *canon) text() (string, error) {
	end, plain := 1, true
	for ; c.in[end] != '"'; end++ {
		switch c.in[end] {
		case '\\':
			plain = false
			end++
		case 0xe2: // U+2028 and U+2029 begin with it, which are written as escapes
			plain = false
		}
	}
	raw := c.in[:end+1]
	c.in = c.in[end+1:]
	if plain {
		c.out = append(c.out, raw...)
		return string(raw[1:end]), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", err
	}
	b, err := marshalPlain(s)
	c.out = append(c.out, b...)
	return s, err
}

func (c *canon) array(depth int) error {
	c.copy(1)
	for i := 0; c.peek() != ']'; i++ {
		if i > 0 {
			c.copy(1) // the comma
		}
		if err := c.value(depth + 1); err != nil {
			return err
		}
	}
	c.copy(1)
	return nil
}

func (c *canon) object(depth int) error {
	c.copy(1)
	var few [16]member
	members, sorted, begin := few[:0], true, len(c.out)
	for i := 0; c.peek() != '}'; i++ {
		if i > 0 {
			c.copy(1) // the comma
			c.peek()
		}
		m := member{from: len(c.out)}
		var err error
		if m.key, err = c.text(); err != nil {
			return err
		}
		c.peek()
		c.copy(1) // the colon
		if err := c.value(depth + 1); err != nil {
			return err
		}
		m.to = len(c.out)
		if i > 0 {
			last := members[i-1].key
			if last == m.key {
				return fmt.Errorf("key %q stands twice", m.key)
			}
			sorted = sorted && last < m.key
		}
		members = append(members, m)
	}
	c.copy(1)
	if sorted {
		return nil
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.key, b.key) })
	c.spare = append(c.spare[:0], c.out[begin:]...)
	out := c.out[:begin]
	for i, m := range members {
		if i > 0 {
			if members[i-1].key == m.key {
				return fmt.Errorf("key %q stands twice", m.key)
			}
			out = append(out, ',')
		}
		out = append(out, c.spare[m.from-begin:m.to-begin]...)
	}
	c.out = append(out, '}')
	return nil
}
