package cloudmonitoring

import (
	"fmt"
	"slices"
	"strings"
)

// filter has the values that a field may have. Of the language it knows equality
// and one_of, joined by AND:
// https://cloud.google.com/monitoring/api/v3/filters
type filter map[string]wanted

type wanted []string

// single is the only value, or nothing.
func (w wanted) single() string {
	if len(w) != 1 {
		return ""
	}
	return w[0]
}

// fits reports whether a series is of the filter.
func (f filter) fits(kind string, labels, resource map[string]string) bool {
	for field, want := range f {
		var is string
		switch at, name, _ := strings.Cut(field, ".labels."); at {
		case "metric.type":
			is = kind
		case "resource.type":
			is = revisionType
		case "metric":
			is = labels[name]
		case "resource":
			is = resource[name]
		}
		if !slices.Contains(want, is) {
			return false
		}
	}
	return true
}

// parseFilter reads a filter.
func parseFilter(text string) (filter, error) {
	out := filter{}
	rest := strings.TrimSpace(text)
	for {
		field, after, ok := strings.Cut(rest, "=")
		// Labels may be named in the singular as well.
		field = strings.Replace(strings.TrimSpace(field), ".label.", ".labels.", 1)
		if !ok || !known(field) {
			return nil, fmt.Errorf("the filter %q can't be parsed at %q: want FIELD = VALUE", text, rest)
		}
		if _, twice := out[field]; twice {
			return nil, fmt.Errorf("the filter %q names %s twice", text, field)
		}
		values, left, err := readValues(strings.TrimSpace(after))
		if err != nil {
			return nil, fmt.Errorf("the filter %q: %w", text, err)
		}
		out[field] = values
		if left = strings.TrimSpace(left); left == "" {
			return out, nil
		}
		if rest, ok = strings.CutPrefix(left, "AND "); !ok {
			return nil, fmt.Errorf("the filter %q can't be parsed at %q: want AND", text, left)
		}
		rest = strings.TrimSpace(rest)
	}
}

func known(field string) bool {
	if field == "metric.type" || field == "resource.type" {
		return true
	}
	at, name, ok := strings.Cut(field, ".labels.")
	return ok && (at == "metric" || at == "resource") && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") == ""
}

// readValues reads "A", or one_of("A", "B").
func readValues(text string) (values wanted, rest string, err error) {
	list, many := strings.CutPrefix(text, "one_of(")
	if !many {
		v, rest, err := readString(text)
		return wanted{v}, rest, err
	}
	for {
		v, left, err := readString(strings.TrimSpace(list))
		if err != nil {
			return nil, "", err
		}
		values, left = append(values, v), strings.TrimSpace(left)
		if rest, ok := strings.CutPrefix(left, ")"); ok {
			return values, rest, nil
		}
		if list, many = strings.CutPrefix(left, ","); !many {
			return nil, "", fmt.Errorf("want a comma or ) at %q", left)
		}
	}
}

// readString reads a text in double quotes, in which \" and \\ stand for
// themselves.
func readString(text string) (value, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		return "", "", fmt.Errorf("want a string in double quotes at %q", text)
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i+1:], nil
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", fmt.Errorf("a string isn't ended in %q", text)
}
