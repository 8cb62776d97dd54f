package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// behind is a clock that is behind.
type behind time.Duration

func (b behind) Now() time.Time { return time.Now().Add(-time.Duration(b)) }

func (behind) Sleep(ctx context.Context, d time.Duration) error {
	return sdk.SystemClock().Sleep(ctx, d)
}

// left leaves the row of a create of the box "a", whose command was killed behind the
// call, or before it: so long ago that no call goes on any more.
func (k *keeping) left(sent bool) string {
	k.t.Helper()
	return k.leftAgo(sent, time.Minute)
}

func (k *keeping) leftAgo(sent bool, age time.Duration) string {
	k.t.Helper()
	store, err := sqlite.Open(k.t.Context(), k.state, sqlite.Options{Clock: behind(age)})
	if err != nil {
		k.t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			k.t.Error(err)
		}
	}()
	p, err := fake.NewDriver(k.cloud, fake.Settings{}).Open(k.t.Context(), sdk.OpenRequest{Name: "shelf", Owner: "me", LedgerID: store.ID(), StateDir: k.dir})
	if err != nil {
		k.t.Fatal(err)
	}
	id := sdk.NewIDSource(sdk.SystemClock()).NewID()
	q := &ledger.Requested{Actor: "dead@test", Action: "resource.create", Target: "fake.box/a", Name: "a", Provider: "shelf", Identity: p.Info().Identity,
		Spec: []byte(`{"config":"{\"label\":\"x\"}","name":"a","type":"fake.box","v":1}`)}
	if err := store.Write(k.t.Context(), ledger.Write{Run: id, Events: []ledger.NewEvent{{Kind: ledger.KindRequested, Actor: q.Actor,
		Change: ledger.Change{V: ledger.ChangeVersion, Requested: q}}}}); err != nil {
		k.t.Fatal(err)
	}
	if sent {
		d, _ := sdk.Of(p, sdk.Resources())
		if _, err := d.CreateResource(k.t.Context(), sdk.CreateResourceRequest{OpID: id, Spec: sdk.ResourceSpec{Name: "a", Type: fake.TypeBox, Config: []byte(`{"label":"x"}`)}}); err != nil {
			k.t.Fatal(err)
		}
	}
	return id.String()
}

// cmd runs the program and wants a code.
func (k *keeping) cmd(ctx context.Context, code int, args ...string) string {
	k.t.Helper()
	if got := k.runIn(ctx, k.on, args...); got != code {
		k.t.Fatalf("windlass %s: exit %d, want %d\nstdout: %s\nstderr: %s", strings.Join(args, " "), got, code, k.out.String(), k.err.String())
	}
	return k.out.String()
}

func (k *keeping) status(id string) RunView {
	k.t.Helper()
	out := k.cmd(k.t.Context(), 0, "status", "--json", id)
	validate(k.t, out)
	return decode[RunView](k.t, out)
}

// TestKilledChangeIsSettled: each command that looks at what there is asks what became of
// a change whose command was killed, says it and closes the row.
func TestKilledChangeIsSettled(t *testing.T) {
	for _, args := range [][]string{{"ps"}, {"ps", "--json"}, {"doctor"}, {"reap"}, {"status", "ROW"}, {"wait", "ROW"}, {"cancel", "ROW"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			k := newKeeping(t)
			id := k.left(true)
			for i := range args {
				args[i] = strings.Replace(args[i], "ROW", id, 1)
			}
			_ = k.runIn(t.Context(), k.on, args...) // doctor finds what else is missing here
			said := k.out.String() + k.err.String()
			switch args[0] {
			case "ps", "doctor", "reap":
				if !strings.Contains(said, "resource.create of fake.box/a by dead@test") || !strings.Contains(said, "reading it back proves the change") {
					t.Errorf("%v said %s", args, said)
				}
			}
			if v := k.status(id); v.State != sdk.StateSucceeded || v.FinishedAt == nil {
				t.Errorf("after %v the row is %+v", args, v)
			}
			if k.cmd(t.Context(), 0, "ps"); strings.Contains(k.err.String(), "killed") {
				t.Errorf("said again: %s", k.err.String())
			}
		})
	}
}

// TestKilledChangeOfADumbProvider: what can't be told stays open and is said, by each
// command that looks; wait goes on looking until it is told; and a person may close it.
func TestKilledChangeOfADumbProvider(t *testing.T) {
	k := newKeeping(t)
	id := k.left(true)
	k.cloud.Inject(fake.Fault{Op: fake.OpReadResource, Kind: fake.FaultReset, Times: -1})
	k.cmd(t.Context(), 0, "ps")
	if e := k.err.String(); !strings.Contains(e, "can't be told at the moment") || !strings.Contains(e, "windlass wait ") {
		t.Errorf("ps: %s", e)
	}
	if v := k.status(id); v.State != sdk.StateUnknown || v.FinishedAt != nil || !strings.Contains(v.Message, "can't be told") {
		t.Errorf("%+v", v)
	}
	k.cmd(t.Context(), ExitWindlass, "wait", "--timeout", "50ms", id)
	if e := k.err.String(); !strings.Contains(e, "hasn't ended within") {
		t.Errorf("wait: %s", e)
	}
	k.cmd(t.Context(), ExitWindlass, "cancel", id)
	if e := k.err.String(); !strings.Contains(e, "is no run") || !strings.Contains(e, "windlass explain row.open") {
		t.Errorf("cancel: %s", e)
	}
	k.cmd(t.Context(), 0, "abandon", id, "--reason", "the engine is gone")
	if v := k.status(id); v.State != sdk.StateLost || v.FinishedAt == nil {
		t.Errorf("%+v", v)
	}
	k.cmd(t.Context(), 0, "ledger", "verify")
}

