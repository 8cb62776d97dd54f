package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docker/go-units"

	"github.com/windlass-run/windlass/sdk"
)

// What users type, as docker run reads it where it has the same.

// parseMemory reads a size in bytes with an optional unit b, k, m, g or t, in
// powers of 1024: 64m, 1.5g.
func parseMemory(s string) (int64, error) {
	n, err := units.RAMInBytes(s)
	if err != nil {
		if strings.HasSuffix(s, "i") {
			return 0, fmt.Errorf("%q is no size: flags take docker's units, as in 64m or 2g", s)
		}
		return 0, fmt.Errorf("%q is no size, as in 64m or 2g", s)
	}
	if n <= 0 {
		return 0, fmt.Errorf("%q is no size above 0; leave it out for no limit", s)
	}
	return n, nil
}

// parseCPUs reads a number of cores with up to three decimals, and returns
// thousandths.
func parseCPUs(s string) (int64, error) {
	whole, frac, _ := strings.Cut(s, ".")
	if len(frac) > 3 {
		if strings.Trim(frac[3:], "0") != "" {
			return 0, fmt.Errorf("%q is finer than a thousandth of a core", s)
		}
		frac = frac[:3]
	}
	if whole == "" && frac == "" {
		return 0, fmt.Errorf("%q is no number of cores, as in 0.5 or 2", s)
	}
	digits := whole + frac + strings.Repeat("0", 3-len(frac))
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%q is no number of cores, as in 0.5 or 2", s)
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > 1_000_000_000 {
		return 0, fmt.Errorf("%q is more cores than there are", s)
	}
	if n == 0 {
		return 0, fmt.Errorf("%q is no number of cores above 0; leave it out for no limit", s)
	}
	return n, nil
}

// parsePositive reads a whole number above 0.
func parsePositive(s, none string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no whole number", s)
	}
	if n <= 0 {
		return 0, fmt.Errorf("%q is not above 0; leave it out for %s", s, none)
	}
	return n, nil
}

// parseDuration reads a duration; a bare number is seconds, as docker's
// --stop-timeout has it.
func parseDuration(s string) (time.Duration, error) {
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		s = strconv.FormatInt(n, 10) + "s"
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no duration, as in 90s or 5m", s)
	}
	return d, nil
}

