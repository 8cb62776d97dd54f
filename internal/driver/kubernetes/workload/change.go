package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// tries bounds how often a change is decided anew since the object changed between
// the read and the apply, as by its controller, which writes its status.
const tries = 10

// fresh is how old a read may be on which a change is decided; an older one would
// mostly be refused.
const fresh = 2 * time.Second

// change is one verb's change of a workload that is there.
type change struct {
	op  string
	req sdk.OpRequest
	// edit makes the change to what we declared, and refuses what can't be. It returns
	// nil where all is so already.
	edit func(ctx context.Context, o *object, declared map[string]any) (*edited, error)
	// replaces: pods are replaced, and the change is named as a rollout. counts: it may
	// change the count, and edit looks at autoscalers.
	replaces, counts bool
}

// edited is a change that was decided.
type edited struct {
	// args say it in words for a dry run. warnings are told with the result.
	args     map[string]string
	warnings []string
	// parts are the objects that the workload needs first; nil is none.
	parts *parts
}

// change carries a change out: at most one apply is accepted, and its answer is o. An
// apply that is refused since the object is no longer the one that was read has changed
// nothing, and is decided again.
//
// It is first decided on what a status has just read, where there is such a read: the
// apply is bound to that. Where it leads to no apply, it is decided on a read of its own.
func (w *Workloads) change(ctx context.Context, ch change) (sdk.OpResult, *object, error) {
	r, err := w.parse(ch.op, ch.req.Path)
	if err != nil {
		return sdk.OpResult{}, nil, err
	}
	o, _ := w.seen.Take(r, w.c.Clock.Now(), fresh)
	for try := 1; ; try++ {
		own := o == nil || ch.req.DryRun
		if own {
			if o, err = w.readFor(ctx, r, ch); err != nil {
				return sdk.OpResult{}, nil, err
			}
		}
		res, now, sent, err := w.once(ctx, o, ch)
		if sent && sdk.CodeOf(err) == sdk.Aborted && try < tries || !sent && !own {
			o = nil
			continue
		}
		return res, now, err
	}
}

// once decides a change on an object as it was read, and applies it.
func (w *Workloads) once(ctx context.Context, o *object, ch change) (res sdk.OpResult, now *object, sent bool, err error) {
	r := o.ref
	id := ch.req.OpID.String()
	res = sdk.OpResult{Generation: o.generation(), Trace: traceOf(r)}
	if o.meta.Annotations[annotationOp] == id && !ch.req.DryRun {
		res.Changed, res.Rollout = true, o.rolloutOf(id)
		return res, o, false, nil
	}
	if err := w.expect(ch.op, ch.req.Expect, o); err != nil {
		return sdk.OpResult{}, nil, false, err
	}
	declared, err := o.declared()
	if err != nil {
		return sdk.OpResult{}, nil, false, w.fail(sdk.Internal, ch.op, "the %s: %w", r.object(), err)
	}
	e, err := ch.edit(ctx, o, declared)
	if err != nil || e == nil {
		res.Trace = ""
		return res, o, false, err
	}
	if ch.req.DryRun {
		return sdk.OpResult{Changed: true, Warnings: e.warnings, Calls: append(e.parts.calls(), applied(r, e.args))}, o, false, nil
	}
	if err := w.prepare(ctx, ch.op, e.parts); err != nil {
		return sdk.OpResult{}, nil, true, err
	}
	annotate(declared, annotationOp, id)
	if ch.replaces {
		at(declared, "spec", "template", "metadata", "annotations")[annotationRollout] = id
	}
	identify(declared, o)
	var raw json.RawMessage
	err = w.c.Spend(ctx, ch.op, func() error {
		_, err := w.c.Session.Apply(ctx, ch.op, r.place(), manager, true, declared, &raw)
		return err
	})
	if err != nil {
		return sdk.OpResult{}, nil, true, w.undo(ctx, ch.op, e.parts, err)
	}
	now, err = decode(r.kind, raw)
	if err != nil {
		return sdk.OpResult{}, nil, true, sdk.Unclear(w.fail(sdk.Internal, ch.op, "read the answer: %w", err))
	}
	return sdk.OpResult{Changed: true, Generation: now.generation(), Rollout: now.rolloutOf(id), Trace: traceOf(r), Warnings: e.warnings}, now, true, nil
}

// readFor reads what a change is decided on, its parts at the same time.
func (w *Workloads) readFor(ctx context.Context, r ref, ch change) (*object, error) {
	if !ch.counts {
		return w.read(ctx, ch.op, r)
	}
	return w.readBeside(ctx, ch.op, r)
}

// readBeside reads an object and what scales it, at once.
func (w *Workloads) readBeside(ctx context.Context, op string, r ref) (*object, error) {
	var scaler *sdk.Autoscaler
	var unseen error
	var wg sync.WaitGroup
	wg.Go(func() { scaler, unseen = w.scaler(ctx, op, r) })
	o, err := w.read(ctx, op, r)
	wg.Wait()
	if err != nil {
		return nil, err
	}
	o.scaler, o.unseen = scaler, unseen
	return o, nil
}

// rolloutOf is the name of an operation's rollout, empty where it replaced no pods.
func (o *object) rolloutOf(id string) string {
	if o.rollout() == id {
		return id
	}
	return ""
}

// expect compares what was expected with the object that the apply will be bound to.
func (w *Workloads) expect(op string, e sdk.Expect, o *object) error {
	return e.Check(op, sdk.DeploymentStatus{Path: o.ref.path(), Desired: &o.desired, Generation: o.generation()})
}

// identify binds an apply to the object as it was read.
func identify(declared map[string]any, o *object) {
	declared["apiVersion"], declared["kind"] = "apps/v1", o.ref.kind.word()
	m := at(declared, "metadata")
	m["name"], m["namespace"], m["uid"], m["resourceVersion"] = o.ref.name, o.ref.namespace, string(o.meta.UID), o.meta.ResourceVersion
}

func annotate(declared map[string]any, key, value string) {
	at(declared, "metadata", "annotations")[key] = value
}

// applied is the apply of a dry run.
func applied(r ref, args map[string]string) sdk.PlannedCall {
	return sdk.PlannedCall{Name: "apps/v1:Apply", Object: r.object(), Args: args}
}

// taken says whose declarations a change overrides: they come back with that
// manager's next apply.
func taken(o *object, what string, path ...string) []string {
	names, _ := others(o.meta, path...)
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []string{fmt.Sprintf("%s declares the %s too, and its next apply may change it back", strings.Join(slices.Compact(names), ", "), what)}
}
