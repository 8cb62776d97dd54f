package ecs

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/windlass-run/windlass/sdk"
)

// probe is the name of what a check asks for: nothing bears it, so that no call
// can change anything.
const probe = "windlass-check"

// Check implements sdk.Provider. It asks who the credentials are and for the
// cluster, then makes each further call that the driver needs on things that
// don't exist: a refusal for rights is told from one for the thing. What the
// roles of tasks may do can't be seen this way.
func (p *provider) Check(ctx context.Context, _ sdk.CheckRequest) (sdk.CheckResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CheckResult{}, p.fail(sdk.CodeOf(err), "check", err)
	}
	var res sdk.CheckResult
	add := func(name string, ok bool, detail, remedy string) {
		res.Items = append(res.Items, sdk.CheckItem{Name: name, OK: ok, Detail: detail, Remedy: remedy})
	}
	who, err := p.session.WhoAmI(ctx)
	if err != nil {
		return res, err
	}
	if who.Account == p.session.Account {
		add("sts:GetCallerIdentity", true, who.ARN, "")
	} else {
		add("sts:GetCallerIdentity", false, fmt.Sprintf("the credentials are of the account %s, the provider is for %s", who.Account, p.session.Account), "use other credentials, or change account under config:")
	}
	if err := p.checkCluster(ctx, add); err != nil {
		return res, err
	}
	for _, c := range p.probes() {
		err := p.session.Call(ctx, "check", c.call)
		switch sdk.CodeOf(err) {
		case sdk.PermissionDenied:
			add(c.action, false, strings.Join(strings.Fields(err.Error()), " "), "allow "+c.action+" to "+who.ARN+"; docs/drivers/aws-ecs.md has the policy")
		case 0, sdk.InvalidArgument, sdk.NotFound, sdk.FailedPrecondition, sdk.Aborted:
			add(c.action, true, "allowed", "")
		default:
			return res, err
		}
	}
	return res, nil
}

func (p *provider) checkCluster(ctx context.Context, add func(name string, ok bool, detail, remedy string)) error {
	const name = "ecs:DescribeClusters"
	var out *ecs.DescribeClustersOutput
	err := p.session.Call(ctx, "check", func(ctx context.Context) (err error) {
		out, err = p.ecs.DescribeClusters(ctx, &ecs.DescribeClustersInput{Clusters: []string{p.cfg.Cluster}})
		return err
	})
	switch {
	case sdk.CodeOf(err) == sdk.PermissionDenied:
		add(name, false, err.Error(), "allow "+name+"; only this check needs it")
	case err != nil:
		return err
	case len(out.Clusters) == 0 || str(out.Clusters[0].Status) != "ACTIVE":
		add(name, false, fmt.Sprintf("the account %s has no active cluster %s in %s", p.session.Account, p.cfg.Cluster, p.session.Region), "make the cluster, or set cluster under config:")
	default:
		add(name, true, "cluster "+str(out.Clusters[0].ClusterArn), "")
	}
	return nil
}

type probeCall struct {
	action string
	call   func(ctx context.Context) error
}

// probes are the calls that the driver needs, each on what doesn't exist.
func (p *provider) probes() []probeCall {
	cluster := p.cfg.Cluster
	task := p.session.ARN("ecs", "task/"+clusterName(cluster)+"/"+strings.Repeat("0", 32)).String()
	definition := probe + ":999999999"
	return []probeCall{
		{"ecs:DescribeTasks", func(ctx context.Context) error {
			_, err := p.ecs.DescribeTasks(ctx, &ecs.DescribeTasksInput{Cluster: &cluster, Tasks: []string{task}})
			return err
		}},
		{"ecs:ListTasks", func(ctx context.Context) error {
			_, err := p.ecs.ListTasks(ctx, &ecs.ListTasksInput{Cluster: &cluster, StartedBy: new(probe)})
			return err
		}},
		{"ecs:DescribeTaskDefinition", func(ctx context.Context) error {
			_, err := p.ecs.DescribeTaskDefinition(ctx, &ecs.DescribeTaskDefinitionInput{TaskDefinition: &definition})
			return err
		}},
		{"ecs:RegisterTaskDefinition", func(ctx context.Context) error {
			// A definition needs a container.
			_, err := p.ecs.RegisterTaskDefinition(ctx, &ecs.RegisterTaskDefinitionInput{Family: new(probe), ContainerDefinitions: []types.ContainerDefinition{}})
			return err
		}},
		{"ecs:DeregisterTaskDefinition", func(ctx context.Context) error {
			_, err := p.ecs.DeregisterTaskDefinition(ctx, &ecs.DeregisterTaskDefinitionInput{TaskDefinition: &definition})
			return err
		}},
		{"ecs:RunTask", func(ctx context.Context) error {
			_, err := p.ecs.RunTask(ctx, &ecs.RunTaskInput{Cluster: &cluster, TaskDefinition: &definition, ClientToken: new(probe)})
			return err
		}},
		{"ecs:StopTask", func(ctx context.Context) error {
			_, err := p.ecs.StopTask(ctx, &ecs.StopTaskInput{Cluster: &cluster, Task: &task})
			return err
		}},
		{"ecs:TagResource", func(ctx context.Context) error {
			_, err := p.ecs.TagResource(ctx, &ecs.TagResourceInput{ResourceArn: &task, Tags: tagList(map[string]string{sdk.LabelExpires: "0"})})
			return err
		}},
		{"ecs:ListTaskDefinitionFamilies", func(ctx context.Context) error {
			_, err := p.ecs.ListTaskDefinitionFamilies(ctx, &ecs.ListTaskDefinitionFamiliesInput{FamilyPrefix: new(probe)})
			return err
		}},
		{"ecs:ListTaskDefinitions", func(ctx context.Context) error {
			_, err := p.ecs.ListTaskDefinitions(ctx, &ecs.ListTaskDefinitionsInput{FamilyPrefix: new(probe)})
			return err
		}},
		{"logs:GetLogEvents", func(ctx context.Context) error {
			_, err := p.logs.GetLogEvents(ctx, &cloudwatchlogs.GetLogEventsInput{LogGroupName: &p.cfg.LogGroup, LogStreamName: new(probe)})
			return err
		}},
		{"logs:FilterLogEvents", func(ctx context.Context) error {
			_, err := p.logs.FilterLogEvents(ctx, &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &p.cfg.LogGroup, LogStreamNames: []string{probe}})
			return err
		}},
		{"secretsmanager:DescribeSecret", func(ctx context.Context) error {
			_, err := p.secrets.Vault.DescribeSecret(ctx, &secretsmanager.DescribeSecretInput{SecretId: new(probe)})
			return err
		}},
	}
}
