package sandbox

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// TestF90Actor: an execution is a run like any other: its output and code come
// back, and the ledger has a row with the actor.
func TestF90Actor(t *testing.T) {
	w := newWorld(t, fake.Settings{}, nil)
	for name, c := range choices() {
		o := newOutput()
		e := script("echo out; err bad; exit 3")
		e.Name = "build"
		res, err := w.env(c).Exec(w.ctx(), request(e, o))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if res.State != sdk.StateFailed || res.ExitCode == nil || *res.ExitCode != 3 || res.Reason != sdk.ReasonNonzeroExit || res.Verdict != sdk.VerdictComplete {
			t.Errorf("%s: %+v", name, res)
		}
		if o.text(sdk.StreamStdout) != "out\n" || o.text(sdk.StreamStderr) != "bad\n" {
			t.Errorf("%s: %q %q", name, o.text(sdk.StreamStdout), o.text(sdk.StreamStderr))
		}
		run, err := w.store.Run(w.ctx(), res.RunID)
		if err != nil || run.Actor != "ann@test" || run.Open() || run.Name != "build" {
			t.Errorf("%s: row %+v, %v", name, run, err)
		}
		if res.RunID != o.run {
			t.Errorf("%s: started %s, ended %s", name, o.run, res.RunID)
		}
	}
	if left := w.cloud.Jobs(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestF71CancelReachesTheBackend: closing Stop ends the job on the backend, and
// Exec returns when that is proven.
func TestF71CancelReachesTheBackend(t *testing.T) {
	for name, c := range choices() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fake.Settings{}, nil)
			o := newOutput()
			stop := make(chan struct{})
			r := request(script("echo up; hang"), o)
			r.Stop = stop
			go func() {
				<-o.first
				close(stop)
			}()
			res, err := w.env(c).Exec(w.ctx(), r)
			if err != nil || res.State != sdk.StateCancelled {
				t.Fatalf("%+v, %v", res, err)
			}
			if w.cloud.Calls(fake.OpCancelJob) == 0 || len(w.cloud.Jobs()) > 0 {
				t.Errorf("%d cancel calls, left %v", w.cloud.Calls(fake.OpCancelJob), w.cloud.Jobs())
			}
			run, _ := w.store.Run(w.ctx(), res.RunID)
			if run.CancelBy != "ann@test" || run.CancelWhy != "Ctrl-C" {
				t.Errorf("cancelled by %q for %q", run.CancelBy, run.CancelWhy)
			}
		})
	}
}

// TestTimeOutReachesTheBackend: the engine's clock ends the job, and that is the
// Result, with proof.
func TestTimeOutReachesTheBackend(t *testing.T) {
	for name, c := range choices() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fake.Settings{}, nil)
			e := script("echo up; hang")
			e.Timeout = time.Second
			res, err := w.env(c).Exec(w.ctx(), request(e, newOutput()))
			if err != nil || res.State != sdk.StateFailed || res.Reason != sdk.ReasonTimedOut || len(w.cloud.Jobs()) > 0 {
				t.Errorf("%+v, %v, left %v", res, err, w.cloud.Jobs())
			}
		})
	}
}

