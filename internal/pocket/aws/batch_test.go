package aws

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	pocket "github.com/windlass-run/windlass/internal/pocket/batch"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/testwait"
)

// batchCloud is a pocket AWS with the SDK's client for AWS Batch.
type batchCloud struct {
	*cloud
	batch *batch.Client
}

func newBatchCloud(t testing.TB, o Options) *batchCloud {
	t.Helper()
	c := newCloud(t, o)
	return &batchCloud{cloud: c, batch: batch.New(batch.Options{Region: Region, BaseEndpoint: &c.url, Credentials: key(), RetryMaxAttempts: 1, HTTPClient: c.web})}
}

// fargateJob is a legal definition for Fargate.
func fargateJob(name string, command ...string) *batch.RegisterJobDefinitionInput {
	return &batch.RegisterJobDefinitionInput{JobDefinitionName: &name, Type: types.JobDefinitionTypeContainer,
		PlatformCapabilities: []types.PlatformCapability{types.PlatformCapabilityFargate},
		ContainerProperties: &types.ContainerProperties{Image: sdk.String("app:1"), Command: command, ExecutionRoleArn: sdk.String("arn:aws:iam::123456789012:role/execution"),
			ResourceRequirements: []types.ResourceRequirement{{Type: types.ResourceTypeVcpu, Value: sdk.String("0.25")}, {Type: types.ResourceTypeMemory, Value: sdk.String("512")}}}}
}

func (c *batchCloud) define(t testing.TB, in *batch.RegisterJobDefinitionInput) string {
	t.Helper()
	out, err := c.batch.RegisterJobDefinition(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return *out.JobDefinitionArn
}

func (c *batchCloud) submit(t testing.TB, definition string, change ...func(*batch.SubmitJobInput)) string {
	t.Helper()
	in := &batch.SubmitJobInput{JobName: sdk.String("job"), JobQueue: sdk.String(pocket.DefaultQueue), JobDefinition: &definition}
	for _, f := range change {
		f(in)
	}
	out, err := c.batch.SubmitJob(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return *out.JobId
}

func (c *batchCloud) job(t testing.TB, id string) types.JobDetail {
	t.Helper()
	out, err := c.batch.DescribeJobs(t.Context(), &batch.DescribeJobsInput{Jobs: []string{id}})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Jobs) != 1 {
		t.Fatalf("DescribeJobs gave %d jobs", len(out.Jobs))
	}
	return out.Jobs[0]
}

// until waits for one of some states.
func (c *batchCloud) until(t testing.TB, id string, states ...types.JobStatus) types.JobDetail {
	t.Helper()
	var j types.JobDetail
	testwait.Until(t, 20*time.Second, string(states[0]), func() bool {
		j = c.job(t, id)
		return slices.Contains(states, j.Status)
	})
	return j
}

func (c *batchCloud) ended(t testing.TB, id string) types.JobDetail {
	t.Helper()
	return c.until(t, id, types.JobStatusSucceeded, types.JobStatusFailed)
}

func (c *batchCloud) log(t testing.TB, group, stream string) []string {
	t.Helper()
	out, err := c.logs.GetLogEvents(t.Context(), &cloudwatchlogs.GetLogEventsInput{LogGroupName: &group, LogStreamName: &stream, StartFromHead: sdk.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range out.Events {
		lines = append(lines, *e.Message)
	}
	return lines
}

// TestBatchStates takes a job through every state, in virtual time.
func TestBatchStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := newQuietCloud(t, Options{Executor: run.NewScripted(func(run.Spec) run.Play { return run.Play{For: time.Minute, Exit: run.Exit{Code: 7}} })})
		c := &batchCloud{cloud: quiet, batch: batch.New(batch.Options{Region: Region, BaseEndpoint: &quiet.url, Credentials: key(), RetryMaxAttempts: 1, HTTPClient: quiet.web})}
		c.Batch().TuneKnobs(func(k *pocket.Knobs) {
			k.Pace = pocket.Pace{Submitted: time.Minute, Pending: time.Minute, Runnable: time.Minute, Starting: time.Minute}
			k.Waiting = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - all compute environments have insufficient capacity"
		})
		id := c.submit(t, c.define(t, fargateJob("job", "x")))
		time.Sleep(30 * time.Second)
		for _, want := range []types.JobStatus{types.JobStatusSubmitted, types.JobStatusPending, types.JobStatusRunnable, types.JobStatusStarting, types.JobStatusRunning, types.JobStatusFailed} {
			j := c.job(t, id)
			if j.Status != want {
				t.Fatalf("the job is %s, want %s", j.Status, want)
			}
			if want == types.JobStatusRunnable {
				if other := c.job(t, id); (j.StatusReason == nil) == (other.StatusReason == nil) {
					t.Error("the reason for waiting doesn't flicker")
				}
			}
			if started := want == types.JobStatusRunning || want == types.JobStatusFailed; started != (*j.StartedAt > 0) || started != (j.Container.LogStreamName != nil) {
				t.Errorf("%s: started at %d, stream %v", want, *j.StartedAt, j.Container.LogStreamName)
			}
			if placed := want != types.JobStatusSubmitted && want != types.JobStatusPending && want != types.JobStatusRunnable; placed != (j.Container.TaskArn != nil) {
				t.Errorf("%s: task %v", want, j.Container.TaskArn)
			}
			time.Sleep(time.Minute)
		}
		j := c.job(t, id)
		if *j.StatusReason != "Essential container in task exited" || *j.Container.ExitCode != 7 || len(j.Attempts) != 1 || *j.Attempts[0].Container.ExitCode != 7 {
			t.Errorf("it ended with %s, %v", *j.StatusReason, j.Container.ExitCode)
		}
		if *j.StartedAt-*j.CreatedAt != 4*60000 || *j.StoppedAt-*j.StartedAt != 60000 {
			t.Errorf("times %d, %d, %d", *j.CreatedAt, *j.StartedAt, *j.StoppedAt)
		}
	})
}

