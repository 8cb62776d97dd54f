package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/driver/turn"
	"github.com/windlass-run/windlass/sdk"
)

const (
	opStart   = "start workload"
	opStop    = "stop workload"
	opRestart = "restart workload"
	opConfig  = "configure workload"
)

// The names that Azure gives to its calls.
const (
	callTags    = "Microsoft.ContainerInstance/containerGroups/write (tags)"
	callWrite   = "Microsoft.ContainerInstance/containerGroups/write"
	callStart   = "Microsoft.ContainerInstance/containerGroups/start/action"
	callStop    = "Microsoft.ContainerInstance/containerGroups/stop/action"
	callRestart = "Microsoft.ContainerInstance/containerGroups/restart/action"
)

// verb is a change that is a call without a body.
type verb struct {
	op, name, call string
	// same reports whether a group is so already; refuse says why it can't be now.
	same   func(v view) bool
	refuse func(v view) error
	send   func(ctx context.Context, w at) error
	// warnings say what the change does besides.
	warnings func(v view) []string
}

// StartWorkload implements sdk.Starter.
func (o *Operator) StartWorkload(ctx context.Context, r sdk.StartWorkloadRequest) (sdk.StartWorkloadResult, error) {
	if r.Spec != nil {
		res, err := o.create(ctx, r)
		return sdk.StartWorkloadResult{Op: res}, err
	}
	res, _, err := o.change(ctx, r.Op, verb{op: opStart, name: verbStart, call: callStart,
		same: func(v view) bool { return !v.stopped() && !v.ended() },
		refuse: func(v view) error {
			if n := len(v.containers); r.Replicas != nil && *r.Replicas != n {
				e := o.fail(sdk.FailedPrecondition, opStart, fmt.Errorf("a container group has no replicas: this one starts its %d containers, not %d", n, *r.Replicas))
				e.Field = "replicas"
				return e
			}
			return nil
		},
		send: func(ctx context.Context, w at) error {
			_, err := o.groups.BeginStart(ctx, w.group, w.name, nil)
			return err
		},
		warnings: addressWarning,
	})
	return sdk.StartWorkloadResult{Op: res}, err
}

// StopWorkload implements sdk.Stopper.
func (o *Operator) StopWorkload(ctx context.Context, r sdk.StopWorkloadRequest) (sdk.StopWorkloadResult, error) {
	res, v, err := o.change(ctx, r.Op, verb{op: opStop, name: verbStop, call: callStop,
		same: func(v view) bool { return v.stopped() },
		refuse: func(v view) error {
			if v.ended() {
				return o.fail(sdk.FailedPrecondition, opStop, errors.New("its containers have ended by themselves, and a stop has no effect on them"))
			}
			return nil
		},
		send: func(ctx context.Context, w at) error {
			_, err := o.groups.Stop(ctx, w.group, w.name, nil)
			return err
		},
		warnings: addressWarning,
	})
	if err != nil {
		return sdk.StopWorkloadResult{}, err
	}
	return sdk.StopWorkloadResult{Op: res, Restores: to.Ptr(len(v.containers))}, nil
}

// RestartWorkload implements sdk.Restarter.
func (o *Operator) RestartWorkload(ctx context.Context, r sdk.RestartWorkloadRequest) (sdk.RestartWorkloadResult, error) {
	res, _, err := o.change(ctx, r.Op, verb{op: opRestart, name: verbRestart, call: callRestart,
		same: func(view) bool { return false },
		refuse: func(v view) error {
			if v.stopped() {
				e := o.fail(sdk.FailedPrecondition, opRestart, errors.New("it is stopped"))
				e.Remedy = "`windlass svc start` brings it back"
				return e
			}
			return nil
		},
		send: func(ctx context.Context, w at) error {
			_, err := o.groups.BeginRestart(ctx, w.group, w.name, nil)
			return err
		},
		warnings: func(v view) []string {
			out := []string{"all containers of the group end before they start again, with their images pulled anew"}
			return append(out, addressWarning(v)...)
		},
	})
	return sdk.RestartWorkloadResult{Op: res}, err
}

// addressWarning tells of an address that may go.
func addressWarning(v view) []string {
	if v.g.Properties.IPAddress == nil {
		return nil
	}
	return []string{newAddress}
}

// fresh is how old a read may be on which a change is decided. Azure compares no
// versions at these calls, so that others may change a group between any read and them.
const fresh = time.Second

// change makes a change that is a call without a body. It is decided on what a brief
// status has just read, where there is such a read. Where that leads to no call, it is
// decided on a read of its own.
func (o *Operator) change(ctx context.Context, r sdk.OpRequest, b verb) (sdk.OpResult, view, error) {
	w, err := o.find(b.op, r.Path)
	if err != nil {
		return sdk.OpResult{}, view{}, err
	}
	if g, ok := o.seen.Take(w, o.Clock.Now(), fresh); ok && !r.DryRun && ctx.Err() == nil {
		if res, v, sent, err := o.once(ctx, w, g, r, b); sent {
			return res, v, err
		}
	}
	w, g, err := o.open(ctx, b.op, r.Path)
	if err != nil {
		return sdk.OpResult{}, view{}, err
	}
	res, v, _, err := o.once(ctx, w, g, r, b)
	return res, v, err
}

