//go:build linux || darwin

package local

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// TestMain makes the test's program a supervisor, or a submitter that dies at
// a point, when it is started as one.
func TestMain(m *testing.M) {
	if handled, code := supervise(os.Args[1:], dieAtPoint); handled {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == submitVerb {
		submitAndExit(os.Args[2:])
	}
	if len(os.Args) > 3 && os.Args[1] == elsewhereVerb {
		os.Exit(elsewhere(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

// pointFile lies in a provider's state folder and names the point at which its
// supervisors die.
const pointFile = "die-at"

// dieAtPoint kills a supervisor where its test wants it. It has nothing but its
// folder to learn that from.
func dieAtPoint(point string) {
	log, err := os.Readlink("/proc/self/fd/2")
	if err != nil {
		return
	}
	b, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(log)), pointFile))
	if err == nil && string(b) == point {
		killSelf()
	}
}

func killSelf() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		_ = self.Kill()
	}
	select {}
}

// world is a provider and what its tests need around it.
type world struct {
	testing.TB
	p     *provider
	state string
	marks string
	ids   sdk.IDSource
}

// secrets resolves from a map.
type secrets map[sdk.SecretRef]string

func (s secrets) ResolveSecret(_ context.Context, ref sdk.SecretRef) (sdk.SecretValue, error) {
	v, ok := s[ref]
	if !ok {
		return sdk.SecretValue{}, sdk.Errorf(sdk.NotFound, "resolve secret", "%s is not set", ref)
	}
	return sdk.NewSecretValue([]byte(v)), nil
}

func openIn(t testing.TB, state, config string) *provider {
	t.Helper()
	p, err := open(t.Context(), sdk.OpenRequest{Name: "here", Config: []byte(config), Owner: "owner", LedgerID: "ledger",
		StateDir: state, Secrets: secrets{"secret://env/CANARY": canary}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

const canary = "canary-7f3a-value"

func newWorld(t testing.TB, config string) *world {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, state: state, marks: t.TempDir(), ids: sdk.NewIDSource(sdk.SystemClock())}
	t.Cleanup(w.sweep) // before the folder goes, after the provider is closed
	w.p = openIn(t, state, config)
	return w
}

// sweep ends what a failed test left running.
func (w *world) sweep() {
	p := openIn(w.TB, w.state, "")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_ = os.Remove(filepath.Join(w.state, pointFile))
	var list []sdk.OwnedObject
	for o, err := range p.ListOwned(ctx, sdk.ListOwnedRequest{}) {
		if err != nil {
			w.Error(err)
			return
		}
		list = append(list, o)
	}
	for _, o := range list {
		if _, err := p.RemoveOwned(ctx, sdk.RemoveOwnedRequest{Object: o}); err != nil {
			w.Errorf("sweep %s (%s): %v", o.ID, o.State, err)
		}
	}
}

func sh(script string) sdk.JobSpec { return sdk.JobSpec{Args: sdk.Argv{"sh", "-c", script}} }

// mark is a command that leaves a mark.
func (w *world) mark(name string) string {
	return "echo x >>" + filepath.Join(w.marks, name)
}

// marked counts marks.
func (w *world) marked(name string) int {
	b, err := os.ReadFile(filepath.Join(w.marks, name))
	if err != nil {
		return 0
	}
	return bytes.Count(b, []byte("\n"))
}

func (w *world) prepare(spec sdk.JobSpec) sdk.Launch {
	w.Helper()
	l, err := w.p.PrepareJob(w.Context(), sdk.PrepareJobRequest{Spec: spec, RunID: w.ids.NewID(), AttemptID: w.ids.NewID(), Attempt: 1,
		Expires: time.Now().Add(time.Hour), Ambient: ambient()})
	if err != nil {
		w.Fatal(err)
	}
	return l
}

func ambient() *sdk.Ambient {
	return &sdk.Ambient{Dir: "/tmp", Env: [][]byte{[]byte("PATH=" + os.Getenv("PATH")), []byte("INHERITED=yes"), []byte("WINDLASS_SECRET=no")}}
}

func (w *world) launch(spec sdk.JobSpec) sdk.Launch {
	w.Helper()
	l := w.prepare(spec)
	if len(l.Problems) > 0 {
		w.Fatalf("problems: %s", sdk.JoinProblems(l.Problems))
	}
	return l
}

func (w *world) run(spec sdk.JobSpec) sdk.JobHandle {
	w.Helper()
	res, err := w.p.RunJob(w.Context(), sdk.RunJobRequest{Launch: w.launch(spec), Ambient: ambient()})
	if err != nil {
		w.Fatal(err)
	}
	return res.Handle
}

func (w *world) status(h sdk.JobHandle) sdk.JobStatusResult {
	w.Helper()
	res, err := w.p.JobStatus(w.Context(), sdk.JobStatusRequest{Handle: h})
	if err != nil {
		w.Fatal(err)
	}
	if !sdk.LegalReason(res.State, res.Reason) {
		w.Fatalf("state %s with reason %q", res.State, res.Reason)
	}
	return res
}

const patience = 2 * time.Minute

func (w *world) ended(h sdk.JobHandle) sdk.JobStatusResult {
	w.Helper()
	var res sdk.JobStatusResult
	testwait.Until(w, patience, "end of the job", func() bool {
		res = w.status(h)
		return res.State.Terminal()
	})
	return res
}

// output is what a log gave.
type output struct {
	stdout, stderr strings.Builder
	gaps           []sdk.LogGap
	verdict        sdk.Verdict
	end            *sdk.LogCursor
	items          int
}

func (w *world) logs(h sdk.JobHandle, from *sdk.LogCursor, follow bool) *output {
	w.Helper()
	out := &output{}
	for item, err := range w.p.JobLogs(w.Context(), sdk.JobLogsRequest{Handle: h, Cursor: from, Follow: follow}) {
		if err != nil {
			w.Fatal(err)
		}
		out.items++
		switch {
		case item.Entry != nil && item.Entry.Stream == sdk.StreamStderr:
			out.stderr.Write(item.Entry.Data)
		case item.Entry != nil:
			out.stdout.Write(item.Entry.Data)
		case item.Gap != nil:
			out.gaps = append(out.gaps, *item.Gap)
		case item.End != nil:
			out.verdict = item.End.Verdict
		}
		if item.Cursor != nil {
			out.end = item.Cursor
		}
	}
	return out
}

// supervisorOf returns the PID of a job's supervisor.
func supervisorOf(t testing.TB, h sdk.JobHandle) int {
	t.Helper()
	var pid int
	if _, err := fmt.Sscan(h.Metadata[keyPID], &pid); err != nil {
		t.Fatalf("handle %v: %v", h, err)
	}
	return pid
}