// TestBatchLog: a job's lines are in the group of all jobs, in the stream of its
// task, or where its definition says.
func TestBatchLog(t *testing.T) {
	c := newBatchCloud(t, Options{})
	other := fargateJob("other", "echo", "two")
	other.ContainerProperties.LogConfiguration = &types.LogConfiguration{LogDriver: types.LogDriverAwslogs,
		Options: map[string]string{"awslogs-group": "made", "awslogs-create-group": "true", "awslogs-stream-prefix": "p", "mode": "blocking"}}
	for group, k := range map[string]struct {
		in           *batch.RegisterJobDefinitionInput
		prefix, line string
	}{pocket.DefaultLogGroup: {fargateJob("job", "echo", "one"), "job/default/", "one"}, "made": {other, "p/default/", "two"}} {
		j := c.ended(t, c.submit(t, c.define(t, k.in)))
		stream := *j.Container.LogStreamName
		if id, ok := strings.CutPrefix(stream, k.prefix); !ok || !strings.HasSuffix(*j.Container.TaskArn, id) {
			t.Errorf("the stream is %s", stream)
		}
		if got := c.log(t, group, stream); !slices.Equal(got, []string{k.line}) {
			t.Errorf("log %q", got)
		}
	}
	other.ContainerProperties.LogConfiguration.Options = map[string]string{"awslogs-group": "nosuch"}
	if j := c.ended(t, c.submit(t, c.define(t, other))); j.Status != types.JobStatusFailed || !strings.HasPrefix(*j.StatusReason, "ResourceInitializationError") {
		t.Errorf("without its group: %s, %s", j.Status, *j.StatusReason)
	}
}

