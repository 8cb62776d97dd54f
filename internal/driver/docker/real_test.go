package docker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

func (b *bench) clean(t testing.TB, h sdk.JobHandle) []string {
	t.Helper()
	res, err := b.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h})
	if err != nil {
		t.Fatal(err)
	}
	return res.Removed
}

// api reaches the engine as the driver's own client does.
func (b *bench) api(t testing.TB, f func(ctx context.Context, api *client.Client) error) {
	t.Helper()
	if err := b.client.Call(t.Context(), "test", f); err != nil {
		t.Fatal(err)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	b := realEngine(t)
	h := b.run(t, sh(`echo hello; echo oops >&2; exit 3`))
	o := b.logs(t, h, true, nil)
	if o.out != "hello\n" || o.err != "oops\n" || o.verdict != sdk.VerdictComplete {
		t.Errorf("got %+v", o)
	}
	st := b.ended(t, h)
	if st.State != sdk.StateFailed || st.Reason != sdk.ReasonNonzeroExit || st.ExitCode == nil || *st.ExitCode != 3 || st.StartedAt.IsZero() || st.EndedAt.IsZero() {
		t.Errorf("got %+v", st)
	}
	if got := b.clean(t, h); !slices.Equal(got, []string{"container " + h.Name}) {
		t.Errorf("removed %v", got)
	}
}

// On the engine itself a job that is over at once loses nothing.
func TestF44ExitsAtOnceForReal(t *testing.T) {
	t.Parallel()
	b := realEngine(t)
	spec := sh(`echo out; echo err >&2; exit 7`)
	spec.Network = networkNone
	for i := range 10 {
		h := b.run(t, spec)
		o := b.logs(t, h, true, nil)
		if st := b.ended(t, h); o.out != "out\n" || o.err != "err\n" || o.verdict != sdk.VerdictComplete || *st.ExitCode != 7 {
			t.Fatalf("run %d: %+v, %+v", i, o, st)
		}
		b.clean(t, h)
	}
}

func TestCommandsThatCannotRun(t *testing.T) {
	t.Parallel()
	b := realEngine(t)
	for command, want := range map[string]string{"windlass-no-such-command": sdk.ExecNotFound, "/etc/passwd": sdk.ExecNotExecutable, "/no/such/path": sdk.ExecNotFound} {
		st := b.ended(t, b.run(t, sdk.JobSpec{Image: testneed.Image, Network: networkNone, Args: sdk.Argv{command}}))
		if st.State != sdk.StateFailed || st.Reason != sdk.ReasonInvalidSpec || st.Raw[sdk.RawExec] != want || st.ExitCode != nil {
			t.Errorf("%s: got %+v", command, st)
		}
	}
	st := b.ended(t, b.run(t, sdk.JobSpec{Image: testneed.Image, Network: networkNone, Args: sdk.Argv{"true"}, User: "nosuchuser"}))
	if st.Reason != sdk.ReasonInvalidSpec || st.ExitCode != nil {
		t.Errorf("unknown user: %+v", st)
	}
}

// Entrypoint and arguments have three values each: unset, empty and set.
func TestEntrypointAndArgs(t *testing.T) {
	t.Parallel()
	b := realEngine(t)
	image := "windlass-test-" + strings.ToLower(b.ids.NewID().Short()) + ":1"
	b.api(t, func(ctx context.Context, api *client.Client) error {
		c, err := api.ContainerCreate(ctx, client.ContainerCreateOptions{Image: testneed.Image})
		if err != nil {
			return err
		}
		_, err = api.ContainerCommit(ctx, c.ID, client.ContainerCommitOptions{Reference: image, Changes: []string{`ENTRYPOINT ["echo","entry"]`, `CMD ["echo","cmd"]`}})
		_, rm := api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{})
		return errors.Join(err, rm)
	})
	t.Cleanup(func() {
		if err := b.client.Call(context.Background(), "test", func(ctx context.Context, api *client.Client) error {
			_, err := api.ImageRemove(ctx, image, client.ImageRemoveOptions{Force: true})
			return err
		}); err != nil {
			t.Error(err)
		}
	})
	for name, c := range map[string]struct {
		entrypoint, args sdk.Argv
		want             string
	}{
		"image's own":       {nil, nil, "entry echo cmd\n"},
		"args set":          {nil, sdk.Argv{"a b", "", "$(x)"}, "entry a b  $(x)\n"},
		"args empty":        {nil, sdk.Argv{}, "entry\n"},
		"entrypoint set":    {sdk.Argv{"echo", "mine"}, nil, "mine\n"},
		"both set":          {sdk.Argv{"echo", "mine"}, sdk.Argv{"x"}, "mine x\n"},
		"set, args empty":   {sdk.Argv{"echo", "mine"}, sdk.Argv{}, "mine\n"},
		"empty, args unset": {sdk.Argv{}, nil, "cmd\n"},
		"empty, args set":   {sdk.Argv{}, sdk.Argv{"echo", "x"}, "x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := sdk.JobSpec{Image: image, Network: networkNone, Entrypoint: c.entrypoint, Args: c.args}
			h := b.run(t, spec)
			if o := b.logs(t, h, true, nil); o.out != c.want {
				t.Errorf("got %q, want %q", o.out, c.want)
			}
			b.clean(t, h)
		})
	}
}

