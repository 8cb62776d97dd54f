package argo

import (
	"bytes"
	"regexp"
	"sync"

	"github.com/windlass-run/windlass/sdk"
)

// executorLine is a line that Argo's own program writes into the output of the
// container that it starts, in its two formats: each has the mark argo=true.
// https://github.com/argoproj/argo-workflows/blob/v4.0.5/cmd/argoexec/commands/root.go
var executorLine = sync.OnceValue(func() *regexp.Regexp {
	value := `(?:"(?:[^"\\]|\\.)*"|[^\s"]\S*)`
	return regexp.MustCompile(`time=` + value + ` level=[A-Za-z]+ msg=` + value + `(?: [\w.-]+=` + value + `?)*? argo=true(?: [\w.-]+=` + value + `?)*$` +
		`|\{(?:"time":"[^"]*","level":"[A-Za-z]+"|"argo":(?:true|"true"),)[^{}]*"msg":"(?:[^"\\]|\\.)*"[^{}]*\}$`)
})

// executorError is what the program writes when it fails itself, and behind its last
// line.
var executorError = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^Error: (?:failed to (?:find name in PATH|start command|create ctr directory|read template)\b.*|exit status -?\d+|signal: .*)$`)
})

var exited = []byte("sub-process exited")

// executor tells the lines of Argo's executor from the job's. It is for one read.
type executor struct {
	// last: the executor has said that the job's process has exited.
	last bool
	// failed is the error that it gave, which it says twice.
	failed []byte
}

// split marks what of a line is the executor's as of the stream system. A line of the
// job's that had no end stands before it.
func (x *executor) split(c sdk.LogChunk) []sdk.LogChunk {
	system := func(data []byte) sdk.LogChunk {
		s := c
		s.Stream, s.Data = sdk.StreamSystem, data
		return s
	}
	if m := executorError().FindIndex(c.Data); m != nil && (x.last || !bytes.HasPrefix(c.Data, []byte("Error: exit")) && !bytes.HasPrefix(c.Data, []byte("Error: signal"))) {
		x.failed = bytes.Clone(bytes.TrimPrefix(c.Data, []byte("Error: ")))
		return []sdk.LogChunk{system(c.Data)}
	}
	if len(x.failed) > 0 && bytes.Equal(c.Data, x.failed) {
		return []sdk.LogChunk{system(c.Data)}
	}
	if !bytes.Contains(c.Data, []byte("argo")) {
		return []sdk.LogChunk{c}
	}
	m := executorLine().FindIndex(c.Data)
	if m == nil || c.Data[m[0]] == '{' && !bytes.Contains(c.Data[m[0]:], []byte(`"argo":`)) {
		return []sdk.LogChunk{c}
	}
	x.last = x.last || bytes.Contains(c.Data[m[0]:], exited)
	if m[0] == 0 {
		return []sdk.LogChunk{system(c.Data)}
	}
	before := c
	before.Data, before.LineEnd = c.Data[:m[0]], sdk.LineEndKept
	return []sdk.LogChunk{before, system(c.Data[m[0]:])}
}
