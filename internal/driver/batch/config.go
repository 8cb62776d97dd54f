package batch

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
	onFargate = "fargate"
	onEC2     = "ec2"
	archX86   = "x86_64"
	archARM   = "arm64"
)

// placement is what the config gives for all jobs, and the options for one.
type placement struct {
	Platform        string            `json:"platform"`
	AssignPublicIP  *bool             `json:"assign_public_ip"`
	ExecutionRole   string            `json:"execution_role"`
	JobRole         string            `json:"job_role"`
	PlatformVersion string            `json:"platform_version"`
	Architecture    string            `json:"architecture"`
	Tags            map[string]string `json:"tags"`
}

// config is what stands under `config:` of a provider.
type config struct {
	placement
	Region           string       `json:"region"`
	Account          string       `json:"account"`
	Endpoint         string       `json:"endpoint"`
	Queue            string       `json:"queue"`
	LogGroup         string       `json:"log_group"`
	CreateLogGroup   *bool        `json:"create_log_group"`
	LogBlocking      *bool        `json:"log_blocking"`
	EphemeralStorage int64        `json:"ephemeral_storage"`
	LogQuiet         sdk.Duration `json:"log_quiet"`
	LogMax           sdk.Duration `json:"log_max"`
	MissingGrace     sdk.Duration `json:"missing_grace"`
	DescribeRate     int          `json:"describe_rate"`
	LogRate          int          `json:"log_rate"`
	SubmitLimit      int          `json:"submit_limit"`
}

// options is what stands in JobSpec.Options.
type options struct {
	placement
}

const (
	// https://docs.aws.amazon.com/batch/latest/userguide/using_cloudwatch_logs.html
	defaultLogGroup = "/aws/batch/job"
	// AWS names no rate; users were refused at a few calls a second from many
	// pollers. https://github.com/Netflix/metaflow/pull/160
	defaultDescribeRate = 10
	// AWS gives GetLogEvents 25 calls a second.
	// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/cloudwatch_limits_cwl.html
	defaultLogRate = 20
	// AWS allows 50 SubmitJob calls a second, for everybody in the account and
	// region. https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html
	defaultSubmitLimit = 45
	// The log driver sends what it has every five seconds, and when a container
	// ends.
	defaultLogQuiet = sdk.Duration(10 * time.Second)
	defaultLogMax   = sdk.Duration(time.Minute)
	// AWS names no time after which a job is surely shown; a new one was missing
	// at times. https://github.com/Netflix/metaflow/pull/543
	defaultMissingGrace = sdk.Duration(5 * time.Minute)
)

// filled returns the config with its defaults.
func (c config) filled() config {
	c.Platform = cmp.Or(c.Platform, onFargate)
	c.LogGroup = cmp.Or(c.LogGroup, defaultLogGroup)
	c.LogQuiet = cmp.Or(c.LogQuiet, defaultLogQuiet)
	c.LogMax = max(cmp.Or(c.LogMax, defaultLogMax), c.LogQuiet)
	c.MissingGrace = cmp.Or(c.MissingGrace, defaultMissingGrace)
	c.DescribeRate = cmp.Or(c.DescribeRate, defaultDescribeRate)
	c.LogRate = cmp.Or(c.LogRate, defaultLogRate)
	c.SubmitLimit = cmp.Or(c.SubmitLimit, defaultSubmitLimit)
	if c.LogBlocking == nil {
		c.LogBlocking = new(true)
	}
	if c.CreateLogGroup == nil {
		c.CreateLogGroup = new(true)
	}
	return c
}

// with returns the placement of a job that sets o.
func (p placement) with(o placement) placement {
	p.Platform = cmp.Or(o.Platform, p.Platform)
	if o.AssignPublicIP != nil {
		p.AssignPublicIP = o.AssignPublicIP
	}
	p.ExecutionRole, p.JobRole = cmp.Or(o.ExecutionRole, p.ExecutionRole), cmp.Or(o.JobRole, p.JobRole)
	p.PlatformVersion, p.Architecture = cmp.Or(o.PlatformVersion, p.PlatformVersion), cmp.Or(o.Architecture, p.Architecture)
	p.Tags = maps.Collect(maps.All(p.Tags)) // a map of its own, also for none
	maps.Copy(p.Tags, o.Tags)
	return p
}

