package ecs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

const (
	opList   = "list objects"
	opRemove = "remove object"
	opRenew  = "renew expiry"

	typeTask       = "task"
	typeDefinition = "task-definition"
)

// ListOwned implements sdk.OwnedLister. It gives the tasks that run, or are to,
// and the definitions that are active. A stopped task is ECS's own record, which
// costs nothing and can't be removed; log streams stay.
func (p *provider) ListOwned(ctx context.Context, r sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
	return func(yield func(sdk.OwnedObject, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(sdk.OwnedObject{}, p.fail(sdk.CodeOf(err), opList, err))
			return
		}
		used, stopped := map[string]bool{}, false
		in := &ecs.ListTasksInput{Cluster: &p.cfg.Cluster, DesiredStatus: types.DesiredStatusRunning}
		err := p.listTasks(ctx, opList, in, func(page []types.Task) bool {
			for _, t := range page {
				o, ok := ownedTask(t)
				if !ok {
					continue
				}
				used[str(t.TaskDefinitionArn)] = true
				if (r.Owner == "" || o.Owner == r.Owner) && !yield(o, nil) {
					stopped = true
					return false
				}
			}
			return true
		})
		if stopped {
			return
		}
		if err == nil {
			err = p.listDefinitions(ctx, r.Owner, used, func(o sdk.OwnedObject) bool { return yield(o, nil) })
		}
		if err != nil {
			yield(sdk.OwnedObject{}, err)
		}
	}
}

// ownedTask makes an object of a task that carries our tags.
func ownedTask(t types.Task) (sdk.OwnedObject, bool) {
	tags := tagMap(t.Tags)
	run, err := sdk.ParseID(tags[sdk.LabelRun])
	if err != nil || tags[sdk.LabelOwner] == "" {
		return sdk.OwnedObject{}, false
	}
	attempt, err := sdk.ParseID(tags[sdk.LabelAttempt])
	if err != nil {
		return sdk.OwnedObject{}, false
	}
	o := sdk.OwnedObject{Type: typeTask, ID: str(t.TaskArn), Name: taskID(str(t.TaskArn)), RunID: run, AttemptID: attempt,
		Owner: tags[sdk.LabelOwner], LedgerID: tags[sdk.LabelLedger], CreatedAt: at(t.CreatedAt), Started: at(t.PullStartedAt), Expires: expiry(tags),
		Live: !hasEnded(t), State: str(t.LastStatus), Size: sizeOf(t)}
	if o.Started.IsZero() {
		o.Started = at(t.StartedAt)
	}
	if !o.Live {
		o.Ended = at(t.StoppedAt)
	}
	return o, true
}

// sizeOf is what a task costs by: on Fargate its cores, memory and disk, from the
// pull of its image on.
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_Task.html
func sizeOf(t types.Task) sdk.OwnedSize {
	s := sdk.OwnedSize{Class: cmp.Or(str(t.CapacityProviderName), string(t.LaunchType))}
	for _, a := range t.Attributes {
		if str(a.Name) == "ecs.cpu-architecture" && strings.EqualFold(str(a.Value), "arm64") {
			s.Class += "/ARM64"
		}
	}
	// Both are numbers in what ECS answers; what isn't is unknown.
	units, _ := strconv.ParseInt(str(t.Cpu), 10, 64)
	memory, _ := strconv.ParseInt(str(t.Memory), 10, 64)
	s.CPU, s.Memory = units*1000/1024, memory<<20
	if t.EphemeralStorage != nil {
		s.Disk = int64(t.EphemeralStorage.SizeInGiB) << 30
	}
	return s
}