func TestProfilesForReal(t *testing.T) {
	t.Parallel()
	b := realEngine(t, func(r *sdk.OpenRequest) { r.Secrets = secretsMap{"secret://env/T": "s3cret"} })
	script := `
echo "user $(id -u)"
echo "nnp $(grep NoNewPrivs /proc/self/status | cut -f2)"
echo "caps $(grep CapBnd /proc/self/status | cut -f2)"
(echo x >/x) 2>/dev/null && echo "root writable" || echo "root read-only"
(echo x >/tmp/x) 2>/dev/null && echo "tmp writable" || echo "tmp read-only"
echo "links $(ls /sys/class/net | tr '\n' ' ')"
echo "memory $(cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max)"
echo "pids $(cat /sys/fs/cgroup/pids/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids.max)"
echo "secret $(cat $T_FILE)"
echo "file $(cat /etc/app/conf)"
`
	for profile, want := range map[sdk.Profile][]string{
		sdk.ProfileStrict: {"nnp 1", "caps 0000000000000000", "root read-only", "tmp writable", "links lo ", "memory 268435456", "pids 64",
			"secret s3cret", "file conf"},
		sdk.ProfileUnset:      {"nnp 1", "root writable", "tmp writable", "pids 1024", "secret s3cret", "file conf"},
		sdk.ProfileStandard:   {"nnp 1", "root writable", "pids 1024", "secret s3cret", "file conf"},
		sdk.ProfilePermissive: {"nnp 0", "root writable", "pids max", "secret s3cret", "file conf"},
	} {
		t.Run("profile "+string(profile), func(t *testing.T) {
			spec := sh(script)
			spec.Profile = profile
			spec.Secrets = map[string]sdk.SecretRef{"T": "secret://env/T"}
			spec.Files = []sdk.InputFile{{Path: "/etc/app/conf", Data: []byte("conf")}}
			h := b.run(t, spec)
			o := b.logs(t, h, true, nil)
			for _, line := range want {
				if !strings.Contains(o.out, line+"\n") {
					t.Errorf("no %q in:\n%s%s", line, o.out, o.err)
				}
			}
			b.clean(t, h)
		})
	}
}