// placementFields are the members that the config and the options share.
func placementFields() []sdk.SchemaField {
	return []sdk.SchemaField{
		{Name: "platform", Type: sdk.TypeString, Default: onFargate, Enum: []string{onFargate, onEC2}, Doc: "What the queue's compute environments have: Fargate, or instances."},
		{Name: "assign_public_ip", Type: sdk.TypeBool, Default: "false", Doc: "A job on Fargate gets a public address, which a public subnet needs to reach a registry."},
		{Name: "execution_role", Type: sdk.TypeString, Doc: "The role that pulls images, fetches secrets and writes logs, as an ARN; needed on Fargate and for secrets."},
		{Name: "job_role", Type: sdk.TypeString, Doc: "The role that the job itself has, as an ARN."},
		{Name: "platform_version", Type: sdk.TypeString, Default: "LATEST", Doc: "Fargate's platform version."},
		{Name: "architecture", Type: sdk.TypeString, Default: archX86, Enum: []string{archX86, archARM}, Doc: "The processor's architecture, on Fargate."},
		{Name: "tags", Type: sdk.TypeMap, Doc: "Further tags of each job."},
	}
}

func configSchema() sdk.Schema {
	own := []sdk.SchemaField{
		{Name: "region", Type: sdk.TypeString, Default: "AWS_REGION, else AWS_DEFAULT_REGION", Doc: "The region, such as eu-west-1."},
		{Name: "account", Type: sdk.TypeString, Default: "the account of the credentials, as STS says it", Doc: "The account, 12 digits; set, it saves a question to STS, and other accounts' credentials are refused."},
		{Name: "endpoint", Type: sdk.TypeString, Doc: "The address of a pocket cloud on this machine, which takes the calls to every service."},
		{Name: "queue", Type: sdk.TypeString, Required: true, Doc: "The job queue's name or ARN."},
		{Name: "log_group", Type: sdk.TypeString, Default: defaultLogGroup, Doc: "The group in CloudWatch Logs that gets the jobs' output."},
		{Name: "create_log_group", Type: sdk.TypeBool, Default: "true", Doc: "The log group is made where there is none; the execution role then needs logs:CreateLogGroup."},
		{Name: "log_blocking", Type: sdk.TypeBool, Default: "true", Doc: "The log driver holds a job back rather than drop output for a full buffer."},
		{Name: "ephemeral_storage", Type: sdk.TypeInt, Min: 20, Max: 200, Default: "20", Doc: "A Fargate job's disk in GiB, for jobs that don't say."},
		{Name: "log_quiet", Type: sdk.TypeDuration, Default: time.Duration(defaultLogQuiet).String(), Doc: "A job's output counts as whole once the job has ended and nothing came for this long."},
		{Name: "log_max", Type: sdk.TypeDuration, Default: time.Duration(defaultLogMax).String(), Doc: "The longest wait for output after a job's end."},
		{Name: "missing_grace", Type: sdk.TypeDuration, Default: time.Duration(defaultMissingGrace).String(), Doc: "A job that AWS Batch doesn't know counts as not visible yet for this long after its submit."},
		{Name: "describe_rate", Type: sdk.TypeInt, Min: 1, Max: 10000, Default: fmt.Sprint(defaultDescribeRate), Doc: "The most DescribeJobs and ListJobs calls a second, of all providers of the account and region in one process."},
		{Name: "log_rate", Type: sdk.TypeInt, Min: 1, Max: 10000, Default: fmt.Sprint(defaultLogRate), Doc: "The most GetLogEvents calls a second, counted in the same way, and with aws-ecs and aws-batch together; FilterLogEvents, by which many logs are read at once, gets a fifth of it."},
		{Name: "submit_limit", Type: sdk.TypeInt, Min: 1, Max: 10000, Default: fmt.Sprint(defaultSubmitLimit), Doc: "The most SubmitJob calls a second, counted in the same way."},
	}
	return sdk.Schema{Doc: "Which queue takes the jobs, and how they are run.", Fields: append(own, placementFields()...)}
}

func optionsSchema() sdk.Schema {
	return sdk.Schema{Doc: "What stands under config: too; a job's own values come first.", Fields: placementFields()}
}

// queueName returns the name in a queue's name or ARN.
func queueName(queue string) string {
	if a, ok := aws.ParseARN(queue); ok {
		return strings.TrimPrefix(a.Resource, "job-queue/")
	}
	return queue
}
