//go:build failpoint

// Package failpoint stops a process at a named boundary, so that tests can
// kill it there. Without the build tag failpoint every call is empty and
// costs nothing.
package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// Enabled reports whether the program was built with failpoints.
const Enabled = true

// point is one armed boundary: WINDLASS_FAILPOINT=ROLE/NAME=ACTION[@N][,...],
// where ROLE is command, keeper or supervisor, ACTION is kill, stop or exit,
// and N counts the hits until it acts.
type point struct {
	action string
	after  int64
	hits   atomic.Int64
}

var armed = parse(role(), os.Getenv("WINDLASS_FAILPOINT"))

// role is what this process is, by its hidden first argument.
func role() string {
	if len(os.Args) > 1 {
		switch {
		case strings.HasPrefix(os.Args[1], "__keeper"):
			return "keeper"
		case strings.HasPrefix(os.Args[1], "__"):
			return "supervisor"
		}
	}
	return "command"
}

func parse(self, s string) map[string]*point {
	out := map[string]*point{}
	for _, part := range strings.Split(s, ",") {
		who, rest, _ := strings.Cut(part, "/")
		name, action, ok := strings.Cut(rest, "=")
		if !ok || who != self {
			continue
		}
		p := &point{action: action, after: 1}
		if a, n, ok := strings.Cut(action, "@"); ok {
			p.action = a
			if v, err := strconv.ParseInt(n, 10, 64); err == nil {
				p.after = v
			}
		}
		out[name] = p
	}
	return out
}

// Hit marks a boundary: an armed one leaves a line in the file that
// WINDLASS_FAILPOINT_LOG names and then ends, or stops, this process. It acts
// once for a file, so that a process that is started again gets past it.
func Hit(name string) {
	p := armed[name]
	if p == nil || p.hits.Add(1) != p.after {
		return
	}
	if path := os.Getenv("WINDLASS_FAILPOINT_LOG"); path != "" {
		if seen, err := os.ReadFile(path); err == nil && strings.Contains("\n"+string(seen), "\n"+name+" ") {
			return
		}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, _ = fmt.Fprintf(f, "%s %d\n", name, os.Getpid())
			_ = f.Close()
		}
	}
	self, _ := os.FindProcess(os.Getpid())
	switch p.action {
	case "stop":
		_ = self.Signal(stopSignal)
	case "exit":
		os.Exit(99)
	default:
		_ = self.Kill()
		select {}
	}
}

// Environ returns the variables that arm a child process's boundaries, for
// children that inherit nothing.
func Environ() []string {
	return []string{"WINDLASS_FAILPOINT=" + os.Getenv("WINDLASS_FAILPOINT"), "WINDLASS_FAILPOINT_LOG=" + os.Getenv("WINDLASS_FAILPOINT_LOG")}
}