// TestBatchSubmitTwice: the same call twice makes two jobs.
func TestBatchSubmitTwice(t *testing.T) {
	c := newBatchCloud(t, Options{})
	def := c.define(t, fargateJob("job", "true"))
	if a, b := c.submit(t, def), c.submit(t, def); a == b {
		t.Error("one job for two submits")
	}
}

// TestBatchParameters: a parameter takes the place of its reference, and the
// container has its variables and secrets.
func TestBatchParameters(t *testing.T) {
	c := newBatchCloud(t, Options{})
	arn := c.Secrets().Put("db", "hush")
	in := fargateJob("job", "none")
	in.Parameters = map[string]string{"who": "nobody"}
	in.ContainerProperties.Environment = []types.KeyValuePair{{Name: sdk.String("A"), Value: sdk.String("below")}}
	in.ContainerProperties.Secrets = []types.Secret{{Name: sdk.String("S"), ValueFrom: &arn}}
	id := c.submit(t, c.define(t, in), func(in *batch.SubmitJobInput) {
		in.Parameters = map[string]string{"who": "you"}
		in.ContainerOverrides = &types.ContainerOverrides{Environment: []types.KeyValuePair{{Name: sdk.String("A"), Value: sdk.String("above")}},
			Command: []string{"sh", "-c", `echo "Ref::who Ref::other $A $S $AWS_BATCH_JQ_NAME $AWS_BATCH_CE_NAME $AWS_BATCH_JOB_ATTEMPT"; [ "$AWS_BATCH_JOB_ID" ]`}}
	})
	j := c.ended(t, id)
	if got := c.log(t, pocket.DefaultLogGroup, *j.Container.LogStreamName); j.Status != types.JobStatusSucceeded || !slices.Equal(got, []string{"you Ref::other above hush default fargate 1"}) {
		t.Errorf("%s: log %q", j.Status, got)
	}
}

// TestBatchOverrides: overrides that a task can't have are found out late.
func TestBatchOverrides(t *testing.T) {
	c := newBatchCloud(t, Options{})
	def := c.define(t, fargateJob("job", "true"))
	for n, want := range map[int]types.JobStatus{8000: types.JobStatusSucceeded, 8192: types.JobStatusFailed} {
		j := c.ended(t, c.submit(t, def, func(in *batch.SubmitJobInput) {
			in.ContainerOverrides = &types.ContainerOverrides{Command: []string{"true", strings.Repeat("x", n)}}
		}))
		if j.Status != want || want == types.JobStatusFailed && *j.StatusReason != "Container Overrides length must be at most 8192" {
			t.Errorf("%d: %s, %s", n, j.Status, *j.StatusReason)
		}
	}
}

// TestBatchTerminate ends jobs in every state.
func TestBatchTerminate(t *testing.T) {
	c := newBatchCloud(t, Options{})
	def := c.define(t, fargateJob("job", "sleep", "60"))
	stop := func(id string) {
		if _, err := c.batch.TerminateJob(t.Context(), &batch.TerminateJobInput{JobId: &id, Reason: sdk.String("enough")}); err != nil {
			t.Fatal(err)
		}
	}
	id := c.submit(t, def)
	c.until(t, id, types.JobStatusRunning)
	if _, err := c.batch.CancelJob(t.Context(), &batch.CancelJobInput{JobId: &id, Reason: sdk.String("no")}); err != nil || *c.job(t, id).IsCancelled {
		t.Errorf("a running job is cancelled, %v", err)
	}
	stop(id)
	if j := c.ended(t, id); j.Status != types.JobStatusFailed || *j.StatusReason != "enough" || !*j.IsTerminated || *j.IsCancelled || *j.Container.ExitCode != 143 {
		t.Errorf("terminated: %s, %s", j.Status, *j.StatusReason)
	}
	stop(id)
	remove := c.Batch().Strike(pocket.Mishap{Stage: pocket.StageStuck})
	first, second := c.submit(t, def), c.submit(t, def)
	remove()
	c.until(t, first, types.JobStatusRunnable)
	stop(first)
	if j := c.ended(t, first); j.Status != types.JobStatusFailed || !*j.IsTerminated || *j.StartedAt != 0 || len(j.Attempts) != 0 || j.Container.ExitCode != nil {
		t.Errorf("terminated in the queue: %+v", j)
	}
	if _, err := c.batch.CancelJob(t.Context(), &batch.CancelJobInput{JobId: &second, Reason: sdk.String("no")}); err != nil {
		t.Fatal(err)
	}
	if j := c.ended(t, second); !*j.IsCancelled || *j.IsTerminated || *j.StatusReason != "no" {
		t.Errorf("cancelled in the queue: %+v", j)
	}
}