func TestF87SecretsOnThisMachine(t *testing.T) {
	t.Parallel()
	b := realEngine(t, func(r *sdk.OpenRequest) { r.Secrets = secretsMap{"secret://env/T": "s3cret-canary"} })
	spec := sh(`cat $T_FILE; echo; sleep 60`)
	spec.User = "nobody"
	spec.Secrets = map[string]sdk.SecretRef{"T": "secret://env/T"}
	l := b.prepare(t, spec)
	h := b.send(t, l)
	testwait.Until(t, patience, "output", func() bool {
		o := b.logs(t, h, false, nil)
		if o.err != "" {
			t.Fatalf("a job without rights can't read its secret: %s", o.err)
		}
		return o.out == "s3cret-canary\n"
	})
	dir := b.tmp.path(l.AttemptID)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != folderMode {
		t.Errorf("folder %s: %v, %v", dir, info.Mode(), err)
	}
	b.api(t, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerInspect(ctx, h.ID, client.ContainerInspectOptions{})
		if bytes.Contains(res.Raw, []byte("s3cret-canary")) {
			t.Error("the secret is in the inspect output")
		}
		return err
	})
	if _, err := b.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h, Grace: new(time.Duration)}); err != nil {
		t.Fatal(err)
	}
	b.ended(t, h)
	b.clean(t, h)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder %s after clean-up: %v", dir, err)
	}
}

// What a crash between folder and container leaves is listed, and removed.
func TestLeftoverFolders(t *testing.T) {
	t.Parallel()
	b := realEngine(t)
	spec := sh(`true`)
	spec.Files = []sdk.InputFile{{Path: "/tmp/x", Data: []byte("x")}}
	l := b.prepare(t, spec)
	req, err := decodeRequest(l.Request)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&send{p: b.provider, launch: l, req: req}).putInputs(t.Context()); err != nil {
		t.Fatal(err)
	}
	var found []sdk.OwnedObject
	for o, err := range b.ListOwned(t.Context(), sdk.ListOwnedRequest{Owner: b.owner}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, o)
	}
	if len(found) != 1 || found[0].Type != typeFolder || found[0].AttemptID != l.AttemptID || found[0].Owner != b.owner || found[0].Live {
		t.Fatalf("got %+v", found)
	}
	other := found[0]
	other.RunID = b.ids.NewID()
	if _, err := b.RemoveOwned(t.Context(), sdk.RemoveOwnedRequest{Object: other}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("another run's: %v", err)
	}
	for range 2 {
		if _, err := b.RemoveOwned(t.Context(), sdk.RemoveOwnedRequest{Object: found[0]}); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(b.files.path(l.AttemptID)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// A crash between create and start leaves a container that the next send starts.
func TestCreatedAndNotStarted(t *testing.T) {
	t.Parallel()
	b := realEngine(t)
	l := b.prepare(t, sh(`echo once`))
	req, err := decodeRequest(l.Request)
	if err != nil {
		t.Fatal(err)
	}
	s := &send{p: b.provider, launch: l, req: req, progress: func(string) {}}
	c, err := s.ensureContainer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if res, err := b.FindJobs(ctx, sdk.FindJobsRequest{Launch: &l}); err != nil || res.Outcome != sdk.FindAbsent {
		t.Errorf("find: %+v, %v", res, err)
	}
	byRun, err := b.FindJobs(ctx, sdk.FindJobsRequest{RunID: l.RunID, Owner: b.owner})
	if err != nil || byRun.Outcome != sdk.FindFound || byRun.Jobs[0].Handle.ID != c.id {
		t.Fatalf("find by run: %+v, %v", byRun, err)
	}
	if st, err := b.JobStatus(ctx, sdk.JobStatusRequest{Handle: byRun.Jobs[0].Handle}); err != nil || st.State != sdk.StatePending {
		t.Errorf("status: %+v, %v", st, err)
	}
	h := b.send(t, l)
	if h.ID != c.id {
		t.Errorf("a second container: %s and %s", h.ID, c.id)
	}
	if o := b.logs(t, h, true, nil); o.out != "once\n" {
		t.Errorf("got %+v", o)
	}
	// And a cancel takes it away, so that nothing starts it any more.
	l = b.prepare(t, sh(`echo never`))
	s = &send{p: b.provider, launch: l, progress: s.progress}
	if s.req, err = decodeRequest(l.Request); err != nil {
		t.Fatal(err)
	}
	if c, err = s.ensureContainer(ctx); err != nil {
		t.Fatal(err)
	}
	h = b.handle(c.id, s.req.Name, "", l.AttemptID)
	if res, err := b.CancelJob(ctx, sdk.CancelJobRequest{Handle: h}); err != nil || !res.Gone || !res.Accepted {
		t.Errorf("cancel: %+v, %v", res, err)
	}
	if err := s.start(ctx, c.id); !errors.Is(err, sdk.NotFound) {
		t.Errorf("start after the cancel: %v", err)
	}
}

// The engine keeps the grace, and kills though nobody is there any more.
func TestF77EngineKillsForADeadHolder(t *testing.T) {
	t.Parallel()
	b := realEngine(t)
	spec := sh(`trap '' TERM; echo up; while :; do sleep 1; done`)
	spec.Network = networkNone
	h := b.run(t, spec)
	testwait.Until(t, patience, "job that ignores TERM", func() bool { return b.logs(t, h, false, nil).out == "up\n" })
	holder := openTest(t, testneed.Docker(t), func(r *sdk.OpenRequest) { r.Owner, r.LedgerID = b.owner, b.ledgerID })
	grace := time.Second
	begun := time.Now()
	res, err := holder.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h, Grace: &grace})
	if err != nil || !res.Accepted || res.Gone || !strings.Contains(res.Evidence, "signal 15") {
		t.Fatalf("cancel: %+v, %v", res, err)
	}
	if err := holder.Close(); err != nil {
		t.Error(err)
	}
	st := b.ended(t, h)
	if took := time.Since(begun); took < grace {
		t.Errorf("killed after %s", took)
	}
	if st.State != sdk.StateCancelled || st.Signal != signalKill || *st.ExitCode != killedCode {
		t.Errorf("got %+v", st)
	}
}

