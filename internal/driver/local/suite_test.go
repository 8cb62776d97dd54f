//go:build linux || darwin

package local

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// TestSuite runs the conformance suite in each way of ending a tree that this
// machine has.
func TestSuite(t *testing.T) {
	for name, config := range map[string]string{"cgroup": `{}`, "subreaper": `{"cgroup":"off"}`} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name == "subreaper" {
				t.Skip("left out by -short")
			}
			providertest.Run(t, harness(t, config, Driver()))
		})
	}
}

// harness puts this machine under the suite, as driver shows it.
func harness(t *testing.T, config string, driver sdk.Driver) providertest.Harness {
	w := newWorld(t, config)
	var values providertest.Secrets
	open := func(pt providertest.T) sdk.Provider {
		p, err := driver.Open(pt.Context(), sdk.OpenRequest{Name: "here", Config: []byte(config), Owner: "owner", LedgerID: "ledger",
			StateDir: w.state, Secrets: &values})
		if err != nil {
			pt.Fatalf("open: %v", err)
		}
		return p
	}
	h := providertest.Harness{
		Driver: driver,
		Open:   open,
		Behave: func(_ providertest.T, b providertest.Behaviour) (sdk.JobSpec, error) {
			return sdk.JobSpec{Args: append(sdk.Argv{"sh", "-c", b.Shell(w.mark), "sh"}, b.Args...)}, nil
		},
		Marks:   func(_ providertest.T, key string) int { return w.marked(key) },
		Ambient: ambient(),
		Secrets: &values,
		Exposed: func(t providertest.T, h sdk.JobHandle) map[string][]byte { return w.exposed(t, h) },
		Leftovers: func(t providertest.T, run sdk.ID) []string {
			out, err := w.leftovers(run)
			if err != nil {
				t.Fatalf("%v", err)
			}
			return out
		},
		Workdir: w.marks,
	}
	if os.Geteuid() == 0 {
		h.User, h.UserID = "nobody", "65534"
	}
	return h
}

// exposed is everything that other users, and readers of the state folder, can
// see: what /proc shows of all processes' arguments, and the folder's files.
func (w *world) exposed(t interface {
	Fatalf(format string, args ...any)
}, h sdk.JobHandle) map[string][]byte {
	out := map[string][]byte{}
	cmdlines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, f := range cmdlines {
		if b, err := os.ReadFile(f); err == nil && !isRelated(f) {
			out[f] = b
		}
	}
	supervisor := fmt.Sprintf("/proc/%s/environ", h.Metadata[keyPID])
	if b, err := os.ReadFile(supervisor); err == nil {
		out[supervisor] = b
	}
	err = filepath.WalkDir(w.state, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(path) == "output" {
			return nil // a job may show what it likes
		}
		b, err := os.ReadFile(path)
		if err == nil {
			out[path] = b
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

// isRelated reports whether a process is the test's own, whose arguments may
// say anything.
func isRelated(cmdline string) bool {
	return strings.HasPrefix(cmdline, fmt.Sprintf("/proc/%d/", os.Getpid()))
}

// leftovers looks for folders, processes and control groups that carry the ID of
// a run or an attempt.
func (w *world) leftovers(id sdk.ID) (out []string, err error) {
	folders, err := os.ReadDir(w.state)
	if err != nil {
		return nil, err
	}
	attempts := []string{id.String()}
	for _, d := range folders {
		b, err := os.ReadFile(filepath.Join(w.state, d.Name(), "launch.json"))
		if err == nil && bytes.Contains(b, []byte(id.String())) || strings.Contains(d.Name(), id.String()) {
			out = append(out, d.Name())
			attempts = append(attempts, d.Name())
		}
	}
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil, err
	}
	for _, f := range environs {
		b, err := os.ReadFile(f)
		if err == nil && (bytes.Contains(b, []byte(runVariable+"="+id.String())) || bytes.Contains(b, []byte(attemptVariable+"="+id.String()))) {
			out = append(out, f)
		}
	}
	for _, a := range attempts {
		groups, err := filepath.Glob("/sys/fs/cgroup/*/windlass-" + a)
		if err != nil {
			return nil, err
		}
		out = append(out, groups...)
	}
	return out, nil
}