// TestBatchDeadline ends a job at its time-out, for good.
func TestBatchDeadline(t *testing.T) {
	c := newBatchCloud(t, Options{})
	c.Batch().TuneKnobs(func(k *pocket.Knobs) { k.Second = time.Millisecond })
	j := c.ended(t, c.submit(t, c.define(t, fargateJob("job", "sleep", "60")), func(in *batch.SubmitJobInput) {
		in.Timeout = &types.JobTimeout{AttemptDurationSeconds: sdk.Int32(60)}
		in.RetryStrategy = &types.RetryStrategy{Attempts: sdk.Int32(3)}
	}))
	if j.Status != types.JobStatusFailed || *j.StatusReason != "Job attempt duration exceeded timeout" || len(j.Attempts) != 1 {
		t.Errorf("%s, %s, %d attempts", j.Status, *j.StatusReason, len(j.Attempts))
	}
}

// TestBatchRetries tries a job again.
func TestBatchRetries(t *testing.T) {
	c := newBatchCloud(t, Options{})
	j := c.ended(t, c.submit(t, c.define(t, fargateJob("job", "sh", "-c", `exit $((3 - AWS_BATCH_JOB_ATTEMPT))`)), func(in *batch.SubmitJobInput) {
		in.RetryStrategy = &types.RetryStrategy{Attempts: sdk.Int32(5)}
	}))
	if j.Status != types.JobStatusSucceeded || len(j.Attempts) != 3 || *j.Attempts[0].Container.ExitCode != 2 || *j.Container.ExitCode != 0 {
		t.Errorf("%s after %d attempts", j.Status, len(j.Attempts))
	}
	if a := j.Attempts; *a[0].Container.LogStreamName == *a[1].Container.LogStreamName {
		t.Error("two attempts share a stream")
	}
}

