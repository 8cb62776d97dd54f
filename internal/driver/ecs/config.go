package ecs

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

const (
	launchFargate = "fargate"
	launchEC2     = "ec2"
	archX86       = "x86_64"
	archARM       = "arm64"
)

// placement is what the config gives for all jobs, and the options for one.
type placement struct {
	LaunchType        string             `json:"launch_type"`
	CapacityProviders []capacityProvider `json:"capacity_providers"`
	Subnets           []string           `json:"subnets"`
	SecurityGroups    []string           `json:"security_groups"`
	AssignPublicIP    *bool              `json:"assign_public_ip"`
	ExecutionRole     string             `json:"execution_role"`
	TaskRole          string             `json:"task_role"`
	PlatformVersion   string             `json:"platform_version"`
	Architecture      string             `json:"architecture"`
	Tags              map[string]string  `json:"tags"`
}

type capacityProvider struct {
	Name   string `json:"name"`
	Weight int32  `json:"weight"`
	Base   int32  `json:"base"`
}

// config is what stands under `config:` of a provider.
type config struct {
	placement
	Region           string       `json:"region"`
	Account          string       `json:"account"`
	Endpoint         string       `json:"endpoint"`
	Cluster          string       `json:"cluster"`
	LogGroup         string       `json:"log_group"`
	LogPrefix        string       `json:"log_prefix"`
	CreateLogGroup   *bool        `json:"create_log_group"`
	EphemeralStorage int64        `json:"ephemeral_storage"`
	LogQuiet         sdk.Duration `json:"log_quiet"`
	LogMax           sdk.Duration `json:"log_max"`
	MissingGrace     sdk.Duration `json:"missing_grace"`
	DescribeRate     int          `json:"describe_rate"`
	LogRate          int          `json:"log_rate"`
	SubmitLimit      int          `json:"submit_limit"`
	ServiceRate      int          `json:"service_rate"`
	ConfigPrefix     string       `json:"config_prefix"`
	ExecShell        string       `json:"exec_shell"`
	MetricInterval   sdk.Duration `json:"metric_interval"`
	ChangeGrace      sdk.Duration `json:"change_grace"`
}

// options is what stands in JobSpec.Options.
type options struct {
	placement
}

const (
	defaultLogGroup  = "/windlass"
	defaultLogPrefix = "windlass"
	// AWS gives 20 calls a second to DescribeTasks and ListTasks together, for
	// everybody in the account and region.
	// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/request-throttling.html
	defaultDescribeRate = 15
	// AWS gives RunTask 20 calls a second, and 100 at once.
	// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/request-throttling.html
	defaultSubmitLimit = 20
	submitBurst        = 5
	// AWS gives GetLogEvents 25 calls a second.
	// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/cloudwatch_limits_cwl.html
	defaultLogRate = 20
	// AWS gives 20 calls a second to DescribeServices and ListServices together.
	// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/request-throttling.html
	defaultServiceRate  = 15
	defaultConfigPrefix = "/windlass"
	// A point of Container Insights comes once a minute, and each look costs.
	defaultMetricInterval = sdk.Duration(30 * time.Second)
	// AWS calls its API eventually consistent, and names no bound for services.
	// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_DescribeServices.html
	defaultChangeGrace = sdk.Duration(5 * time.Second)
	// The log driver sends what it has every five seconds, and when a container
	// ends.
	defaultLogQuiet = sdk.Duration(10 * time.Second)
	defaultLogMax   = sdk.Duration(time.Minute)
	// The time that AWS names for its eventual consistency.
	// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_RunTask.html
	defaultMissingGrace = sdk.Duration(5 * time.Minute)
)

