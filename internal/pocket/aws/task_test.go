package aws

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/testwait"
)

// cloud is a pocket AWS with the SDK's clients for it.
type cloud struct {
	*Server
	url  string
	web  *http.Client
	ecs  *ecs.Client
	logs *cloudwatchlogs.Client
}

func newCloud(t testing.TB, o Options) *cloud {
	t.Helper()
	o.Record = true
	if o.LogGroups == nil {
		o.LogGroups = []string{"jobs"}
	}
	c := &cloud{Server: newServer(t, o)}
	web := httptest.NewServer(c)
	t.Cleanup(web.Close)
	t.Cleanup(func() { c.judge(t) })
	web.Client().Transport = wholeBodies{web.Client().Transport}
	c.connect(web.URL, web.Client())
	return c
}

// newQuietCloud has no network between it and its clients, so that time may be
// virtual.
func newQuietCloud(t testing.TB, o Options) *cloud {
	t.Helper()
	c := &cloud{Server: newServer(t, o)}
	c.connect("http://pocket", &http.Client{Transport: inProcess{c}})
	return c
}

// inProcess is a transport that calls a handler.
type inProcess struct{ handler http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	return w.Result(), nil
}

func (c *cloud) connect(url string, web *http.Client) {
	c.url, c.web = url, web
	c.ecs = ecs.New(ecs.Options{Region: Region, BaseEndpoint: &url, Credentials: key(), RetryMaxAttempts: 1, HTTPClient: web})
	c.logs = cloudwatchlogs.New(cloudwatchlogs.Options{Region: Region, BaseEndpoint: &url, Credentials: key(), RetryMaxAttempts: 1, HTTPClient: web})
}

// definition is a legal one for Fargate that logs.
func definition(family string, command ...string) *ecs.RegisterTaskDefinitionInput {
	return &ecs.RegisterTaskDefinitionInput{
		Family: &family, NetworkMode: types.NetworkModeAwsvpc, RequiresCompatibilities: []types.Compatibility{types.CompatibilityFargate},
		Cpu: sdk.String("256"), Memory: sdk.String("512"), ExecutionRoleArn: sdk.String("arn:aws:iam::123456789012:role/execution"),
		ContainerDefinitions: []types.ContainerDefinition{{
			Name: sdk.String("main"), Image: sdk.String("app:1"), Command: command, StopTimeout: sdk.Int32(2),
			LogConfiguration: &types.LogConfiguration{LogDriver: types.LogDriverAwslogs, Options: map[string]string{
				"awslogs-group": "jobs", "awslogs-region": Region, "awslogs-stream-prefix": "p", "mode": "blocking"}},
		}},
	}
}

func (c *cloud) register(t testing.TB, in *ecs.RegisterTaskDefinitionInput) string {
	t.Helper()
	out, err := c.ecs.RegisterTaskDefinition(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return *out.TaskDefinition.TaskDefinitionArn
}

func onFargate(definition string) *ecs.RunTaskInput {
	return &ecs.RunTaskInput{TaskDefinition: &definition, LaunchType: types.LaunchTypeFargate, NetworkConfiguration: &types.NetworkConfiguration{
		AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{"subnet-0123456789abcdef0"}, AssignPublicIp: types.AssignPublicIpEnabled}}}
}

func (c *cloud) run(t testing.TB, in *ecs.RunTaskInput) types.Task {
	t.Helper()
	out, err := c.ecs.RunTask(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Tasks) != 1 {
		t.Fatalf("RunTask gave %d tasks, failures %v", len(out.Tasks), out.Failures)
	}
	return out.Tasks[0]
}

func (c *cloud) describe(t testing.TB, arn string) types.Task {
	t.Helper()
	out, err := c.ecs.DescribeTasks(t.Context(), &ecs.DescribeTasksInput{Tasks: []string{arn}, Include: []types.TaskField{types.TaskFieldTags}})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Tasks) != 1 {
		t.Fatalf("DescribeTasks gave no task: %v", *out.Failures[0].Reason)
	}
	return out.Tasks[0]
}

// until waits for a state.
func (c *cloud) until(t testing.TB, arn, state string) types.Task {
	t.Helper()
	var task types.Task
	testwait.Until(t, 20*time.Second, state, func() bool {
		task = c.describe(t, arn)
		return *task.LastStatus == state
	})
	return task
}

// lines reads the whole stream of a task's main container.
func (c *cloud) lines(t testing.TB, arn string) []string {
	t.Helper()
	stream := "p/main/" + arn[len(arn)-32:]
	lines := []string{}
	var token *string
	for {
		out, err := c.logs.GetLogEvents(t.Context(), &cloudwatchlogs.GetLogEventsInput{LogGroupName: sdk.String("jobs"), LogStreamName: &stream, StartFromHead: sdk.Bool(true), NextToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range out.Events {
			lines = append(lines, *e.Message)
		}
		if token != nil && *token == *out.NextForwardToken {
			return lines
		}
		token = out.NextForwardToken
	}
}

// TestTask runs a job from its definition to its last log line.
func TestTask(t *testing.T) {
	c := newCloud(t, Options{})
	arn := c.register(t, definition("job", "sh", "-c", `echo "to $WHO"; echo; echo oops >&2; exit 7`))
	in := onFargate(arn)
	in.Overrides = &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{Name: sdk.String("main"), Environment: []types.KeyValuePair{{Name: sdk.String("WHO"), Value: sdk.String("you")}}}}}
	in.StartedBy = sdk.String("me")
	task := c.run(t, in)
	if *task.LastStatus != "PROVISIONING" || *task.DesiredStatus != "RUNNING" || len(task.Containers) != 0 {
		t.Errorf("a new task is %s, to be %s, with %d containers", *task.LastStatus, *task.DesiredStatus, len(task.Containers))
	}
	task = c.until(t, *task.TaskArn, "STOPPED")
	if got := task.Containers[0].ExitCode; got == nil || *got != 7 {
		t.Errorf("exit code %v, want 7", got)
	}
	if task.StopCode != types.TaskStopCodeEssentialContainerExited || *task.StoppedReason != "Essential container in task exited" {
		t.Errorf("stopped by %s: %s", task.StopCode, *task.StoppedReason)
	}
	got := c.lines(t, *task.TaskArn)
	if len(got) != 2 || got[0] != "to you" && got[1] != "to you" {
		t.Errorf("log is %q, want two lines", got)
	}
}