// TestBatchList lists by status and by each filter, in pages.
func TestBatchList(t *testing.T) {
	c := newBatchCloud(t, Options{Executor: run.NewScripted(func(s run.Spec) run.Play {
		if slices.Contains(s.Command, "hang") {
			return run.Play{For: -1}
		}
		return run.Play{}
	})})
	quick, slow := c.define(t, fargateJob("quick", "true")), c.define(t, fargateJob("slow", "hang"))
	named := func(name string) func(*batch.SubmitJobInput) {
		return func(in *batch.SubmitJobInput) { in.JobName = &name }
	}
	before := time.Now().UnixMilli() - 1
	ended := []string{c.submit(t, quick, named("Alpha-1")), c.submit(t, quick, named("alpha-2")), c.submit(t, quick, named("beta"))}
	for _, id := range ended {
		c.ended(t, id)
	}
	running := c.submit(t, slow, named("alpha-3"))
	c.until(t, running, types.JobStatusRunning)
	c.Batch().TuneKnobs(func(k *pocket.Knobs) { k.PageSize = 1 })
	list := func(in batch.ListJobsInput) []string {
		t.Helper()
		in.JobQueue = sdk.String(pocket.DefaultQueue)
		var names []string
		for {
			out, err := c.batch.ListJobs(t.Context(), &in)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range out.JobSummaryList {
				if names = append(names, *j.JobName); j.JobDefinition != nil {
					t.Error("a summary has its definition")
				}
			}
			if in.NextToken = out.NextToken; in.NextToken == nil {
				return names
			}
		}
	}
	by := func(name, value string) batch.ListJobsInput {
		return batch.ListJobsInput{Filters: []types.KeyValuesPair{{Name: &name, Values: []string{value}}}, JobStatus: types.JobStatusPending}
	}
	for name, k := range map[string]struct {
		in   batch.ListJobsInput
		want string
	}{
		"nothing":       {batch.ListJobsInput{}, "alpha-3"},
		"status":        {batch.ListJobsInput{JobStatus: types.JobStatusSucceeded}, "beta alpha-2 Alpha-1"},
		"name":          {by("JOB_NAME", "ALPHA-1"), "Alpha-1"},
		"prefix":        {by("JOB_NAME", "alpha*"), "Alpha-1 alpha-2 alpha-3"},
		"definition":    {by("JOB_DEFINITION", "quick"), "beta alpha-2 Alpha-1"},
		"definition's":  {by("JOB_DEFINITION", slow), "alpha-3"},
		"definitions'":  {by("JOB_DEFINITION", "s*"), "alpha-3"},
		"after":         {by("AFTER_CREATED_AT", strconv.FormatInt(before, 10)), "alpha-3 beta alpha-2 Alpha-1"},
		"before at all": {by("BEFORE_CREATED_AT", "1"), ""},
	} {
		if got := strings.Join(list(k.in), " "); got != k.want {
			t.Errorf("by %s: %q, want %q", name, got, k.want)
		}
	}
	c.Batch().TuneKnobs(func(k *pocket.Knobs) { k.ListDelay, k.DescribeDelay = time.Hour, time.Hour })
	hidden := c.submit(t, quick, named("gamma"))
	if got := list(by("JOB_NAME", "gamma")); len(got) != 0 {
		t.Errorf("a hidden job is listed: %v", got)
	}
	if out, err := c.batch.DescribeJobs(t.Context(), &batch.DescribeJobsInput{Jobs: []string{hidden}}); err != nil || len(out.Jobs) != 0 {
		t.Errorf("a hidden job is described: %v", err)
	}
}

// TestBatchForgets: an ended job is gone after a day.
func TestBatchForgets(t *testing.T) {
	now := &clock{}
	c := newBatchCloud(t, Options{Now: now.Now, AnyClock: true})
	id := c.submit(t, c.define(t, fargateJob("job", "true")))
	c.ended(t, id)
	now.offset.Add(int64(24*time.Hour - time.Second))
	c.job(t, id)
	now.offset.Add(int64(2 * time.Second))
	if out, err := c.batch.DescribeJobs(t.Context(), &batch.DescribeJobsInput{Jobs: []string{id}}); err != nil || len(out.Jobs) != 0 {
		t.Errorf("%d jobs after a day, %v", len(out.Jobs), err)
	}
}

// TestBatchDefinitions numbers revisions, and runs the newest that is active.
func TestBatchDefinitions(t *testing.T) {
	c := newBatchCloud(t, Options{})
	first, second := c.define(t, fargateJob("job", "true")), c.define(t, fargateJob("job", "false"))
	if !strings.HasSuffix(first, ":job-definition/job:1") || !strings.HasSuffix(second, ":job-definition/job:2") {
		t.Fatalf("%s, %s", first, second)
	}
	if _, err := c.batch.DeregisterJobDefinition(t.Context(), &batch.DeregisterJobDefinitionInput{JobDefinition: &second}); err != nil {
		t.Fatal(err)
	}
	if j := c.ended(t, c.submit(t, "job")); j.Status != types.JobStatusSucceeded || *j.JobDefinition != first {
		t.Errorf("the name alone ran %s", *j.JobDefinition)
	}
	if third := c.define(t, fargateJob("job", "true")); !strings.HasSuffix(third, ":3") {
		t.Errorf("the next is %s", third)
	}
	for status, want := range map[string]int{"ACTIVE": 2, "INACTIVE": 1, "": 3} {
		in := &batch.DescribeJobDefinitionsInput{JobDefinitionName: sdk.String("job")}
		if status != "" {
			in.Status = &status
		}
		if out, err := c.batch.DescribeJobDefinitions(t.Context(), in); err != nil || len(out.JobDefinitions) != want {
			t.Errorf("%q: %d definitions, %v", status, len(out.JobDefinitions), err)
		}
	}
}

