package wire

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/windlass-run/windlass/sdk"
)

// coder keeps the first thing that is wrong with a message.
type coder struct {
	op   string
	code sdk.Code
	err  *sdk.Error
}

// request is for a message that asks: its sender is at fault.
func request(op string) *coder { return &coder{op: op, code: sdk.InvalidArgument} }

// reply is for a message that answers: what is wrong with it proves nothing of the
// call, so its code is an unclear one.
func reply(op string) *coder { return &coder{op: op, code: sdk.Internal} }

func (c *coder) fail(field, format string, args ...any) {
	if c.err == nil {
		c.err = &sdk.Error{Code: c.code, Op: c.op, Field: field, Err: fmt.Errorf(format, args...)}
	}
}

// encoded returns m, unless something was wrong or a text in it is not UTF-8: gRPC
// would fail to send it, without saying where.
func encoded[M proto.Message](c *coder, m M) (M, error) {
	c.text("", m.ProtoReflect())
	return decoded(c, m)
}

// decoded returns v, unless something was wrong.
func decoded[T any](c *coder, v T) (T, error) {
	if c.err != nil {
		var none T
		return none, c.err
	}
	return v, nil
}

// given refuses a message that isn't there.
func (c *coder) given(field string, m proto.Message) bool {
	if m.ProtoReflect().IsValid() {
		return true
	}
	c.fail(field, "is missing")
	return false
}

// known refuses fields that this program doesn't know: dropping them would drop what
// somebody set.
func (c *coder) known(field string, m proto.Message) {
	if c.err != nil || !odd(m.ProtoReflect(), hasUnknown, validText) {
		return
	}
	at, name := "", ""
	walk(field, m.ProtoReflect(), func(place string, m protoreflect.Message) {
		if hasUnknown(m) && name == "" {
			at, name = place, string(m.Descriptor().Name())
		}
	}, nil)
	code := sdk.FailedPrecondition
	if c.code == sdk.Internal {
		code = sdk.Internal
	}
	c.err = &sdk.Error{Code: code, Op: c.op, Field: at, Remedy: "use the same version of Windlass on both sides",
		Err: fmt.Errorf("%s has a field that this program doesn't know", name)}
}

// text refuses a text that is not UTF-8.
func (c *coder) text(field string, m protoreflect.Message) {
	if c.err != nil || !odd(m, nothing, utf8.ValidString) {
		return
	}
	found := ""
	walk(field, m, nil, func(at, s string) {
		if found == "" && !utf8.ValidString(s) {
			found = at
		}
	})
	c.fail(found, "is not UTF-8")
}

// line is text for one field.
func (c *coder) line(field, s string) {
	if !utf8.ValidString(s) {
		c.fail(field, "is not UTF-8")
	}
}

func hasUnknown(m protoreflect.Message) bool { return len(m.GetUnknown()) > 0 }
func nothing(protoreflect.Message) bool      { return false }
func validText(string) bool                  { return true }

// odd reports whether walk would find a message that is bad, or a text that is not good.
// Every message goes through here, and hardly one is odd: no place is put into words.
func odd(m protoreflect.Message, bad func(protoreflect.Message) bool, good func(string) bool) bool {
	return search{bad, good}.message(m)
}

// search is odd's two questions.
type search struct {
	bad  func(protoreflect.Message) bool
	good func(string) bool
}

func (s search) message(m protoreflect.Message) bool {
	if !m.IsValid() {
		return false
	}
	if s.bad(m) {
		return true
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.Message() == nil && fd.Kind() != protoreflect.StringKind || !m.Has(fd) {
			continue
		}
		found := false
		switch v := m.Get(fd); {
		case fd.IsMap():
			found = s.pairs(fd, v.Map())
		case fd.IsList():
			list := v.List()
			for n := 0; n < list.Len() && !found; n++ {
				found = s.value(fd, list.Get(n))
			}
		default:
			found = s.value(fd, v)
		}
		if found {
			return true
		}
	}
	return false
}

func (s search) pairs(fd protoreflect.FieldDescriptor, m protoreflect.Map) (found bool) {
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		found = s.value(fd.MapKey(), k.Value()) || s.value(fd.MapValue(), v)
		return !found
	})
	return found
}

func (s search) value(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
	if fd.Message() != nil {
		return s.message(v.Message())
	}
	return fd.Kind() == protoreflect.StringKind && !s.good(v.String())
}