// filled returns the config with its defaults.
func (c config) filled() config {
	c.Cluster = cmp.Or(c.Cluster, "default")
	c.LaunchType = cmp.Or(c.LaunchType, launchFargate)
	c.LogGroup = cmp.Or(c.LogGroup, defaultLogGroup)
	c.LogPrefix = cmp.Or(c.LogPrefix, defaultLogPrefix)
	c.LogQuiet = cmp.Or(c.LogQuiet, defaultLogQuiet)
	c.LogMax = max(cmp.Or(c.LogMax, defaultLogMax), c.LogQuiet)
	c.MissingGrace = cmp.Or(c.MissingGrace, defaultMissingGrace)
	c.DescribeRate = cmp.Or(c.DescribeRate, defaultDescribeRate)
	c.LogRate = cmp.Or(c.LogRate, defaultLogRate)
	c.SubmitLimit = cmp.Or(c.SubmitLimit, defaultSubmitLimit)
	c.ServiceRate = cmp.Or(c.ServiceRate, defaultServiceRate)
	c.ConfigPrefix = cmp.Or(strings.TrimRight(c.ConfigPrefix, "/"), defaultConfigPrefix)
	c.ChangeGrace = cmp.Or(c.ChangeGrace, defaultChangeGrace)
	c.MetricInterval = cmp.Or(c.MetricInterval, defaultMetricInterval)
	if c.CreateLogGroup == nil {
		c.CreateLogGroup = new(true)
	}
	return c
}

// with returns the placement of a job that sets o.
func (p placement) with(o placement) placement {
	p.LaunchType = cmp.Or(o.LaunchType, p.LaunchType)
	// Either kind of placement, set for a job, replaces the other of the config.
	switch {
	case len(o.CapacityProviders) > 0:
		p.CapacityProviders = o.CapacityProviders
	case o.LaunchType != "":
		p.CapacityProviders = nil
	}
	if len(o.Subnets) > 0 {
		p.Subnets = o.Subnets
	}
	if len(o.SecurityGroups) > 0 {
		p.SecurityGroups = o.SecurityGroups
	}
	if o.AssignPublicIP != nil {
		p.AssignPublicIP = o.AssignPublicIP
	}
	p.ExecutionRole, p.TaskRole = cmp.Or(o.ExecutionRole, p.ExecutionRole), cmp.Or(o.TaskRole, p.TaskRole)
	p.PlatformVersion, p.Architecture = cmp.Or(o.PlatformVersion, p.PlatformVersion), cmp.Or(o.Architecture, p.Architecture)
	p.Tags = maps.Collect(maps.All(p.Tags)) // a map of its own, also for none
	maps.Copy(p.Tags, o.Tags)
	return p
}

// placementFields are the members that the config and the options share.
func placementFields() []sdk.SchemaField {
	text := &sdk.SchemaField{Type: sdk.TypeString}
	return []sdk.SchemaField{
		{Name: "launch_type", Type: sdk.TypeString, Default: launchFargate, Enum: []string{launchFargate, launchEC2}, Doc: "Where tasks run: Fargate, or instances of the cluster."},
		{Name: "capacity_providers", Type: sdk.TypeList, Doc: "Capacity providers of the cluster, such as FARGATE_SPOT; launch_type says which of the two kinds they are.",
			Elem: &sdk.SchemaField{Type: sdk.TypeObject, Fields: []sdk.SchemaField{
				{Name: "name", Type: sdk.TypeString, Required: true, Doc: "The capacity provider's name."},
				{Name: "weight", Type: sdk.TypeInt, Max: 1000, Default: "1", Doc: "Its share of the tasks."},
				{Name: "base", Type: sdk.TypeInt, Max: 100000, Default: "0", Doc: "How many tasks it gets before shares count."},
			}}},
		{Name: "subnets", Type: sdk.TypeList, Elem: text, Doc: "The subnets of a task's network interface; needed on Fargate."},
		{Name: "security_groups", Type: sdk.TypeList, Elem: text, Default: "the VPC's default", Doc: "The security groups of a task's network interface."},
		{Name: "assign_public_ip", Type: sdk.TypeBool, Default: "false", Doc: "A task's network interface gets a public address, which a public subnet needs to reach a registry."},
		{Name: "execution_role", Type: sdk.TypeString, Doc: "The role that pulls images, fetches secrets and writes logs, a name or an ARN; needed on Fargate."},
		{Name: "task_role", Type: sdk.TypeString, Doc: "The role that the job itself has, a name or an ARN."},
		{Name: "platform_version", Type: sdk.TypeString, Default: "LATEST", Doc: "Fargate's platform version."},
		{Name: "architecture", Type: sdk.TypeString, Default: archX86, Enum: []string{archX86, archARM}, Doc: "The processor's architecture."},
		{Name: "tags", Type: sdk.TypeMap, Doc: "Further tags of each task."},
	}
}

