package control_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func TestRunToTheEnd(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	id := w.submit(e, request(spec("echo", "hello", ";", "err", "oops", ";", "exit", "3")))
	r := w.wait(e, id, control.MilestoneFinished)
	w.expect(r, sdk.StateFailed, sdk.ReasonNonzeroExit)
	if r.ExitCode == nil || *r.ExitCode != 3 {
		t.Fatalf("exit code %v, want 3", r.ExitCode)
	}
	out, verdict := w.output(e, id)
	if out[sdk.StreamStdout] != "hello\n" || out[sdk.StreamStderr] != "oops\n" || verdict != sdk.VerdictComplete {
		t.Fatalf("output %q, verdict %s", out, verdict)
	}
	a := w.attempts(id)
	if len(a) != 1 || a[0].Phase != ledger.PhaseCleaned || w.cloud.Made(a[0].ID) != 1 || len(w.cloud.Jobs()) != 0 {
		t.Fatalf("attempts %+v, left on the cloud: %v", a, w.cloud.Jobs())
	}
	w.sound(id)
}

func TestF75RowBeforeCall(t *testing.T) {
	// F89 too: the row, with actor and launch, is durable before the launch.
	w := newWorld(t)
	e := w.engine()
	entered, release := w.cloud.Block(fake.OpRunJob)
	id := w.submit(e, request(spec("true")))
	<-entered
	r, err := w.store.Run(w.ctx(), id)
	if err != nil {
		t.Fatal(err)
	}
	if r.Actor != "tester@test" || r.Phase != ledger.PhaseSubmitting || len(w.attempts(id)[0].Launch) == 0 {
		t.Fatalf("row before the call: %+v", r)
	}
	release()
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
}

func TestF89LedgerDownNoStart(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Submit(w.ctx(), request(spec("true"))); err == nil {
		t.Fatal("a submit without a ledger succeeded")
	}
	if n := w.cloud.Calls(fake.OpRunJob); n != 0 {
		t.Fatalf("%d starts without a ledger row", n)
	}
}

func TestRefusalsLeaveNoRow(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	bad := spec("true")
	bad.Memory, bad.Profile, bad.Labels = -1, "lax", map[string]string{"windlass-run": "x"}
	_, err := e.Submit(w.ctx(), request(bad))
	var ps *control.ProblemsError
	if !errors.As(err, &ps) || len(ps.Problems) != 3 || !errors.Is(err, sdk.InvalidArgument) {
		t.Fatalf("got %v, want three problems", err)
	}
	for r, err := range w.store.Runs(w.ctx(), ledger.RunFilter{}) {
		t.Fatalf("a row was left: %+v, %v", r, err)
	}
}

// TestRefusalsInOneRound: what no backend takes, what the guarantees rule out and
// what the driver lacks are told at once, each field once and in the driver's words.
func TestRefusalsInOneRound(t *testing.T) {
	g := fake.BestGuarantees()
	g.Grace = sdk.GraceGuarantee{}
	w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
	bad, grace := spec("true"), time.Second
	bad.Retries, bad.Grace, bad.GPU, bad.Secrets = -1, &grace, 1, map[string]sdk.SecretRef{"S": "secret://nowhere/x"}
	for name, call := range map[string]func() error{
		"submit": func() error { _, err := w.engine().Submit(w.ctx(), request(bad)); return err },
		"plan":   func() error { _, err := w.engine().Plan(w.ctx(), request(bad)); return err },
	} {
		var ps *control.ProblemsError
		if err := call(); !errors.As(err, &ps) {
			t.Fatalf("%s: %v", name, err)
		}
		var fields []string
		for _, p := range ps.Problems {
			fields = append(fields, p.Field)
		}
		if want := []string{"gpu", "grace", "retries", "secrets.S"}; !slices.Equal(fields, want) {
			t.Errorf("%s: got %q, want %q: %v", name, fields, want, ps)
		}
	}
}

// TestRefusalWithoutDriver: a driver that can't answer hides nothing, and the
// engine's own words say what to do.
func TestRefusalWithoutDriver(t *testing.T) {
	g := fake.BestGuarantees()
	g.Grace = sdk.GraceGuarantee{}
	w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
	w.cloud.Inject(fake.Fault{Op: fake.OpPrepareJob, Kind: fake.FaultError, Status: 503})
	bad, grace := spec("true"), time.Second
	bad.Grace = &grace
	_, err := w.engine().Plan(w.ctx(), request(bad))
	var ps *control.ProblemsError
	if !errors.As(err, &ps) || len(ps.Problems) != 1 || !strings.Contains(err.Error(), "can't be set on provider") {
		t.Errorf("%v", err)
	}
}

func TestIdempotencyKey(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	req := request(spec("true"))
	req.IdempotencyKey = "deploy-7"
	id := w.submit(e, req)
	again, err := e.Submit(w.ctx(), req)
	if err != nil || !again.Existing || again.Run.ID != id {
		t.Fatalf("second request: %+v, %v", again, err)
	}
	req.Spec = spec("false")
	if _, err := e.Submit(w.ctx(), req); !errors.Is(err, sdk.AlreadyExists) {
		t.Fatalf("another spec under the key: %v", err)
	}
	w.wait(e, id, control.MilestoneFinished)
	w.sound(id)
}