// TestKilledChangeMayStillCome: where the call of a killed command may still be carried out,
// each command that looks says so, and until when, and none closes the row.
func TestKilledChangeMayStillCome(t *testing.T) {
	k := newKeeping(t)
	id := k.leftAgo(false, 0)
	for _, args := range [][]string{{"ps"}, {"reap"}, {"resource", "apply", "-f", "r.yaml"}} {
		k.file("r.yaml", "resources:\n  - {name: a, type: fake.box, provider: shelf}\n")
		_ = k.runIn(t.Context(), k.on, args...)
		if e := k.err.String(); !strings.Contains(e, "can't be told at the moment") || !strings.Contains(e, "may still come: a call has 30s") {
			t.Errorf("%v: %s", args, e)
		}
	}
	if e := k.err.String(); !strings.Contains(e, "to do: repeat it in ") || !strings.Contains(e, "windlass wait ") {
		t.Errorf("apply: %s", e)
	}
	if v := k.status(id); v.State != sdk.StateUnknown || v.FinishedAt != nil || !strings.Contains(v.Message, "may still come") {
		t.Errorf("%+v", v)
	}
	if k.rows() != 1 || k.cloud.Calls(fake.OpCreateResource) != 0 {
		t.Errorf("%d rows, %d calls", k.rows(), k.cloud.Calls(fake.OpCreateResource))
	}
}

// TestWaitForAChange: a change that can't be told of yet is looked at until it can, and
// what is advised then can be done.
func TestWaitForAChange(t *testing.T) {
	k := newKeeping(t)
	id := k.left(true)
	k.cloud.Inject(fake.Fault{Op: fake.OpReadResource, Kind: fake.FaultReset})
	k.cmd(t.Context(), 0, "wait", id)
	if e := k.err.String(); !strings.Contains(e, "looking again") {
		t.Errorf("wait: %s", e)
	}
	k = newKeeping(t)
	id = k.left(false)
	k.cmd(t.Context(), ExitWindlass, "wait", id)
	e := k.err.String()
	if !strings.Contains(e, "it isn't there now") || strings.Contains(e, "rerun") || !strings.Contains(e, "windlass resource diff -f FILE a") {
		t.Errorf("wait: %s", e)
	}
}

// TestStatusOfAResourceRow has the provider's ID and the outputs, and no secret.
func TestStatusOfAResourceRow(t *testing.T) {
	k := newKeeping(t)
	k.file("r.yaml", "resources:\n  - {name: a, type: fake.box, provider: shelf, config: {label: x, items: 12, key: canary}}\n")
	change := decode[[]ResourceChangeView](t, k.res(0, "apply", "--json"))[0]
	v := k.status(change.Rows[0])
	came, _ := v.Outcome.(map[string]any)
	outputs, _ := came["outputs"].(map[string]any)
	if came["provider_id"] != change.ProviderID || outputs["label"] != "x" || outputs["key"] != sdk.Redacted {
		t.Errorf("outcome %v", v.Outcome)
	}
	text := k.cmd(t.Context(), 0, "status", change.Rows[0])
	for _, want := range []string{"Outcome ", "provider_id: " + change.ProviderID, "outputs.label: x", "outputs.items: 12", sdk.Redacted} {
		if !strings.Contains(text, want) {
			t.Errorf("status lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "canary") {
		t.Errorf("status shows a secret:\n%s", text)
	}
}

// TestRemoveOfAResourceRow says that there is nothing to remove, and how the resource goes.
func TestRemoveOfAResourceRow(t *testing.T) {
	k := newKeeping(t)
	k.file("r.yaml", "resources:\n  - {name: a, type: fake.box, provider: shelf}\n")
	row := decode[[]ResourceChangeView](t, k.res(0, "apply", "--json"))[0].Rows[0]
	for _, args := range [][]string{{"rm", row}, {"rm", "--force", row}} {
		k.cmd(t.Context(), ExitWindlass, args...)
		if e := k.err.String(); !strings.Contains(e, "is the record of resource.create of fake.box/a") || !strings.Contains(e, "windlass resource delete -f FILE a") || k.out.String() != "" {
			t.Errorf("%v: %s", args, e)
		}
	}
	if k.cmd(t.Context(), 0, "status", row); !strings.Contains(k.out.String(), "It was done.") {
		t.Errorf("status: %s", k.out.String())
	}
}