func TestKilledByAnother(t *testing.T) {
	t.Parallel()
	b := realEngine(t)
	spec := sh(`sleep 100`)
	spec.Network = networkNone
	h := b.run(t, spec)
	b.api(t, func(ctx context.Context, api *client.Client) error {
		_, err := api.ContainerKill(ctx, h.ID, client.ContainerKillOptions{Signal: signalKill})
		return err
	})
	if st := b.ended(t, h); st.Reason != sdk.ReasonSignaled || st.Signal != signalKill || *st.ExitCode != killedCode {
		t.Errorf("got %+v", st)
	}
}

func TestPausedJob(t *testing.T) {
	t.Parallel()
	b := realEngine(t)
	spec := sh(`trap 'exit 4' TERM; echo up; while :; do sleep 1 & wait $!; done`)
	h := b.run(t, spec)
	testwait.Until(t, patience, "running job", func() bool { return b.logs(t, h, false, nil).out == "up\n" })
	b.api(t, func(ctx context.Context, api *client.Client) error {
		_, err := api.ContainerPause(ctx, h.ID, client.ContainerPauseOptions{})
		return err
	})
	if st, err := b.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); err != nil || st.State != sdk.StateRunning || st.Message == "" {
		t.Errorf("paused: %+v, %v", st, err)
	}
	if _, err := b.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("clean-up: %v", err)
	}
	if res, err := b.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil || !res.Accepted {
		t.Fatalf("cancel: %+v, %v", res, err)
	}
	if st := b.ended(t, h); st.State != sdk.StateCancelled || *st.ExitCode != 4 {
		t.Errorf("got %+v", st)
	}
}

