package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// The IDs of the errors of resources.
const (
	// ErrResourceUnconfirmed is a change whose reply was lost, and which reading
	// back doesn't prove.
	ErrResourceUnconfirmed = "resource.unconfirmed"
	// ErrResourceReplace is a change that needs another resource in the place of
	// the one that there is.
	ErrResourceReplace = "resource.replace"
	// ErrResourceBusy is a change while another of the same resource goes on.
	ErrResourceBusy = "resource.busy"
	// ErrResourceRefused is a change that the provider is known not to make.
	ErrResourceRefused = "resource.refused"
)

// ResourceRequest says which resource, and how it is wanted.
type ResourceRequest struct {
	// Provider is the configured name.
	Provider string
	Spec     sdk.ResourceSpec
	// Actor is who asks for a change.
	Actor string
}

// target is how the ledger names the resource.
func (r ResourceRequest) target() string { return r.Spec.Type + "/" + r.Spec.Name }

// ResourceState is a resource as it is, with what nobody is to see masked.
type ResourceState struct {
	Output sdk.ResourceOutput
	// Owner and LedgerID are who made it; empty is somebody else.
	Owner, LedgerID string
	// OpID is the ledger's row of the latest change, as the backend has it on
	// record; zero is unknown.
	OpID sdk.ID
}

// ResourceAction is what apply does, or would do.
type ResourceAction string

// The actions.
const (
	ResourceNothing ResourceAction = "nothing"
	ResourceCreate  ResourceAction = "create"
	ResourceUpdate  ResourceAction = "update"
	ResourceReplace ResourceAction = "replace"
	ResourceDelete  ResourceAction = "delete"
	ResourceScale   ResourceAction = "scale"
)

// ResourceOutcome is what a change did.
type ResourceOutcome struct {
	Action ResourceAction
	// Rows are the ledger's rows of the calls, in their order.
	Rows []sdk.ID
	// Output is the resource afterwards, masked; nil where it is gone or was left
	// as it is.
	Output *sdk.ResourceOutput
	// ReadBack: the reply was lost, and reading back proved the change.
	ReadBack bool
}

// resourceCall is a resource and its backend, for one command.
type resourceCall struct {
	e    *Engine
	req  ResourceRequest
	back Backend
	d    sdk.ResourceDriver
	mask masker
	// id is the backend's own name of the resource, as the ledger has it.
	id string
	// masked: the spec is the ledger's, and lacks values that nobody is to see.
	masked bool
}

// resource opens a resource's backend.
func (e *Engine) resource(ctx context.Context, req ResourceRequest) (*resourceCall, error) {
	back, err := e.o.Providers.Backend(ctx, req.Provider)
	if err != nil {
		return nil, err
	}
	return e.resourceOn(ctx, back, req)
}

// changing is resource for a change: what became of earlier ones whose processes died
// is looked up first.
func (e *Engine) changing(ctx context.Context, req ResourceRequest) (*resourceCall, error) {
	c, err := e.resource(ctx, req)
	if err != nil {
		return nil, err
	}
	return c, c.settleLeft(ctx)
}

// resourceOn begins with a resource on its backend. It asks for what is sensitive first.
func (e *Engine) resourceOn(ctx context.Context, back Backend, req ResourceRequest) (*resourceCall, error) {
	d, ok := sdk.Of(back.Provider, sdk.Resources())
	if !ok {
		return nil, back.absent(sdk.Resources().String())
	}
	c := &resourceCall{e: e, req: req, back: back, d: d}
	keys, err := resourceAsk(ctx, c, "read sensitive keys", sdk.SensitiveKeysRequest{Type: req.Spec.Type}, d.SensitiveKeys)
	switch {
	case err == nil:
		c.mask = maskerOf(back.Driver, req.Spec.Type, keys.Keys)
	case sdk.CodeOf(err) == sdk.InvalidArgument || ctx.Err() != nil:
		return nil, c.fail(err) // the type isn't there
	default:
		e.log.Warn("sensitive keys unknown: no value is shown", "provider", back.Name, "type", req.Spec.Type, "err", e.o.Redact(err.Error()))
		c.mask = masker{all: true}
	}
	c.id, err = e.resourceID(ctx, req)
	return c, err
}

// resourceAsk makes one call under the provider's time-out.
func resourceAsk[A, B any](ctx context.Context, c *resourceCall, op string, a A, fn func(context.Context, A) (B, error)) (B, error) {
	return call(ctx, c.back.callTimeout(), op, func(ctx context.Context) (B, error) { return fn(ctx, a) })
}

// fail names the provider in an error.
func (c *resourceCall) fail(err error) error {
	var e *sdk.Error
	if errors.As(err, &e) && e.Provider == "" {
		out := *e
		out.Provider = c.back.Name
		return &out
	}
	return err
}

func (c *resourceCall) ref() sdk.ResourceRef {
	return sdk.ResourceRef{Name: c.req.Spec.Name, Type: c.req.Spec.Type, ProviderID: c.id}
}

