package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// exitAtOnce is the script of a container that is over before its start is answered.
func exitAtOnce(code int) func(c *fakeContainer) {
	return func(c *fakeContainer) {
		c.print(sdk.StreamStdout, "out\n")
		c.print(sdk.StreamStderr, "err\n")
		c.exit(code)
	}
}

func TestF44ExitsAtOnce(t *testing.T) {
	f := newFake(t)
	f.script = exitAtOnce(7)
	b := openTest(t, f.host)
	spec := sh("exit 7")
	n := 1000
	if testing.Short() {
		n = 100
	}
	for i := range n {
		h := b.run(t, spec)
		o := b.logs(t, h, true, nil)
		st := b.ended(t, h)
		if o.out != "out\n" || o.err != "err\n" || o.verdict != sdk.VerdictComplete || st.ExitCode == nil || *st.ExitCode != 7 {
			t.Fatalf("run %d: %+v, %+v", i, o, st)
		}
		if _, err := b.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
	}
	if f.starts != n || len(f.containers) != 0 {
		t.Errorf("%d starts of %d jobs, %d containers left", f.starts, n, len(f.containers))
	}
	for _, c := range f.containers {
		if c.Create.HostConfig.AutoRemove {
			t.Error("a container is removed by the engine")
		}
	}
	t.Logf("calls: %v", f.calls)
}

// The calls of a run are counted, so that none comes in unnoticed.
func TestCallsOfARun(t *testing.T) {
	f := newFake(t)
	f.script = exitAtOnce(0)
	b := openTest(t, f.host)
	for range 2 {
		h := b.run(t, sh("true"))
		b.logs(t, h, true, nil)
		b.ended(t, h)
		if _, err := b.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]int{"HEAD _ping": 1, "GET info": 1, "POST containers/create": 2, "POST containers/start": 2, "GET containers/json": 4,
		"GET containers/logs": 2, "GET volumes/*": 2, "DELETE containers/*": 2, "DELETE volumes/*": 2}
	if got := fmt.Sprint(f.calls); got != fmt.Sprint(want) {
		t.Errorf("two runs called %s, want %v", got, want)
	}
}

func TestLostReplies(t *testing.T) {
	for name, c := range map[string]struct {
		method, part string
		lose         func(w http.ResponseWriter, r *http.Request, next http.Handler)
	}{
		"create, reply":   {http.MethodPost, "/create", loseReply},
		"create, request": {http.MethodPost, "/create", cutOff},
		"create, 500":     {http.MethodPost, "/create", fail(500, "oops")},
		"create, 503":     {http.MethodPost, "/create", fail(503, "starting")},
		"start, reply":    {http.MethodPost, "/start", loseReply},
		"start, request":  {http.MethodPost, "/start", cutOff},
		"start, 500":      {http.MethodPost, "/start", fail(500, "oops")},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.script = func(c *fakeContainer) { c.print(sdk.StreamStdout, "once\n") }
			b := openTest(t, f.host)
			l := b.prepare(t, sh("x"))
			f.on(c.method, c.part, 1, c.lose)
			ctx := t.Context()
			res, err := b.RunJob(ctx, sdk.RunJobRequest{Launch: l})
			before := f.called(c.method + " containers" + c.part)
			if before != 1 {
				t.Errorf("%d calls instead of 1: something repeats them", before)
			}
			if err != nil {
				if sdk.IsClear(err) {
					t.Fatalf("the error is clear: %v", err)
				}
				// As the engine of Windlass does: look, and send again.
				found, err := b.FindJobs(ctx, sdk.FindJobsRequest{Launch: &l})
				if err != nil {
					t.Fatal(err)
				}
				if found.Outcome == sdk.FindAbsent {
					if res, err = b.RunJob(ctx, sdk.RunJobRequest{Launch: l}); err != nil {
						t.Fatal(err)
					}
				} else {
					res.Handle = found.Jobs[0].Handle
				}
			}
			if f.starts != 1 || len(f.containers) != 1 {
				t.Errorf("%d starts, %d containers", f.starts, len(f.containers))
			}
			st, err := b.JobStatus(ctx, sdk.JobStatusRequest{Handle: res.Handle})
			if err != nil || st.State != sdk.StateRunning {
				t.Errorf("got %s, %v", st.State, err)
			}
		})
	}
}