// Every byte of a large output arrives, read as it grows and by a late reader.
func TestF64LargeBinaryOutput(t *testing.T) {
	t.Parallel()
	b := realEngine(t)
	const n = 20 << 20
	spec := sh(`i=0; while [ $i -lt 10 ]; do head -c 2097152 /dev/urandom | tee -a /tmp/all; i=$((i+1)); done; sha256sum </tmp/all >&2`)
	spec.Network = networkNone
	h := b.run(t, spec)
	for _, follow := range []bool{true, false} {
		o := b.logs(t, h, follow, nil)
		sum := fmt.Sprintf("%x  -\n", sha256.Sum256([]byte(o.out)))
		if len(o.out) != n || sum != o.err || o.verdict != sdk.VerdictComplete {
			t.Errorf("follow %t: %d bytes instead of %d, sum %s instead of %s, %s", follow, len(o.out), n, sum, o.err, o.verdict)
		}
	}
	b.clean(t, h)
}

func TestF65LongLinesForReal(t *testing.T) {
	t.Parallel()
	b := realEngine(t)
	for _, driver := range []string{logLocal, logJSON} {
		spec := sh(`head -c 1048576 /dev/zero | tr '\0' x; echo; echo short; head -c 32768 /dev/zero | tr '\0' y; echo; printf unended`)
		spec.Network = networkNone
		spec.Options = json.RawMessage(`{"log_driver":"` + driver + `"}`)
		h := b.run(t, spec)
		want := strings.Repeat("x", 1<<20) + "\nshort\n" + strings.Repeat("y", 32768) + "\nunended"
		if o := b.logs(t, h, true, nil); o.out != want {
			t.Errorf("%s: %d bytes instead of %d", driver, len(o.out), len(want))
		}
	}
}

func TestBoundedLogForReal(t *testing.T) {
	t.Parallel()
	b := realEngine(t)
	spec := sh(`i=0; while [ $i -lt 60000 ]; do echo "$i 0123456789012345678901234567890123456789012345678901234567890123456789"; i=$((i+1)); done`)
	spec.Network = networkNone
	spec.Options = json.RawMessage(`{"log_max_size":2097152}`)
	h := b.run(t, spec)
	b.ended(t, h)
	o := b.logs(t, h, false, nil)
	if o.verdict != sdk.VerdictTruncatedByProvider || o.gaps == 0 || !strings.HasSuffix(o.out, "59999 0123456789012345678901234567890123456789012345678901234567890123456789\n") {
		t.Errorf("%d bytes, %d gaps, %s", len(o.out), o.gaps, o.verdict)
	}
}

func TestStdinForReal(t *testing.T) {
	t.Parallel()
	b := realEngine(t)
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(i * 7)
	}
	spec := sh(`sha256sum`)
	spec.Stdin = sdk.StdinSpooled
	spec.Network = networkNone
	res, err := b.RunJob(t.Context(), sdk.RunJobRequest{Launch: b.prepare(t, spec), Stdin: bytes.NewReader(data)})
	if err != nil {
		t.Fatal(err)
	}
	if o := b.logs(t, res.Handle, true, nil); o.out != fmt.Sprintf("%x  -\n", sha256.Sum256(data)) {
		t.Errorf("got %q", o.out)
	}
	// A job that ends without reading its input ends.
	spec.Args = sdk.Argv{"true"}
	r, w := io.Pipe()
	if res, err = b.RunJob(t.Context(), sdk.RunJobRequest{Launch: b.prepare(t, spec), Stdin: r}); err != nil {
		t.Fatal(err)
	}
	if st := b.ended(t, res.Handle); st.State != sdk.StateSucceeded {
		t.Errorf("got %+v", st)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// TestSpooledInputCutOff: where the process that feeds a job is gone before the
// job has all of a spooled input, the engine ends the input. The job can't tell,
// and may well succeed with a part.
func TestSpooledInputCutOff(t *testing.T) {
	t.Parallel()
	var how sdk.OpenRequest
	b := realEngine(t, func(r *sdk.OpenRequest) { how = *r })
	feeder, err := Driver().Open(t.Context(), how)
	if err != nil {
		t.Fatal(err)
	}
	start := func(script string, input io.Reader) sdk.JobHandle {
		spec := sh(script)
		spec.Stdin, spec.Network = sdk.StdinSpooled, networkNone
		res, err := feeder.(sdk.JobRunner).RunJob(t.Context(), sdk.RunJobRequest{Launch: b.prepare(t, spec), Stdin: input})
		if err != nil {
			t.Fatal(err)
		}
		return res.Handle
	}
	// A pipe that nobody closes: there is more to come.
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	cut := start("wc -c", r)
	if _, err := w.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	// This one has all, and this one wants no more.
	small := make([]byte, 1000)
	whole := start("sleep 1; wc -c", bytes.NewReader(small))
	path := b.provider.feedPath(attemptOf(t, whole))
	testwait.Until(t, patience, "delivery", func() bool { _, err := os.Stat(path); return errors.Is(err, os.ErrNotExist) })
	r2, w2 := io.Pipe()
	defer func() { _ = w2.Close() }()
	enough := start("true", r2)
	if st := b.ended(t, enough); st.State != sdk.StateSucceeded {
		t.Errorf("a job that read nothing, its feeder alive: %+v", st)
	}
	if err := feeder.Close(); err != nil {
		t.Fatal(err)
	}
	st := b.ended(t, cut)
	if st.State != sdk.StateFailed || st.Reason != sdk.ReasonInfrastructure || st.ExitCode == nil || *st.ExitCode != 0 || !strings.Contains(st.Message, "input was cut off") {
		t.Errorf("a job whose input was cut off: %+v", st)
	}
	if st := b.ended(t, whole); st.State != sdk.StateSucceeded {
		t.Errorf("a job that had all of its input: %+v", st)
	}
	for _, h := range []sdk.JobHandle{cut, whole, enough} {
		b.clean(t, h)
		if _, err := os.Stat(b.provider.files.path(attemptOf(t, h))); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its folder is left: %v", err)
		}
	}
}

