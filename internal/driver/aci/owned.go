package aci

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/sdk"
)

const (
	opList   = "list objects"
	opRemove = "remove object"
	opRenew  = "renew expiry"

	typeGroup = "container-group"
)

// ListOwned implements sdk.OwnedLister. A list doesn't tell whether a group runs,
// so each is read.
func (p *provider) ListOwned(ctx context.Context, r sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
	return func(yield func(sdk.OwnedObject, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(sdk.OwnedObject{}, p.fail(sdk.CodeOf(err), opList, err))
			return
		}
		var inner error
		err := p.listGroups(ctx, opList, func(g *arm.ContainerGroup) bool {
			o, ok := owned(g)
			if o = p.named(o); !ok || r.Owner != "" && o.Owner != r.Owner {
				return true
			}
			whole, err := p.getGroup(ctx, opList, o.ID)
			if absent(err) {
				return true // it went meanwhile, or isn't shown yet
			}
			if inner = err; err != nil {
				return false
			}
			o.Live, o.State = liveness(whole)
			if c := viewOf(whole).current; c != nil {
				o.Started, o.Ended = deref(c.StartTime).UTC(), deref(c.FinishTime).UTC()
			}
			return yield(o, nil)
		})
		if inner != nil {
			err = inner
		}
		if err != nil {
			yield(sdk.OwnedObject{}, err)
		}
	}
}

// tag returns a group's tag. Names of tags are the same in any case.
func tag(g *arm.ContainerGroup, name string) string {
	if v, ok := g.Tags[name]; ok {
		return deref(v)
	}
	for k, v := range g.Tags {
		if strings.EqualFold(k, name) {
			return deref(v)
		}
	}
	return ""
}

// owned makes an object of a group that carries our tags. Its age is that of the
// attempt's ID: Azure doesn't tell when a group was made.
func owned(g *arm.ContainerGroup) (sdk.OwnedObject, bool) {
	run, err := sdk.ParseID(tag(g, sdk.LabelRun))
	if err != nil {
		return sdk.OwnedObject{}, false
	}
	attempt, err := sdk.ParseID(tag(g, sdk.LabelAttempt))
	id := deref(g.Name)
	if err != nil || id != groupID(attempt) {
		return sdk.OwnedObject{}, false
	}
	o := sdk.OwnedObject{Type: typeGroup, ID: id, Name: id, RunID: run, AttemptID: attempt, Owner: tag(g, sdk.LabelOwner), LedgerID: tag(g, sdk.LabelLedger), CreatedAt: attempt.Time()}
	if o.Owner == "" {
		return sdk.OwnedObject{}, false
	}
	if n, err := strconv.ParseInt(tag(g, sdk.LabelExpires), 10, 64); err == nil {
		o.Expires = time.Unix(n, 0).UTC()
	}
	if p := g.Properties; p != nil {
		o.State, o.Size = deref(p.ProvisioningState), sizeOf(p)
	}
	return o, true
}

// named gives an object of this installation its owner and ledger as they are: a
// tag may hold a fitted form.
func (p *provider) named(o sdk.OwnedObject) sdk.OwnedObject {
	if o.Owner == azure.TagValue(p.owner) {
		o.Owner = p.owner
	}
	if o.LedgerID == azure.TagValue(p.ledgerID) {
		o.LedgerID = p.ledgerID
	}
	return o
}

// sizeOf is what the group's containers ask for. Capacity that may be taken away
// has a price of its own.
func sizeOf(p *arm.ContainerGroupPropertiesProperties) sdk.OwnedSize {
	var s sdk.OwnedSize
	if deref(p.Priority) == arm.ContainerGroupPrioritySpot {
		s.Class = prioritySpot
	}
	for _, c := range p.Containers {
		if c == nil || c.Properties == nil || c.Properties.Resources == nil || c.Properties.Resources.Requests == nil {
			continue
		}
		r := c.Properties.Resources.Requests
		s.CPU += int64(math.Round(deref(r.CPU) * 1000))
		s.Memory += int64(math.Round(deref(r.MemoryInGB) * gib))
	}
	return s
}

// liveness tells whether a group's container runs or may yet, and the group's own
// word for its state.
func liveness(g *arm.ContainerGroup) (live bool, state string) {
	v := viewOf(g)
	state = v.group
	if state == "" {
		state = v.provisioning
	}
	return !judge(v).state.Terminal(), state
}

// RemoveOwned implements sdk.OwnedLister. A group that runs is stopped with its
// deletion.
func (p *provider) RemoveOwned(ctx context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.RemoveOwnedResult{}, p.fail(sdk.CodeOf(err), opRemove, err)
	}
	o := r.Object
	if o.Type != typeGroup || o.ID != groupID(o.AttemptID) {
		return sdk.RemoveOwnedResult{}, p.fail(sdk.InvalidArgument, opRemove, fmt.Errorf("%s %q is no object of ours", o.Type, o.ID))
	}
	g, err := p.getGroup(ctx, opRemove, o.ID)
	switch {
	case absent(err):
		return sdk.RemoveOwnedResult{}, nil
	case err != nil:
		return sdk.RemoveOwnedResult{}, err
	}
	is, ok := owned(g)
	if is = p.named(is); !ok || is.RunID != o.RunID || is.AttemptID != o.AttemptID || is.Owner != o.Owner || is.LedgerID != o.LedgerID {
		return sdk.RemoveOwnedResult{}, p.fail(sdk.FailedPrecondition, opRemove, fmt.Errorf("the container group %s no longer carries the tags that were listed", o.ID))
	}
	if _, err := p.remove(ctx, opRemove, o.ID); err != nil {
		return sdk.RemoveOwnedResult{}, err
	}
	return sdk.RemoveOwnedResult{}, p.spool.remove(o.ID)
}

// RenewExpiry implements sdk.ExpiryRenewer. It changes a tag, by the one call that
// changes tags alone and restarts nothing. All tags are sent, for Azure doesn't
// say that those which are left out stay.
// https://learn.microsoft.com/en-us/rest/api/container-instances/container-groups/update
func (p *provider) RenewExpiry(ctx context.Context, r sdk.RenewExpiryRequest) (sdk.RenewExpiryResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.RenewExpiryResult{}, p.fail(sdk.CodeOf(err), opRenew, err)
	}
	if err := p.checkHandle(opRenew, r.Handle); err != nil {
		return sdk.RenewExpiryResult{}, err
	}
	g, err := p.getGroup(ctx, opRenew, r.Handle.ID)
	if err != nil {
		return sdk.RenewExpiryResult{}, err
	}
	tags := maps.Clone(g.Tags)
	for k := range tags {
		if strings.EqualFold(k, sdk.LabelExpires) {
			delete(tags, k)
		}
	}
	if tags == nil {
		tags = map[string]*string{}
	}
	tags[sdk.LabelExpires] = to.Ptr(itoa(r.Expires.Unix()))
	_, err = call(ctx, p, p.writes, opRenew, func(ctx context.Context) (struct{}, error) {
		_, err := p.groups.Update(ctx, p.cfg.ResourceGroup, r.Handle.ID, arm.Resource{Tags: tags}, nil)
		return struct{}{}, err
	})
	return sdk.RenewExpiryResult{}, err
}

func deref[T any](v *T) T {
	var zero T
	if v == nil {
		return zero
	}
	return *v
}