func expiry(tags map[string]string) time.Time {
	n, err := strconv.ParseInt(tags[sdk.LabelExpires], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(n, 0).UTC()
}

// listDefinitions gives the active definitions of our families.
func (p *provider) listDefinitions(ctx context.Context, owner string, used map[string]bool, yield func(sdk.OwnedObject) bool) error {
	in := &ecs.ListTaskDefinitionsInput{Status: types.TaskDefinitionStatusActive, MaxResults: new(int32(batchMax))}
	families, err := p.families(ctx)
	if err != nil {
		return err
	}
	for _, family := range families {
		in.FamilyPrefix, in.NextToken = &family, nil
		for {
			var out *ecs.ListTaskDefinitionsOutput
			err := p.session.Call(ctx, opList, func(ctx context.Context) (err error) {
				out, err = p.ecs.ListTaskDefinitions(ctx, in)
				return err
			})
			if err != nil {
				return err
			}
			for _, arn := range out.TaskDefinitionArns {
				d, err := p.describeDefinition(ctx, arn)
				if err != nil {
					return err
				}
				if d == nil || d.tags[labelDefinition] == "" || owner != "" && d.tags[sdk.LabelOwner] != owner {
					continue
				}
				if !yield(ownedDefinition(d, used[arn])) {
					return nil
				}
			}
			if str(out.NextToken) == "" {
				break
			}
			in.NextToken = out.NextToken
		}
	}
	return nil
}

func ownedDefinition(d *foundDefinition, live bool) sdk.OwnedObject {
	return sdk.OwnedObject{Type: typeDefinition, ID: d.arn(), Name: fmt.Sprintf("%s:%d", str(d.def.Family), d.def.Revision), Owner: d.tags[sdk.LabelOwner],
		LedgerID: d.tags[sdk.LabelLedger], CreatedAt: at(d.def.RegisteredAt), Live: live, Shared: true, State: string(d.def.Status)}
}

// families returns the families of ours that have an active definition.
func (p *provider) families(ctx context.Context) ([]string, error) {
	in := &ecs.ListTaskDefinitionFamiliesInput{FamilyPrefix: new(familyPrefix), Status: types.TaskDefinitionFamilyStatusActive, MaxResults: new(int32(batchMax))}
	var all []string
	for {
		var out *ecs.ListTaskDefinitionFamiliesOutput
		err := p.session.Call(ctx, opList, func(ctx context.Context) (err error) {
			out, err = p.ecs.ListTaskDefinitionFamilies(ctx, in)
			return err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, out.Families...)
		if str(out.NextToken) == "" {
			return all, nil
		}
		in.NextToken = out.NextToken
	}
}

// RemoveOwned implements sdk.OwnedLister. It stops a task, and deregisters a
// definition.
func (p *provider) RemoveOwned(ctx context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.RemoveOwnedResult{}, p.fail(sdk.CodeOf(err), opRemove, err)
	}
	o := r.Object
	a, ok := aws.ParseARN(o.ID)
	if !ok || a.Service != "ecs" {
		return sdk.RemoveOwnedResult{}, p.fail(sdk.InvalidArgument, opRemove, fmt.Errorf("%q is no ARN of ECS", o.ID))
	}
	switch o.Type {
	case typeTask:
		return sdk.RemoveOwnedResult{}, p.removeTask(ctx, o)
	case typeDefinition:
		return sdk.RemoveOwnedResult{}, p.removeDefinition(ctx, o)
	}
	return sdk.RemoveOwnedResult{}, p.fail(sdk.InvalidArgument, opRemove, fmt.Errorf("no object is of the type %q", o.Type))
}

func (p *provider) changed(o sdk.OwnedObject) error {
	return p.fail(sdk.FailedPrecondition, opRemove, fmt.Errorf("%s %s no longer carries the labels that were listed", o.Type, o.Name))
}

func (p *provider) removeTask(ctx context.Context, o sdk.OwnedObject) error {
	found, err := p.describe(ctx, opRemove, p.cfg.Cluster, []string{o.ID}, true)
	if err != nil {
		return err
	}
	t, ok := found[o.ID]
	if !ok || hasEnded(t) {
		return nil
	}
	is, ok := ownedTask(t)
	if !ok && str(t.DesiredStatus) == statusStopped {
		return nil // StopTask deleted the tags: it is on its way
	}
	if is.RunID != o.RunID || is.AttemptID != o.AttemptID || is.Owner != o.Owner || is.LedgerID != o.LedgerID {
		return p.changed(o)
	}
	_, _, err = p.stop(ctx, sdk.JobHandle{ID: o.ID, Metadata: map[string]string{keyCluster: p.cfg.Cluster}}, "removed as an orphan")
	return err
}

func (p *provider) removeDefinition(ctx context.Context, o sdk.OwnedObject) error {
	d, err := p.describeDefinition(ctx, o.ID)
	if err != nil || d == nil || !d.active() {
		return err
	}
	if is := ownedDefinition(d, false); is.Owner != o.Owner || is.LedgerID != o.LedgerID || is.RunID != o.RunID {
		return p.changed(o)
	}
	return p.retire(ctx, opRemove, d)
}

// RenewExpiry implements sdk.ExpiryRenewer.
func (p *provider) RenewExpiry(ctx context.Context, r sdk.RenewExpiryRequest) (sdk.RenewExpiryResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.RenewExpiryResult{}, p.fail(sdk.CodeOf(err), opRenew, err)
	}
	if err := p.checkHandle(opRenew, r.Handle); err != nil {
		return sdk.RenewExpiryResult{}, err
	}
	err := p.session.Call(ctx, opRenew, func(ctx context.Context) error {
		_, err := p.ecs.TagResource(ctx, &ecs.TagResourceInput{ResourceArn: &r.Handle.ID, Tags: tagList(map[string]string{sdk.LabelExpires: itoa(r.Expires.Unix())})})
		return err
	})
	if noTask(err) || err != nil && strings.Contains(strings.ToLower(aws.ErrorText(err)), "inactive") {
		err = p.fail(sdk.NotFound, opRenew, errors.New("ECS has no such task any more"))
	}
	return sdk.RenewExpiryResult{}, err
}