// TestF18NoCodeIsNoCode: an end without a code has none, and is no success.
func TestF18NoCodeIsNoCode(t *testing.T) {
	w := newWorld(t, fake.Settings{}, nil)
	w.cloud.Change(func(k *fake.Knobs) { k.NoExitCode = true })
	res, err := w.env(Choice{}).Exec(w.ctx(), request(script("exit 2"), newOutput()))
	if err != nil || res.ExitCode != nil || res.State != sdk.StateFailed {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestStopBeforeTheStart(t *testing.T) {
	w := newWorld(t, fake.Settings{}, nil)
	stop := make(chan struct{})
	close(stop)
	r := request(script("exit 0"), newOutput())
	r.Stop = stop
	_, err := w.env(Choice{}).Exec(w.ctx(), r)
	if sdk.CodeOf(err) != sdk.Canceled || len(w.runs()) > 0 || w.cloud.Calls(fake.OpRunJob) > 0 {
		t.Errorf("%v, %d runs", err, len(w.runs()))
	}
}

// TestStopWhileItIsPrepared: the call that prepares hangs, and Stop ends it.
func TestStopWhileItIsPrepared(t *testing.T) {
	w := newWorld(t, fake.Settings{}, nil)
	entered, release := w.cloud.Block(fake.OpPrepareJob)
	defer release()
	stop := make(chan struct{})
	r := request(script("exit 0"), newOutput())
	r.Stop = stop
	go func() {
		<-entered
		close(stop)
	}()
	_, err := w.env(Choice{}).Exec(w.ctx(), r)
	if sdk.CodeOf(err) != sdk.Canceled || w.cloud.Calls(fake.OpRunJob) > 0 {
		t.Errorf("%v", err)
	}
}

// TestLeaving: the end of ctx leaves the job to the ledger, which can still
// cancel it.
func TestLeaving(t *testing.T) {
	w := newWorld(t, fake.Settings{}, nil)
	ctx, leave := context.WithCancelCause(w.ctx())
	left := errors.New("left")
	o := newOutput()
	go func() {
		<-o.first
		leave(left)
	}()
	res, err := w.env(Choice{}).Exec(ctx, request(script("echo up; hang"), o))
	if err == nil || res.RunID.IsZero() || res.State != "" {
		t.Fatalf("%+v, %v", res, err)
	}
	w.must(w.engine.Cancel(w.ctx(), control.CancelRequest{Run: res.RunID, Actor: "test", Why: "test"}))
	run, err := w.engine.Wait(w.ctx(), res.RunID, control.MilestoneFinished)
	if err != nil || run.State != sdk.StateCancelled {
		t.Errorf("%+v, %v", run, err)
	}
}

// TestReaderThatLeaves: whoever stops reading doesn't end the execution.
func TestReaderThatLeaves(t *testing.T) {
	w := newWorld(t, fake.Settings{}, nil)
	o := newOutput()
	o.fail = io.ErrClosedPipe
	res, err := w.env(Choice{}).Exec(w.ctx(), request(script("echo one; sleep 50ms; echo two; exit 0"), o))
	if err != nil || res.State != sdk.StateSucceeded || o.text(sdk.StreamStdout) != "one\n" {
		t.Errorf("%+v, %v, %q", res, err, o.text(sdk.StreamStdout))
	}
}

// taker is a keeper that notes what it is asked to take.
type taker struct{ took chan sdk.ID }

func (k taker) Take(_ context.Context, run sdk.ID) error {
	select {
	case k.took <- run:
	default:
	}
	return nil
}

// TestKeeperTakesLongRuns: a run that goes on is offered to the keeper.
func TestKeeperTakesLongRuns(t *testing.T) {
	w := newWorld(t, fake.Settings{}, nil)
	k := taker{make(chan sdk.ID, 1)}
	w.jobs.Keeper = k
	o := newOutput()
	stop := make(chan struct{})
	r := request(script("echo up; hang"), o)
	r.Stop = stop
	took := make(chan sdk.ID, 1)
	go func() {
		took <- <-k.took
		close(stop)
	}()
	res, err := w.env(Choice{}).Exec(w.ctx(), r)
	if id := <-took; err != nil || id != res.RunID || res.State != sdk.StateCancelled {
		t.Errorf("took %s; %+v, %v", id, res, err)
	}
}

// picky refuses profiles as a backend does that has none of its own.
type picky struct {
	sdk.JobRunner
	refuses map[sdk.Profile]bool
}

func (p picky) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	l, err := p.JobRunner.PrepareJob(ctx, r)
	if p.refuses[r.Spec.Profile] {
		l.Problems = append(l.Problems, sdk.Problem{Field: "profile", Value: string(r.Spec.Profile), Message: "can't be had", Code: sdk.Unimplemented})
	}
	if r.Spec.Profile == sdk.ProfileStrict && r.Spec.Memory > 256<<20 {
		l.Problems = append(l.Problems, sdk.Problem{Field: "memory", Message: "the profile strict doesn't allow it: at most 256 MiB", Code: sdk.InvalidArgument})
	}
	return l, err
}

func refusing(ps ...sdk.Profile) func(sdk.Provider) sdk.Provider {
	refuses := map[sdk.Profile]bool{}
	for _, p := range ps {
		refuses[p] = true
	}
	return func(p sdk.Provider) sdk.Provider {
		r, _ := sdk.Of(p, sdk.Runner())
		out, err := sdk.Decorate(p, map[string]any{sdk.Runner().String(): picky{r, refuses}})
		if err != nil {
			panic(err)
		}
		return out
	}
}

// TestStrongestProfile: an unset profile is strict on local-docker, and elsewhere
// the strongest that the backend takes, which is told.
func TestStrongestProfile(t *testing.T) {
	all := Profiles()
	for _, x := range []struct {
		env     string
		refuses []sdk.Profile
		set     sdk.Profile
		want    sdk.Profile
	}{
		{LocalDocker, nil, "", sdk.ProfileStrict},
		{LocalDocker, nil, sdk.ProfilePermissive, sdk.ProfilePermissive},
		{LocalDocker, all[:1], "", ""},
		{Ephemeral, nil, "", sdk.ProfileStrict},
		{Ephemeral, all[:1], "", sdk.ProfileStandard},
		{ProviderEphemeral, all[:2], "", sdk.ProfilePermissive},
		{ProviderEphemeral, all[:2], sdk.ProfileStandard, ""},
		{ProviderEphemeral, all, "", ""},
	} {
		w := newWorld(t, fake.Settings{}, refusing(x.refuses...))
		e := script("exit 0")
		e.Profile = x.set
		o := newOutput()
		res, err := w.env(choices()[x.env]).Exec(w.ctx(), request(e, o))
		if x.want == "" {
			var refused *ProblemsError
			if !errors.As(err, &refused) || refused.Problems[0].Field != "security_profile" || len(w.runs()) > 0 {
				t.Errorf("%+v: %v", x, err)
			}
			continue
		}
		if err != nil || res.Profile != x.want || w.spec(res.RunID).Profile != x.want {
			t.Errorf("%+v: %+v, %v", x, res, err)
		}
		if told := o.said("security_profile is " + string(x.want)); told != (x.env != LocalDocker && x.set == "") {
			t.Errorf("%+v: notes %q", x, o.notes)
		}
	}
}

// TestProfileIsNotLoosened: a limit beyond strict is refused, and never a reason
// to take a weaker profile.
func TestProfileIsNotLoosened(t *testing.T) {
	for name, c := range choices() {
		w := newWorld(t, fake.Settings{}, refusing())
		e := script("exit 0")
		e.Memory = 512 << 20
		_, err := w.env(c).Exec(w.ctx(), request(e, newOutput()))
		var refused *ProblemsError
		if !errors.As(err, &refused) || refused.Problems[0].Field != "memory_limit" || !strings.Contains(err.Error(), "security_profile isn't set") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestProfileIsBlamedForItsOwn: only what the profile forbids is told to be so because
// none was set, and not where one was.
func TestProfileIsBlamedForItsOwn(t *testing.T) {
	const strict, standard = "the profile strict doesn't allow it: at most 256 MiB", "may loosen the profile standard, which was asked for"
	for _, x := range []struct {
		set, tried sdk.Profile
		said, want string
	}{
		{"", sdk.ProfileStrict, strict, strict + "; strict is taken since security_profile isn't set, and is looser when set to standard or permissive"},
		{"", sdk.ProfileStandard, standard, standard + "; standard is taken since security_profile isn't set, and is looser when set to permissive"},
		{"", sdk.ProfileStrict, "is no reference of an image", "is no reference of an image"},
		{"", sdk.ProfilePermissive, "the profile permissive can't be had", "the profile permissive can't be had"},
		{sdk.ProfileStrict, sdk.ProfileStrict, strict, strict},
	} {
		got := named([]sdk.Problem{{Field: "memory", Message: x.said, Code: sdk.InvalidArgument}}, Exec{Profile: x.set}, x.tried)
		if len(got) != 1 || got[0].Message != x.want || got[0].Field != "memory_limit" {
			t.Errorf("%+v: %v", x, got)
		}
	}
}

// TestAsk: the backend is asked before there is a run, under the profile that the run
// would have; what else is missing is told beside it.
func TestAsk(t *testing.T) {
	all := Profiles()
	for _, x := range []struct {
		env     string
		refuses []sdk.Profile
		memory  int64
		want    string // the field that is refused
	}{
		{LocalDocker, nil, 0, ""},
		{LocalDocker, all[:1], 0, "security_profile"},
		{Ephemeral, all[:2], 0, ""},
		{Ephemeral, all[:1], 512 << 20, ""},
		{ProviderEphemeral, nil, 512 << 20, "memory_limit"},
		{ProviderEphemeral, all, 0, "security_profile"},
	} {
		w := newWorld(t, fake.Settings{}, refusing(x.refuses...))
		e := script("exit 0")
		e.Memory = x.memory
		errs := w.env(choices()[x.env]).Ask(w.ctx(), e)
		var refused *ProblemsError
		switch {
		case x.want == "" && len(errs) == 0:
		case x.want != "" && len(errs) == 1 && errors.As(errs[0], &refused) && refused.Problems[0].Field == x.want:
		default:
			t.Errorf("%+v: %v", x, errs)
		}
		if len(w.runs()) > 0 {
			t.Errorf("%+v: there is a run", x)
		}
	}
	w := newWorld(t, fake.Settings{}, refusing(all...))
	missing := errors.New("a secret isn't here")
	w.jobs.Prepare = func(context.Context, *control.SubmitRequest) []error { return []error{missing} }
	answered := 0
	w.jobs.Asking = func(control.SubmitRequest) func() { return func() { answered++ } }
	if errs := w.env(Choice{}).Ask(w.ctx(), script("exit 0")); len(errs) != 2 || !errors.Is(errs[0], missing) || answered != 1 {
		t.Errorf("%v, answered %d times", errs, answered)
	}
}

// TestTTL: ephemeral's own stands for one that isn't set.
func TestTTL(t *testing.T) {
	w := newWorld(t, fake.Settings{}, nil)
	for name, c := range choices() {
		res, err := w.env(c).Exec(w.ctx(), request(script("exit 0"), newOutput()))
		w.must(err)
		want := time.Duration(0)
		if name == Ephemeral {
			want = 300 * time.Second
		}
		if got := w.spec(res.RunID).TTL; got != want {
			t.Errorf("%s: ttl %s, want %s", name, got, want)
		}
	}
}

// TestNoRunner: a provider that can't run jobs, or can't end them, says so, and nothing
// is started.
func TestNoRunner(t *testing.T) {
	for _, x := range []struct {
		has  []string
		want string
	}{{[]string{}, "JobRunner"}, {[]string{sdk.Runner().String()}, "JobCanceler"}} {
		w := newWorld(t, fake.Settings{Capabilities: x.has}, nil)
		env := w.env(choices()[ProviderEphemeral])
		_, err := env.Exec(w.ctx(), request(script("exit 0"), newOutput()))
		asked := env.Ask(w.ctx(), script("exit 0"))
		for _, err := range append(asked, err) {
			if sdk.CodeOf(err) != sdk.Unimplemented || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "--allow-no-cancel") {
				t.Errorf("%v", err)
			}
		}
		if len(asked) != 1 || len(w.runs()) > 0 {
			t.Errorf("%d refusals, %d runs", len(asked), len(w.runs()))
		}
	}
}

// TestF21MemoryIsTold: a process that was killed for memory is told of a step that
// succeeded, and changes neither its state nor its code.
func TestF21MemoryIsTold(t *testing.T) {
	w := newWorld(t, fake.Settings{}, nil)
	for name, c := range choices() {
		res, err := w.env(c).Exec(w.ctx(), request(script("oom 0"), newOutput()))
		if err != nil || res.State != sdk.StateSucceeded || res.ExitCode == nil || *res.ExitCode != 0 || !res.OOM {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
		if res, err := w.env(c).Exec(w.ctx(), request(script("oom"), newOutput())); err != nil || res.Reason != sdk.ReasonOOMKilled || !res.OOM {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
		if res, err := w.env(c).Exec(w.ctx(), request(script("true"), newOutput())); err != nil || res.OOM || res.Partial {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
}

// TestF58OutputIsGone: a job that succeeded and whose output the backend has lost has an
// output that isn't whole, and says so.
func TestF58OutputIsGone(t *testing.T) {
	w := newWorld(t, fake.Settings{}, nil)
	w.cloud.Inject(fake.Fault{Op: fake.OpJobLogs, Kind: fake.FaultError, Status: 404, Code: "NotFound", Times: -1})
	res, err := w.env(Choice{}).Exec(w.ctx(), request(script("echo hello; exit 0"), newOutput()))
	if err != nil || res.State != sdk.StateSucceeded || res.Verdict != sdk.VerdictUnavailable || !res.Partial {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestF60OutputFromTheStart: a step follows from its submit, when nothing runs yet, to
// its end: all that comes late is there.
func TestF60OutputFromTheStart(t *testing.T) {
	w := newWorld(t, fake.Settings{}, nil)
	w.cloud.Change(func(k *fake.Knobs) {
		k.StartDelay, k.LateLogs = fake.Duration(300*time.Millisecond), fake.Duration(200*time.Millisecond)
	})
	for name, c := range choices() {
		o := newOutput()
		res, err := w.env(c).Exec(w.ctx(), request(script("lines 50; exit 0"), o))
		if err != nil || res.State != sdk.StateSucceeded || res.Partial || !strings.HasSuffix(o.text(sdk.StreamStdout), "line 48\nline 49\n") || strings.Count(o.text(sdk.StreamStdout), "\n") != 50 {
			t.Errorf("%s: %+v, %v, %q", name, res, err, o.text(sdk.StreamStdout))
		}
	}
}