// once decides a change on a group as it was read, and makes it; sent is whether that
// came to a call, or to the end of one that was made before. The group's tag is set
// first, by the one call that changes tags alone and restarts nothing.
// https://learn.microsoft.com/en-us/rest/api/container-instances/container-groups/update
func (o *Operator) once(ctx context.Context, w at, g *arm.ContainerGroup, r sdk.OpRequest, b verb) (_ sdk.OpResult, _ view, sent bool, _ error) {
	v := viewOf(g)
	if m, ok := markOf(g); ok && m.id == r.OpID {
		if m.verb != b.name {
			return sdk.OpResult{}, v, false, o.fail(sdk.InvalidArgument, b.op, fmt.Errorf("the operation %s was a %s", r.OpID.Short(), m.verb))
		}
		done, res, err := o.again(ctx, b.op, w, m, g)
		if done || err != nil {
			return res, v, true, err
		}
	}
	if err := r.Expect.Check(b.op, o.status(w, v)); err != nil {
		return sdk.OpResult{}, v, false, err
	}
	if b.same(v) {
		return sdk.OpResult{Generation: generationOf(g)}, v, false, nil
	}
	if err := b.refuse(v); err != nil {
		return sdk.OpResult{}, v, false, err
	}
	if b.name != verbStop && v.deploying() {
		return sdk.OpResult{}, v, false, o.busy(b.op)
	}
	m := newMark(r.OpID, b.name, o.Clock.Now(), &v)
	res := sdk.OpResult{Changed: true, Warnings: b.warnings(v)}
	if r.DryRun {
		res.Calls = []sdk.PlannedCall{
			{Name: callTags, Object: "container group " + string(w.path()), Args: map[string]string{"tags." + tagOp: m.String()}},
			{Name: b.call, Object: "container group " + string(w.path())},
		}
		return res, v, false, nil
	}
	marked, err := o.tag(ctx, b.op, w, g, m)
	if err != nil {
		return sdk.OpResult{}, v, true, err
	}
	if _, err := turn.Call(ctx, o.Provider, o.Session, o.Writes, b.op, func(ctx context.Context) (struct{}, error) { return struct{}{}, b.send(ctx, w) }); err != nil {
		return sdk.OpResult{}, v, true, err
	}
	res.Generation, res.Trace = generationOf(marked), traceWords(w)
	return res, v, true, nil
}

func traceWords(w at) string { return "tag " + tagOp + " of container group " + string(w.path()) }

// busy is the refusal of a change while Azure is at another.
func (o *Operator) busy(op string) error {
	e := o.fail(sdk.Aborted, op, errors.New("the group is still being brought up, and Azure takes no other change until then"))
	e.Retryable, e.Remedy = true, "wait until `windlass svc status` says that its rollout is complete"
	return e
}

// repeatLook is the time between two looks for the effect of an operation that is
// sent again.
const repeatLook = 250 * time.Millisecond

// again looks for the effect of an operation that was begun before. Done is false
// where it surely had none, so that it can be sent.
func (o *Operator) again(ctx context.Context, op string, w at, m mark, g *arm.ContainerGroup) (done bool, _ sdk.OpResult, _ error) {
	for {
		v := viewOf(g)
		if m.seen(v) != "" {
			return true, sdk.OpResult{Changed: true, Generation: generationOf(g), Trace: traceWords(w)}, nil
		}
		if !o.young(m) {
			return false, sdk.OpResult{}, nil
		}
		if err := sdk.SystemClock().Sleep(ctx, repeatLook); err != nil {
			return false, sdk.OpResult{}, o.fail(sdk.CodeOf(ctx.Err()), op, fmt.Errorf("the operation was begun before, and its effect isn't shown yet: %w", ctx.Err()))
		}
		var err error
		if g, err = o.get(ctx, op, w); err != nil {
			return false, sdk.OpResult{}, sdk.Unclear(err)
		}
	}
}

// tag sets the tag of an operation, and returns the group with it.
func (o *Operator) tag(ctx context.Context, op string, w at, g *arm.ContainerGroup, m mark) (*arm.ContainerGroup, error) {
	tags := map[string]*string{}
	for name, value := range g.Tags {
		if !strings.EqualFold(name, tagOp) {
			tags[name] = value
		}
	}
	tags[tagOp] = to.Ptr(m.String())
	out, err := turn.Call(ctx, o.Provider, o.Session, o.Writes, op, func(ctx context.Context) (*arm.ContainerGroup, error) {
		res, err := o.groups.Update(ctx, w.group, w.name, arm.Resource{Tags: tags}, nil)
		return &res.ContainerGroup, err
	})
	if err != nil {
		return nil, err
	}
	// The answer may be sparse; what matters is known.
	whole := *g
	if whole.Tags = tags; out.Properties != nil && len(containersOf(out)) > 0 {
		whole = *out
	}
	return &whole, nil
}
