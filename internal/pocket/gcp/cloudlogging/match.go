package cloudlogging

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"
	ltype "google.golang.org/genproto/googleapis/logging/type"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// checkField refuses a field that no log entry has.
func checkField(path []string) error {
	if descend((&loggingpb.LogEntry{}).ProtoReflect().Descriptor(), path[0]) == nil {
		return refuse(ruleFilter, "Unparseable filter: Field not found: '%s'.", path[0])
	}
	return nil
}

// descend finds a field by its name in JSON or in the proto.
func descend(d protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if f := d.Fields().ByJSONName(name); f != nil {
		return f
	}
	return d.Fields().ByName(protoreflect.Name(name))
}

func newComparison(path []string, op, value string) (node, error) {
	c := &comparison{path: path, op: op, value: value}
	if op == "=~" || op == "!~" {
		pattern, err := regexp.Compile(value)
		if err != nil {
			return nil, refuse(ruleFilter, "Unparseable filter: regular expressions must be valid RE2: %v", err)
		}
		c.pattern = pattern
	}
	at, err := parseTime(value)
	if err == nil {
		c.at = at
	}
	switch path[0] {
	case "timestamp", "receiveTimestamp", "receive_timestamp":
		if err != nil && c.pattern == nil && op != ":" {
			return nil, refuse(ruleFilter, "Unparseable filter: timestamp must be in RFC 3339 format, not '%s'.", value)
		}
	case "severity":
		if _, ok := parseSeverity(value); !ok && c.pattern == nil && op != ":" {
			return nil, refuse(ruleFilter, "Unparseable filter: invalid value for severity: '%s'.", value)
		}
	}
	return c, nil
}

// match compares. A field that isn't there has no value: nothing but the
// negations match it.
func (c *comparison) match(e *loggingpb.LogEntry) bool {
	switch c.op {
	case "!=":
		return !c.some(e, "=")
	case "!~":
		return !c.some(e, "=~")
	default:
		return c.some(e, c.op)
	}
}

func (c *comparison) some(e *loggingpb.LogEntry, op string) bool {
	return walkField(e.ProtoReflect(), c.path, func(v any) bool { return c.holds(v, op) })
}

func (c *comparison) holds(v any, op string) bool {
	switch v := v.(type) {
	case time.Time:
		return !c.at.IsZero() && ordered(v.Compare(c.at), op)
	case ltype.LogSeverity:
		if op == ":" || op == "=~" {
			return c.text(v.String(), op)
		}
		want, ok := parseSeverity(c.value)
		return ok && ordered(cmp.Compare(v, want), op)
	case float64:
		n, err := strconv.ParseFloat(c.value, 64)
		if err != nil || op == "=~" || op == ":" {
			return c.text(strconv.FormatFloat(v, 'g', -1, 64), op)
		}
		return ordered(cmp.Compare(v, n), op)
	case bool:
		return c.text(strconv.FormatBool(v), op)
	case nil:
		return op == "=" && c.value == "NULL_VALUE"
	case string:
		return c.text(v, op)
	default:
		return op == ":" && c.value == "*" // a message: it is there
	}
}

// text compares texts, without regard to case but for regular expressions.
func (c *comparison) text(v, op string) bool {
	switch op {
	case "=~":
		return c.pattern.MatchString(v)
	case ":":
		return c.value == "*" || strings.Contains(strings.ToLower(v), strings.ToLower(c.value))
	default:
		return ordered(cmp.Compare(strings.ToLower(v), strings.ToLower(c.value)), op)
	}
}

func ordered(n int, op string) bool {
	switch op {
	case "=", ":":
		return n == 0
	case ">":
		return n > 0
	case ">=":
		return n >= 0
	case "<":
		return n < 0
	case "<=":
		return n <= 0
	default:
		return false
	}
}

// walkField calls f with each value that a path leads to, until it returns
// true. An element of a list is reached without being named.
func walkField(m protoreflect.Message, path []string, f func(any) bool) bool {
	switch v := m.Interface().(type) {
	case *timestamppb.Timestamp:
		return f(v.AsTime())
	case *structpb.Struct:
		return walkJSON(v.AsMap(), path, f)
	}
	if len(path) == 0 {
		return f(m)
	}
	field := descend(m.Descriptor(), path[0])
	if field == nil || field.HasPresence() && !m.Has(field) {
		return false
	}
	value, rest := m.Get(field), path[1:]
	switch {
	case field.IsMap():
		if len(rest) == 0 {
			return value.Map().Len() > 0 && f(value)
		}
		// A key with dots may be written without quotes.
		found := value.Map().Get(protoreflect.ValueOfString(strings.Join(rest, ".")).MapKey())
		return found.IsValid() && f(found.Interface())
	case field.IsList():
		list := value.List()
		for i := range list.Len() {
			if walkValue(field, list.Get(i), rest, f) {
				return true
			}
		}
		return false
	default:
		return walkValue(field, value, rest, f)
	}
}

func walkValue(field protoreflect.FieldDescriptor, v protoreflect.Value, rest []string, f func(any) bool) bool {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return walkField(v.Message(), rest, f)
	case protoreflect.EnumKind:
		if field.Enum().FullName() == ltype.LogSeverity(0).Descriptor().FullName() {
			return len(rest) == 0 && f(ltype.LogSeverity(v.Enum()))
		}
		return len(rest) == 0 && f(string(field.Enum().Values().ByNumber(v.Enum()).Name()))
	case protoreflect.StringKind:
		return len(rest) == 0 && f(v.String())
	case protoreflect.BoolKind:
		return len(rest) == 0 && f(v.Bool())
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return len(rest) == 0 && f(float64(v.Int()))
	default:
		return false
	}
}

func walkJSON(v any, path []string, f func(any) bool) bool {
	switch v := v.(type) {
	case map[string]any:
		if len(path) == 0 {
			return f(v)
		}
		next, ok := v[path[0]]
		return ok && walkJSON(next, path[1:], f)
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return walkJSON(e, path, f) })
	default:
		return len(path) == 0 && f(v)
	}
}

// match looks for a text in every field that has one.
func (a anywhere) match(e *loggingpb.LogEntry) bool {
	has := func(v string) bool { return strings.Contains(strings.ToLower(v), string(a)) }
	found := has(e.GetTextPayload()) || has(e.LogName) || has(e.InsertId) || has(e.GetResource().GetType()) || has(e.Severity.String())
	for _, m := range []map[string]string{e.Labels, e.GetResource().GetLabels()} {
		for k, v := range m {
			found = found || has(k) || has(v)
		}
	}
	return found || e.GetJsonPayload() != nil && texts(e.GetJsonPayload().AsMap(), has)
}

func texts(v any, has func(string) bool) bool {
	switch v := v.(type) {
	case string:
		return has(v)
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return texts(e, has) })
	case map[string]any:
		for k, e := range v {
			if has(k) || texts(e, has) {
				return true
			}
		}
	}
	return false
}

// logID is the function log_id: the name of the log behind /logs/, decoded.
type logID string

func (id logID) match(e *loggingpb.LogEntry) bool {
	_, name, _ := strings.Cut(e.LogName, "/logs/")
	plain, err := url.PathUnescape(name)
	return err == nil && strings.EqualFold(plain, string(id))
}

func parseTime(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Parse(time.RFC3339Nano, text)
}

func parseSeverity(text string) (ltype.LogSeverity, bool) {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return ltype.LogSeverity(n), true
	}
	n, ok := ltype.LogSeverity_value[strings.ToUpper(text)]
	return ltype.LogSeverity(n), ok
}