func configSchema() sdk.Schema {
	own := []sdk.SchemaField{
		{Name: "region", Type: sdk.TypeString, Default: "AWS_REGION, else AWS_DEFAULT_REGION", Doc: "The region, such as eu-west-1."},
		{Name: "account", Type: sdk.TypeString, Default: "the account of the credentials, as STS says it", Doc: "The account, 12 digits; set, it saves a question to STS, and other accounts' credentials are refused by `provider check`."},
		{Name: "endpoint", Type: sdk.TypeString, Doc: "The address of a pocket cloud on this machine, which takes the calls to every service."},
		{Name: "cluster", Type: sdk.TypeString, Default: "default", Doc: "The cluster's name or ARN."},
		{Name: "log_group", Type: sdk.TypeString, Default: defaultLogGroup, Doc: "The group in CloudWatch Logs that gets the jobs' output."},
		{Name: "log_prefix", Type: sdk.TypeString, Default: defaultLogPrefix, Doc: "The first part of the names of log streams."},
		{Name: "create_log_group", Type: sdk.TypeBool, Default: "true", Doc: "ECS makes the log group where there is none; the execution role then needs logs:CreateLogGroup."},
		{Name: "ephemeral_storage", Type: sdk.TypeInt, Min: 20, Max: 200, Default: "20", Doc: "A Fargate task's disk in GiB, for jobs that don't say."},
		{Name: "log_quiet", Type: sdk.TypeDuration, Default: time.Duration(defaultLogQuiet).String(), Doc: "A job's output counts as whole once the job has ended and nothing came for this long."},
		{Name: "log_max", Type: sdk.TypeDuration, Default: time.Duration(defaultLogMax).String(), Doc: "The longest wait for output after a job's end."},
		{Name: "missing_grace", Type: sdk.TypeDuration, Default: time.Duration(defaultMissingGrace).String(), Doc: "A task that ECS doesn't know counts as not visible yet for this long after its submit."},
		{Name: "describe_rate", Type: sdk.TypeInt, Min: 1, Max: 10000, Default: fmt.Sprint(defaultDescribeRate), Doc: "The most DescribeTasks and ListTasks calls a second, of all providers of the account and region in one process."},
		{Name: "log_rate", Type: sdk.TypeInt, Min: 1, Max: 10000, Default: fmt.Sprint(defaultLogRate), Doc: "The most GetLogEvents calls a second, counted in the same way, and with aws-ecs and aws-batch together; FilterLogEvents, by which many logs are read at once, gets a fifth of it."},
		{Name: "submit_limit", Type: sdk.TypeInt, Min: 1, Max: 10000, Default: fmt.Sprint(defaultSubmitLimit), Doc: "The most RunTask calls a second, and five times as many at once, counted in the same way."},
		{Name: "service_rate", Type: sdk.TypeInt, Min: 1, Max: 10000, Default: fmt.Sprint(defaultServiceRate), Doc: "The most DescribeServices and ListServices calls a second for `svc`, counted in the same way."},
		{Name: "change_grace", Type: sdk.TypeDuration, Default: time.Duration(defaultChangeGrace).String(), Doc: "A change of a service whose reply was lost counts as not shown yet for this long after it was sent."},
		{Name: "config_prefix", Type: sdk.TypeString, Default: defaultConfigPrefix, Doc: "The beginning of the names of the parameters that hold settings of live workloads, with a slash first."},
		{Name: "exec_shell", Type: sdk.TypeString, Doc: "A shell in the containers, such as sh, under which `svc exec` runs its commands so that their exit codes are known; ECS itself tells none."},
		{Name: "metric_interval", Type: sdk.TypeDuration, Default: time.Duration(defaultMetricInterval).String(), Doc: "The least time between two looks at CloudWatch for `svc top`; each look at a task costs two metrics."},
	}
	return sdk.Schema{Doc: "Which cluster runs the jobs, and how tasks are placed.", Fields: append(own, placementFields()...)}
}

func optionsSchema() sdk.Schema {
	return sdk.Schema{Doc: "What stands under config: too; a job's own values come first.", Fields: placementFields()}
}

// clusterName returns the name in a cluster's name or ARN.
func clusterName(cluster string) string {
	if a, ok := aws.ParseARN(cluster); ok {
		return strings.TrimPrefix(a.Resource, "cluster/")
	}
	return cluster
}
