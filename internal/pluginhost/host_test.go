//go:build unix

package pluginhost_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

const patience = time.Minute

// TestPluginRuns runs a job on a provider in a process of its own.
func TestPluginRuns(t *testing.T) {
	y := newYard(t, "", nil)
	p := y.open()
	if got := p.Info(); got.Kind != "fake" || got.Name != "prod" {
		t.Errorf("it is %+v", got)
	}
	if got := sdk.CapabilityNames(p); len(got) != len(sdk.Capabilities()) {
		t.Errorf("it can %q", got)
	}
	h := y.run(p, "echo", "hello", ";", "exit", "3")
	runner := can(t, p, sdk.Runner())
	var st sdk.JobStatusResult
	testwait.Until(t, patience, "the job's end", func() bool {
		var err error
		if st, err = runner.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); err != nil {
			t.Fatal(err)
		}
		return st.State.Terminal()
	})
	if st.ExitCode == nil || *st.ExitCode != 3 {
		t.Errorf("ended as %+v", st)
	}
	var out strings.Builder
	for item, err := range can(t, p, sdk.Logger()).JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if item.Entry != nil {
			out.Write(item.Entry.Data)
		}
	}
	if out.String() != "hello\n" {
		t.Errorf("output %q", out.String())
	}
	// A second provider shares the process.
	y.open()
	if n := strings.Count(y.log.String(), "plugin started"); n != 1 {
		t.Errorf("%d processes for two providers", n)
	}
}

// TestPluginIsAlone: a plugin runs in its own folder, without arguments, with the
// variables of its list and none besides, and sees when its host goes.
func TestPluginIsAlone(t *testing.T) {
	y := newYard(t, "tells", nil)
	y.open()
	data, err := os.ReadFile(filepath.Join(y.dir, "environment"))
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{modeVar, dirVar, "WORKFLOW_PLUGIN", "PLUGIN_MIN_PORT", "PLUGIN_MAX_PORT", "PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_UNIX_SOCKET_DIR", "TMPDIR"}
	for _, line := range strings.Split(string(data), "\n") {
		if name, _, ok := strings.Cut(line, "="); !ok || !slices.Contains(allowed, name) {
			t.Errorf("it has %q", line)
		}
	}
	if got, _ := os.ReadFile(filepath.Join(y.dir, "folder")); string(got) != filepath.Join(y.dir, "plugins", "fake") {
		t.Errorf("it runs in %q", got)
	}
}

// TestPluginCrashesMidCall: the call fails and says why, nothing is sent twice, and the
// next call finds the provider open in a new process, with the job that was there.
func TestPluginCrashesMidCall(t *testing.T) {
	y := newYard(t, "crashes", nil)
	p := y.open()
	h := y.run(p, "hang")
	runner := can(t, p, sdk.Runner())
	touch(y.dir, "crash")
	_, err := runner.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h})
	if sdk.CodeOf(err) != sdk.Unavailable || !sdk.IsRetryable(err) || !strings.Contains(err.Error(), "fake") || !strings.Contains(err.Error(), "exit status 4") ||
		!strings.Contains(err.Error(), "goodbye cruel [redacted]") {
		t.Errorf("the call ended with %v", err)
	}
	st, err := runner.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h})
	if err != nil || st.State != sdk.StateRunning {
		t.Errorf("in the next process: %+v, %v", st, err)
	}
	zero := time.Duration(0)
	if res, err := can(t, p, sdk.Canceler()).CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h, Grace: &zero}); err != nil || !res.Accepted {
		t.Errorf("cancel: %+v, %v", res, err)
	}
	if n := strings.Count(y.log.String(), "plugin started"); n != 2 {
		t.Errorf("%d processes", n)
	}
	if strings.Contains(y.log.String(), "canary") {
		t.Error("the log has what is to be redacted")
	}
}

// closing is a connection that its host has closed.
type closing struct{ grpc.ClientConnInterface }

func (closing) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return status.Error(codes.Canceled, "grpc: the client connection is closing")
}