// parseSince reads a time: RFC 3339, a date, a Unix time, or how long ago.
func parseSince(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return now.Add(-d.Abs()), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	sec, frac, _ := strings.Cut(s, ".")
	if n, err := strconv.ParseInt(sec, 10, 64); err == nil && n > 0 {
		ns, err := strconv.ParseInt((frac + "000000000")[:9], 10, 64)
		if err == nil {
			return time.Unix(n, ns), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time, as in 10m, 2026-01-31, 2026-01-31T15:04:05Z or a Unix time", s)
}

// parseEnv adds NAME=value, or NAME with the submitter's value, to env. It
// returns the name when there is no such value.
func parseEnv(env sdk.Env, entry string, lookup func(string) (string, bool)) (missing string, err error) {
	name, value, set := strings.Cut(entry, "=")
	if name == "" {
		return "", fmt.Errorf("%q lacks a name, as in NAME=value", entry)
	}
	if strings.ContainsRune(entry, 0) {
		return "", fmt.Errorf("variable %s has a NUL byte, which no process can take", strings.ReplaceAll(name, "\x00", `\0`))
	}
	if !set {
		if value, set = lookup(name); !set {
			return name, nil
		}
	}
	env[name] = value
	return "", nil
}

const maxEnvFile = 4 << 20

// readEnvFile reads a file of NAME=value lines in docker's format: blank lines
// and those that start with # are skipped, nothing is unquoted, and a bare
// name takes the submitter's value. Names without a value come back.
func readEnvFile(env sdk.Env, path string, r io.Reader, lookup func(string) (string, bool)) (missing []string, err error) {
	data, err := io.ReadAll(io.LimitReader(r, maxEnvFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(data) > maxEnvFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxEnvFile)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxEnvFile+1)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if !utf8.ValidString(line) {
			return nil, fmt.Errorf("%s:%d: is not UTF-8", path, n)
		}
		line = strings.TrimLeft(line, " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		name, _, _ := strings.Cut(line, "=")
		if strings.ContainsAny(name, " \t") {
			// The line may hold a secret, so it isn't shown.
			return nil, fmt.Errorf("%s:%d: a variable's name has no blanks", path, n)
		}
		m, err := parseEnv(env, line, lookup)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: a line is NAME=value or NAME", path, n)
		}
		if m != "" {
			missing = append(missing, m)
		}
	}
	return missing, lines.Err()
}

// parseVolume reads docker's SOURCE:TARGET[:ro|rw]. A source with a slash, or .
// or .. in front, is a path on the engine's machine, anything else a volume.
func parseVolume(s, dir string) (sdk.Mount, error) {
	parts := strings.Split(s, ":")
	m := sdk.Mount{Type: sdk.MountVolume}
	switch {
	case len(parts) == 3:
		for _, o := range strings.Split(parts[2], ",") {
			switch o {
			case "ro":
				m.ReadOnly = true
			case "rw":
			default:
				return m, fmt.Errorf("%q: option %q is neither ro nor rw", s, o)
			}
		}
	case len(parts) == 1:
		return m, fmt.Errorf("%q: an unnamed volume would be lost with the job; write SOURCE:TARGET, or --tmpfs %s", s, s)
	case len(parts) != 2:
		return m, fmt.Errorf("%q is not SOURCE:TARGET[:ro]", s)
	}
	m.Source, m.Target = parts[0], parts[1]
	if m.Source == "" || m.Target == "" {
		return m, fmt.Errorf("%q is not SOURCE:TARGET[:ro]", s)
	}
	if strings.Contains(m.Source, "/") || m.Source == "." || m.Source == ".." {
		m.Type = sdk.MountBind
		if !filepath.IsAbs(m.Source) {
			m.Source = filepath.Join(dir, m.Source)
		}
	}
	return m, nil
}

// parseTmpfs reads docker's TARGET[:size=64m].
func parseTmpfs(s string) (sdk.Mount, error) {
	m := sdk.Mount{Type: sdk.MountTmpfs}
	target, options, has := strings.Cut(s, ":")
	m.Target = target
	if target == "" {
		return m, fmt.Errorf("%q is not TARGET[:size=64m]", s)
	}
	if !has {
		return m, nil
	}
	for _, o := range strings.Split(options, ",") {
		k, v, _ := strings.Cut(o, "=")
		switch k {
		case "size":
			n, err := parseMemory(v)
			if err != nil {
				return m, err
			}
			m.Size = n
		case "ro":
			m.ReadOnly = true
		case "rw":
		default:
			return m, fmt.Errorf("%q: option %q is none of size, ro, rw", s, k)
		}
	}
	return m, nil
}

// parseFile reads SOURCE:TARGET[:MODE] and the file.
func parseFile(s string) (sdk.InputFile, error) {
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
		return sdk.InputFile{}, fmt.Errorf("%q is not SOURCE:TARGET[:MODE]", s)
	}
	f := sdk.InputFile{Path: parts[1]}
	if len(parts) == 3 {
		mode, err := strconv.ParseInt(parts[2], 8, 32)
		if err != nil || mode <= 0 || mode > 0o777 {
			return f, fmt.Errorf("%q: mode %q is not octal permission bits, as in 0600", s, parts[2])
		}
		f.Mode = mode
	}
	data, err := readLimited(parts[0], sdk.MaxInputBytes)
	if err != nil {
		return f, err
	}
	f.Data = data
	return f, nil
}

// readLimited reads a small regular file.
func readLimited(path string, limit int64) (_ []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if st, err := file.Stat(); err != nil {
		return nil, err
	} else if st.IsDir() {
		return nil, fmt.Errorf("%s is a folder; mount it with -v", path)
	}
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes; mount it with -v", path, limit)
	}
	return data, nil
}

// parsePair reads KEY=VALUE, or KEY with an empty value.
func parsePair(s string) (key, value string, err error) {
	key, value, _ = strings.Cut(s, "=")
	if key == "" {
		return "", "", fmt.Errorf("%q lacks a name, as in NAME=value", s)
	}
	return key, value, nil
}

// parseOptions joins --options and --option into one object. The schema says
// whether an option's text is text, a number or JSON; an option that it lacks
// is passed on, and refused by the provider with the nearest name.
func parseOptions(raw string, pairs []string, schema sdk.Schema) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if raw != "" {
		if err := json.Unmarshal([]byte(raw), &members); err != nil || members == nil {
			return nil, errors.New("--options wants a JSON object")
		}
	}
	for _, p := range pairs {
		k, v, err := parsePair(p)
		if err != nil {
			return nil, fmt.Errorf("--option: %w", err)
		}
		if !strings.Contains(p, "=") {
			return nil, fmt.Errorf("--option: %q lacks its value, as in %s=VALUE", p, p)
		}
		if _, ok := members[k]; ok {
			return nil, fmt.Errorf("--option: %s is set twice", k)
		}
		members[k] = optionValue(k, v, schema)
	}
	if len(members) == 0 {
		return nil, nil
	}
	out, err := json.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("--options: %w", err)
	}
	return out, nil
}

func optionValue(name, text string, schema sdk.Schema) json.RawMessage {
	asText, _ := json.Marshal(text)
	for _, f := range schema.Fields {
		if f.Name != name {
			continue
		}
		if f.Type == sdk.TypeString || f.Type == sdk.TypeDuration || !json.Valid([]byte(text)) {
			return asText
		}
		return json.RawMessage(text)
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return asText
}
