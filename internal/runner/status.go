package runner

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/sandboxpb"
)

// status is an error as the caller is told: its class, its words without secret
// values and without paths of this machine, and the name that `windlass explain`
// knows. The log has it whole.
func (s *Server) status(err error, req *sandboxpb.SandboxExecRequest) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	code, words, id := codes.Code(sdk.CodeOf(err)), err.Error(), ""
	var e *sdk.Error
	if errors.As(err, &e) {
		id = e.ID
	} else if st, ok := status.FromError(err); ok {
		code, words = st.Code(), st.Message() // what gRPC itself says
	}
	if s.o.Redact != nil {
		words = s.o.Redact(words)
	}
	words = withoutPaths(words, s.o.StateDir, req)
	if id != "" {
		words += " [" + id + "]"
	}
	return status.Error(code, strings.ToValidUTF8(words, "?"))
}

// hidden stands for a path of this machine.
const hidden = "(a path of the runner's machine)"

// absolutePath is what may be a path of this machine: from a slash, as it is or
// escaped, or a drive, to what no message puts into a path. A scheme may come first,
// as in unix:///run/docker.sock.
var absolutePath = regexp.MustCompile(`(?:[a-z][a-z0-9+.-]*:///?)?(?:/|%2[Ff]|[A-Za-z]:\\)[^\s"'` + "`" + `<>(),;|]*`)

// withoutPaths takes the paths of this machine out of a text: those of the state
// folder, and all that the caller hasn't sent itself. Paths that a job sees by our
// own doing, below /run/secrets, stay.
func withoutPaths(text, stateDir string, req *sandboxpb.SandboxExecRequest) string {
	if stateDir != "" {
		text = strings.ReplaceAll(text, stateDir, "/state") // it may have blanks in it
	}
	var b strings.Builder
	last := 0
	for _, m := range absolutePath.FindAllStringIndex(text, -1) {
		if !beginsPath(text, m[0]) {
			continue
		}
		path := strings.TrimRight(text[m[0]:m[1]], ":.]}")
		if len(path) < 2 || strings.HasPrefix(path, secretsFolder) || sentBy(req, path) {
			continue
		}
		b.WriteString(text[last:m[0]] + hidden)
		last = m[0] + len(path)
	}
	return b.String() + text[last:]
}

// beginsPath reports whether a path may begin at a place of a text: not within a word,
// such as application/json, nor behind a scheme, as in secret://file/a.
func beginsPath(text string, at int) bool {
	if at == 0 {
		return true
	}
	if text[at-1] == ':' {
		return !strings.HasPrefix(text[at:], "//")
	}
	return strings.IndexByte(" \t\n\"'`<([{=,;|", text[at-1]) >= 0
}

// secretsFolder is where jobs find their secrets.
const secretsFolder = "/run/secrets/"

// sentBy reports whether a caller's own request has a text in it.
func sentBy(req *sandboxpb.SandboxExecRequest, text string) bool {
	has := func(s string) bool { return strings.Contains(s, text) }
	if has(req.GetImage()) || has(req.GetWorkdir()) || slices.ContainsFunc(req.GetCommand(), has) {
		return true
	}
	for _, v := range req.GetEnv() {
		if has(v) {
			return true
		}
	}
	return false
}

// codeFrom is the class of an error that a call returned.
func codeFrom(err error) sdk.Code {
	if c := status.Code(err); c != codes.OK && int(c) <= int(sdk.Unauthenticated) {
		return sdk.Code(c)
	}
	return sdk.Unknown
}
