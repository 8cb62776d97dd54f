package workload

import (
	"context"
	"fmt"
	"iter"
	"strings"

	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/driver/turn"
	"github.com/windlass-run/windlass/sdk"
)

const (
	opList   = "list workloads"
	opStatus = "read workload"
)

// ListWorkloads implements sdk.WorkloadLister: the groups of the subscription, or,
// where the credentials don't reach so far, those of the provider's resource group.
// A list has no states, so that it tells neither counts nor which are stopped.
// https://learn.microsoft.com/en-us/rest/api/container-instances/container-groups/list
func (o *Operator) ListWorkloads(ctx context.Context, r sdk.ListWorkloadsRequest) iter.Seq2[sdk.WorkloadItem, error] {
	return func(yield func(sdk.WorkloadItem, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(sdk.WorkloadItem{}, o.fail(sdk.CodeOf(err), opList, err))
			return
		}
		began := false
		give := func(list []*arm.ContainerGroup) bool {
			began = true
			for _, g := range list {
				it, ok := item(g)
				if ok && (r.Name == "" || it.Path.Name() == r.Name) && !yield(it, nil) {
					return false
				}
			}
			return true
		}
		err := o.pages(ctx, give)
		if sdk.CodeOf(err) == sdk.PermissionDenied && !began {
			err = o.groupPages(ctx, give)
		}
		if err != nil {
			yield(sdk.WorkloadItem{}, err)
		}
	}
}

// pages gives the subscription's groups until give returns false.
func (o *Operator) pages(ctx context.Context, give func([]*arm.ContainerGroup) bool) error {
	for pager := o.groups.NewListPager(nil); pager.More(); {
		page, err := turn.Call(ctx, o.Provider, o.Session, o.Reads, opList, func(ctx context.Context) (arm.ContainerGroupsClientListResponse, error) { return pager.NextPage(ctx) })
		if err != nil || !give(page.Value) {
			return err
		}
	}
	return nil
}

// groupPages gives those of the provider's resource group.
func (o *Operator) groupPages(ctx context.Context, give func([]*arm.ContainerGroup) bool) error {
	for pager := o.groups.NewListByResourceGroupPager(o.ResourceGroup, nil); pager.More(); {
		page, err := turn.Call(ctx, o.Provider, o.Session, o.Reads, opList, func(ctx context.Context) (arm.ContainerGroupsClientListByResourceGroupResponse, error) {
			return pager.NextPage(ctx)
		})
		if err != nil || !give(page.Value) {
			return err
		}
	}
	return nil
}

// item is a group of a list; ok is false for a job's.
func item(g *arm.ContainerGroup) (it sdk.WorkloadItem, ok bool) {
	if g == nil || g.Name == nil || isJob(g) {
		return it, false
	}
	// /subscriptions/S/resourceGroups/G/providers/...
	parts := strings.Split(deref(g.ID), "/")
	if len(parts) < 5 || !strings.EqualFold(parts[3], "resourceGroups") {
		return it, false
	}
	list := containersOf(g)
	if len(list) == 0 {
		return it, false
	}
	it.Path, it.Image = at{parts[4], *g.Name}.path(), deref(list[0].Properties.Image)
	if g.Properties.InstanceView != nil {
		v := viewOf(g)
		desired, ready := v.desired(), v.ready()
		it.Desired, it.Ready, it.Stopped = &desired, &ready, v.stopped()
	}
	return it, it.Path.Check() == nil
}

// WorkloadStatus implements sdk.WorkloadStatuser.
func (o *Operator) WorkloadStatus(ctx context.Context, r sdk.WorkloadStatusRequest) (sdk.WorkloadStatusResult, error) {
	began := o.Clock.Now()
	w, g, err := o.open(ctx, opStatus, r.Path)
	if sdk.CodeOf(err) == sdk.NotFound && !r.OpID.IsZero() {
		res := sdk.WorkloadStatusResult{Status: sdk.DeploymentStatus{Path: r.Path}, Op: &sdk.OpTrace{State: sdk.OpAbsent, Evidence: "the container group isn't there"}}
		if r.Before != "" {
			res.Op.State, res.Op.Evidence = sdk.OpUnknown, "the container group isn't there any more"
		}
		return res, nil
	}
	if err != nil {
		return sdk.WorkloadStatusResult{}, err
	}
	v := viewOf(g)
	res := sdk.WorkloadStatusResult{Status: o.status(w, v)}
	if !r.OpID.IsZero() {
		res.Op = o.trace(r.OpID, r.Before, v)
		return res, nil
	}
	if r.Brief {
		o.seen.Put(w, g, began)
		return res, nil
	}
	if drift, err := o.drift(ctx, w, g); err != nil {
		res.Status.Warnings = append(res.Status.Warnings, fmt.Sprintf("the settings in App Configuration couldn't be read: %v", err))
	} else if len(drift) > 0 {
		res.Status.Warnings = append(res.Status.Warnings, "App Configuration has other settings than the group was deployed with: "+strings.Join(drift, ", "))
	}
	return res, nil
}
