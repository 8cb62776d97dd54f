package cli

import (
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/windlass-run/windlass/sdk"
)

func TestParseMemory(t *testing.T) {
	for text, want := range map[string]int64{"64m": 64 << 20, "2g": 2 << 30, "1.5g": 3 << 29, "100": 100, "10b": 10, "64MiB": 64 << 20, "4k": 4096,
		"0": 0, "-1": 0, "": 0, "m": 0, "64Mi": 0, "64x": 0, "NaN": 0} {
		got, err := parseMemory(text)
		if want == 0 && err == nil || want != 0 && (err != nil || got != want) {
			t.Errorf("parseMemory(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

// TestParseCPUs compares with exact arithmetic.
func TestParseCPUs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[0-9]{0,6}(\.[0-9]{0,5})?`).Draw(t, "text")
		got, err := parseCPUs(text)
		r, ok := new(big.Rat).SetString(text)
		if ok {
			r.Mul(r, big.NewRat(1000, 1))
		}
		want := ok && r.IsInt() && r.Sign() > 0
		if want != (err == nil) || want && r.Num().Int64() != got {
			t.Fatalf("parseCPUs(%q) = %d, %v; want %v", text, got, err, r)
		}
	})
	for _, bad := range []string{"-1", "1,5", "x", ".", "", "0.0005", "9999999999", "1e3", "0", "0.000"} {
		if n, err := parseCPUs(bad); err == nil {
			t.Errorf("parseCPUs(%q) = %d", bad, n)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "5m": 5 * time.Minute, "10": 10 * time.Second, "0": 0, "1h30m": 90 * time.Minute,
		"-1s": -1, "-5": -1, "x": -1, "": -1, "99999999999999": -1} {
		got, err := parseDuration(text)
		if want < 0 && err == nil || want >= 0 && (err != nil || got != want) {
			t.Errorf("parseDuration(%q) = %s, %v; want %s", text, got, err, want)
		}
	}
}

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"10m": now.Add(-10 * time.Minute), "2026-01-31": time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC),
		"2026-01-31T15:04:05Z":      time.Date(2026, 1, 31, 15, 4, 5, 0, time.UTC),
		"2026-01-31T15:04:05+02:00": time.Date(2026, 1, 31, 13, 4, 5, 0, time.UTC),
		"2026-01-31 15:04:05":       time.Date(2026, 1, 31, 15, 4, 5, 0, time.UTC),
		"1700000000":                time.Unix(1700000000, 0), "1700000000.5": time.Unix(1700000000, 5e8),
		"yesterday": {}, "": {}, "2026-13-01": {}, "-5": {},
	} {
		got, err := parseSince(text, now)
		if want.IsZero() && err == nil || !want.IsZero() && (err != nil || !got.Equal(want)) {
			t.Errorf("parseSince(%q) = %s, %v; want %s", text, got, err, want)
		}
	}
}

func TestReadEnvFile(t *testing.T) {
	lookup := func(k string) (string, bool) { return "from here", k == "HERE" }
	env := sdk.Env{}
	missing, err := readEnvFile(env, "f", strings.NewReader("\xef\xbb\xbfA=1\n\n# no\n  B=two words # kept \nC=\"quoted\"\nD=\nHERE\nGONE\nE==x\r\n"), lookup)
	if err != nil {
		t.Fatal(err)
	}
	want := sdk.Env{"A": "1", "B": "two words # kept ", "C": `"quoted"`, "D": "", "HERE": "from here", "E": "=x"}
	if len(env) != len(want) || len(missing) != 1 || missing[0] != "GONE" {
		t.Errorf("env %q, missing %q", env, missing)
	}
	for k, v := range want {
		if env[k] != v {
			t.Errorf("%s = %q, want %q", k, env[k], v)
		}
	}
	for _, bad := range []string{"A=1\nMY KEY=canary\n", "=canary\n", "A=\xff\n", "A=x\x00canary\n"} {
		_, err := readEnvFile(sdk.Env{}, "f", strings.NewReader(bad), lookup)
		if err == nil || !strings.HasPrefix(err.Error(), "f:") || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: error %v", bad, err)
		}
	}
}

func TestParseVolume(t *testing.T) {
	for text, want := range map[string]sdk.Mount{
		"/a:/b":     {Type: sdk.MountBind, Source: "/a", Target: "/b"},
		"/a:/b:ro":  {Type: sdk.MountBind, Source: "/a", Target: "/b", ReadOnly: true},
		"./a:/b:rw": {Type: sdk.MountBind, Source: "/here/a", Target: "/b"},
		"sub/a:/b":  {Type: sdk.MountBind, Source: "/here/sub/a", Target: "/b"},
		".:/b":      {Type: sdk.MountBind, Source: "/here", Target: "/b"},
		"cache:/b":  {Type: sdk.MountVolume, Source: "cache", Target: "/b"},
		"/b":        {}, "a:": {}, ":/b": {}, "a:/b:z": {}, "a:b:c:d": {}, "": {},
	} {
		got, err := parseVolume(text, "/here")
		if want.Type == "" && err == nil || want.Type != "" && (err != nil || got != want) {
			t.Errorf("parseVolume(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestParseTmpfs(t *testing.T) {
	for text, want := range map[string]sdk.Mount{
		"/t":            {Type: sdk.MountTmpfs, Target: "/t"},
		"/t:size=64m":   {Type: sdk.MountTmpfs, Target: "/t", Size: 64 << 20},
		"/t:size=1k,ro": {Type: sdk.MountTmpfs, Target: "/t", Size: 1024, ReadOnly: true},
		"":              {}, "/t:size=x": {}, "/t:mode=1777": {}, ":size=1m": {},
	} {
		got, err := parseTmpfs(text)
		if want.Type == "" && err == nil || want.Type != "" && (err != nil || got != want) {
			t.Errorf("parseTmpfs(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestParseFile(t *testing.T) {
	dir := t.TempDir()
	small, large := filepath.Join(dir, "small"), filepath.Join(dir, "large")
	for path, n := range map[string]int{small: 5, large: sdk.MaxInputBytes + 1} {
		if err := os.WriteFile(path, make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := parseFile(small + ":/etc/x:0640")
	if err != nil || f.Path != "/etc/x" || f.Mode != 0o640 || len(f.Data) != 5 {
		t.Errorf("%+v, %v", f, err)
	}
	for _, bad := range []string{large + ":/x", dir + ":/x", small, small + ":", small + ":/x:9", small + ":/x:1777", dir + "/none:/x", ":/x"} {
		if _, err := parseFile(bad); err == nil {
			t.Errorf("parseFile(%q) was accepted", bad)
		}
	}
}

func TestParseOptions(t *testing.T) {
	schema := sdk.Schema{Fields: []sdk.SchemaField{{Name: "text", Type: sdk.TypeString}, {Name: "flag", Type: sdk.TypeBool}, {Name: "list", Type: sdk.TypeList}}}
	for _, c := range []struct {
		raw   string
		pairs []string
		want  string // empty for an error, - for none
	}{
		{"", nil, "-"},
		{"", []string{"text=5", "flag=true", `list=["a"]`, "other=7"}, `{"flag":true,"list":["a"],"other":7,"text":"5"}`},
		{`{"a":1}`, []string{"b=x"}, `{"a":1,"b":"x"}`},
		{`{"a":1}`, []string{"a=2"}, ""},
		{`[1]`, nil, ""}, {`null`, nil, ""}, {`{`, nil, ""}, {"", []string{"a"}, ""}, {"", []string{"=1"}, ""},
	} {
		got, err := parseOptions(c.raw, c.pairs, schema)
		switch {
		case c.want == "" && err == nil, c.want == "-" && got != nil, c.want != "" && err != nil:
			t.Errorf("parseOptions(%q, %q) = %s, %v", c.raw, c.pairs, got, err)
		case len(c.want) > 1 && string(got) != c.want:
			t.Errorf("parseOptions(%q, %q) = %s, want %s", c.raw, c.pairs, got, c.want)
		}
	}
}

// FuzzValues throws anything at everything that reads a flag.
func FuzzValues(f *testing.F) {
	for _, s := range []string{"64m", "1.5", "5m", "A=1", "/a:/b:ro", "/t:size=1m", "a:b:0600", "{}", "2026-01-31", "\xff", "1" + strings.Repeat("0", 400)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := parseMemory(s); err == nil && n <= 0 {
			t.Errorf("parseMemory(%q) = %d", s, n)
		}
		if n, err := parseCPUs(s); err == nil && n <= 0 {
			t.Errorf("parseCPUs(%q) = %d", s, n)
		}
		if d, err := parseDuration(s); err == nil && d < 0 {
			t.Errorf("parseDuration(%q) = %s", s, d)
		}
		if _, err := parseSince(s, time.Now()); err == nil && s == "" {
			t.Error("no time at all was accepted")
		}
		if m, err := parseVolume(s, "/here"); err == nil && (m.Source == "" || m.Target == "") {
			t.Errorf("parseVolume(%q) = %+v", s, m)
		}
		_, _ = parseTmpfs(s)
		_, _ = parseOptions(s, []string{s}, sdk.Schema{})
		env := sdk.Env{}
		_, _ = readEnvFile(env, "f", strings.NewReader(s), func(string) (string, bool) { return "", false })
		for k, v := range env {
			if k == "" || strings.ContainsRune(k+v, 0) {
				t.Errorf("variable %q=%q", k, v)
			}
		}
		if c := clean(s); strings.ContainsAny(c, "\x1b\r\n\x00") || !utf8.ValidString(c) {
			t.Errorf("clean(%q) = %q", s, c)
		}
		if q := quoteArg(s); q == "" {
			t.Errorf("quoteArg(%q) is empty", s)
		}
	})
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Second: "0s", 0: "0s", 90 * time.Second: "90s", 3 * time.Minute: "3m", 119 * time.Minute: "119m",
		5 * time.Hour: "5h", 72 * time.Hour: "3d"} {
		if got := age(d); got != want {
			t.Errorf("age(%s) = %s, want %s", d, got, want)
		}
	}
}

func TestTableFits80Columns(t *testing.T) {
	tab := &table{head: []string{"RUN", "STATE", "WHAT"}, flex: 2}
	long := strings.Repeat("é", 300)
	tab.add(plain("abcdefghij"), cell{"failed (exit 3)", styleRed}, plain(long))
	var b strings.Builder
	if err := tab.write(&b, 80, false); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if n := len([]rune(line)); n > 80 {
			t.Errorf("%s columns: %s", strconv.Itoa(n), line)
		}
	}
	b.Reset()
	if err := tab.write(&b, 0, false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), long) || strings.Contains(b.String(), "\x1b") {
		t.Error("in a pipe nothing is cut, and nothing is coloured")
	}
	b.Reset()
	if err := tab.write(&b, 80, true); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\x1b[31mfailed (exit 3)\x1b[0m") {
		t.Errorf("no colour: %q", b.String())
	}
}
