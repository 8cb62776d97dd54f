package sdk

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// FieldSupport is one row of a driver's table of fields.
type FieldSupport struct {
	// Field is JobSpec's name in JSON.
	Field string
	// Values says what is honoured; empty with Refused set when nothing is.
	Values string
	// Refused are the words of the refusal: what the backend lacks, and what to do
	// instead.
	Refused string
}

// Refused returns a problem for each field that s sets and the table refuses, in
// the table's order, and in a list or a map for each of its members; a command is one. What ValidateSpec has
// words for itself is left to it.
func Refused(s JobSpec, table []FieldSupport) []Problem {
	var ps []Problem
	for _, row := range table {
		if row.Refused == "" || row.Values != "" {
			continue
		}
		refuse := func(field, value string) {
			ps = append(ps, Problem{Field: field, Value: value, Message: row.Refused, Code: Unimplemented})
		}
		switch row.Field {
		case "mounts":
			for i, m := range s.Mounts {
				refuse(fmt.Sprintf("mounts[%d]", i), m.Target)
			}
		case "files":
			for i, f := range s.Files {
				refuse(fmt.Sprintf("files[%d]", i), f.Path)
			}
		case "env":
			for _, name := range slices.Sorted(maps.Keys(s.Env)) {
				refuse(row.Field, name)
			}
		case "secrets":
			for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
				refuse(row.Field, name)
			}
		case "labels":
			for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
				refuse(row.Field, name)
			}
		case "entrypoint", "args", "image_entrypoint":
			if list := map[string]Argv{"entrypoint": s.Entrypoint, "args": s.Args, "image_entrypoint": s.ImageEntrypoint}[row.Field]; len(list) > 0 {
				refuse(row.Field, "")
			}
		case "allow_visible_secret":
			if s.AllowVisibleSecret {
				refuse(row.Field, "true")
			}
		default:
			if v := s.Value(row.Field); v != "" && !negative(row.Field, v) {
				refuse(row.Field, v)
			}
		}
	}
	return ps
}

// negative reports whether a field has a number or a duration below zero.
func negative(field, value string) bool {
	switch field {
	case "cpu", "memory", "gpu", "ephemeral_storage", "pids", "retries", "timeout", "start_timeout", "ttl", "grace":
		return value[0] == '-'
	}
	return false
}

// Value returns what s sets in a field of one value, as Problem.Value has it:
// thousandths of a core, bytes, a number, a duration such as 1m30s, or the text.
// It is empty where nothing is set.
func (s JobSpec) Value(field string) string {
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	switch field {
	case "name":
		return s.Name
	case "image":
		return s.Image
	case "workdir":
		return s.Workdir
	case "user":
		return s.User
	case "network":
		return s.Network
	case "stdin":
		return string(s.Stdin)
	case "profile":
		return string(s.Profile)
	case "cpu":
		return number(s.CPU)
	case "memory":
		return number(s.Memory)
	case "gpu":
		return number(s.GPU)
	case "ephemeral_storage":
		return number(s.EphemeralStorage)
	case "pids":
		return number(s.PIDs)
	case "retries":
		return number(int64(s.Retries))
	case "timeout", "start_timeout", "ttl":
		d := s.Timeout
		switch field {
		case "start_timeout":
			d = s.StartTimeout
		case "ttl":
			d = s.TTL
		}
		if d == 0 {
			return ""
		}
		return d.String()
	case "grace":
		if s.Grace == nil {
			return ""
		}
		return s.Grace.String()
	}
	return ""
}

// CPUText writes thousandths of a core as people do: "2", or "250m".
func CPUText(milli int64) string {
	if milli%1000 == 0 {
		return strconv.FormatInt(milli/1000, 10)
	}
	return strconv.FormatInt(milli, 10) + "m"
}

// MemoryText writes bytes as people do: "2Gi", "512Mi", or the number.
func MemoryText(bytes int64) string {
	const mib, gib = 1 << 20, 1 << 30
	switch {
	case bytes%gib == 0:
		return strconv.FormatInt(bytes/gib, 10) + "Gi"
	case bytes%mib == 0:
		return strconv.FormatInt(bytes/mib, 10) + "Mi"
	}
	return strconv.FormatInt(bytes, 10)
}
