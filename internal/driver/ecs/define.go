package ecs

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

// ensureDefinition makes sure that the family has an active revision, and returns
// its version. Gone is the version of one that RunTask didn't find, though a
// description may still show it.
func (p *provider) ensureDefinition(ctx context.Context, d definition, gone int) (version int, err error) {
	version, err = p.definitions.Ensure(ctx, d.Family, gone, func() (bool, error) {
		found, err := p.describeDefinition(ctx, d.Family)
		if err != nil {
			return false, refusedDefinition(err)
		}
		return found != nil && found.active() && found.tags[labelDefinition] == d.Tags[labelDefinition] && found.tags[sdk.LabelOwner] == p.owner, nil
	}, func() error { return p.register(ctx, d) })
	return version, p.session.Fail(ctx, opRun, err)
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

// refusedDefinition says that it is the job's own definition that was refused, or
// that it is somebody else's turn.
func refusedDefinition(err error) error {
	var e *sdk.Error
	if familyBusy(err) && errors.As(err, &e) {
		c := *e
		c.Code = sdk.ResourceExhausted
		err = &c
	}
	return aws.Refused(err)
}
