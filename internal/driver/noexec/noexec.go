// Package noexec reads from a container runtime's words why a command could not be
// run. Platforms pass those words on, each behind some of its own, and most give no
// code for it.
package noexec

import (
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// words are what runtimes write behind the program's name: runc and crun by Go's
// os/exec and by the kernel's errors, gVisor by the same errors.
// https://github.com/opencontainers/runc/blob/v1.3.0/libcontainer/standard_init_linux.go
// https://github.com/google/gvisor/blob/master/pkg/sentry/fsimpl/user/path.go
// https://github.com/containers/crun/blob/1.21/src/libcrun/linux.c
func words() []struct{ text, why string } {
	return []struct{ text, why string }{
		{"executable file not found", sdk.ExecNotFound},
		{"executable file `", sdk.ExecNotFound},      // crun: executable file `X` not found in $PATH
		{"no such file or direct", sdk.ExecNotFound}, // Fargate cuts reasons short
		{"permission denied", sdk.ExecNotExecutable},
		{"exec format error", sdk.ExecNotExecutable},
		{"is a directory", sdk.ExecNotExecutable},
	}
}

// starts are what runtimes write before the program's name, the most telling last.
// Without one of them the words may be of a mount, a working folder or a log.
func starts() []string {
	return []string{
		"exec: ", "exec /", // runc
		"executable file `",         // crun
		"error finding executable ", // gVisor, for a name that is sought in PATH
		"failed to load ",           // gVisor, for a path
	}
}

// Why returns sdk.ExecNotFound or sdk.ExecNotExecutable where a text says that the
// command itself could not be run, and nothing where it says no such thing.
func Why(text string) string {
	text = strings.ToLower(text)
	from := -1
	for _, s := range starts() {
		if i := strings.Index(text, s); i >= 0 && (from < 0 || i < from) {
			from = i
		}
	}
	if from < 0 {
		return ""
	}
	for _, w := range words() {
		if strings.Contains(text[from:], w.text) {
			return w.why
		}
	}
	return ""
}
