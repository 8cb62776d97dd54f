package batch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/sdk"
)

const (
	opList   = "list objects"
	opRemove = "remove object"
	opRenew  = "renew expiry"

	typeJob        = "job"
	typeDefinition = "job-definition"
)

// ListOwned implements sdk.OwnedLister. It gives the queue's jobs that haven't
// ended, and the definitions that are active. An ended job is AWS Batch's own
// record, which costs nothing and can't be removed; log streams stay.
func (p *provider) ListOwned(ctx context.Context, r sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
	return func(yield func(sdk.OwnedObject, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(sdk.OwnedObject{}, p.fail(sdk.CodeOf(err), opList, err))
			return
		}
		used, seen, left := map[string]bool{}, map[string]bool{}, false
		give := func(o sdk.OwnedObject) bool {
			left = left || !yield(o, nil)
			return !left
		}
		var err error
		// In the order in which a job goes through them, so that one which goes
		// on meanwhile is seen later.
		for _, status := range []types.JobStatus{types.JobStatusSubmitted, types.JobStatusPending, types.JobStatusRunnable, types.JobStatusStarting, types.JobStatusRunning} {
			in := &batch.ListJobsInput{JobQueue: &p.cfg.Queue, JobStatus: status}
			err = p.listJobs(ctx, opList, in, func(page []types.JobDetail) bool {
				for _, j := range page {
					o, ok := ownedJob(j)
					if !ok || seen[o.ID] {
						continue
					}
					seen[o.ID], used[definitionOf(str(j.JobDefinition))] = true, true
					if (r.Owner == "" || o.Owner == r.Owner) && !give(o) {
						return false
					}
				}
				return true
			})
			if left {
				return
			}
			if err != nil {
				yield(sdk.OwnedObject{}, err)
				return
			}
		}
		err = p.eachDefinition(ctx, opList, &batch.DescribeJobDefinitionsInput{}, func(d types.JobDefinition) bool {
			if d.Tags[labelDefinition] == "" || !strings.HasPrefix(str(d.JobDefinitionName), prefix) || r.Owner != "" && d.Tags[sdk.LabelOwner] != r.Owner {
				return true
			}
			return give(ownedDefinition(d, used[str(d.JobDefinitionName)]))
		})
		if err != nil && !left {
			yield(sdk.OwnedObject{}, err)
		}
	}
}

// ownedJob makes an object of a job that carries our tags.
func ownedJob(j types.JobDetail) (sdk.OwnedObject, bool) {
	run, err := sdk.ParseID(j.Tags[sdk.LabelRun])
	if err != nil || j.Tags[sdk.LabelOwner] == "" {
		return sdk.OwnedObject{}, false
	}
	attempt, err := sdk.ParseID(j.Tags[sdk.LabelAttempt])
	if err != nil {
		return sdk.OwnedObject{}, false
	}
	o := sdk.OwnedObject{Type: typeJob, ID: str(j.JobId), Name: str(j.JobName), RunID: run, AttemptID: attempt,
		Owner: j.Tags[sdk.LabelOwner], LedgerID: j.Tags[sdk.LabelLedger], CreatedAt: at(j.CreatedAt), Started: at(j.StartedAt), Expires: expiry(j.Tags),
		Live: !hasEnded(j), State: string(j.Status), Size: sizeOf(j)}
	if !o.Live {
		o.Ended = at(j.StoppedAt)
	}
	return o, true
}

