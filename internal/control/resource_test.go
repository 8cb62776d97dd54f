package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func box(name, config string) control.ResourceRequest {
	return control.ResourceRequest{Provider: "fake", Actor: "tester@test",
		Spec: sdk.ResourceSpec{Name: name, Type: fake.TypeBox, Config: json.RawMessage(config)}}
}

// rowOf reads a row, with the detail of its end.
func (w *world) rowOf(id sdk.ID) (ledger.Run, map[string]string) {
	w.t.Helper()
	run, err := w.store.Run(w.ctx(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	var c ledger.Change
	for ev, err := range w.store.Events(w.ctx(), ledger.EventFilter{Run: id, Kinds: []ledger.Kind{ledger.KindFinished}}) {
		if err == nil {
			err = json.Unmarshal(ev.Change, &c)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return run, c.Detail
}

func (w *world) rows() int {
	w.t.Helper()
	n := 0
	for _, err := range w.store.Runs(w.ctx(), ledger.RunFilter{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		n++
	}
	return n
}

func (w *world) apply(e *control.Engine, req control.ResourceRequest, replace bool) control.ResourceOutcome {
	w.t.Helper()
	out, err := e.ApplyResource(w.ctx(), req, replace)
	if err != nil {
		w.t.Fatalf("apply: %v", err)
	}
	return out
}

// TestResourceLife makes, leaves, changes, replaces, scales and deletes a resource:
// each call that changes something has one row, and nothing else has.
func TestResourceLife(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	first := box("a", `{"label":"x","wood":"oak","key":"canary-key"}`)
	plan, err := e.DiffResource(w.ctx(), first)
	if err != nil || plan.Action != control.ResourceCreate || plan.Current != nil || w.rows() != 0 {
		t.Fatalf("plan %+v, %v, %d rows", plan, err, w.rows())
	}
	out := w.apply(e, first, false)
	if out.Action != control.ResourceCreate || len(out.Rows) != 1 || out.Output == nil {
		t.Fatalf("create: %+v", out)
	}
	run, detail := w.rowOf(out.Rows[0])
	if run.Action != "resource.create" || run.Target != "fake.box/a" || run.Actor != "tester@test" || run.State != sdk.StateSucceeded || run.Open() ||
		run.SpecHash == "" || run.Name != "a" || detail["provider_id"] != out.Output.ProviderID || detail["status"] != "there" {
		t.Errorf("row %+v, detail %v", run, detail)
	}
	if !strings.Contains(string(run.Spec), `wood`) {
		t.Errorf("the row's spec is %s", run.Spec)
	}
	if out := w.apply(e, first, false); out.Action != control.ResourceNothing || len(out.Rows) != 0 || w.rows() != 1 {
		t.Errorf("the same again: %+v, %d rows", out, w.rows())
	}
	st, err := e.ReadResource(w.ctx(), first)
	if err != nil || st.OpID != out.Rows[0] || st.LedgerID != w.store.ID() {
		t.Errorf("read %+v, %v", st, err)
	}
	changed := w.apply(e, box("a", `{"label":"y","wood":"oak","key":"canary-key"}`), false)
	if changed.Action != control.ResourceUpdate || len(changed.Rows) != 1 {
		t.Errorf("update: %+v", changed)
	}
	elm := box("a", `{"label":"y","wood":"elm"}`)
	_, err = e.ApplyResource(w.ctx(), elm, false)
	var refused *sdk.Error
	if !errors.As(err, &refused) || refused.ID != control.ErrResourceReplace || refused.Code != sdk.FailedPrecondition || !strings.Contains(err.Error(), "wood") || w.rows() != 2 {
		t.Errorf("a replacement that nobody asked for: %v, %d rows", err, w.rows())
	}
	if out := w.apply(e, elm, true); out.Action != control.ResourceReplace || len(out.Rows) != 2 {
		t.Errorf("replace: %+v", out)
	}
	if out, err := e.ScaleResource(w.ctx(), elm, 3); err != nil || !strings.Contains(string(out.Output.Outputs), `"replicas":3`) {
		t.Errorf("scale: %+v, %v", out, err)
	}
	if h, err := e.HealthCheckResource(w.ctx(), elm); err != nil || !h.Healthy {
		t.Errorf("health: %+v, %v", h, err)
	}
	gone, err := e.DeleteResource(w.ctx(), elm)
	if err != nil || len(gone.Rows) != 1 {
		t.Fatalf("delete: %+v, %v", gone, err)
	}
	if _, err := e.ReadResource(w.ctx(), elm); sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("read what is gone: %v", err)
	}
	if w.rows() != 6 {
		t.Errorf("%d rows, want 6", w.rows())
	}
	rep, err := w.store.Verify(w.ctx(), nil)
	if err != nil || len(rep.Faults) > 0 {
		t.Errorf("ledger: %+v, %v", rep.Faults, err)
	}
	// No value of a sensitive member stands in the ledger.
	for ev, err := range w.store.Events(w.ctx(), ledger.EventFilter{}) {
		if err != nil || strings.Contains(string(ev.Change), "canary-key") {
			t.Errorf("event %d: %v %s", ev.Seq, err, ev.Change)
		}
	}
}

// TestF89NoRowNoResourceChange: where the ledger takes no row, no call is made.
func TestF89NoRowNoResourceChange(t *testing.T) {
	w := newWorld(t)
	w.apply(w.engine(), box("a", "{}"), false)
	w.count = func(s ledger.Store) ledger.Store { return refusing{s} }
	e := w.engine()
	for _, req := range []control.ResourceRequest{box("b", "{}"), box("a", `{"items":3}`)} {
		if _, err := e.ApplyResource(w.ctx(), req, false); sdk.CodeOf(err) != sdk.ResourceExhausted {
			t.Errorf("apply %s: %v", req.Spec.Name, err)
		}
	}
	if _, err := e.DeleteResource(w.ctx(), box("a", "{}")); sdk.CodeOf(err) != sdk.ResourceExhausted {
		t.Errorf("delete: %v", err)
	}
	if _, err := e.ScaleResource(w.ctx(), box("a", "{}"), 2); sdk.CodeOf(err) != sdk.ResourceExhausted {
		t.Errorf("scale: %v", err)
	}
	for op, want := range map[fake.Op]int{fake.OpCreateResource: 1, fake.OpUpdateResource: 0, fake.OpDeleteResource: 0, fake.OpScaleResource: 0} {
		if n := w.cloud.Calls(op); n != want {
			t.Errorf("%s was called %d times", op, n)
		}
	}
}

// refusing is a full ledger.
type refusing struct{ ledger.Store }

func (refusing) Write(context.Context, ledger.Write) error {
	return sdk.Errorf(sdk.ResourceExhausted, "write ledger", "the disk is full")
}

// TestResourceLostReplies loses the reply of each verb: reading back proves what
// happened, and nothing is sent twice.
func TestResourceLostReplies(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	lose := func(op fake.Op) { w.cloud.Inject(fake.Fault{Op: op, Kind: fake.FaultLostReply}) }
	check := func(what string, out control.ResourceOutcome, err error, op fake.Op, calls int) {
		t.Helper()
		if err != nil || !out.ReadBack || len(out.Rows) != 1 {
			t.Errorf("%s: %+v, %v", what, out, err)
			return
		}
		run, detail := w.rowOf(out.Rows[0])
		if run.State != sdk.StateSucceeded || detail["read_back"] != "true" || w.cloud.Calls(op) != calls {
			t.Errorf("%s: row %s %s, detail %v, %d calls", what, run.State, run.Reason, detail, w.cloud.Calls(op))
		}
	}
	lose(fake.OpCreateResource)
	out, err := e.ApplyResource(w.ctx(), box("a", `{"label":"x"}`), false)
	check("create", out, err, fake.OpCreateResource, 1)
	lose(fake.OpUpdateResource)
	out, err = e.ApplyResource(w.ctx(), box("a", `{"label":"y"}`), false)
	check("update", out, err, fake.OpUpdateResource, 1)
	lose(fake.OpScaleResource)
	out, err = e.ScaleResource(w.ctx(), box("a", ""), 2)
	check("scale", out, err, fake.OpScaleResource, 1)
	lose(fake.OpDeleteResource)
	out, err = e.DeleteResource(w.ctx(), box("a", ""))
	check("delete", out, err, fake.OpDeleteResource, 1)
}

// TestResourceUnconfirmed: a call that never reached the backend is no success, and no
// definite failure either. It may still be carried out at first; later it is lost.
func TestResourceUnconfirmed(t *testing.T) {
	w := newWorld(t, withCallTime)
	e := w.engine()
	w.cloud.Inject(fake.Fault{Op: fake.OpCreateResource, Kind: fake.FaultReset})
	out, err := e.ApplyResource(w.ctx(), box("a", "{}"), false)
	var doubt *sdk.Error
	if !errors.As(err, &doubt) || doubt.ID != control.ErrResourceUnconfirmed || sdk.IsClear(err) || len(out.Rows) != 1 || doubt.RetryAfter <= 0 || !strings.Contains(doubt.Remedy, "repeat it in ") {
		t.Fatalf("got %+v, %v", out, err)
	}
	run, _ := w.rowOf(out.Rows[0])
	if run.State != sdk.StateUnknown || run.Reason != sdk.ReasonSubmitUnconfirmed || !run.Open() || !run.Holder.IsZero() || !strings.Contains(run.Message, "isn't there now") {
		t.Errorf("row %s %s: %s", run.State, run.Reason, run.Message)
	}
	if _, err := e.ApplyResource(w.ctx(), box("a", "{}"), false); !errors.As(err, &doubt) || doubt.ID != control.ErrResourceUnconfirmed || w.rows() != 1 {
		t.Errorf("again at once: %v, %d rows", err, w.rows())
	}
	w.clock.step(2 * callTime)
	again := w.apply(e, box("a", "{}"), false)
	if again.Action != control.ResourceCreate {
		t.Errorf("again: %+v", again)
	}
	run, _ = w.rowOf(out.Rows[0])
	if run.State != sdk.StateLost || run.Reason != sdk.ReasonSubmitUnconfirmed || run.Open() || !strings.Contains(run.Message, "isn't there now") {
		t.Errorf("row %s %s: %s", run.State, run.Reason, run.Message)
	}
	// Somebody else's resource of that name proves nothing of ours.
	w.cloud.Inject(fake.Fault{Op: fake.OpCreateResource, Kind: fake.FaultReset})
	w.wrap = func(p sdk.Provider) sdk.Provider {
		d, _ := sdk.Of(p, sdk.Resources())
		out, err := sdk.Decorate(p, map[string]any{sdk.Resources().String(): &overtaken{d, w.cloud}})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out, err = w.engine().ApplyResource(w.ctx(), box("b", "{}"), false)
	if !errors.As(err, &doubt) || doubt.ID != control.ErrResourceUnconfirmed || !strings.Contains(err.Error(), "is there now") {
		t.Errorf("got %+v, %v", out, err)
	}
}

// overtaken is a backend on which somebody else makes the resource meanwhile.
type overtaken struct {
	sdk.ResourceDriver
	cloud *fake.Cloud
}

func (o *overtaken) CreateResource(ctx context.Context, r sdk.CreateResourceRequest) (sdk.CreateResourceResult, error) {
	res, err := o.ResourceDriver.CreateResource(ctx, r)
	return res, errors.Join(err, o.cloud.ForgeResource(r.Spec.Name))
}

// TestSensitiveKeysFailClosed: where nothing says what is sensitive, no value is shown
// or kept.
func TestSensitiveKeysFailClosed(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	w.cloud.Inject(fake.Fault{Op: fake.OpSensitiveKeys, Kind: fake.FaultError, Status: 503, Times: -1})
	req := box("a", `{"label":"canary-label","key":"canary-key"}`)
	out := w.apply(e, req, false)
	st, err := e.ReadResource(w.ctx(), req)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := e.DiffResource(w.ctx(), box("a", `{"label":"canary-other"}`))
	if err != nil || len(plan.Changes) != 2 {
		t.Fatalf("plan %+v, %v", plan, err)
	}
	shown, err := json.Marshal([]any{out, st, plan})
	if err != nil || strings.Contains(string(shown), "canary") || !strings.Contains(string(shown), sdk.Redacted) {
		t.Errorf("shown: %s, %v", shown, err)
	}
	for ev, err := range w.store.Events(w.ctx(), ledger.EventFilter{}) {
		if err != nil || strings.Contains(string(ev.Change), "canary") {
			t.Errorf("event %d: %v %s", ev.Seq, err, ev.Change)
		}
	}
}

// TestResourceBusy: of two changes of one resource the second is refused, and names the
// first; those of others go on.
func TestResourceBusy(t *testing.T) {
	w := newWorld(t)
	a, b := w.engine(), w.engine()
	entered, release := w.cloud.Block(fake.OpCreateResource)
	defer release()
	type result struct {
		out control.ResourceOutcome
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := a.ApplyResource(w.ctx(), box("a", "{}"), false)
		done <- result{out, err}
	}()
	<-entered
	_, err := b.DeleteResource(w.ctx(), box("a", "{}"))
	var busy *sdk.Error
	if !errors.As(err, &busy) || busy.ID != control.ErrResourceBusy || !strings.Contains(err.Error(), "tester@test") || w.cloud.Calls(fake.OpDeleteResource) != 0 {
		t.Errorf("delete beside create: %v", err)
	}
	if _, err := b.DeleteResource(w.ctx(), box("other", "{}")); err != nil {
		t.Errorf("another resource: %v", err)
	}
	release()
	if r := <-done; r.err != nil {
		t.Errorf("create: %v", r.err)
	}
	if _, err := b.DeleteResource(w.ctx(), box("a", "{}")); err != nil {
		t.Errorf("delete afterwards: %v", err)
	}
}

// TestResourceRefusals: what is known to be impossible is told by the plan and refused in
// the same words, before a row is written and a call made.
func TestResourceRefusals(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	if err := w.cloud.ForgeResource("theirs"); err != nil {
		t.Fatal(err)
	}
	place := func(name string) control.ResourceRequest {
		return control.ResourceRequest{Provider: "fake", Actor: "me", Spec: sdk.ResourceSpec{Name: name, Type: fake.TypePlace}}
	}
	unknown := place("x")
	unknown.Spec.Type = "fake.bix"
	sized := box("b", "{}")
	sized.Spec.Size = "large"
	for name, c := range map[string]struct {
		req    control.ResourceRequest
		action control.ResourceAction
		code   sdk.Code
		field  string
		words  string
	}{
		"no such change":   {place("elsewhere"), control.ResourceCreate, sdk.Unimplemented, "type", "provisioned elsewhere"},
		"somebody else's":  {box("theirs", `{"items":3}`), control.ResourceUpdate, sdk.FailedPrecondition, "name", "wasn't made by windlass resource"},
		"another in place": {box("theirs", `{"wood":"elm"}`), control.ResourceReplace, sdk.FailedPrecondition, "name", "wasn't made by windlass resource"},
		"an unknown type":  {unknown, "", sdk.InvalidArgument, "type", "fake.bix"},
		"the schema":       {box("b", `{"items":"x"}`), "", sdk.InvalidArgument, "config.items", "whole number"},
		"the driver":       {sized, "", sdk.InvalidArgument, "size", "no size"},
	} {
		plan, err := e.DiffResource(w.ctx(), c.req)
		if err != nil || plan.Action != c.action || len(plan.Problems) != 1 || plan.Problems[0].Code != c.code || plan.Problems[0].Field != c.field ||
			!strings.Contains(plan.Problems[0].Message, c.words) {
			t.Errorf("%s: plan %+v, %v", name, plan, err)
		}
		out, err := e.ApplyResource(w.ctx(), c.req, true)
		var refused *sdk.Error
		if !errors.As(err, &refused) || refused.Code != c.code || !strings.Contains(err.Error(), c.words) || len(out.Rows) != 0 {
			t.Errorf("%s: apply gives %+v, %v", name, out, err)
		}
	}
	if plan, err := e.DiffResource(w.ctx(), box("theirs", "{}")); err != nil || plan.Action != control.ResourceNothing || len(plan.Problems) != 0 {
		t.Errorf("somebody else's that is as wanted: %+v, %v", plan, err)
	}
	if _, err := e.DeleteResource(w.ctx(), box("theirs", "{}")); sdk.CodeOf(err) != sdk.FailedPrecondition {
		t.Errorf("delete somebody else's: %v", err)
	}
	for what, call := range map[string]func(control.ResourceRequest) error{
		"delete": func(r control.ResourceRequest) error { _, err := e.DeleteResource(w.ctx(), r); return err },
		"scale":  func(r control.ResourceRequest) error { _, err := e.ScaleResource(w.ctx(), r, 2); return err },
	} {
		if err := call(place(fake.PlaceName)); sdk.CodeOf(err) != sdk.Unimplemented {
			t.Errorf("%s a place: %v", what, err)
		}
	}
	if st, err := e.ReadResource(w.ctx(), place(fake.PlaceName)); err != nil || st.Output.Name != fake.PlaceName {
		t.Errorf("read a place: %+v, %v", st, err)
	}
	bad := box("a", "{}")
	bad.Actor = ""
	if _, err := e.ApplyResource(w.ctx(), bad, false); sdk.CodeOf(err) != sdk.InvalidArgument {
		t.Errorf("without an actor: %v", err)
	}
	if n := w.rows(); n != 0 {
		t.Errorf("%d rows, want none", n)
	}
}

// TestWrongSpecAsksNobody: what is wrong with a spec by itself is told before the backend
// is asked about the resource, whose own words for it would be others.
func TestWrongSpecAsksNobody(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	sized := box("b", "{}")
	sized.Spec.Size = "large"
	if _, err := e.ApplyResource(w.ctx(), sized, false); sdk.CodeOf(err) != sdk.InvalidArgument || w.cloud.Calls(fake.OpReadResource) != 0 {
		t.Errorf("%v, %d reads", err, w.cloud.Calls(fake.OpReadResource))
	}
}

// TestResourceDeleteOfNothing leaves no row.
func TestResourceDeleteOfNothing(t *testing.T) {
	w := newWorld(t)
	out, err := w.engine().DeleteResource(w.ctx(), box("a", "{}"))
	if err != nil || out.Action != control.ResourceNothing || w.rows() != 0 || w.cloud.Calls(fake.OpDeleteResource) != 0 {
		t.Errorf("%+v, %v, %d rows", out, err, w.rows())
	}
}

// TestResourceRefusedByTheProvider: a refusal that nobody could foresee has its row, with
// a reason that doesn't blame the request.
func TestResourceRefusedByTheProvider(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	w.apply(e, box("a", "{}"), false)
	w.cloud.Inject(fake.Fault{Op: fake.OpDeleteResource, Kind: fake.FaultError, Status: 412})
	out, err := e.DeleteResource(w.ctx(), box("a", "{}"))
	if err == nil || len(out.Rows) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	if run, _ := w.rowOf(out.Rows[0]); run.State != sdk.StateFailed || run.Reason != sdk.ReasonRefused || run.Open() {
		t.Errorf("row %+v after %v", run, err)
	}
}

// TestResourceWithoutCapability: a provider that keeps no resources says so.
func TestResourceWithoutCapability(t *testing.T) {
	w := newWorld(t, withSettings(fake.Settings{Capabilities: []string{"JobRunner", "ResourceDriver"}}))
	if _, err := w.engine().TroubleshootResource(w.ctx(), box("a", "{}"), ""); sdk.CodeOf(err) != sdk.Unimplemented {
		t.Errorf("troubleshoot: %v", err)
	}
	w.set.Capabilities = []string{"JobRunner"}
	if _, err := w.engine().ReadResource(w.ctx(), box("a", "{}")); sdk.CodeOf(err) != sdk.Unimplemented {
		t.Errorf("read: %v", err)
	}
}

// TestResourceSick tells why a resource isn't healthy.
func TestResourceSick(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	req := box("a", `{"label":"`+fake.SickLabel+`"}`)
	w.apply(e, req, false)
	if h, err := e.HealthCheckResource(w.ctx(), req); err != nil || h.Healthy || h.Message == "" {
		t.Errorf("health: %+v, %v", h, err)
	}
	ds, err := e.TroubleshootResource(w.ctx(), req, "it doesn't open")
	if err != nil || len(ds) != 1 || ds[0].Detail != "it doesn't open" || reflect.ValueOf(ds[0].At).IsZero() {
		t.Errorf("troubleshoot: %+v, %v", ds, err)
	}
}

// TestInterruptCutsNoResourceChange: who leaves while a change is under way has its reply
// all the same, and the row the truth; a replacement isn't left half done. What was only to
// begin doesn't.
func TestInterruptCutsNoResourceChange(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	// interrupted leaves in the middle of a call.
	interrupted := func(op fake.Op, do func(context.Context) (control.ResourceOutcome, error)) (control.ResourceOutcome, error) {
		ctx, leave := context.WithCancel(w.ctx())
		defer leave()
		entered, release := w.cloud.Block(op)
		defer release()
		type result struct {
			out control.ResourceOutcome
			err error
		}
		done := make(chan result, 1)
		go func() {
			out, err := do(ctx)
			done <- result{out, err}
		}()
		<-entered
		leave()
		release()
		r := <-done
		return r.out, r.err
	}
	apply := func(config string) func(context.Context) (control.ResourceOutcome, error) {
		return func(ctx context.Context) (control.ResourceOutcome, error) {
			return e.ApplyResource(ctx, box("a", config), true)
		}
	}
	for _, c := range []struct {
		op   fake.Op
		do   func(context.Context) (control.ResourceOutcome, error)
		rows int
	}{
		{fake.OpCreateResource, apply(`{"label":"x","wood":"oak"}`), 1},
		{fake.OpUpdateResource, apply(`{"label":"y","wood":"oak"}`), 1},
		{fake.OpDeleteResource, apply(`{"label":"y","wood":"elm"}`), 2},
		{fake.OpScaleResource, func(ctx context.Context) (control.ResourceOutcome, error) {
			return e.ScaleResource(ctx, box("a", ""), 2)
		}, 1},
		{fake.OpDeleteResource, func(ctx context.Context) (control.ResourceOutcome, error) { return e.DeleteResource(ctx, box("a", "")) }, 1},
	} {
		out, err := interrupted(c.op, c.do)
		if err != nil || len(out.Rows) != c.rows || out.ReadBack {
			t.Errorf("%s: %+v, %v", out.Action, out, err)
		}
		for _, id := range out.Rows {
			if run, _ := w.rowOf(id); run.State != sdk.StateSucceeded || run.Open() {
				t.Errorf("%s: row %s %s: %s", run.Action, run.State, run.Reason, run.Message)
			}
		}
	}
	ctx, leave := context.WithCancel(w.ctx())
	leave()
	before, rows := w.cloud.Calls(fake.OpCreateResource), w.rows()
	if _, err := e.ApplyResource(ctx, box("b", "{}"), false); sdk.CodeOf(err) != sdk.Canceled || w.cloud.Calls(fake.OpCreateResource) != before || w.rows() != rows {
		t.Errorf("after the end: %v", err)
	}
}