// TestPluginEndsBeforeItsCall: when the host has seen a process's end before a call did, the
// call ends by that too, and not as if its caller had cancelled it.
func TestPluginEndsBeforeItsCall(t *testing.T) {
	done := make(chan struct{})
	close(done)
	conn := pluginhost.Watched(&pluginhost.Lease{Conn: closing{}, Done: done, Why: func() error { return errors.New("exit status 4") }, Doubt: func() {}}, "fake")
	err := wire.FromStatus(t.Context(), "job status", conn.Invoke(t.Context(), "/x/JobStatus", nil, nil))
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != sdk.Unavailable || e.ID != pluginhost.ErrEnded || !e.Retryable || !strings.Contains(err.Error(), "exit status 4") {
		t.Errorf("the call ended with %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := wire.FromStatus(ctx, "job status", conn.Invoke(ctx, "/x/JobStatus", nil, nil)); sdk.CodeOf(err) != sdk.Canceled {
		t.Errorf("the caller's own cancel: %v", err)
	}
}

// TestPluginThatDoesNotGetReady: each fails within its time, says why, and leaves
// nothing.
func TestPluginThatDoesNotGetReady(t *testing.T) {
	for mode, want := range map[string]string{
		"silent": "too long", "mute": "too long", "garbage": "hello there", "endless": "plugin", "exits": "no luck with [redacted] today",
	} {
		t.Run(mode, func(t *testing.T) {
			temp, err := os.MkdirTemp("", "wl") // short: a socket's path is bounded
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(temp) })
			y := newYard(t, mode, func(o *pluginhost.Options) { o.TempDir = temp; o.StartTime = 2 * time.Second })
			if mode == "exits" || mode == "garbage" {
				y = newYard(t, mode, func(o *pluginhost.Options) { o.TempDir = temp })
			}
			_, err = y.plugins.Driver(t.Context(), "fake")
			var e *sdk.Error
			if !errors.As(err, &e) || e.Code != sdk.Unavailable || e.ID != pluginhost.ErrNotReady || !e.Unreached || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if left, _ := os.ReadDir(temp); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// TestPluginThatDoesNotFit: a program that no start makes a plugin of this host says which
// of the two doesn't fit, and what to do, in a line of its own; and so does its check.
func TestPluginThatDoesNotFit(t *testing.T) {
	for mode, want := range map[string][3]string{
		"core 9":     {pluginhost.ErrContract, "its line of greeting has version 9, and this program takes 1: this windlass is too old for the plugin", "use a newer windlass, or an older version of the plugin"},
		"version 99": {pluginhost.ErrContract, "it speaks version 99 of the plugins' handshake, and this program 1: this windlass is too old for the plugin", "use a newer windlass, or an older version of the plugin"},
		"version 0":  {pluginhost.ErrContract, "it speaks version 0 of the plugins' handshake, and this program 1: the plugin is too old for this windlass", "install a newer version of the plugin, or have it built with a newer SDK"},
		"text":       {pluginhost.ErrPlatform, "fake is not a program of this system (" + runtime.GOOS + "/" + runtime.GOARCH + ")", "put the plugin's program for this system there; a script needs a first line such as #!/bin/sh"},
	} {
		t.Run(mode, func(t *testing.T) {
			y := newYard(t, mode, nil)
			if at := filepath.Join(y.dir, "plugins", "fake", "fake"); mode == "text" {
				if err := errors.Join(os.Remove(at), os.WriteFile(at, []byte("echo hello\n"), 0o700)); err != nil { //nolint:gosec // a program
					t.Fatal(err)
				}
			}
			_, err := y.plugins.Driver(t.Context(), "fake")
			var e *sdk.Error
			if !errors.As(err, &e) || e.Code != sdk.FailedPrecondition || e.ID != want[0] || e.Remedy != want[2] || !e.Unreached || !strings.HasSuffix(e.Err.Error(), want[1]) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, want)
			}
			items := y.plugins.Check(t.Context(), "fake")
			if it := items[len(items)-1]; it.OK || !strings.HasSuffix(it.Detail, want[1]) || !strings.HasPrefix(it.Remedy, want[2]+"; windlass explain ") {
				t.Errorf("check: %+v", it)
			}
		})
	}
}

// TestPluginInAFolderOfAnotherName: the plugin and its place are to have one name, and the
// check says what to rename.
func TestPluginInAFolderOfAnotherName(t *testing.T) {
	y := newYard(t, "", nil)
	was, now := filepath.Join(y.dir, "plugins", "fake"), filepath.Join(y.dir, "plugins", "other")
	if err := errors.Join(os.Rename(was, now), os.Rename(filepath.Join(now, "fake"), filepath.Join(now, "other"))); err != nil {
		t.Fatal(err)
	}
	for entry, want := range map[string]string{
		"other: {env: []}": "rename the folder " + now + " to fake, and the program other in it to fake, and write plugins.fake in windlass.yaml",
		"other: {path: " + filepath.Join(now, "other") + "}": "write plugins.fake in place of plugins.other in windlass.yaml, and kind: fake in its providers",
		"": "rename the folder " + now + " to fake, and the program other in it to fake",
	} {
		if err := os.WriteFile(filepath.Join(y.dir, config.FileName), []byte("plugins: {"+entry+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(t.Context(), config.LoadRequest{Env: config.EnvMap(map[string]string{"WINDLASS_PLUGINS": filepath.Join(y.dir, "plugins"), "HOME": y.dir}), Dir: y.dir})
		if err != nil {
			t.Fatal(err)
		}
		plugins := &pluginhost.Plugins{Source: y.host, Config: c, IDs: sdk.NewIDSource(sdk.SystemClock())}
		for _, it := range plugins.Check(t.Context(), "other") {
			if (it.Name == "manifest" || it.Name == "driver") && (it.OK || strings.TrimSuffix(it.Remedy, "; windlass explain "+pluginhost.ErrContract+" says more") != want) {
				t.Errorf("%q: %+v, want %q", entry, it, want)
			}
		}
	}
}

// TestPluginWithoutAName: a plugin that doesn't say who it is is told so.
func TestPluginWithoutAName(t *testing.T) {
	y := newYard(t, "no manifest", nil)
	for _, it := range y.plugins.Check(t.Context(), "fake") {
		if it.Name == "manifest" && (!it.OK || it.Detail != "it doesn't say who it is, and neither does a plugin.json") {
			t.Errorf("%+v", it)
		}
	}
}

// TestPluginStartEndsWithItsCaller: whoever leaves waits for nothing.
func TestPluginStartEndsWithItsCaller(t *testing.T) {
	y := newYard(t, "silent", nil)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := y.plugins.Driver(ctx, "fake"); !errors.Is(err, sdk.Canceled) || sdk.IsRetryable(err) {
		t.Errorf("%v", err)
	}
}

// TestPluginEndsAgainAndAgain: it isn't started all the time, and the caller is told
// when it will be.
func TestPluginEndsAgainAndAgain(t *testing.T) {
	y := newYard(t, "exits", nil)
	for range 10 {
		_, err := y.plugins.Driver(t.Context(), "fake")
		var e *sdk.Error
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		if e.ID == pluginhost.ErrEnded {
			if e.RetryAfter <= 0 || !e.Unreached || !strings.Contains(err.Error(), "times") {
				t.Errorf("%+v", e)
			}
			return
		}
	}
	t.Error("it was started ten times in a row")
}

// TestPluginHangsInACall: the call ends with its caller's time, and the process, which
// answers others, stays.
func TestPluginHangsInACall(t *testing.T) {
	y := newYard(t, "hangs", nil)
	p := y.open()
	h := y.run(p, "hang")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := can(t, p, sdk.Runner()).JobStatus(ctx, sdk.JobStatusRequest{Handle: h})
	if !errors.Is(err, context.DeadlineExceeded) || sdk.IsRetryable(err) {
		t.Errorf("%v", err)
	}
	if _, err := p.Check(t.Context(), sdk.CheckRequest{}); err != nil {
		t.Errorf("another call: %v", err)
	}
	if n := strings.Count(y.log.String(), "plugin started"); n != 1 {
		t.Errorf("%d processes", n)
	}
}

// TestPluginAnswersNothing: a process that is stopped, or has closed its socket, is
// ended, and the next call finds another.
func TestPluginAnswersNothing(t *testing.T) {
	for _, mode := range []string{"stops", "deaf"} {
		t.Run(mode, func(t *testing.T) {
			y := newYard(t, mode, func(o *pluginhost.Options) { o.Probe = time.Second })
			p := y.open()
			h := y.run(p, "hang")
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if mode == "stops" {
				if _, err := can(t, p, sdk.Runner()).JobStatus(ctx, sdk.JobStatusRequest{Handle: h}); err == nil {
					t.Error("a stopped process answered")
				}
			} else if _, err := p.Check(t.Context(), sdk.CheckRequest{}); err == nil {
				t.Error("a process without a socket answered")
			}
			testwait.Until(t, patience, "another process", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				st, err := can(t, p, sdk.Runner()).JobStatus(ctx, sdk.JobStatusRequest{Handle: h})
				return err == nil && st.State == sdk.StateRunning && strings.Count(y.log.String(), "plugin started") > 1
			})
		})
	}
}

// TestPluginIsStopped: a call that may take long finds out that its process answers
// nothing well before its own time is over.
func TestPluginIsStopped(t *testing.T) {
	y := newYard(t, "stops", func(o *pluginhost.Options) { o.Probe = time.Second })
	p := y.open()
	h := y.run(p, "hang")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	_, err := can(t, p, sdk.Runner()).JobStatus(ctx, sdk.JobStatusRequest{Handle: h})
	var e *sdk.Error
	if !errors.As(err, &e) || e.ID != pluginhost.ErrEnded || !e.Retryable {
		t.Errorf("the call ended with %v", err)
	}
	if st, err := can(t, p, sdk.Runner()).JobStatus(ctx, sdk.JobStatusRequest{Handle: h}); err != nil || st.State != sdk.StateRunning {
		t.Errorf("in the next process: %+v, %v", st, err)
	}
	// That it was killed is logged once.
	if log := y.log.String(); strings.Count(log, "killed") != 1 || !strings.Contains(log, "it answered nothing and was killed") {
		t.Errorf("the log has\n%s", log)
	}
}

// TestPluginFloods: what a plugin says is logged up to a bound, and it never waits for
// the log.
func TestPluginFloods(t *testing.T) {
	began := time.Now()
	y := newYard(t, "flood", nil)
	y.open()
	testwait.Until(t, patience, "the end of the flood", func() bool { return there(y.dir, "flooded") })
	if err := y.host.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(y.log.String()); n > 1<<20 {
		t.Errorf("%d bytes of log", n)
	}
	// Once in ten seconds and at the end.
	if n, most := strings.Count(y.log.String(), "lines_left_out"), 2+int(time.Since(began)/(10*time.Second)); n < 1 || n > most {
		t.Errorf("%d times it is told what was left out, at most %d", n, most)
	}
}

// TestPluginSendsTooMuch: 100 MB in one message end the call, and nothing else.
func TestPluginSendsTooMuch(t *testing.T) {
	// It is about the message alone: on a busy machine the plugin may answer nothing while it
	// makes one.
	y := newYard(t, "big", func(o *pluginhost.Options) { o.Probe = time.Hour })
	p := y.open()
	h := y.run(p, "exit", "0")
	if _, err := p.Check(t.Context(), sdk.CheckRequest{}); err == nil || sdk.CodeOf(err) == sdk.Unavailable {
		t.Errorf("check: %v", err)
	}
	for item, err := range can(t, p, sdk.Logger()).JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h}) {
		if err == nil {
			t.Errorf("log: %+v", item)
		}
	}
	if _, err := can(t, p, sdk.Runner()).JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); err != nil {
		t.Errorf("status: %v", err)
	}
}

