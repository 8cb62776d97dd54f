package discover

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
)

// errNoINI is all that is said of a file that isn't one: it may hold secrets.
var errNoINI = errors.New("isn't written as NAME = VALUE under [SECTIONS]")

// section is one of an INI file's, in its order. Keys are in lowercase.
type section struct {
	name   string
	values map[string]string
}

// parseINI reads the form that aws, gcloud and az write: sections, NAME = VALUE, whole
// lines of comment after # or ;. An indented line belongs to the key before it, as aws
// nests settings, and is passed over.
func parseINI(data []byte) ([]section, error) {
	var out []section
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxFile+1)
	for lines.Scan() {
		line := strings.TrimPrefix(lines.Text(), "\ufeff")
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || trimmed[0] == '#' || trimmed[0] == ';':
			continue
		case trimmed[0] == '[':
			name, _, ok := strings.Cut(trimmed[1:], "]")
			if !ok {
				return nil, errNoINI
			}
			out = append(out, section{name: strings.TrimSpace(name), values: map[string]string{}})
			continue
		case line[0] == ' ' || line[0] == '\t':
			continue
		}
		key, value, ok := strings.Cut(trimmed, "=")
		if !ok || len(out) == 0 {
			return nil, errNoINI
		}
		out[len(out)-1].values[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
	}
	if lines.Err() != nil {
		return nil, errNoINI
	}
	return out, nil
}

// ini reads such a file; nil when there is none or it is in trouble.
func (l *look) ini(path string) []section {
	data, ok := l.read(path)
	if !ok {
		return nil
	}
	out, err := parseINI(data)
	if err != nil {
		l.trouble(path, err)
	}
	return out
}

// valueOf is a value of the last section of a name that has it.
func valueOf(sections []section, name, key string) string {
	out := ""
	for _, s := range sections {
		if v := s.values[key]; s.name == name && v != "" {
			out = v
		}
	}
	return out
}
