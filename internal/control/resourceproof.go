package control

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// resourceProof is what reading a resource back tells of a change of it.
type resourceProof struct {
	// done: the change was made.
	done bool
	// now is what was read; nil is not there.
	now *sdk.ReadResourceResult
	// seen says what was seen, where that proves nothing.
	seen string
	// final: whatever is still to come of the change, a later look tells no more.
	final bool
	// err is why nothing was seen: a later look may tell.
	err error
}

// prove reads the resource and tells whether a change has happened. A delete is proven
// by its absence. Else only the mark of this very change proves it, since another may
// have made the same; and it may be half done. A backend that keeps no marks proves an
// update by what differs: it did before.
func (c *resourceCall) prove(ctx context.Context, action ResourceAction, op sdk.ID) resourceProof {
	now, err := c.read(ctx)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		return resourceProof{done: action == ResourceDelete, seen: "it isn't there now"}
	case err != nil:
		return resourceProof{err: err}
	}
	p := resourceProof{now: &now, seen: "it is there now"}
	switch {
	case action == ResourceDelete:
		return p
	case now.OpID == op && action == ResourceScale:
		p.done = true
		return p
	case now.OpID == op, now.OpID.IsZero() && action == ResourceUpdate:
	case now.OpID.IsZero():
		p.seen += ", without the mark of this change"
		return p
	default:
		p.seen += ", and its latest change is another, " + now.OpID.Short()
		return p
	}
	if c.masked {
		p.final = true
		p.seen += ", and whether all of it was done can't be compared: the ledger doesn't keep its secret values"
		return p
	}
	d, err := c.diff(ctx, now.Output)
	switch {
	case sdk.CodeOf(err) == sdk.InvalidArgument:
		p.final = true
		p.seen += ", and can't be compared: " + err.Error()
	case err != nil:
		return resourceProof{err: err}
	case !d.NeedsUpdate && !d.NeedsReplace:
		p.done = true
	case now.OpID == op:
		p.seen += ", and the change is only half done"
	default:
		p.seen += ", and isn't as the change wanted it"
	}
	return p
}

// early reports whether a look that proved nothing came too soon to judge a change that was
// asked for at a time; see Engine.mayStillCome.
func (c *resourceCall) early(p resourceProof, asked time.Time) error {
	if p.done || p.final || p.err != nil {
		return nil
	}
	status := ""
	if p.now != nil {
		status = p.now.Output.Status
	}
	return c.e.mayStillCome(c.back, c.req.target(), p.seen, status, asked)
}

// underWay reports whether a resource's status says that a change of it goes on.
func underWay(status string) bool {
	switch strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(status)) {
	case "pending", "creating", "provisioning", "updating", "modifying", "scaling", "deleting", "removing", "terminating", "inprogress",
		"createinprogress", "updateinprogress", "deleteinprogress":
		return true
	}
	return false
}

// proven is what the ledger keeps of a change that was proven, and the resource as it
// may be shown; nil is gone.
func (c *resourceCall) proven(p resourceProof) (map[string]string, *sdk.ResourceOutput) {
	detail := map[string]string{detailReadBack: "true"}
	if p.now == nil {
		return detail, nil
	}
	masked := c.mask.output(p.now.Output)
	for k, v := range outputDetail(masked) {
		detail[k] = v
	}
	return detail, &masked
}

// settleResource reads back the change of a row whose process died, which this engine
// has claimed, and closes the row. It reports false for a row that is about no resource.
func (e *Engine) settleResource(ctx context.Context, run ledger.Run) (bool, error) {
	action, ok := strings.CutPrefix(run.Action, resourceVerb)
	if !ok {
		return false, nil
	}
	req, err := decodeResource(run)
	if err != nil {
		return true, err
	}
	back, err := e.o.Providers.BackendFor(ctx, run)
	if err != nil {
		return true, err
	}
	c, err := e.resourceOn(ctx, back, req)
	if err != nil {
		return true, err
	}
	c.masked = strings.Contains(string(req.Spec.Config), sdk.Redacted)
	p := c.prove(ctx, ResourceAction(action), run.ID)
	if p.err != nil {
		return true, p.err
	}
	if err := c.early(p, run.RequestedAt); err != nil {
		return true, err
	}
	ch := ledger.Change{V: ledger.ChangeVersion, State: sdk.StateLost, Reason: reason(sdk.ReasonSubmitUnconfirmed), Finished: true,
		Message: text("its process ended before the outcome was recorded, and " + p.seen)}
	if p.done {
		ch.State, ch.Reason = sdk.StateSucceeded, reason(sdk.ReasonCompleted)
		ch.Message = text("its process ended before the outcome was recorded; reading it back proves the change")
		ch.Detail, _ = c.proven(p)
	}
	e.redact(&ch)
	return true, e.writeAction(ctx, ledger.Write{Run: run.ID, Holder: e.self.ID, Fence: run.Fence,
		Events: []ledger.NewEvent{{Kind: ledger.KindFinished, Actor: e.o.Actor, Change: ch}}})
}

// decodeResource is what the row of a change asked for, without its secret values.
func decodeResource(run ledger.Run) (ResourceRequest, error) {
	var s resourceSpec
	if err := json.Unmarshal(run.Spec, &s); err != nil {
		return ResourceRequest{}, sdk.Errorf(sdk.DataLoss, "read row of "+run.ID.Short(), "%w", err)
	}
	spec := sdk.ResourceSpec{Name: s.Name, Type: s.Type, Size: s.Size, DependsOn: s.DependsOn,
		Hints: sdk.ResourceHints{CPU: s.CPU, Memory: s.Memory, Storage: s.Storage}}
	if s.Config != "" {
		spec.Config = json.RawMessage(s.Config)
	}
	return ResourceRequest{Provider: run.Provider, Actor: run.Actor, Spec: spec}, nil
}

// settleLeft closes the rows of processes that died over a change of this resource: what
// they did comes first in the record.
func (c *resourceCall) settleLeft(ctx context.Context) error {
	left, err := c.e.left(ctx, c.back.Name, c.req.target(), func(run ledger.Run) bool { return strings.HasPrefix(run.Action, resourceVerb) })
	if err != nil {
		return err
	}
	for _, run := range left {
		s := c.e.settleLeft(ctx, run)
		if s == nil || s.Err == nil {
			continue
		}
		return &sdk.Error{Code: sdk.CodeOf(s.Err), Op: "settle earlier change", Provider: c.back.Name, ID: ErrResourceUnconfirmed,
			RetryAfter: sdk.RetryAfter(s.Err), Remedy: repeatLater(run, s.Err),
			Err: fmt.Errorf("what became of %s of %s by %s (row %s) can't be told at the moment: %w", run.Action, run.Target, run.Actor, run.ID.Short(), s.Err)}
	}
	if len(left) > 0 {
		c.id, err = c.e.resourceID(ctx, c.req) // what was found may have given it another
	}
	return err
}
