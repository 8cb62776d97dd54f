// Package drivertest has what the tests of the clouds' drivers share: a world of
// providers on a pocket cloud, the harness that sdk/providertest wants of it, and
// the checks of what every cloud's driver owes.
//
// A driver's test makes its pocket cloud, embeds a [World] in a world of its own,
// and says in a table by which calls it changes things.
package drivertest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// Patience is how long a test waits for what must happen.
const Patience = 3 * time.Minute

// Provider is what every driver of a cloud can do.
type Provider interface {
	sdk.Provider
	sdk.JobRunner
	sdk.JobFinder
	sdk.JobCanceler
	sdk.JobCleaner
	sdk.JobLogger
	sdk.OwnedLister
}

// Setup is what a world is made of.
type Setup struct {
	// Driver makes a value of the driver. A process has one.
	Driver func() sdk.Driver
	// Config is what stands under config: of the provider; Change adds to it, or
	// takes away by nil.
	Config, Change map[string]any
	// Credentials are the provider's. Values that are long and like nothing else
	// are sought where they don't belong by [CredentialsStaySecret].
	Credentials map[string]string
	// Faults and Calls are the pocket cloud's. It keeps its calls whole.
	Faults *fault.Plan
	Calls  *fault.Recorder
	// Throttle is the cloud's answer to a call too many.
	Throttle *fault.Refusal
	// NoEntrypoint has each job say that its image has none: for a cloud that needs
	// to know, where a test's images are in no registry that could tell.
	NoEntrypoint bool
	// Patience is how long to wait for what a job does; zero is [Patience].
	Patience time.Duration
	// Shown is the part of a call that others may see who may ask the cloud
	// about the job. Nil is all of request and reply.
	Shown func(c fault.Call) []byte
}

// World is a pocket cloud with providers on it, whose type is P. What the next
// Open hands over may be changed at any time by the test's own goroutine.
type World[P Provider] struct {
	// T is the test whose world it is.
	T testing.TB
	// Config is what stands under config:.
	Config map[string]any
	// Owner and Ledger are those of each provider.
	Owner, Ledger string
	// Secrets are what the submitter can resolve, of the scheme env.
	Secrets *providertest.Secrets

	setup Setup
	marks string
	log   logBuffer
}

// New makes a world.
func New[P Provider](t testing.TB, s Setup) *World[P] {
	t.Helper()
	ids := sdk.NewIDSource(sdk.SystemClock())
	w := &World[P]{T: t, setup: s, Config: maps.Clone(s.Config), Owner: "suite-" + ids.NewID().Short(), Ledger: ids.NewID().String(),
		Secrets: &providertest.Secrets{}, marks: t.TempDir()}
	for k, v := range s.Change {
		if v == nil {
			delete(w.Config, k)
		} else {
			w.Config[k] = v
		}
	}
	return w
}

