package argo

import (
	"bytes"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// TestExecutorLines: Argo's own lines are told from the job's, also behind a line of
// the job's that had no end.
func TestExecutorLines(t *testing.T) {
	const v4 = `time=2026-11-28T12:00:00.000Z level=INFO msg="sub-process exited" argo=true error=<nil>`
	const v3 = `time="2024-01-02T03:04:05.678Z" level=info msg="sub-process exited" argo=true error="exit status 7"`
	const js = `{"argo":true,"error":null,"level":"info","msg":"sub-process exited","time":"2024-01-02T03:04:05Z"}`
	const js4 = `{"time":"2026-11-28T12:00:00Z","level":"INFO","msg":"sub-process exited","argo":true}`
	for name, k := range map[string]struct{ lines, job, system []string }{
		"version 4":       {[]string{"a", v4}, []string{"a"}, []string{v4}},
		"version 3":       {[]string{v3, "Error: exit status 7"}, nil, []string{v3, "Error: exit status 7"}},
		"JSON":            {[]string{js, js4}, nil, []string{js, js4}},
		"behind a line":   {[]string{"no end" + v4}, []string{"no end"}, []string{v4}},
		"no program":      {[]string{`Error: failed to find name in PATH: exec: "x": executable file not found in $PATH`}, nil, []string{`Error: failed to find name in PATH: exec: "x": executable file not found in $PATH`}},
		"said twice":      {[]string{`Error: failed to find name in PATH: x`, `failed to find name in PATH: x`, "x"}, []string{"x"}, []string{`Error: failed to find name in PATH: x`, `failed to find name in PATH: x`}},
		"a job's error":   {[]string{"Error: exit status 7", "Error: x"}, []string{"Error: exit status 7", "Error: x"}, nil},
		"a job's slog":    {[]string{`time=2026-11-28T12:00:00.000Z level=INFO msg=hello user=argo`}, []string{`time=2026-11-28T12:00:00.000Z level=INFO msg=hello user=argo`}, nil},
		"a job's JSON":    {[]string{`{"msg":"argo","level":"info"}`}, []string{`{"msg":"argo","level":"info"}`}, nil},
		"words in a line": {[]string{"argo=true"}, []string{"argo=true"}, nil},
	} {
		var x executor
		var job, system []string
		for _, line := range k.lines {
			for _, c := range x.split(sdk.LogChunk{Stream: sdk.StreamCombined, Data: []byte(line), LineEnd: sdk.LineEndStripped}) {
				if c.Stream == sdk.StreamSystem {
					system = append(system, string(c.Data))
				} else {
					job = append(job, string(c.Data))
				}
			}
		}
		if strings.Join(job, "|") != strings.Join(k.job, "|") || strings.Join(system, "|") != strings.Join(k.system, "|") {
			t.Errorf("%s: the job's are %q, Argo's %q", name, job, system)
		}
	}
}

// FuzzExecutorLines: no byte of a line is lost, whosever it is.
func FuzzExecutorLines(f *testing.F) {
	f.Add([]byte(`x time=1 level=INFO msg="sub-process exited" argo=true error=<nil>`))
	f.Add([]byte(`{"argo":true,"msg":"x"}`))
	f.Add([]byte("Error: exit status 3"))
	f.Fuzz(func(t *testing.T, line []byte) {
		x := executor{last: len(line)%2 == 0}
		var all []byte
		parts := x.split(sdk.LogChunk{Stream: sdk.StreamCombined, Data: line, LineEnd: sdk.LineEndStripped})
		for _, c := range parts {
			all = append(all, c.Data...)
		}
		if !bytes.Equal(all, line) || parts[len(parts)-1].LineEnd != sdk.LineEndStripped {
			t.Errorf("%q becomes %+v", line, parts)
		}
	})
}
