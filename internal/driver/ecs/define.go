package ecs

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

// definitions knows which families have a revision that can be run, and lets
// one caller at a time find out or register one. The zero value is ready.
type definitions struct {
	mu sync.Mutex
	m  map[string]*defined
}

// defined is what is known of a family.
type defined struct {
	// lock is held by whoever looks at the family or registers it.
	lock  chan struct{}
	ready bool
}

func (d *definitions) of(family string) *defined {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.m == nil {
		d.m = map[string]*defined{}
	}
	e, ok := d.m[family]
	if !ok {
		e = &defined{lock: make(chan struct{}, 1)}
		d.m[family] = e
	}
	return e
}

// drop takes an inactive family out of memory. Who waits for it still looks for
// himself.
func (d *definitions) drop(family string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.m, family)
}

// forget makes the next caller look again.
func (d *definitions) forget(ctx context.Context, family string) error {
	e := d.of(family)
	select {
	case e.lock <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	e.ready = false
	<-e.lock
	return nil
}

// ensureDefinition makes sure that the family has an active revision. Those who
// want the same one wait for the first, which asks once and registers at most
// once.
func (p *provider) ensureDefinition(ctx context.Context, d definition) error {
	e := p.definitions.of(d.Family)
	select {
	case e.lock <- struct{}{}:
	case <-ctx.Done():
		return p.fail(sdk.CodeOf(context.Cause(ctx)), opRun, context.Cause(ctx))
	}
	defer func() { <-e.lock }()
	if e.ready {
		return nil
	}
	found, err := p.describeDefinition(ctx, d.Family)
	if err != nil {
		return refusedDefinition(err)
	}
	if found == nil || !found.active() || found.tags[labelDefinition] != d.Tags[labelDefinition] || found.tags[sdk.LabelOwner] != p.owner {
		if err := p.register(ctx, d); err != nil {
			return err
		}
	}
	e.ready = true
	return nil
}

// foundDefinition is a definition as ECS has it.
type foundDefinition struct {
	def  types.TaskDefinition
	tags map[string]string
}

func (f *foundDefinition) active() bool { return f.def.Status == types.TaskDefinitionStatusActive }

func (f *foundDefinition) arn() string { return str(f.def.TaskDefinitionArn) }

// describeDefinition returns a definition, or the newest active one of a
// family; nil is none.
func (p *provider) describeDefinition(ctx context.Context, name string) (*foundDefinition, error) {
	var out *ecs.DescribeTaskDefinitionOutput
	err := p.session.Call(ctx, "describe task definition", func(ctx context.Context) (err error) {
		out, err = p.ecs.DescribeTaskDefinition(ctx, &ecs.DescribeTaskDefinitionInput{TaskDefinition: &name,
			Include: []types.TaskDefinitionField{types.TaskDefinitionFieldTags}})
		return err
	})
	switch {
	case noDefinition(err):
		return nil, nil
	case err != nil:
		return nil, err
	case out.TaskDefinition == nil:
		return nil, p.fail(sdk.Unavailable, "describe task definition", errors.New("the answer holds no definition"))
	}
	return &foundDefinition{def: *out.TaskDefinition, tags: tagMap(out.Tags)}, nil
}

// noDefinition reports whether a call was refused for a definition that isn't
// there, or is no longer active.
func noDefinition(err error) bool {
	switch aws.ErrorCode(err) {
	case "ClientException", "InvalidParameterException":
	default:
		return false
	}
	text := strings.ToLower(strings.ReplaceAll(aws.ErrorText(err), " ", ""))
	return strings.Contains(text, "unabletodescribetaskdefinition") ||
		strings.Contains(text, "taskdefinition") && (strings.Contains(text, "notfound") || strings.Contains(text, "inactive") || strings.Contains(text, "doesnotexist"))
}

// familyBusy reports whether somebody else registers a revision at this moment.
func familyBusy(err error) bool {
	return aws.ErrorCode(err) == "ClientException" && strings.Contains(aws.ErrorText(err), "Too many concurrent attempts to create a new revision")
}

const (
	busyFirst = 100 * time.Millisecond
	busyMost  = 3 * time.Second
	busyTries = 12
)

// register registers a revision. ECS lets one caller at a time do so in a
// family; another process of this owner may be at it.
func (p *provider) register(ctx context.Context, d definition) error {
	wait := busyFirst
	for try := 1; ; try++ {
		err := p.session.Call(ctx, "register task definition", func(ctx context.Context) error {
			_, err := p.ecs.RegisterTaskDefinition(ctx, d.input())
			return err
		})
		if !familyBusy(err) || try == busyTries {
			if err != nil {
				return refusedDefinition(err)
			}
			return nil
		}
		if serr := p.clock.Sleep(ctx, wait/2+rand.N(wait/2)); serr != nil {
			return p.fail(sdk.CodeOf(serr), opRun, serr)
		}
		wait = min(2*wait, busyMost)
		// The other may have made just what is wanted.
		if found, ferr := p.describeDefinition(ctx, d.Family); ferr == nil && found != nil && found.active() && found.tags[labelDefinition] == d.Tags[labelDefinition] {
			return nil
		}
	}
}

// refusedDefinition says that it is the job's own definition that was refused.
func refusedDefinition(err error) error {
	var e *sdk.Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	if familyBusy(err) || c.Code == sdk.ResourceExhausted {
		c.Code, c.Retryable, c.Reason = sdk.ResourceExhausted, true, sdk.ReasonQueued
	} else if c.Code == sdk.InvalidArgument {
		c.Reason = sdk.ReasonInvalidSpec
	}
	return &c
}