// TestBatchTags sets, takes away and lists tags of a job, a definition and a
// queue.
func TestBatchTags(t *testing.T) {
	c := newBatchCloud(t, Options{JobQueues: []pocket.Queue{{Name: "more"}}})
	def := c.define(t, fargateJob("job", "true"))
	id := c.submit(t, def, func(in *batch.SubmitJobInput) { in.Tags = map[string]string{"a": "1"} })
	job, queue := *c.job(t, id).JobArn, "arn:aws:batch:"+Region+":"+Account+":job-queue/more"
	for _, arn := range []string{job, def, queue} {
		if _, err := c.batch.TagResource(t.Context(), &batch.TagResourceInput{ResourceArn: &arn, Tags: map[string]string{"a": "2", "b/c d": "é"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.batch.UntagResource(t.Context(), &batch.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{"a", "x"}}); err != nil {
			t.Fatal(err)
		}
		out, err := c.batch.ListTagsForResource(t.Context(), &batch.ListTagsForResourceInput{ResourceArn: &arn})
		if err != nil || len(out.Tags) != 1 || out.Tags["b/c d"] != "é" {
			t.Errorf("%s: %v, %v", arn, out.Tags, err)
		}
	}
	if tags := c.job(t, id).Tags; tags["b/c d"] != "é" {
		t.Errorf("the job shows %v", tags)
	}
}

// TestBatchPlaces describes queues and compute environments.
func TestBatchPlaces(t *testing.T) {
	c := newBatchCloud(t, Options{JobQueues: []pocket.Queue{{Name: "big", Instances: true}, {Name: "off", Disabled: true}}})
	queues, err := c.batch.DescribeJobQueues(t.Context(), &batch.DescribeJobQueuesInput{})
	if err != nil || len(queues.JobQueues) != 3 || queues.JobQueues[2].State != types.JQStateDisabled {
		t.Fatalf("%v, %v", queues, err)
	}
	order := queues.JobQueues[1].ComputeEnvironmentOrder
	out, err := c.batch.DescribeComputeEnvironments(t.Context(), &batch.DescribeComputeEnvironmentsInput{ComputeEnvironments: []string{*order[0].ComputeEnvironment}})
	if err != nil || len(out.ComputeEnvironments) != 1 || out.ComputeEnvironments[0].ComputeResources.Type != types.CRTypeEc2 {
		t.Errorf("%v, %v", out, err)
	}
	in := fargateJob("job", "true")
	in.PlatformCapabilities, in.ContainerProperties.ResourceRequirements[0].Value = nil, sdk.String("2")
	if j := c.ended(t, c.submit(t, c.define(t, in), func(in *batch.SubmitJobInput) { in.JobQueue = sdk.String("big") })); j.Status != types.JobStatusSucceeded {
		t.Errorf("on instances: %s, %s", j.Status, *j.StatusReason)
	}
}

// TestBatchMishaps: what goes wrong shows in AWS's words.
func TestBatchMishaps(t *testing.T) {
	c := newBatchCloud(t, Options{})
	def := c.define(t, fargateJob("job", "sleep", "60"))
	for name, k := range map[string]struct {
		m              pocket.Mishap
		status, reason string
		code           int32
	}{
		"pull": {pocket.Mishap{Stage: pocket.StagePull}, "Task failed to start", "CannotPullContainerError", -1},
		"init": {pocket.Mishap{Stage: pocket.StageInit}, "ResourceInitializationError", "", -1},
		"spot": {pocket.Mishap{Stage: pocket.StageSpot}, "Your Spot Task was interrupted.", "", 143},
		"host": {pocket.Mishap{Stage: pocket.StageHost}, "Host EC2", "", -1},
		"oom":  {pocket.Mishap{Stage: pocket.StageOOM}, "Essential container", "OutOfMemoryError", 137},
		"exit": {pocket.Mishap{Stage: pocket.StageHost, StatusReason: "odd", NoExitCode: true}, "odd", "", -1},
	} {
		k.m.Jobs = 1
		remove := c.Batch().Strike(k.m)
		j := c.ended(t, c.submit(t, def))
		remove()
		code := int32(-1)
		if j.Container.ExitCode != nil {
			code = *j.Container.ExitCode
		}
		if j.Status != types.JobStatusFailed || !strings.HasPrefix(*j.StatusReason, k.status) || !strings.HasPrefix(sdk.ToString(j.Container.Reason), k.reason) || code != k.code {
			t.Errorf("%s: %s, %q, %q, code %d", name, j.Status, *j.StatusReason, sdk.ToString(j.Container.Reason), code)
		}
	}
	for script, want := range map[string]string{"nosuchprogram": "CannotStartContainerError"} {
		if j := c.ended(t, c.submit(t, c.define(t, fargateJob("other", script)))); !strings.HasPrefix(*j.Container.Reason, want) {
			t.Errorf("%s: %s", script, *j.Container.Reason)
		}
	}
}

// TestBatchState starts a second server on what the first left.
func TestBatchState(t *testing.T) {
	folder := t.TempDir()
	first := newBatchCloud(t, Options{State: folder})
	ended := first.submit(t, first.define(t, fargateJob("kept", "true")))
	first.ended(t, ended)
	runs := first.submit(t, first.define(t, fargateJob("kept", "sleep", "60")))
	first.until(t, runs, types.JobStatusRunning)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := newBatchCloud(t, Options{State: folder})
	if j := second.job(t, ended); j.Status != types.JobStatusSucceeded {
		t.Errorf("the ended job is %s", j.Status)
	}
	if j := second.job(t, runs); j.Status != types.JobStatusFailed || j.StoppedAt == nil {
		t.Errorf("the job that ran is %s", j.Status)
	}
	if third := second.define(t, fargateJob("kept", "true")); !strings.HasSuffix(third, ":3") {
		t.Errorf("the next revision is %s", third)
	}
}

// TestBatchFaults: calls fail in the protocol's form, and a lost reply has done
// its work.
func TestBatchFaults(t *testing.T) {
	c := newBatchCloud(t, Options{})
	def := c.define(t, fargateJob("job", "true"))
	in := &batch.SubmitJobInput{JobName: sdk.String("lost"), JobQueue: sdk.String(pocket.DefaultQueue), JobDefinition: &def}
	for effect, want := range map[string]fault.Effect{
		"TooManyRequestsException": {Refuse: Throttle()}, "AccessDeniedException": {Refuse: c.Deny("POCKET", "batch:SubmitJob", "*")}, "": {Drop: true},
	} {
		c.Faults().Add(fault.Rule{Action: "batch:SubmitJob", Count: 1, Effect: want})
		if _, err := c.batch.SubmitJob(t.Context(), in); err == nil || !strings.Contains(err.Error(), effect) {
			t.Errorf("%q: %v", effect, err)
		}
		c.Faults().Clear()
	}
	c.SetLimits(BatchLimits())
	out, err := c.batch.ListJobs(t.Context(), &batch.ListJobsInput{JobQueue: in.JobQueue, Filters: []types.KeyValuesPair{{Name: sdk.String("JOB_NAME"), Values: []string{"lost"}}}})
	if err != nil || len(out.JobSummaryList) != 1 {
		t.Errorf("%d jobs of three submits, %v", len(out.JobSummaryList), err)
	}
}