func attemptOf(t testing.TB, h sdk.JobHandle) sdk.ID {
	t.Helper()
	id, err := sdk.ParseID(h.Metadata[keyAttempt])
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestAnonymousVolumesGo(t *testing.T) {
	t.Parallel()
	b := realEngine(t)
	l := b.prepare(t, sh(`true`))
	var req request
	if err := json.Unmarshal(l.Request, &req); err != nil {
		t.Fatal(err)
	}
	req.Body.Volumes = map[string]struct{}{"/data": {}}
	var err error
	if l.Request, err = sdk.EncodeCanonical(req); err != nil {
		t.Fatal(err)
	}
	h := b.send(t, l)
	var name string
	b.api(t, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerInspect(ctx, h.ID, client.ContainerInspectOptions{})
		for _, m := range res.Container.Mounts {
			name = m.Name
		}
		return err
	})
	b.ended(t, h)
	b.clean(t, h)
	err = b.client.Call(t.Context(), "test", func(ctx context.Context, api *client.Client) error {
		_, err := api.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
		return err
	})
	if name == "" || !errors.Is(err, sdk.NotFound) {
		t.Errorf("volume %q: %v", name, err)
	}
}

func TestMissingNetwork(t *testing.T) {
	t.Parallel()
	b := realEngine(t)
	spec := sh(`true`)
	spec.Network = "windlass-no-such-network"
	if l := b.prepare(t, spec); len(l.Problems) != 1 || l.Problems[0].Field != "network" {
		t.Errorf("got %v", l.Problems)
	}
}

// TestCancelsAtOnce: a job that ends by the first of several cancels is cancelled,
// also for those that come too late to send a signal of their own.
func TestCancelsAtOnce(t *testing.T) {
	t.Parallel()
	b := realEngine(t)
	for i := range 10 {
		h := b.run(t, sh(`trap 'exit 143' TERM; echo up; while :; do sleep 0.01; done`))
		testwait.Until(t, patience, "first output", func() bool { return b.logs(t, h, false, nil).out != "" })
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { _, errs[i] = b.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if st := b.ended(t, h); st.State != sdk.StateCancelled {
			t.Fatalf("round %d: %s: %s, %v", i, st.State, st.Reason, st.Raw)
		}
		b.clean(t, h)
	}
}