// walk visits every message below m that is there, and every text in them. No place
// names a map's key, which may be what is wrong.
func walk(at string, m protoreflect.Message, message func(at string, m protoreflect.Message), text func(at, s string)) {
	if !m.IsValid() {
		return
	}
	if message != nil {
		message(at, m)
	}
	value := func(at string, fd protoreflect.FieldDescriptor, v protoreflect.Value) {
		switch {
		case fd.Message() != nil:
			walk(at, v.Message(), message, text)
		case fd.Kind() == protoreflect.StringKind && text != nil:
			text(at, v.String())
		}
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := string(fd.Name())
		if at != "" {
			name = at + "." + name
		}
		switch {
		case fd.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				value(name, fd.MapKey(), k.Value())
				value(name, fd.MapValue(), v)
				return true
			})
		case fd.IsList():
			for i := range v.List().Len() {
				value(fmt.Sprintf("%s[%d]", name, i), fd, v.List().Get(i))
			}
		default:
			value(name, fd, v)
		}
		return true
	})
}

// plain makes text for people UTF-8. What a program reads again is never changed, but
// refused.
func plain(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

func plains(list []string) []string {
	return each(list, plain)
}

// clipMap makes words for people UTF-8, and bounds each value.
func clipMap(m map[string]string, n int) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[plain(k)] = clip(v, n)
	}
	return out
}

func (c *coder) int32(field string, n int) int32 {
	if n < math.MinInt32 || n > math.MaxInt32 {
		c.fail(field, "%d is outside of what the wire carries, %d to %d", n, math.MinInt32, math.MaxInt32)
		return 0
	}
	return int32(n)
}

// count is a number that can't be below zero.
func (c *coder) count(field string, n int32) int {
	if n < 0 {
		c.fail(field, "%d is below zero", n)
	}
	return int(n)
}

// version refuses a reply that a newer program wrote. In a request it passes: the
// driver says of each handle, launch and spec by itself that it is too new.
func (c *coder) version(field string, v int32, newest int) int {
	if int(v) > newest && c.code == sdk.Internal && c.err == nil {
		c.err = &sdk.Error{Code: sdk.Internal, Op: c.op, Field: field, Remedy: "use a newer windlass",
			Err: fmt.Errorf("version %d, this program reads up to %d", v, newest)}
	}
	return c.count(field, v)
}

func (c *coder) stamp(field string, t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	m := timestamppb.New(t)
	if err := m.CheckValid(); err != nil {
		c.fail(field, "the time is outside of the years 1 to 9999")
		return nil
	}
	return m
}

func (c *coder) time(field string, m *timestamppb.Timestamp) time.Time {
	if m == nil {
		return time.Time{}
	}
	if err := m.CheckValid(); err != nil {
		c.fail(field, "the time is outside of the years 1 to 9999")
		return time.Time{}
	}
	return m.AsTime()
}

func span(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func spanPtr(d *time.Duration) *durationpb.Duration {
	if d == nil {
		return nil
	}
	return durationpb.New(*d)
}

// duration refuses what time.Duration can't hold, which AsDuration would cut.
func (c *coder) duration(field string, m *durationpb.Duration) time.Duration {
	d := m.AsDuration()
	if m != nil && (m.CheckValid() != nil || !proto.Equal(durationpb.New(d), m)) {
		c.fail(field, "the duration is outside of what Go holds")
		return 0
	}
	return d
}

func (c *coder) durationPtr(field string, m *durationpb.Duration) *time.Duration {
	if m == nil {
		return nil
	}
	d := c.duration(field, m)
	return &d
}

func idBytes(id sdk.ID) []byte {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

func (c *coder) id(field string, b []byte) sdk.ID {
	var id sdk.ID
	if len(b) != 0 && len(b) != len(id) {
		c.fail(field, "has %d bytes, an ID has %d", len(b), len(id))
		return id
	}
	copy(id[:], b)
	return id
}

// each converts a list; an empty one is nil.
func each[A, B any](list []A, f func(A) B) []B {
	if len(list) == 0 {
		return nil
	}
	out := make([]B, len(list))
	for i, a := range list {
		out[i] = f(a)
	}
	return out
}

// mapOf converts a map's values; an empty one is nil.
func mapOf[A, B any](m map[string]A, f func(A) B) map[string]B {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]B, len(m))
	for k, v := range m {
		out[k] = f(v)
	}
	return out
}

func same[T any](v T) T { return v }

// word reads a word of the contract; one that isn't among known is read as other.
func word[T ~string](s string, other T, known ...T) T {
	for _, k := range known {
		if string(k) == s {
			return k
		}
	}
	return other
}
