package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/price"
	"github.com/windlass-run/windlass/sdk"
)

func TestReap(t *testing.T) {
	w := newWorld(t)
	if out := w.ok("reap"); out != "nothing was left behind\n" {
		t.Errorf("%q", out)
	}
	w.engine.reaped = []control.ReapItem{
		{Provider: "docker", Object: sdk.OwnedObject{Type: "container", ID: "c2"}, Why: "its run is running"},
		{Provider: "docker", Object: sdk.OwnedObject{Type: "container", ID: "c1", Name: "windlass-c1"}, Orphan: true, Why: "the ledger has no row of its run", Age: 3 * time.Hour, Removed: true},
		{Provider: "docker", Err: sdk.Errorf(sdk.Unavailable, "list", "no engine answers")},
	}
	out := w.ok("reap")
	if !strings.Contains(out, "windlass-c1") || !strings.Contains(out, "3h") || !strings.Contains(out, "no row of its run") || strings.Contains(out, "c2") || strings.Contains(out, "COST") {
		t.Errorf("%s", out)
	}
	if !strings.Contains(w.err.String(), "docker: left out") || strings.Contains(w.err.String(), "cost") {
		t.Errorf("%s", w.err.String())
	}
	if out := w.ok("reap", "-a"); !strings.Contains(out, "its run is running") || strings.Index(out, "c2") < strings.Index(out, "windlass-c1") {
		t.Errorf("%s", out)
	}
	validate(t, w.ok("reap", "-a", "--json"))
	w.engine.reaped[0].Also = []string{"again"}
	if out := w.ok("reap", "-a"); !strings.Contains(out, "docker, again") {
		t.Errorf("%s", out)
	}
	if out := w.ok("reap", "-a", "--json"); !strings.Contains(out, `"also": [`) {
		t.Errorf("%s", out)
	} else {
		validate(t, out)
	}
	w.engine.reaped = append(w.engine.reaped, control.ReapItem{Provider: "docker", Object: sdk.OwnedObject{ID: "c3"}, Orphan: true, Err: sdk.Errorf(sdk.PermissionDenied, "remove", "no")})
	w.fails(ExitWindlass, "reap")
	w.fails(ExitWindlass, "reap", "--on", "nowhere")
	w.engine.reaped = []control.ReapItem{{Provider: "far", Err: sdk.Errorf(sdk.Unavailable, "list", "no answer")}}
	for _, how := range [][]string{{"reap"}, {"reap", "--dry-run", "-a"}, {"reap", "--json"}} {
		if text := w.fails(ExitWindlass, how...); strings.Contains(text+w.out.String(), "nothing was left") || !strings.Contains(text+w.out.String(), "no answer") {
			t.Errorf("%q, of a configured provider that can't be looked at: %s%s", how, w.out.String(), text)
		}
	}
	w.engine.reaped = []control.ReapItem{{Provider: "docker", Err: sdk.Errorf(sdk.PermissionDenied, "list", "no")}}
	if text := w.fails(ExitWindlass, "reap", "--on", "docker"); strings.Contains(text+w.out.String(), "nothing was left") {
		t.Errorf("what wasn't looked at was said to be empty: %s%s", w.out.String(), text)
	}
}