func TestPlanChangesNothing(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	p, err := e.Plan(w.ctx(), request(spec("true")))
	if err != nil || p.Launch.Kind != "fake" {
		t.Fatalf("plan %+v, %v", p, err)
	}
	if n := w.cloud.Calls(fake.OpRunJob); n != 0 || len(w.cloud.Jobs()) != 0 {
		t.Fatal("a plan reached the backend's mutating side")
	}
}

func TestF39SeenFirstWhenOver(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	id := w.submit(e, request(spec("true")))
	r := w.wait(e, id, control.MilestoneEnded)
	w.expect(r, sdk.StateSucceeded, sdk.ReasonCompleted)
	if r.ExitCode == nil || *r.ExitCode != 0 {
		t.Fatalf("exit code %v", r.ExitCode)
	}
}

func TestSuccessWithoutCode(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	w.cloud.Set(fake.Knobs{NoExitCode: true})
	id := w.submit(e, request(spec("exit", "4")))
	r := w.wait(e, id, control.MilestoneFinished)
	if r.State != sdk.StateFailed || r.ExitCode != nil {
		t.Fatalf("state %s with code %v: a missing code was invented", r.State, r.ExitCode)
	}
}

func TestRetries(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	s := spec("echo", "try", ";", "exit", "9")
	s.Retries = 1
	id := w.submit(e, request(s))
	r := w.wait(e, id, control.MilestoneFinished)
	w.expect(r, sdk.StateFailed, sdk.ReasonNonzeroExit)
	a := w.attempts(id)
	if len(a) != 2 || a[0].ID == a[1].ID || *a[0].ExitCode != 9 || *a[1].ExitCode != 9 {
		t.Fatalf("attempts: %+v", a)
	}
	out, _ := w.output(e, id)
	if out[sdk.StreamStdout] != "try\ntry\n" {
		t.Fatalf("output of both attempts: %q", out)
	}
	if len(w.cloud.Jobs()) != 0 {
		t.Fatalf("left behind: %v", w.cloud.Jobs())
	}
	w.sound(id)
}

func TestNoRetryOfRefusals(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	w.cloud.Set(fake.Knobs{MissingImages: []string{"img"}})
	s := spec("true")
	s.Retries = 3
	id := w.submit(e, request(s))
	r := w.wait(e, id, control.MilestoneFinished)
	w.expect(r, sdk.StateFailed, sdk.ReasonImagePull)
	if len(w.attempts(id)) != 1 {
		t.Fatal("an image that isn't there was tried again")
	}
}

func TestF78Cleanup(t *testing.T) {
	for _, c := range []struct {
		policy control.CleanupPolicy
		arg    string
		kept   bool
	}{
		{control.CleanupAlways, "0", false}, {control.CleanupAlways, "1", false},
		{control.CleanupOnSuccess, "0", false}, {control.CleanupOnSuccess, "1", true},
		{control.CleanupNever, "0", true}, {control.CleanupNever, "1", true},
	} {
		t.Run(string(c.policy)+c.arg, func(t *testing.T) {
			w := newWorld(t)
			e := w.engine()
			req := request(spec("exit", c.arg))
			req.Cleanup = c.policy
			id := w.submit(e, req)
			r := w.wait(e, id, control.MilestoneFinished)
			if kept := r.Phase == ledger.PhaseKept; kept != c.kept || (len(w.cloud.Jobs()) == 1) != c.kept {
				t.Fatalf("phase %s, on the cloud %v", r.Phase, w.cloud.Jobs())
			}
			if !c.kept {
				return
			}
			if err := e.Remove(w.ctx(), id, "tester@test"); err != nil || len(w.cloud.Jobs()) != 0 {
				t.Fatalf("remove: %v, left %v", err, w.cloud.Jobs())
			}
			w.sound(id)
		})
	}
}

func TestCleanupIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	w.cloud.Inject(fake.Fault{Op: fake.OpCleanupJob, Kind: fake.FaultError, Status: 503, Times: 2})
	id := w.submit(e, request(spec("true")))
	r := w.wait(e, id, control.MilestoneEnded)
	w.expect(r, sdk.StateSucceeded, sdk.ReasonCompleted)
	w.wait(e, id, control.MilestoneFinished)
	if len(w.cloud.Jobs()) != 0 || !w.warned("clean-up failed") {
		t.Fatalf("left %v, warnings %v", w.cloud.Jobs(), w.warnings)
	}
	w.sound(id)
}

func TestF17OurTimeoutEndsNothing(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	id := w.submit(e, request(spec("sleep", "300ms")))
	ctx, cancel := contextWithin(t, 20*time.Millisecond)
	defer cancel()
	if r, err := e.Wait(ctx, id, control.MilestoneEnded); err == nil || r.State.Terminal() {
		t.Fatalf("wait gave %s, %v", r.State, err)
	}
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
}