func TestSecondSend(t *testing.T) {
	f := newFake(t)
	b := openTest(t, f.host)
	l := b.prepare(t, sh("x"))
	h := b.send(t, l)
	for _, change := range []func(c *fakeContainer){func(*fakeContainer) {}, func(c *fakeContainer) { c.exit(0) }} {
		f.lock(func() { change(f.containers[h.ID]) })
		res, err := b.RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
		if err != nil || !res.Adopted || res.Handle.ID != h.ID {
			t.Errorf("got %+v, %v", res, err)
		}
	}
	if f.starts != 1 {
		t.Errorf("%d starts", f.starts)
	}
	// The same name with other labels is somebody else's.
	f.lock(func() { f.containers[h.ID].Create.Labels[sdk.LabelLedger] = "other" })
	if _, err := b.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); !errors.Is(err, sdk.AlreadyExists) {
		t.Errorf("a foreign container: %v", err)
	}
	if _, err := b.FindJobs(t.Context(), sdk.FindJobsRequest{Launch: &l}); !errors.Is(err, sdk.AlreadyExists) {
		t.Errorf("a foreign container: %v", err)
	}
}

// Sends that come at once start a job once, also one that is over before the
// next of them looks.
func TestSendsAtOnce(t *testing.T) {
	f := newFake(t)
	f.script = exitAtOnce(0)
	b := openTest(t, f.host)
	l := b.prepare(t, sh("x"))
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := b.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if f.starts != 1 || len(f.containers) != 1 {
		t.Errorf("%d starts, %d containers", f.starts, len(f.containers))
	}
	// One that waits for its turn can be cancelled.
	done, err := b.sending.enter(t.Context(), l.AttemptID)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.sending.enter(ctx, l.AttemptID); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// What lies on this machine for an attempt goes when nothing was made for it,
// and stays as long as that is in doubt.
func TestFoldersOfFailedSends(t *testing.T) {
	for name, c := range map[string]struct {
		image string
		do    func(f *fakeEngine, cancel func())
		kept  bool
	}{
		"refused":  {"busybox:local", func(f *fakeEngine, _ func()) { f.on(http.MethodPost, "/create", 1, fail(400, "no")) }, false},
		"in doubt": {"busybox:local", func(f *fakeEngine, _ func()) { f.on(http.MethodPost, "/create", 1, loseReply) }, true},
		"no image": {"x:1", func(f *fakeEngine, _ func()) {
			f.pull = func(w http.ResponseWriter, _ string) { refuse(w, 404, "manifest unknown") }
		}, false},
		"cancelled while pulling": {"x:1", func(f *fakeEngine, cancel func()) {
			f.on(http.MethodPost, "/images/create", 1, func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
				cancel()
				<-r.Context().Done()
			})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			b := openTest(t, f.host, goldenOwner)
			if !b.local {
				t.Skip("this machine has no memory file system")
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.do(f, cancel)
			spec := sh("x")
			spec.Image = c.image
			spec.Secrets = map[string]sdk.SecretRef{"T": "secret://env/T"}
			spec.Files = []sdk.InputFile{{Path: "/in", Data: []byte("x")}}
			l := b.prepare(t, spec)
			if _, err := b.RunJob(ctx, sdk.RunJobRequest{Launch: l}); err == nil {
				t.Fatal("no error")
			}
			if kept := b.hasFolders(l.AttemptID); kept != c.kept {
				t.Errorf("folders are kept: %t", kept)
			}
			if err := b.removeFolders(l.AttemptID, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestImageByID(t *testing.T) {
	f := newFake(t)
	b := openTest(t, f.host)
	spec := sh("x")
	spec.Image = "sha256:" + strings.Repeat("0", 64)
	_, err := b.RunJob(t.Context(), sdk.RunJobRequest{Launch: b.prepare(t, spec)})
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != sdk.NotFound || e.Reason != sdk.ReasonImagePull || f.called("POST images/create") != 0 {
		t.Errorf("got %v after %d pulls", err, f.called("POST images/create"))
	}
}

func TestNameTakenWithoutContainer(t *testing.T) {
	f := newFake(t)
	b := openTest(t, f.host)
	l := b.prepare(t, sh("x"))
	f.on(http.MethodPost, "/create", 2, fail(409, `Conflict. The container name "/x" is already in use by container "y".`))
	h := b.send(t, l)
	if h.ID == "" || f.called("POST containers/create") != 3 {
		t.Errorf("handle %+v after %d creates", h, f.called("POST containers/create"))
	}
}

func TestStartRefusedLeavesNothing(t *testing.T) {
	f := newFake(t)
	b := openTest(t, f.host)
	l := b.prepare(t, sh("x"))
	f.on(http.MethodPost, "/start", 1, fail(400, "no"))
	if _, err := b.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); !errors.Is(err, sdk.InvalidArgument) {
		t.Errorf("got %v", err)
	}
	if len(f.containers) != 0 {
		t.Errorf("%d containers left", len(f.containers))
	}
}

func TestFailedStartIsAState(t *testing.T) {
	for _, c := range []struct {
		code    int
		message string
		reason  sdk.Reason
		exec    string
	}{
		{127, `OCI runtime create failed: exec: "x": executable file not found in $PATH: unknown`, sdk.ReasonInvalidSpec, sdk.ExecNotFound},
		{126, `OCI runtime create failed: exec: "/etc/passwd": permission denied: unknown`, sdk.ReasonInvalidSpec, sdk.ExecNotExecutable},
		{128, "unable to find user x: no matching entries in passwd file", sdk.ReasonInvalidSpec, ""},
		{128, `could not select device driver "" with capabilities: [[gpu]]`, sdk.ReasonInvalidSpec, ""},
		{128, "network x not found", sdk.ReasonInvalidSpec, ""},
		{128, "failed to create endpoint x on network bridge: operation not supported", sdk.ReasonInfrastructure, ""},
		{128, "write /var/lib/docker/x: no space left on device", sdk.ReasonInfrastructure, ""},
		{128, "something that nobody foresaw", sdk.ReasonFailedToStart, ""},
	} {
		f := newFake(t)
		b := openTest(t, f.host)
		l := b.prepare(t, sh("x"))
		f.on(http.MethodPost, "/start", 1, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			f.lock(func() {
				for _, x := range f.containers {
					x.State.Error, x.State.ExitCode = c.message, c.code
				}
			})
			refuse(w, 500, c.message)
		})
		h := b.send(t, l)
		st := b.ended(t, h)
		if st.State != sdk.StateFailed || st.Reason != c.reason || st.ExitCode != nil || st.Raw[sdk.RawExec] != c.exec || !st.StartedAt.IsZero() {
			t.Errorf("%s: got %+v", c.message, st)
		}
		// It is an end: a second send starts nothing.
		if res, err := b.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); err != nil || !res.Adopted || f.starts != 0 {
			t.Errorf("%s: sent again: %+v, %v, %d starts", c.message, res, err, f.starts)
		}
		if o := b.logs(t, h, true, nil); o.verdict != sdk.VerdictComplete || o.out != "" {
			t.Errorf("%s: log %+v", c.message, o)
		}
	}
}

func TestStates(t *testing.T) {
	run := func(st containerState) sdk.JobStatusResult {
		r := st.result()
		if !sdk.LegalReason(r.State, r.Reason) {
			t.Errorf("%+v: reason %q beside %q", st, r.Reason, r.State)
		}
		return r
	}
	at := time.Unix(1e9, 0)
	ended := containerState{status: "exited", ran: true, ended: true, started: at, finished: at}
	t.Run("F18 no code without a run", func(t *testing.T) {
		if r := run(containerState{status: "created", message: "boom", ended: true}); r.ExitCode != nil || r.State != sdk.StateFailed {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("F21 OOM with code 0", func(t *testing.T) {
		s := ended
		s.oom = true
		if r := run(s); r.State != sdk.StateSucceeded || !r.OOMObserved || *r.ExitCode != 0 {
			t.Errorf("got %+v", r)
		}
		s.code = 137
		if r := run(s); r.State != sdk.StateFailed || r.Reason != sdk.ReasonOOMKilled || r.Signal != "" {
			t.Errorf("got %+v", r)
		}
		s.code = 5
		if r := run(s); r.Reason != sdk.ReasonNonzeroExit || !r.OOMObserved {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("128+n proves no signal", func(t *testing.T) {
		s := ended
		s.code = 143
		if r := run(s); r.Reason != sdk.ReasonNonzeroExit || r.Signal != "" || *r.ExitCode != 143 {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("F19 words stay raw", func(t *testing.T) {
		s := containerState{status: "created", message: "boom", code: 128, ended: true}
		if r := run(s); r.Raw[rawError] != "boom" || r.Raw[rawCode] != "128" || r.Raw[rawStatus] != "created" {
			t.Errorf("got %v", r.Raw)
		}
	})
}

func TestAnotherEngine(t *testing.T) {
	f := newFake(t)
	b := openTest(t, f.host)
	l := b.prepare(t, sh("x"))
	h := b.send(t, l)
	f.lock(func() {
		f.id = "ENGINE:TWO"
		f.containers = map[string]*fakeContainer{}
	})
	ctx := t.Context()
	if _, err := b.JobStatus(ctx, sdk.JobStatusRequest{Handle: h}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("status: %v", err)
	}
	if _, err := b.CancelJob(ctx, sdk.CancelJobRequest{Handle: h}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("cancel: %v", err)
	}
	if _, err := b.CleanupJob(ctx, sdk.CleanupJobRequest{Handle: h}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("clean-up: %v", err)
	}
	if _, err := b.FindJobs(ctx, sdk.FindJobsRequest{Launch: &l}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("find: %v", err)
	}
	if _, err := b.RunJob(ctx, sdk.RunJobRequest{Launch: l}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("run: %v", err)
	}
	if f.called("POST containers/create") != 1 {
		t.Error("a launch of another engine was sent")
	}
}

func TestDeadEngine(t *testing.T) {
	b := openTest(t, "unix:///nowhere/docker.sock")
	_, err := b.PrepareJob(t.Context(), sdk.PrepareJobRequest{Spec: sh("x"), RunID: b.ids.NewID(), AttemptID: b.ids.NewID(), Attempt: 1})
	if !errors.Is(err, sdk.Unavailable) || !sdk.IsRetryable(err) || sdk.IsClear(err) {
		t.Errorf("got %v", err)
	}
	res, err := b.Check(t.Context(), sdk.CheckRequest{})
	if err != nil || len(res.Items) != 1 || res.Items[0].OK || res.Items[0].Remedy == "" {
		t.Errorf("check: %+v, %v", res, err)
	}
}

func TestCallTimeout(t *testing.T) {
	f := newFake(t)
	b := openTest(t, f.host, func(r *sdk.OpenRequest) { r.CallTimeout = 50 * time.Millisecond })
	h := b.run(t, sh("x"))
	release := make(chan struct{})
	defer close(release)
	f.on(http.MethodGet, "/json", -1, func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	_, err := b.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h})
	if !errors.Is(err, sdk.DeadlineExceeded) || !sdk.IsRetryable(err) {
		t.Errorf("a silent engine: %v (retryable %t)", err, sdk.IsRetryable(err))
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Millisecond))
	defer cancel()
	if _, err := b.JobStatus(ctx, sdk.JobStatusRequest{Handle: h}); !errors.Is(err, sdk.DeadlineExceeded) || sdk.IsRetryable(err) {
		t.Errorf("the caller's own deadline: %v (retryable %t)", err, sdk.IsRetryable(err))
	}
}

func TestPullFailures(t *testing.T) {
	stream := func(message string) func(w http.ResponseWriter, _ string) {
		return func(w http.ResponseWriter, _ string) {
			give(w, map[string]any{"status": "Pulling"})
			give(w, map[string]any{"errorDetail": map[string]string{"message": message}, "error": message})
		}
	}
	status := func(code int, message string) func(w http.ResponseWriter, _ string) {
		return func(w http.ResponseWriter, _ string) { refuse(w, code, message) }
	}
	for name, c := range map[string]struct {
		pull func(w http.ResponseWriter, _ string)
		code sdk.Code
	}{
		"not found":    {status(404, "manifest for x:1 not found: manifest unknown: manifest unknown"), sdk.NotFound},
		"no such repo": {status(404, "pull access denied for x, repository does not exist or may require 'docker login'"), sdk.PermissionDenied},
		"unauthorized": {status(500, "Get https://r.example/v2/x/manifests/1: unauthorized: authentication required"), sdk.PermissionDenied},
		"unreachable":  {status(500, "Get https://r.example/v2/: dial tcp: lookup r.example: no such host"), sdk.FailedPrecondition},
		"in stream":    {stream("error pulling image configuration: dial tcp 1.2.3.4:443: i/o timeout"), sdk.FailedPrecondition},
		"platform":     {stream("no matching manifest for linux/amd64 in the manifest list entries"), sdk.FailedPrecondition},
		"disk":         {stream("write /var/lib/docker/tmp/x: no space left on device"), sdk.FailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.pull = c.pull
			b := openTest(t, f.host)
			spec := sh("x")
			spec.Image = "x:1"
			_, err := b.RunJob(t.Context(), sdk.RunJobRequest{Launch: b.prepare(t, spec)})
			var e *sdk.Error
			if !errors.As(err, &e) || e.Reason != sdk.ReasonImagePull || sdk.CodeOf(err) != c.code || !sdk.IsClear(err) {
				t.Errorf("got %v, %v", sdk.CodeOf(err), err)
			}
		})
	}
	t.Run("the engine goes away", func(t *testing.T) {
		f := newFake(t)
		f.pull = func(w http.ResponseWriter, _ string) {
			give(w, map[string]any{"status": "Pulling"})
			w.(http.Flusher).Flush()
			cutOff(w, nil, nil)
		}
		b := openTest(t, f.host)
		spec := sh("x")
		spec.Image = "x:1"
		if _, err := b.RunJob(t.Context(), sdk.RunJobRequest{Launch: b.prepare(t, spec)}); err == nil || sdk.IsClear(err) {
			t.Errorf("got %v", err)
		}
	})
}

func TestPullProgress(t *testing.T) {
	f := newFake(t)
	f.pull = func(w http.ResponseWriter, name string) {
		for _, m := range []string{
			`{"status":"Pulling from library/x","id":"1"}`,
			`{"status":"Downloading","progressDetail":{"current":10,"total":100},"id":"abc"}`,
			`{"status":"Downloading","progressDetail":{"current":50,"total":100},"id":"abc"}`,
			`{"status":"Download complete","id":"abc"}`,
			`{"status":"Pull complete","id":"abc"}`,
			`{"status":"Digest: sha256:0"}`,
		} {
			_, _ = io.WriteString(w, m)
		}
		f.lock(func() { f.images["x:1"] = true })
	}
	b := openTest(t, f.host)
	spec := sh("x")
	spec.Image = "x:1"
	var lines []string
	if _, err := b.RunJob(t.Context(), sdk.RunJobRequest{Launch: b.prepare(t, spec), Progress: func(s string) { lines = append(lines, s) }}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(lines, "|"); got != "pulling x:1|abc: Download complete|abc: Pull complete|Digest: sha256:0|pulled x:1" {
		t.Errorf("got %s", got)
	}
}

func TestPullOption(t *testing.T) {
	f := newFake(t)
	b := openTest(t, f.host)
	with := func(image, pull string) sdk.JobSpec {
		s := sh("x")
		s.Image, s.Options = image, json.RawMessage(`{"pull":"`+pull+`"}`)
		return s
	}
	if l := b.prepare(t, with("nope:1", pullNever)); len(l.Problems) != 1 || l.Problems[0].Field != "image" {
		t.Errorf("never: %v", l.Problems)
	}
	b.run(t, with("busybox:local", pullAlways))
	b.run(t, with("busybox:local", pullMissing))
	if n := f.called("POST images/create"); n != 1 {
		t.Errorf("%d pulls", n)
	}
}

func TestBatchNeedsFewCalls(t *testing.T) {
	f := newFake(t)
	b := openTest(t, f.host)
	var handles []sdk.JobHandle
	for range 50 {
		handles = append(handles, b.run(t, sh("x")))
	}
	ask := func() sdk.JobStatusesResult {
		res, err := b.JobStatuses(t.Context(), sdk.JobStatusesRequest{Handles: handles})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	ask()
	inspects, lists := f.called("GET containers/json"), f.called("GET containers/json")
	_ = lists
	f.lock(func() { f.containers[handles[7].ID].exit(3) })
	res := ask()
	if n := f.called("GET containers/json") - inspects; n != 2 {
		t.Errorf("%d calls for 50 jobs of which one changed, want a list and a look", n)
	}
	for i, it := range res.Items {
		want := sdk.StateRunning
		if i == 7 {
			want = sdk.StateFailed
		}
		if it.Err != nil || it.Result.State != want || it.Result.StartedAt.IsZero() {
			t.Errorf("item %d: %+v", i, it)
		}
	}
}

func TestWatchCutAndResumed(t *testing.T) {
	f := newFake(t)
	b := openTest(t, f.host)
	id := b.ids.NewID()
	got := make(chan sdk.WatchEvent)
	go func() {
		defer close(got)
		for e, err := range b.WatchJobs(t.Context(), sdk.WatchJobsRequest{Owner: b.owner, Resume: "5"}) {
			if err != nil {
				return
			}
			got <- e
			return
		}
	}()
	testwait.Until(t, patience, "watch", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.events) == 1
	})
	f.events[0] <- fmt.Sprintf(`{"Type":"container","Action":"die","Actor":{"ID":"1","Attributes":{"windlass-attempt":%q}},"timeNano":77}`, id)
	if e := testwait.Receive(t, patience, "event", got); e.AttemptID != id || e.Resume != "77" {
		t.Errorf("got %+v", e)
	}
}

// TestF21MemoryToldLate: the engine may learn of a kill for memory behind the end, and
// then tells it as an event alone.
func TestF21MemoryToldLate(t *testing.T) {
	f := newFake(t)
	b := openTest(t, f.host)
	for name, c := range map[string]struct {
		code   int
		told   []string
		reason sdk.Reason
		oom    bool
	}{
		"memory":               {137, []string{`{"Action":"oom"}`}, sdk.ReasonOOMKilled, true},
		"memory and a signal":  {137, []string{`{"Action":"kill","Actor":{"Attributes":{"signal":"9"}}}`, `{"Action":"oom"}`}, sdk.ReasonOOMKilled, true},
		"a signal":             {137, []string{`{"Action":"kill","Actor":{"Attributes":{"signal":"9"}}}`}, sdk.ReasonSignaled, false},
		"nothing":              {137, nil, sdk.ReasonNonzeroExit, false},
		"a code of its own":    {7, []string{`{"Action":"oom"}`}, sdk.ReasonNonzeroExit, false},
		"a signal it survived": {137, []string{`{"Action":"kill","Actor":{"Attributes":{"signal":"15"}}}`}, sdk.ReasonNonzeroExit, false},
	} {
		f.script = exitAtOnce(c.code)
		f.on("GET", "/events", -1, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.URL.Query().Get("until") == "" {
				next.ServeHTTP(w, r)
				return
			}
			for _, line := range c.told {
				fmt.Fprintln(w, line)
			}
		})
		st := b.ended(t, b.run(t, sh("x")))
		if st.State != sdk.StateFailed || st.Reason != c.reason || st.OOMObserved != c.oom || st.ExitCode == nil || *st.ExitCode != c.code || (st.Signal != "") != (c.reason == sdk.ReasonSignaled) {
			t.Errorf("%s: got %+v", name, st)
		}
		f.lock(func() { f.hooks = nil })
	}
}