// read reads the resource. An ID of the ledger's that is gone gives way to the name:
// somebody may have made another.
func (c *resourceCall) read(ctx context.Context) (sdk.ReadResourceResult, error) {
	res, err := resourceAsk(ctx, c, "read resource", sdk.ReadResourceRequest{Ref: c.ref()}, c.d.ReadResource)
	if sdk.CodeOf(err) == sdk.NotFound && c.id != "" {
		c.id = ""
		res, err = resourceAsk(ctx, c, "read resource", sdk.ReadResourceRequest{Ref: c.ref()}, c.d.ReadResource)
	}
	return res, c.fail(err)
}

func (c *resourceCall) state(r sdk.ReadResourceResult) ResourceState {
	return ResourceState{Output: c.mask.output(r.Output), Owner: r.Owner, LedgerID: r.LedgerID, OpID: r.OpID}
}

// resourceID returns the backend's own name of a resource, as the ledger's newest
// change of it has it; empty where there is none.
func (e *Engine) resourceID(ctx context.Context, req ResourceRequest) (string, error) {
	for run, err := range e.o.Store.Runs(ctx, ledger.RunFilter{Provider: req.Provider, Target: req.target(), States: []sdk.JobState{sdk.StateSucceeded}}) {
		if err != nil {
			return "", err
		}
		if !strings.HasPrefix(run.Action, resourceVerb) {
			continue
		}
		for ev, err := range e.o.Store.Events(ctx, ledger.EventFilter{Run: run.ID, Kinds: []ledger.Kind{ledger.KindFinished}}) {
			if err != nil {
				return "", err
			}
			return changeDetail(ev)[detailID], nil // a delete leaves none
		}
	}
	return "", nil
}

// ReadResource reads a resource as it is.
func (e *Engine) ReadResource(ctx context.Context, req ResourceRequest) (ResourceState, error) {
	c, err := e.resource(ctx, req)
	if err != nil {
		return ResourceState{}, err
	}
	res, err := c.read(ctx)
	if err != nil {
		return ResourceState{}, err
	}
	return c.state(res), nil
}

// HealthCheckResource tells whether a resource is fit for use.
func (e *Engine) HealthCheckResource(ctx context.Context, req ResourceRequest) (sdk.HealthCheckResourceResult, error) {
	c, err := e.resource(ctx, req)
	if err != nil {
		return sdk.HealthCheckResourceResult{}, err
	}
	res, err := resourceAsk(ctx, c, "check resource", sdk.HealthCheckResourceRequest{Ref: c.ref()}, c.d.HealthCheckResource)
	res.Message = e.o.Redact(res.Message)
	return res, c.fail(err)
}

// TroubleshootResource asks why a resource isn't as it should be.
func (e *Engine) TroubleshootResource(ctx context.Context, req ResourceRequest, failure string) ([]sdk.Diagnostic, error) {
	c, err := e.resource(ctx, req)
	if err != nil {
		return nil, err
	}
	t, ok := sdk.Of(c.back.Provider, sdk.Troubleshooting())
	if !ok {
		return nil, c.back.absent(sdk.Troubleshooting().String())
	}
	res, err := resourceAsk(ctx, c, "explain resource", sdk.TroubleshootResourceRequest{Ref: c.ref(), FailureMessage: failure}, t.TroubleshootResource)
	for i := range res.Diagnostics {
		d := &res.Diagnostics[i]
		d.Cause, d.Detail = e.o.Redact(d.Cause), e.o.Redact(d.Detail)
	}
	return res.Diagnostics, c.fail(err)
}

// settleTime bounds reading back after a lost reply.
func (c *resourceCall) settleTime() time.Duration { return 2*c.back.callTimeout() + cancelCall }

// resourceSpec is a spec as the ledger keeps it. The config is text: JSON of any
// numbers isn't canonical.
type resourceSpec struct {
	V         int      `json:"v"`
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	Config    string   `json:"config,omitzero"`
	Size      string   `json:"size,omitzero"`
	CPU       string   `json:"cpu,omitzero"`
	Memory    string   `json:"memory,omitzero"`
	Storage   string   `json:"storage,omitzero"`
	DependsOn []string `json:"depends_on,omitzero"`
	Replicas  *int     `json:"replicas,omitzero"`
}

// encode returns what the ledger keeps of the request.
func (c *resourceCall) encode(withSpec bool, replicas *int) (json.RawMessage, error) {
	s := c.req.Spec
	out := resourceSpec{V: 1, Name: s.Name, Type: s.Type, Replicas: replicas}
	if withSpec {
		out.Config, out.Size, out.DependsOn = string(c.mask.json(s.Config)), s.Size, s.DependsOn
		out.CPU, out.Memory, out.Storage = s.Hints.CPU, s.Hints.Memory, s.Hints.Storage
	}
	b, err := sdk.EncodeCanonical(out)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", s.Type, s.Name, err)
	}
	return b, nil
}
