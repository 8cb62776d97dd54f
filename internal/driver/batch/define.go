package batch

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

// ensureDefinition makes sure that the definition has an active revision, and
// returns its version. Gone is the version of one that SubmitJob didn't find.
func (p *provider) ensureDefinition(ctx context.Context, d definition, gone int) (version int, err error) {
	version, err = p.definitions.Ensure(ctx, d.Name, gone, func() (bool, error) {
		found, err := p.revisions(ctx, opRun, d.Name)
		return slices.ContainsFunc(found, func(f types.JobDefinition) bool {
			return p.mine(f) && f.Tags[labelDefinition] == d.Tags[labelDefinition]
		}), err
	}, func() error {
		return aws.Refused(p.session.Call(ctx, "register job definition", func(ctx context.Context) error {
			_, err := p.batch.RegisterJobDefinition(ctx, d.input())
			return err
		}))
	})
	return version, p.session.Fail(ctx, opRun, err)
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
