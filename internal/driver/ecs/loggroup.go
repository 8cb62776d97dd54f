package ecs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/internal/driver/resource"
	"github.com/windlass-run/windlass/sdk"
)

// logGroupConfig is the config of a log group, and with its ARN its outputs.
type logGroupConfig struct {
	// RetentionDays is 0 where events are kept for ever.
	RetentionDays int32             `json:"retention_days"`
	Class         string            `json:"class"`
	Tags          map[string]string `json:"tags,omitempty"`
}

type logGroupOutputs struct {
	ARN string `json:"arn"`
	logGroupConfig
}

func logGroupSchema() sdk.Schema {
	return sdk.Schema{Fields: []sdk.SchemaField{
		{Name: "retention_days", Type: sdk.TypeInt, Min: 0, Max: 3653, Default: "0", Doc: "How long events are kept, one of the numbers of days that CloudWatch Logs has; 0 is for ever."},
		{Name: "class", Type: sdk.TypeString, Default: string(types.LogGroupClassStandard), Enum: []string{string(types.LogGroupClassStandard), string(types.LogGroupClassInfrequentAccess)},
			Doc: "The group's class, which is fixed when it is made."},
		{Name: "tags", Type: sdk.TypeMap, Doc: "Tags beside those of Windlass."},
	}}
}

// retentionDays are the numbers of days that may be set.
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
func retentionDays() []int32 {
	return []int32{0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}
}

func readLogGroup(t resource.Table, op string, s sdk.ResourceSpec) (logGroupConfig, *resource.Spec) {
	var c logGroupConfig
	spec := t.Decode(op, s, &c)
	if s.Name != "" && !isLogGroupName(s.Name) {
		spec.Bad("name", s.Name, "is no name of a log group: at most 512 letters, digits, _, -, /, . and #, and no aws/ before them")
	}
	if !slices.Contains(retentionDays(), c.RetentionDays) {
		spec.Bad("config.retention_days", strconv.Itoa(int(c.RetentionDays)), "is none of %v", retentionDays())
	}
	c.Class = cmp.Or(c.Class, string(types.LogGroupClassStandard))
	for _, k := range slices.Sorted(maps.Keys(c.Tags)) {
		if why := aws.CheckUserTag(k, c.Tags[k]); why != "" {
			spec.Bad("config.tags."+k, "", "%s", why)
		}
	}
	return c, spec
}

func (p *provider) logGroupConfig(op string, s sdk.ResourceSpec) (logGroupConfig, error) {
	c, spec := readLogGroup(p.table(), op, s)
	return c, spec.Err()
}

// isLogGroupName goes by
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_CreateLogGroup.html
func isLogGroupName(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("_-/.#", c) {
			return false
		}
	}
	return len(s) <= 512 && !strings.HasPrefix(s, "aws/")
}

// logGroup is a group as CloudWatch Logs has it.
type logGroup struct {
	name string
	out  logGroupOutputs
	mark resource.Mark
}

func (g *logGroup) output() sdk.ResourceOutput {
	return sdk.ResourceOutput{Name: g.name, Type: typeLogGroup, ProviderID: g.out.ARN, Outputs: resource.Outputs(g.out), Status: "there"}
}

func (p *provider) logGroupARN(name string) string {
	return p.session.ARN("logs", "log-group:"+name).String()
}

// logGroup finds a group by its name; the ID must be its own. There is no call that
// describes one group.
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_DescribeLogGroups.html
func (p *provider) logGroup(ctx context.Context, op string, ref sdk.ResourceRef) (*logGroup, error) {
	arn := p.logGroupARN(ref.Name)
	absent := p.fail(sdk.NotFound, op, fmt.Errorf("there is no log group %s in the region %s", cmp.Or(ref.Name, ref.ProviderID), p.session.Region))
	if ref.Name == "" || ref.ProviderID != "" && ref.ProviderID != arn {
		return nil, absent
	}
	in := &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: &ref.Name}
	for {
		var page *cloudwatchlogs.DescribeLogGroupsOutput
		err := p.session.Call(ctx, op, func(ctx context.Context) (err error) {
			page, err = p.logs.DescribeLogGroups(ctx, in)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, g := range page.LogGroups {
			if str(g.LogGroupName) == ref.Name {
				return p.withTags(ctx, op, g, arn)
			}
		}
		if page.NextToken == nil {
			return nil, absent
		}
		in.NextToken = page.NextToken
	}
}

func (p *provider) withTags(ctx context.Context, op string, g types.LogGroup, arn string) (*logGroup, error) {
	var tags *cloudwatchlogs.ListTagsForResourceOutput
	err := p.session.Call(ctx, op, func(ctx context.Context) (err error) {
		tags, err = p.logs.ListTagsForResource(ctx, &cloudwatchlogs.ListTagsForResourceInput{ResourceArn: &arn})
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &logGroup{name: str(g.LogGroupName)}
	out.mark, out.out.Tags = resource.Split(tags.Tags)
	out.out.ARN, out.out.Class = arn, cmp.Or(string(g.LogGroupClass), string(types.LogGroupClassStandard))
	if g.RetentionInDays != nil {
		out.out.RetentionDays = *g.RetentionInDays
	}
	return out, nil
}

// createLogGroup makes the group and then sets its retention: two calls, so that an
// error of the second proves nothing of the whole.
func (p *provider) createLogGroup(ctx context.Context, s sdk.ResourceSpec, op sdk.ID) (*logGroup, error) {
	c, err := p.logGroupConfig(resource.OpCreate, s)
	if err != nil {
		return nil, err
	}
	ref := sdk.ResourceRef{Name: s.Name, Type: typeLogGroup}
	mark := resource.Mark{Owner: p.owner, LedgerID: p.ledgerID, OpID: op}
	err = p.session.Call(ctx, resource.OpCreate, func(ctx context.Context) error {
		_, err := p.logs.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &s.Name, LogGroupClass: types.LogGroupClass(c.Class), Tags: mark.Onto(c.Tags)})
		return err
	})
	if aws.ErrorCode(err) == "ResourceAlreadyExistsException" {
		g, lookErr := p.logGroup(ctx, resource.OpCreate, ref)
		if lookErr != nil || g.mark.OpID != op {
			return nil, p.fail(sdk.AlreadyExists, resource.OpCreate, err)
		}
	} else if err != nil {
		return nil, err
	}
	if err := p.setRetention(ctx, resource.OpCreate, s.Name, 0, c.RetentionDays); err != nil {
		return nil, sdk.Unclear(err)
	}
	g, err := p.logGroup(ctx, resource.OpCreate, ref)
	if err != nil {
		return nil, sdk.Unclear(err)
	}
	return g, nil
}

func (p *provider) setRetention(ctx context.Context, op, name string, old, days int32) error {
	switch days {
	case old:
		return nil
	case 0:
		return p.session.Call(ctx, op, func(ctx context.Context) error {
			_, err := p.logs.DeleteRetentionPolicy(ctx, &cloudwatchlogs.DeleteRetentionPolicyInput{LogGroupName: &name})
			return err
		})
	}
	return p.session.Call(ctx, op, func(ctx context.Context) error {
		_, err := p.logs.PutRetentionPolicy(ctx, &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: &name, RetentionInDays: &days})
		return err
	})
}