// sizeOf is what a job costs by. That a queue's Fargate is of the kind that may
// be taken away, and cheaper, a job doesn't tell.
// https://docs.aws.amazon.com/batch/latest/APIReference/API_JobDetail.html
func sizeOf(j types.JobDetail) sdk.OwnedSize {
	var s sdk.OwnedSize
	if len(j.PlatformCapabilities) > 0 {
		s.Class = string(j.PlatformCapabilities[0])
	}
	c := j.Container
	if c == nil {
		return s
	}
	if r := c.RuntimePlatform; r != nil && strings.EqualFold(str(r.CpuArchitecture), "ARM64") {
		s.Class += "/ARM64"
	}
	for _, r := range c.ResourceRequirements {
		// Both are numbers in what AWS Batch answers; what isn't is unknown.
		n, _ := strconv.ParseFloat(str(r.Value), 64)
		switch r.Type {
		case types.ResourceTypeVcpu:
			s.CPU = int64(n * 1000)
		case types.ResourceTypeMemory:
			s.Memory = int64(n) << 20
		}
	}
	if e := c.EphemeralStorage; e != nil && e.SizeInGiB != nil {
		s.Disk = int64(*e.SizeInGiB) << 30
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

func ownedDefinition(d types.JobDefinition, live bool) sdk.OwnedObject {
	revision := int32(0)
	if d.Revision != nil {
		revision = *d.Revision
	}
	return sdk.OwnedObject{Type: typeDefinition, ID: str(d.JobDefinitionArn), Name: fmt.Sprintf("%s:%d", str(d.JobDefinitionName), revision),
		Owner: d.Tags[sdk.LabelOwner], LedgerID: d.Tags[sdk.LabelLedger], Live: live, Shared: true, State: str(d.Status)}
}

// RemoveOwned implements sdk.OwnedLister. It terminates a job, and deregisters a
// definition.
func (p *provider) RemoveOwned(ctx context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.RemoveOwnedResult{}, p.fail(sdk.CodeOf(err), opRemove, err)
	}
	switch o := r.Object; o.Type {
	case typeJob:
		return sdk.RemoveOwnedResult{}, p.removeJob(ctx, o)
	case typeDefinition:
		return sdk.RemoveOwnedResult{}, p.removeDefinition(ctx, o)
	default:
		return sdk.RemoveOwnedResult{}, p.fail(sdk.InvalidArgument, opRemove, fmt.Errorf("no object is of the type %q", o.Type))
	}
}

func (p *provider) changed(o sdk.OwnedObject) error {
	return p.fail(sdk.FailedPrecondition, opRemove, fmt.Errorf("%s %s no longer carries the labels that were listed", o.Type, o.Name))
}

func (p *provider) removeJob(ctx context.Context, o sdk.OwnedObject) error {
	if !jobID.MatchString(o.ID) {
		return p.fail(sdk.InvalidArgument, opRemove, fmt.Errorf("%q is no ID of a job", o.ID))
	}
	found, err := p.describe(ctx, opRemove, []string{o.ID})
	if err != nil {
		return err
	}
	j, ok := found[o.ID]
	if !ok {
		return nil
	}
	if is, ok := ownedJob(j); !ok || is.RunID != o.RunID || is.AttemptID != o.AttemptID || is.Owner != o.Owner || is.LedgerID != o.LedgerID {
		return p.changed(o)
	}
	if hasEnded(j) {
		return nil
	}
	return p.terminate(ctx, opRemove, o.ID, "removed as an orphan")
}

func (p *provider) removeDefinition(ctx context.Context, o sdk.OwnedObject) error {
	name := definitionOf(o.ID)
	if name == "" {
		return p.fail(sdk.InvalidArgument, opRemove, fmt.Errorf("%q is no ARN of a job definition", o.ID))
	}
	err := p.definitions.Retire(ctx, name, func() error {
		found, err := p.revisions(ctx, opRemove, name)
		if err != nil {
			return err
		}
		for _, d := range found {
			if str(d.JobDefinitionArn) != o.ID {
				continue
			}
			if is := ownedDefinition(d, false); is.Owner != o.Owner || is.LedgerID != o.LedgerID || is.RunID != o.RunID {
				return p.changed(o)
			}
			return p.deregister(ctx, opRemove, o.ID)
		}
		return nil
	})
	return p.session.Fail(ctx, opRemove, err)
}

// RenewExpiry implements sdk.ExpiryRenewer.
func (p *provider) RenewExpiry(ctx context.Context, r sdk.RenewExpiryRequest) (sdk.RenewExpiryResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.RenewExpiryResult{}, p.fail(sdk.CodeOf(err), opRenew, err)
	}
	if err := p.checkHandle(opRenew, r.Handle); err != nil {
		return sdk.RenewExpiryResult{}, err
	}
	arn := p.session.ARN("batch", "job/"+r.Handle.ID).String()
	err := p.session.Call(ctx, opRenew, func(ctx context.Context) error {
		_, err := p.batch.TagResource(ctx, &batch.TagResourceInput{ResourceArn: &arn, Tags: map[string]string{sdk.LabelExpires: itoa(r.Expires.Unix())}})
		return err
	})
	if says(err, "notfound", "doesnotexist") {
		err = p.fail(sdk.NotFound, opRenew, errors.New("AWS Batch has no such job any more"))
	}
	return sdk.RenewExpiryResult{}, err
}