// TestReapDryRun: everything with our labels is listed, what would go first, with
// why, how old it is and about what it costs; what has no known price has an
// empty cell.
func TestReapDryRun(t *testing.T) {
	w := newWorld(t)
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	run := sdk.ID{15: 7, 6: 0x70, 8: 0x80}
	size := sdk.OwnedSize{CPU: 1000, Memory: 2 << 30, Class: "FARGATE"}
	w.engine.reaped = []control.ReapItem{
		{Provider: "prod", Kind: "aws-ecs", At: now, Object: sdk.OwnedObject{Type: "task", ID: "t1", RunID: run, Owner: "ci", Live: true, Started: now.Add(-2 * time.Hour), Size: size}, Why: "its run is running", Age: 2 * time.Hour},
		{Provider: "prod", Kind: "aws-ecs", At: now, Object: sdk.OwnedObject{Type: "task", ID: "t2", Live: true, Started: now.Add(-10 * time.Hour), Size: size}, Orphan: true, Why: "its run was given up as lost, and it still runs", Age: 10 * time.Hour},
		{Provider: "prod", Kind: "aws-ecs", At: now, Object: sdk.OwnedObject{Type: "task-definition", ID: "d", Name: "windlass-with-a-name-of-42-characters-or-so:1", Owner: run.String(), Shared: true}, Orphan: true, Why: "shared, and nothing uses it"},
		{Provider: "here", Kind: "docker", At: now, Object: sdk.OwnedObject{Type: "container", ID: "c", Live: true, Started: now.Add(-time.Hour)}, Why: "belongs to another ledger and is in use"},
	}
	out := w.ok("reap", "--dry-run")
	want := strings.Join([]string{
		"PROVIDER  TYPE             NAME                                           RUN         OWNER       AGE  COST                         WHAT      WHY",
		"prod      task             t2                                                                     10h  about $0.05/h, $0.49 so far  would go  its run was given up as lost, and it still runs",
		"prod      task-definition  windlass-with-a-name-of-42-characters-or-so:1              0000000007       nothing                      would go  shared, and nothing uses it",
		"prod      task             t1                                             0000000007  ci          2h   about $0.05/h, $0.10 so far  stays     its run is running",
		"here      container        c                                                                                                        stays     belongs to another ledger and is in use", ""}, "\n")
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	if e := w.err.String(); !strings.Contains(e, "list prices of "+price.Date) || !strings.Contains(e, "what would go costs about $0.05/h") {
		t.Errorf("%s", e)
	}
	wide := func(f *Factory) { f.Streams.OutTerminal, f.Streams.NoColor, f.Streams.Width = true, true, 120 }
	if code := w.runIn(t.Context(), wide, "reap", "--dry-run"); code != ExitOK {
		t.Fatalf("exit %d: %s", code, w.err.String())
	}
	want = strings.Join([]string{
		"PROVIDER  TYPE             NAME                       RUN         OWNER       AGE  COST                         WHAT",
		"prod      task             t2                                                 10h  about $0.05/h, $0.49 so far  would go",
		"    its run was given up as lost, and it still runs",
		"prod      task-definition  windlass-wit…ters-or-so:1              0000000007       nothing                      would go",
		"    shared, and nothing uses it",
		"prod      task             t1                         0000000007  ci          2h   about $0.05/h, $0.10 so far  stays",
		"    its run is running",
		"here      container        c                                                                                    stays",
		"    belongs to another ledger and is in use", ""}, "\n")
	if out := w.out.String(); out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	out = w.ok("reap", "--dry-run", "--json")
	validate(t, out)
	for _, part := range []string{`"hourly_usd": 0.04937`, `"total_usd": 0.4937`, `"date": "` + price.Date + `"`, `"region": "us-east-1"`, `"hourly_usd": 0,`} {
		if !strings.Contains(out, part) {
			t.Errorf("no %s in %s", part, out)
		}
	}
	if strings.Count(out, `"cost"`) != 3 {
		t.Errorf("%s", out)
	}
	w.engine.reaped = w.engine.reaped[:1]
	for _, args := range [][]string{{"reap", "--dry-run"}, {"reap", "--dry-run", "-a"}, {"reap", "-a"}} {
		if out := w.ok(args...); !strings.HasPrefix(out, "PROVIDER") || !strings.Contains(out, "its run is running") || !strings.Contains(w.err.String(), "nothing was left behind: all of this stays") {
			t.Errorf("%v: %s%s", args, out, w.err.String())
		}
	}
}

// TestReapTakesUp: what nobody drives is taken up by the keeper, or by this command
// where there is none or it can't be started; what then goes on is told.
func TestReapTakesUp(t *testing.T) {
	w := newWorld(t)
	k := &quickKeeper{}
	w.keeper, w.env["WINDLASS_KEEPER"] = k, "on"
	w.ok("reap")
	if w.engine.reapedFor.TakeUp == nil || w.engine.reapedFor.TakeUp(t.Context()) != nil {
		t.Error("the keeper isn't asked")
	}
	k.err = errors.New("it can't be started")
	if err := w.engine.reapedFor.TakeUp(t.Context()); err == nil || !strings.Contains(w.err.String(), "taken up by this command alone: it can't be started") {
		t.Errorf("%v: %s", err, w.err.String())
	}
	w.env["WINDLASS_KEEPER"] = "off"
	w.engine.held = []sdk.ID{w.engine.id(), w.engine.id()}
	w.ok("reap")
	if w.engine.reapedFor.TakeUp != nil || !strings.Contains(w.err.String(), "2 runs go on and aren't looked after once this command has ended") {
		t.Errorf("%s", w.err.String())
	}
}