// owned finds a group that is to be changed.
func (p *provider) owned(ctx context.Context, op string, ref sdk.ResourceRef) (*logGroup, error) {
	g, err := p.logGroup(ctx, op, ref)
	if err != nil {
		return nil, err
	}
	return g, p.table().Ours(op, g.mark, p.owner, "log group "+g.name)
}

// updateLogGroup sets the tags last, with the ID of the change among them: it is on
// record only once all of it is done.
func (p *provider) updateLogGroup(ctx context.Context, r sdk.UpdateResourceRequest) (*logGroup, error) {
	c, err := p.logGroupConfig(resource.OpUpdate, r.Spec)
	if err != nil {
		return nil, err
	}
	if err := p.table().CheckRef(resource.OpUpdate, r.Ref); err != nil {
		return nil, err
	}
	g, err := p.owned(ctx, resource.OpUpdate, r.Ref)
	if err != nil {
		return nil, err
	}
	if c.Class != g.out.Class {
		e := p.fail(sdk.FailedPrecondition, resource.OpUpdate, fmt.Errorf("log group %s is of the class %s, which can't change", g.name, g.out.Class))
		e.Field = "config.class"
		return nil, e
	}
	if err := p.setRetention(ctx, resource.OpUpdate, g.name, g.out.RetentionDays, c.RetentionDays); err != nil {
		return nil, err
	}
	gone := slices.Sorted(maps.Keys(g.out.Tags))
	gone = slices.DeleteFunc(gone, func(k string) bool { _, kept := c.Tags[k]; return kept })
	if len(gone) > 0 {
		err := p.session.Call(ctx, resource.OpUpdate, func(ctx context.Context) error {
			_, err := p.logs.UntagResource(ctx, &cloudwatchlogs.UntagResourceInput{ResourceArn: &g.out.ARN, TagKeys: gone})
			return err
		})
		if err != nil {
			return nil, sdk.Unclear(err)
		}
	}
	mark := resource.Mark{Owner: p.owner, LedgerID: p.ledgerID, OpID: r.OpID}
	err = p.session.Call(ctx, resource.OpUpdate, func(ctx context.Context) error {
		_, err := p.logs.TagResource(ctx, &cloudwatchlogs.TagResourceInput{ResourceArn: &g.out.ARN, Tags: mark.Onto(c.Tags)})
		return err
	})
	if err == nil {
		g, err = p.logGroup(ctx, resource.OpUpdate, sdk.ResourceRef{Name: g.name, Type: typeLogGroup})
	}
	if err != nil {
		return nil, sdk.Unclear(err)
	}
	return g, nil
}

func (p *provider) deleteLogGroup(ctx context.Context, ref sdk.ResourceRef) error {
	if err := p.table().CheckRef(resource.OpDelete, ref); err != nil {
		return err
	}
	g, err := p.owned(ctx, resource.OpDelete, ref)
	if err != nil {
		return err
	}
	return p.session.Call(ctx, resource.OpDelete, func(ctx context.Context) error {
		_, err := p.logs.DeleteLogGroup(ctx, &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: &g.name})
		return err
	})
}

func (p *provider) diffLogGroup(s sdk.ResourceSpec, now sdk.ResourceOutput) (sdk.DiffResourceResult, error) {
	want, err := p.logGroupConfig(resource.OpDiff, s)
	if err != nil {
		return sdk.DiffResourceResult{}, err
	}
	var have logGroupOutputs
	if err := p.table().Current(resource.OpDiff, now, &have); err != nil {
		return sdk.DiffResourceResult{}, err
	}
	var d resource.Diff
	d.Value("retention_days", have.RetentionDays, want.RetentionDays, false)
	d.Value("class", have.Class, want.Class, true)
	d.Map("tags", have.Tags, want.Tags, false)
	return d.DiffResourceResult, nil
}