// TestPluginLies: what isn't in the registry isn't there, whatever Open says; what is in
// it and answers Unimplemented is told with the plugin and the capability.
func TestPluginLies(t *testing.T) {
	y := newYard(t, "lies", nil)
	p := y.open()
	h := y.run(p, "hang")
	if _, ok := sdk.Of(p, sdk.Logger()); ok || sdk.Has(p, "JobLogger") {
		t.Error("it has what its registry hasn't")
	}
	_, err := can(t, p, sdk.Canceler()).CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h})
	if !errors.Is(err, sdk.Unimplemented) || sdk.IsRetryable(err) || !strings.Contains(err.Error(), "plugin fake") || !strings.Contains(err.Error(), "JobCanceler") {
		t.Errorf("cancel: %v", err)
	}
}

// TestPluginAnswersAnUnknownWord: it promises nothing, and no run ends by it.
func TestPluginAnswersAnUnknownWord(t *testing.T) {
	y := newYard(t, "enum", nil)
	p := y.open()
	st, err := can(t, p, sdk.Runner()).JobStatus(t.Context(), sdk.JobStatusRequest{Handle: y.run(p, "hang")})
	if err != nil || st.State != sdk.StateUnknown || st.State.Terminal() {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestPluginForks: a child of it that would outlive it, and holds its standard error,
// goes with it.
func TestPluginForks(t *testing.T) {
	y := newYard(t, "forks", nil)
	y.open()
	pid, err := os.ReadFile(filepath.Join(y.dir, "forked"))
	if err != nil || !running(string(pid)) {
		t.Fatalf("no child: %v", err)
	}
	if err := y.host.Close(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "the child's end", func() bool { return !running(string(pid)) })
}

// TestPluginWithoutContract: a manifest that isn't there is the file's, a registry that
// isn't there is an empty one.
func TestPluginWithoutContract(t *testing.T) {
	for _, mode := range []string{"no manifest", "no registry"} {
		y := newYard(t, mode, nil)
		at := filepath.Join(y.dir, "plugins", "fake", pluginhost.ManifestName)
		if err := os.WriteFile(at, []byte(`{"name": "fake", "version": "1.2.3", "more": [1], "capabilities": {"iacServices": ["b", "a"]}, "iacServices": ["a"]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		req, err := y.plugins.Request("fake", nil)
		if err != nil {
			t.Fatal(err)
		}
		l, err := y.host.Process(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release()
		c := l.Contract
		if c.Manifest.Version != "1.2.3" || !slices.Equal(c.Manifest.Services, []string{"a", "b"}) {
			t.Errorf("%s: %+v", mode, c)
		}
		if mode == "no registry" && (len(c.Services) > 0 || !c.NoRegistry) || mode == "no manifest" && !c.NoManifest {
			t.Errorf("%s: %+v", mode, c)
		}
		if mode == "no manifest" && !slices.Equal(c.Unknown(), []string{"some.other.Service"}) {
			t.Errorf("unknown services %q", c.Unknown())
		}
	}
}

// TestPluginManifestAgainstRegistry: a service that only one of plugin.json and the live
// registry names is told, whichever it is. A file that names none says nothing of them.
func TestPluginManifestAgainstRegistry(t *testing.T) {
	y := newYard(t, "", nil)
	at := filepath.Join(y.dir, "plugins", "fake", pluginhost.ManifestName)
	check := func(services ...string) map[string]sdk.CheckItem {
		t.Helper()
		text, err := json.Marshal(map[string]any{"name": "fake", "version": "1.2.3", "iacServices": services})
		if err == nil {
			err = os.WriteFile(at, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]sdk.CheckItem{}
		for _, it := range y.plugins.Check(t.Context(), "fake") {
			if out[it.Name] = it; !it.OK && it.Remedy == "" {
				t.Errorf("no remedy for %+v", it)
			}
		}
		return out
	}
	bad := func(items map[string]sdk.CheckItem) (names []string) {
		for name, it := range items {
			if !it.OK {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	silent := check()
	if got := bad(silent); len(got) > 0 || silent["registry"].Detail == "" {
		t.Errorf("a file that names no services: %q, %+v", got, silent)
	}
	all := slices.DeleteFunc(strings.Split(silent["registry"].Detail, ", "), func(s string) bool { return strings.HasPrefix(s, "plugin.") || strings.HasPrefix(s, "grpc.") })
	if got := bad(check(all...)); len(got) > 0 {
		t.Errorf("a file that names all: %q", got)
	}
	const runner, captures = "windlass.provider.v1.JobRunnerService", "workflow.plugin.external.iac.IaCProviderLogCapture"
	less := check(slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == runner || s == captures || s == "some.other.Service" })...)
	if got := bad(less); !slices.Equal(got, []string{"some.other.Service", runner, captures}) || !strings.Contains(less[runner].Detail, "the live registry names it and plugin.json doesn't") {
		t.Errorf("a file that names fewer: %q, %+v", got, less[runner])
	}
	more := check(append(slices.Clone(all), "windlass.provider.v1.JobDancerService")...)
	if got := bad(more); !slices.Equal(got, []string{"windlass.provider.v1.JobDancerService"}) {
		t.Errorf("a file that names more: %q", got)
	}
}

// TestPluginChecksum: another program than the one that was trusted isn't started.
func TestPluginChecksum(t *testing.T) {
	y := newYard(t, "", nil, "checksum: 'sha256:"+strings.Repeat("0", 64)+"'")
	_, err := y.plugins.Driver(t.Context(), "fake")
	if sdk.CodeOf(err) != sdk.PermissionDenied || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("%v", err)
	}
	req, err := y.plugins.Request("fake", nil)
	if err != nil {
		t.Fatal(err)
	}
	if req.Plugin.Checksum, err = pluginhost.Sum(req.Plugin.Path); err != nil {
		t.Fatal(err)
	}
	if _, err := pluginhost.Verify(req.Plugin); err != nil {
		t.Errorf("the right one: %v", err)
	}
	if err := os.Chmod(filepath.Dir(req.Plugin.Path), 0o777); err != nil { //nolint:gosec // that is what is refused
		t.Fatal(err)
	}
	if _, err := pluginhost.Verify(req.Plugin); sdk.CodeOf(err) != sdk.PermissionDenied || !strings.Contains(err.Error(), "written by others") {
		t.Errorf("a folder that others may change: %v", err)
	}
}