// Serve serves a pocket cloud until the test is over, closes it then, and
// returns its address.
func Serve(t testing.TB, cloud interface {
	http.Handler
	io.Closer
}) (url string) {
	web := httptest.NewServer(cloud)
	t.Cleanup(func() {
		web.Close()
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	return web.URL
}

// Listen serves a pocket cloud that has a server of its own, closes it when the
// test is over, and returns its address.
func Listen(t testing.TB, cloud interface {
	Listen(address string) (string, error)
	io.Closer
}) (address string) {
	t.Helper()
	t.Cleanup(func() {
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	address, err := cloud.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// Request is what a provider is opened with.
func (w *World[P]) Request() sdk.OpenRequest {
	w.T.Helper()
	raw, err := json.Marshal(w.Config)
	if err != nil {
		w.T.Fatal(err)
	}
	return sdk.OpenRequest{Name: "test", Config: raw, Credentials: maps.Clone(w.setup.Credentials), Secrets: w.Secrets,
		Clock: sdk.SystemClock(), IDs: sdk.NewIDSource(sdk.SystemClock()), Owner: w.Owner, LedgerID: w.Ledger, StateDir: w.T.TempDir(),
		Log: slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
}

// Open opens a provider as a process of its own would.
func (w *World[P]) Open(change ...func(r *sdk.OpenRequest)) P {
	w.T.Helper()
	return w.OpenOn(w.setup.Driver(), change...)
}

// OpenOn opens a provider of a driver's value, which several may share.
func (w *World[P]) OpenOn(d sdk.Driver, change ...func(r *sdk.OpenRequest)) P {
	w.T.Helper()
	r := w.Request()
	for _, f := range change {
		f(&r)
	}
	p, err := d.Open(w.T.Context(), r)
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() {
		if err := p.Close(); err != nil {
			w.T.Error(err)
		}
	})
	return p.(P)
}

// Shell is a spec of a job that runs a script.
func Shell(script string) sdk.JobSpec {
	return sdk.JobSpec{Image: "busybox:local", Args: sdk.Argv{"sh", "-c", script}}
}

// Prepare prepares a job of a new run, whatever problems it has.
func (w *World[P]) Prepare(p P, spec sdk.JobSpec) sdk.Launch {
	w.T.Helper()
	ids := sdk.NewIDSource(sdk.SystemClock())
	l, err := p.PrepareJob(w.T.Context(), sdk.PrepareJobRequest{Spec: w.told(spec), RunID: ids.NewID(), AttemptID: ids.NewID(), Attempt: 1,
		Expires: time.Now().Add(time.Hour).UTC().Truncate(time.Second)})
	if err != nil {
		w.T.Fatal(err)
	}
	return l
}

// told is a spec that says of its image what the setup wants said.
func (w *World[P]) told(spec sdk.JobSpec) sdk.JobSpec {
	if w.setup.NoEntrypoint && spec.ImageEntrypoint == nil {
		spec.ImageEntrypoint = sdk.Argv{}
	}
	return spec
}

// Plan prepares a job of a new run that may be launched.
func (w *World[P]) Plan(p P, spec sdk.JobSpec) sdk.Launch {
	w.T.Helper()
	l := w.Prepare(p, spec)
	if len(l.Problems) > 0 {
		w.T.Fatalf("refused: %s", sdk.JoinProblems(l.Problems))
	}
	return l
}

// Run launches a job.
func (w *World[P]) Run(p P, l sdk.Launch) sdk.JobHandle {
	w.T.Helper()
	res, err := p.RunJob(w.T.Context(), sdk.RunJobRequest{Launch: l})
	if err != nil {
		w.T.Fatal(err)
	}
	return res.Handle
}

// Status returns a job's state, which must be a legal one.
func (w *World[P]) Status(p P, h sdk.JobHandle) sdk.JobStatusResult {
	w.T.Helper()
	st, err := p.JobStatus(w.T.Context(), sdk.JobStatusRequest{Handle: h})
	if err != nil {
		w.T.Fatal(err)
	}
	if !sdk.LegalReason(st.State, st.Reason) {
		w.T.Fatalf("state %s with reason %q", st.State, st.Reason)
	}
	return st
}

// Eventually asks until a condition holds.
func (w *World[P]) Eventually(what string, cond func() bool) {
	w.T.Helper()
	testwait.Until(w.T, cmp.Or(w.setup.Patience, Patience), what, cond)
}

// Ended waits for a job's end.
func (w *World[P]) Ended(p P, h sdk.JobHandle) sdk.JobStatusResult {
	w.T.Helper()
	var st sdk.JobStatusResult
	w.Eventually("end of the job", func() bool {
		st = w.Status(p, h)
		return st.State.Terminal()
	})
	return st
}

// Running waits until a job runs.
func (w *World[P]) Running(p P, h sdk.JobHandle) {
	w.T.Helper()
	w.Eventually("running job", func() bool {
		st := w.Status(p, h)
		if st.State.Terminal() {
			w.T.Fatalf("the job is %s: %s, %s", st.State, st.Reason, st.Message)
		}
		return st.State == sdk.StateRunning
	})
}

// Text returns what a read of the log gives now, and the cursor behind it.
func (w *World[P]) Text(p P, h sdk.JobHandle, from *sdk.LogCursor) (string, *sdk.LogCursor) {
	w.T.Helper()
	text, last, err := read(w.T.Context(), p, sdk.JobLogsRequest{Handle: h, Cursor: from}, nil)
	if err != nil {
		w.T.Fatal(err)
	}
	return text, last
}

// Follow reads the log as it comes until the text is enough, or to the end where
// until is nil.
func (w *World[P]) Follow(ctx context.Context, p P, h sdk.JobHandle, until func(text string) bool) (string, error) {
	text, _, err := read(ctx, p, sdk.JobLogsRequest{Handle: h, Follow: true}, until)
	return text, err
}

func read(ctx context.Context, p sdk.JobLogger, r sdk.JobLogsRequest, until func(text string) bool) (string, *sdk.LogCursor, error) {
	var b bytes.Buffer
	var last *sdk.LogCursor
	for it, err := range p.JobLogs(ctx, r) {
		if err != nil {
			return b.String(), last, err
		}
		if it.Entry != nil {
			b.Write(it.Entry.Data)
			if it.Entry.LineEnd == sdk.LineEndStripped {
				b.WriteByte('\n')
			}
		}
		if it.Cursor != nil {
			last = it.Cursor
		}
		if until != nil && until(b.String()) {
			break
		}
	}
	return b.String(), last, nil
}

// Mark is a command that notes in this machine's files that it was carried out.
func (w *World[P]) Mark(key string) string { return fmt.Sprintf("echo x >>'%s/%s'", w.marks, key) }

// MarkDir is the folder of the marks, for a backend whose jobs see this machine's
// files only where they are told to.
func (w *World[P]) MarkDir() string { return w.marks }

// Marked is how often a mark's command was carried out, by whichever job.
func (w *World[P]) Marked(key string) int {
	w.T.Helper()
	data, err := os.ReadFile(filepath.Join(w.marks, key))
	if err != nil && !os.IsNotExist(err) {
		w.T.Fatal(err)
	}
	return bytes.Count(data, []byte("x"))
}

// Count is how often a call was made.
func (w *World[P]) Count(action string) int { return w.setup.Calls.Count(action) }

// Logged is what the providers have logged.
func (w *World[P]) Logged() []byte { return w.log.bytes() }

// WrongClock is this machine's clock, and wrong.
type WrongClock struct {
	sdk.Clock
	// By is how far it is ahead.
	By time.Duration
}

// Now implements sdk.Clock.
func (c *WrongClock) Now() time.Time { return c.Clock.Now().Add(c.By) }

// AtOnce does n things, sixteen at a time.
func AtOnce(n int, f func(i int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(n, 16) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// logBuffer keeps what several write at once.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *logBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *logBuffer) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.b.Bytes())
}
