package sdk

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
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
	return canonicalize(raw)
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

func canonicalize(raw []byte) ([]byte, error) {
	if !utf8.Valid(raw) {
		return nil, Errorf(InvalidArgument, "encode", "text is not UTF-8")
	}
	if loneSurrogate(raw) {
		return nil, Errorf(InvalidArgument, "encode", "text has half of a surrogate pair")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var out bytes.Buffer
	out.Grow(len(raw))
	if err := canonicalValue(dec, &out, 0); err != nil {
		return nil, &Error{Code: InvalidArgument, Op: "encode", Err: err}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, Errorf(InvalidArgument, "encode", "more than one JSON value")
	}
	return out.Bytes(), nil
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

func canonicalValue(dec *json.Decoder, out *bytes.Buffer, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested more than %d deep", maxDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	switch t := tok.(type) {
	case json.Delim:
		switch t {
		case '{':
			return canonicalObject(dec, out, depth)
		case '[':
			out.WriteByte('[')
			for i := 0; dec.More(); i++ {
				if i > 0 {
					out.WriteByte(',')
				}
				if err := canonicalValue(dec, out, depth+1); err != nil {
					return err
				}
			}
			if _, err := dec.Token(); err != nil {
				return err
			}
			out.WriteByte(']')
			return nil
		}
		return fmt.Errorf("unexpected %q", t)
	case json.Number:
		if strings.ContainsAny(string(t), ".eE") {
			return fmt.Errorf("number %s is not an integer; write it as text", t)
		}
		if t == "-0" {
			t = "0"
		}
		out.WriteString(string(t))
		return nil
	default:
		b, err := marshalPlain(t)
		if err != nil {
			return err
		}
		out.Write(b)
		return nil
	}
}

func canonicalObject(dec *json.Decoder, out *bytes.Buffer, depth int) error {
	type member struct {
		key string
		val []byte
	}
	var members []member
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		key, ok := tok.(string)
		if !ok {
			return fmt.Errorf("unexpected key %v", tok)
		}
		var val bytes.Buffer
		if err := canonicalValue(dec, &val, depth+1); err != nil {
			return err
		}
		members = append(members, member{key, val.Bytes()})
	}
	if _, err := dec.Token(); err != nil {
		return err
	}
	sort.SliceStable(members, func(i, j int) bool { return members[i].key < members[j].key })
	out.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			if members[i-1].key == m.key {
				return fmt.Errorf("key %q stands twice", m.key)
			}
			out.WriteByte(',')
		}
		k, err := marshalPlain(m.key)
		if err != nil {
			return err
		}
		out.Write(k)
		out.WriteByte(':')
		out.Write(m.val)
	}
	out.WriteByte('}')
	return nil
}
