package batch

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

// definitions knows which names have an active revision, and lets one caller at
// a time find out or register one. The zero value is ready.
type definitions struct {
	mu sync.Mutex
	m  map[string]*defined
}

// defined is what is known of a name.
type defined struct {
	// lock is held by whoever looks at the name or registers it.
	lock  chan struct{}
	ready bool
}

func (d *definitions) of(name string) *defined {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.m == nil {
		d.m = map[string]*defined{}
	}
	e, ok := d.m[name]
	if !ok {
		e = &defined{lock: make(chan struct{}, 1)}
		d.m[name] = e
	}
	return e
}

// take locks a name.
func (p *provider) take(ctx context.Context, op, name string) (e *defined, free func(), err error) {
	e = p.definitions.of(name)
	select {
	case e.lock <- struct{}{}:
		return e, func() { <-e.lock }, nil
	case <-ctx.Done():
		return nil, nil, p.fail(sdk.CodeOf(context.Cause(ctx)), op, context.Cause(ctx))
	}
}

// ensureDefinition makes sure that the definition has an active revision. Those
// who want the same one wait for the first, which asks once and registers at
// most once. Again is for a caller who was told that there is none.
func (p *provider) ensureDefinition(ctx context.Context, d definition, again bool) error {
	e, free, err := p.take(ctx, opRun, d.Name)
	if err != nil {
		return err
	}
	defer free()
	if e.ready && !again {
		return nil
	}
	e.ready = false
	found, err := p.revisions(ctx, opRun, d.Name)
	if err != nil {
		return err
	}
	ours := false
	for _, f := range found {
		ours = ours || p.mine(f) && f.Tags[labelDefinition] == d.Tags[labelDefinition]
	}
	if !ours || again {
		err := p.session.Call(ctx, "register job definition", func(ctx context.Context) error {
			_, err := p.batch.RegisterJobDefinition(ctx, d.input())
			return err
		})
		if err != nil {
			return refused(err)
		}
	}
	e.ready = true
	return nil
}

// mine reports whether a definition is of this owner's making.
func (p *provider) mine(d types.JobDefinition) bool {
	return d.Tags[sdk.LabelOwner] == p.owner && d.Tags[labelDefinition] != ""
}

// revisions returns the active revisions of a name, the newest first.
// https://docs.aws.amazon.com/batch/latest/APIReference/API_DescribeJobDefinitions.html
func (p *provider) revisions(ctx context.Context, op, name string) ([]types.JobDefinition, error) {
	var all []types.JobDefinition
	err := p.eachDefinition(ctx, op, &batch.DescribeJobDefinitionsInput{JobDefinitionName: &name}, func(d types.JobDefinition) bool {
		all = append(all, d)
		return true
	})
	return all, err
}

// eachDefinition gives active definitions, page by page.
func (p *provider) eachDefinition(ctx context.Context, op string, in *batch.DescribeJobDefinitionsInput, yield func(types.JobDefinition) bool) error {
	in.Status, in.MaxResults = new("ACTIVE"), new(int32(batchMax))
	for {
		var out *batch.DescribeJobDefinitionsOutput
		err := p.session.Call(ctx, op, func(ctx context.Context) (err error) {
			out, err = p.batch.DescribeJobDefinitions(ctx, in)
			return err
		})
		if err != nil {
			return err
		}
		for _, d := range out.JobDefinitions {
			if str(d.Status) == "ACTIVE" && !yield(d) {
				return nil
			}
		}
		if str(out.NextToken) == "" {
			return nil
		}
		in.NextToken = out.NextToken
	}
}

// deregister makes a revision inactive. One that is inactive or gone is success.
func (p *provider) deregister(ctx context.Context, op, arn string) error {
	err := p.session.Call(ctx, op, func(ctx context.Context) error {
		_, err := p.batch.DeregisterJobDefinition(ctx, &batch.DeregisterJobDefinitionInput{JobDefinition: &arn})
		return err
	})
	if noDefinition(err) {
		return nil
	}
	return err
}

// says reports whether AWS Batch refused a call with one of some words. It has
// one name for all errors of the caller's.
func says(err error, words ...string) bool {
	if aws.ErrorCode(err) != "ClientException" {
		return false
	}
	text := strings.ToLower(strings.ReplaceAll(aws.ErrorText(err), " ", ""))
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// noDefinition reports whether a call was refused for a definition that isn't
// there, or is no longer active.
func noDefinition(err error) bool {
	return says(err, "jobdefinition") && says(err, "notfound", "inactive", "notactive", "noactive", "doesnotexist")
}

// noQueue reports whether a call was refused for its queue.
func noQueue(err error) bool {
	return says(err, "jobqueue") && says(err, "notfound", "doesnotexist", "disabled", "notenabled", "invalid")
}

// refused says that it is the job's own request that was refused, or that it is
// somebody else's turn.
func refused(err error) error {
	var e *sdk.Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	switch c.Code {
	case sdk.ResourceExhausted:
		c.Retryable, c.Reason = true, sdk.ReasonQueued
	case sdk.InvalidArgument:
		c.Reason = sdk.ReasonInvalidSpec
	}
	return &c
}
