package aws

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	pocket "github.com/windlass-run/windlass/internal/pocket/ecs"
	"github.com/windlass-run/windlass/internal/testwait"
)

// serve makes a service of a definition and returns its ARN.
func (c *cloud) serve(t testing.TB, name, definition string, n int32, change func(*ecs.CreateServiceInput)) {
	t.Helper()
	in := &ecs.CreateServiceInput{ServiceName: &name, TaskDefinition: &definition, DesiredCount: &n, LaunchType: types.LaunchTypeFargate,
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{"subnet-0123456789abcdef0"}}}}
	if change != nil {
		change(in)
	}
	if _, err := c.ecs.CreateService(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

// service describes a service.
func (c *cloud) service(t testing.TB, name string) types.Service {
	t.Helper()
	out, err := c.ecs.DescribeServices(t.Context(), &ecs.DescribeServicesInput{Services: []string{name}, Include: []types.ServiceField{types.ServiceFieldTags}})
	if err != nil || len(out.Services) != 1 {
		t.Fatalf("describe %s: %v, %v", name, out, err)
	}
	return out.Services[0]
}

// steady waits until a service's deployment is over with n tasks.
func (c *cloud) steady(t testing.TB, name string, n int32) types.Service {
	t.Helper()
	var v types.Service
	testwait.Until(t, patient, "steady service "+name, func() bool {
		v = c.service(t, name)
		return len(v.Deployments) == 1 && v.Deployments[0].RolloutState == types.DeploymentRolloutStateCompleted && v.RunningCount == n && v.PendingCount == 0
	})
	return v
}

const patient = time.Minute

// tasksOf lists a service's tasks that are to run.
func (c *cloud) tasksOf(t testing.TB, name string) []string {
	t.Helper()
	return c.list(t, &ecs.ListTasksInput{ServiceName: &name})
}

// TestF94ServiceDeployment follows a service through a change of its definition,
// its count and a forced deployment: a new deployment is PRIMARY at once, and over
// with its tasks running, while those of before may still be stopping.
func TestF94ServiceDeployment(t *testing.T) {
	c := newCloud(t, Options{})
	def := c.register(t, definition("served", "sleep", "600"))
	c.serve(t, "api", def, 2, func(in *ecs.CreateServiceInput) {
		in.Tags = []types.Tag{{Key: sdk.String("team"), Value: sdk.String("a")}}
		in.PropagateTags = types.PropagateTagsService
	})
	first := c.steady(t, "api", 2)
	before := c.tasksOf(t, "api")
	if len(before) != 2 || *first.Status != "ACTIVE" || len(first.Tags) != 1 {
		t.Fatalf("tasks %v of %+v", before, first)
	}
	task := c.describe(t, before[0])
	if *task.Group != "service:api" || *task.StartedBy != *first.Deployments[0].Id || len(task.Tags) != 1 {
		t.Errorf("a service's task is of %s, started by %s, tags %v", *task.Group, *task.StartedBy, task.Tags)
	}

	// A stopped task is replaced.
	if _, err := c.ecs.StopTask(t.Context(), &ecs.StopTaskInput{Task: &before[0]}); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patient, "replaced task", func() bool {
		now := c.tasksOf(t, "api")
		return len(now) == 2 && !slices.Contains(now, before[0])
	})
	c.steady(t, "api", 2)

	c.ECS().TuneKnobs(func(k *pocket.Knobs) { k.Pace.Stopping, k.ServiceDelay = 500*time.Millisecond, 100*time.Millisecond })
	old := c.tasksOf(t, "api")
	out, err := c.ecs.UpdateService(t.Context(), &ecs.UpdateServiceInput{Service: sdk.String("api"), ForceNewDeployment: true})
	if err != nil {
		t.Fatal(err)
	}
	if d := out.Service.Deployments; len(d) != 2 || *d[0].Status != "PRIMARY" || *d[1].Status != "ACTIVE" || d[0].RolloutState != types.DeploymentRolloutStateInProgress || d[1].RunningCount != 2 {
		t.Fatalf("right after the update the deployments are %+v", d)
	}
	after := c.steady(t, "api", 2)
	if *after.Deployments[0].Id == *first.Deployments[0].Id {
		t.Error("a forced deployment is none")
	}
	for _, arn := range c.tasksOf(t, "api") {
		if slices.Contains(old, arn) {
			t.Errorf("task %s is of before", arn)
		}
	}

	// A change of the count begins no deployment.
	out, err = c.ecs.UpdateService(t.Context(), &ecs.UpdateServiceInput{Service: sdk.String("api"), DesiredCount: sdk.Int32(3)})
	if err != nil {
		t.Fatal(err)
	}
	if d := out.Service.Deployments; len(d) != 1 || *d[0].Id != *after.Deployments[0].Id || d[0].RolloutState != types.DeploymentRolloutStateCompleted || d[0].DesiredCount != 3 || d[0].RunningCount != 2 {
		t.Errorf("a change of the count: %+v", d)
	}
	c.steady(t, "api", 3)
	if _, err := c.ecs.DeleteService(t.Context(), &ecs.DeleteServiceInput{Service: sdk.String("api"), Force: sdk.Bool(true)}); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patient, "inactive service", func() bool { return *c.service(t, "api").Status == "INACTIVE" })
}

// TestServiceCircuitBreaker lets a deployment fail, and sees the one of before come back.
func TestServiceCircuitBreaker(t *testing.T) {
	c := newCloud(t, Options{})
	good := c.register(t, definition("good", "sleep", "600"))
	bad := c.register(t, definition("bad", "sleep", "600"))
	c.ECS().Strike(pocket.Mishap{Family: "bad", Stage: pocket.StagePull})
	c.serve(t, "api", good, 1, func(in *ecs.CreateServiceInput) {
		in.DeploymentConfiguration = &types.DeploymentConfiguration{DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{Enable: true, Rollback: true}}
	})
	stable := *c.steady(t, "api", 1).Deployments[0].Id
	out, err := c.ecs.UpdateService(t.Context(), &ecs.UpdateServiceInput{Service: sdk.String("api"), TaskDefinition: &bad})
	if err != nil {
		t.Fatal(err)
	}
	id := *out.Service.Deployments[0].Id
	testwait.Until(t, patient, "rollback", func() bool {
		v := c.service(t, "api")
		return *v.Deployments[0].Id == stable && *v.TaskDefinition == good
	})
	v := c.steady(t, "api", 1)
	var words []string
	for _, e := range v.Events {
		words = append(words, *e.Message)
	}
	if all := strings.Join(words, "\n"); !strings.Contains(all, "(deployment "+id+") deployment failed: tasks failed to start.") || !strings.Contains(all, "rolling back to deployment "+stable) {
		t.Errorf("events:\n%s", all)
	}
	// Without a stable one nothing comes back, and no more is tried.
	c.serve(t, "new", bad, 1, func(in *ecs.CreateServiceInput) {
		in.DeploymentConfiguration = &types.DeploymentConfiguration{DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{Enable: true, Rollback: true}}
	})
	testwait.Until(t, patient, "failed deployment", func() bool {
		d := c.service(t, "new").Deployments[0]
		return d.RolloutState == types.DeploymentRolloutStateFailed && d.FailedTasks == 3 && d.PendingCount == 0
	})
}

// TestServiceOutlivesServer saves a service and sees it go on.
func TestServiceOutlivesServer(t *testing.T) {
	dir := t.TempDir()
	s, err := New(Options{State: dir})
	if err != nil {
		t.Fatal(err)
	}
	c := cloudOf(t, s)
	c.serve(t, "api", c.register(t, definition("kept", "sleep", "600")), 1, nil)
	c.steady(t, "api", 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := cloudOf(t, newServer(t, Options{State: dir}))
	testwait.Until(t, patient, "service that goes on", func() bool { return again.service(t, "api").RunningCount == 1 })
}

// cloudOf is a cloud of a server that may be closed before the test's end.
func cloudOf(t testing.TB, s *Server) *cloud {
	t.Helper()
	s.Logs().CreateGroup("jobs")
	c := &cloud{Server: s}
	c.connect("http://pocket", &http.Client{Transport: inProcess{c}})
	return c
}

// TestServicesByCLI has AWS's own command line make, change, watch and measure a
// service, and look for what scales it. Its execute-command needs a plugin that is
// not on test machines; the model in channel_test.go stands for that.
func TestServicesByCLI(t *testing.T) {
	c := newCloud(t, Options{})
	c.ECS().TuneKnobs(func(k *pocket.Knobs) { k.MetricPeriod = 10 * time.Millisecond })
	aws := newCLI(t, c.url)
	def := c.register(t, definition("cli", "sh", "-c", "while :; do :; done & sleep 600"))
	network := "awsvpcConfiguration={subnets=[subnet-0123456789abcdef0],assignPublicIp=ENABLED}"
	made := aws.run(t, "ecs", "create-service", "--service-name", "api", "--task-definition", def, "--desired-count", "1", "--launch-type", "FARGATE", "--network-configuration", network,
		"--deployment-configuration", "deploymentCircuitBreaker={enable=true,rollback=true}", "--tags", "key=team,value=a")["service"].(doc)
	if made["status"] != "ACTIVE" || made["deployments"].([]any)[0].(doc)["rolloutState"] != "IN_PROGRESS" {
		t.Errorf("create-service: %v", made)
	}
	c.steady(t, "api", 1)
	updated := aws.run(t, "ecs", "update-service", "--service", "api", "--desired-count", "2", "--force-new-deployment")["service"].(doc)
	if list := updated["deployments"].([]any); len(list) != 2 || list[0].(doc)["status"] != "PRIMARY" {
		t.Errorf("update-service: %v", list)
	}
	c.steady(t, "api", 2) // the waiter looks every fifteen seconds
	aws.run(t, "ecs", "wait", "services-stable", "--services", "api")
	seen := aws.run(t, "ecs", "describe-services", "--services", "api", "nosuch", "--include", "TAGS")
	if v := seen["services"].([]any)[0].(doc); v["runningCount"] != float64(2) || v["tags"].([]any)[0].(doc)["value"] != "a" || seen["failures"].([]any)[0].(doc)["reason"] != "MISSING" {
		t.Errorf("describe-services: %v", seen)
	}
	tasks := aws.run(t, "ecs", "list-tasks", "--service-name", "api")["taskArns"].([]any)
	if len(tasks) != 2 {
		t.Fatalf("list-tasks: %v", tasks)
	}
	task := tasks[0].(string)
	id := task[len(task)-32:]

	aws.run(t, "application-autoscaling", "register-scalable-target", "--service-namespace", "ecs", "--scalable-dimension", "ecs:service:DesiredCount", "--resource-id", "service/default/api", "--min-capacity", "1", "--max-capacity", "4")
	if got := aws.run(t, "application-autoscaling", "describe-scalable-targets", "--service-namespace", "ecs", "--resource-ids", "service/default/api")["ScalableTargets"].([]any); len(got) != 1 || got[0].(doc)["MaxCapacity"] != float64(4) {
		t.Errorf("describe-scalable-targets: %v", got)
	}

	query := `[{"Id":"cpu","MetricStat":{"Metric":{"Namespace":"ECS/ContainerInsights","MetricName":"TaskCpuUtilization","Dimensions":[{"Name":"ClusterName","Value":"default"},{"Name":"ServiceName","Value":"api"},{"Name":"TaskId","Value":"` + id + `"}]},"Period":60,"Stat":"Average"}}]`
	data := func() doc {
		return aws.run(t, "cloudwatch", "get-metric-data", "--metric-data-queries", query, "--start-time", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), "--end-time", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))["MetricDataResults"].([]any)[0].(doc)
	}
	if first := data(); first["Id"] != "cpu" || len(first["Values"].([]any)) != 0 {
		t.Errorf("the first look at the processor: %v", first)
	}
	if second := data(); len(second["Values"].([]any)) != 1 || len(second["Timestamps"].([]any)) != 1 || second["Values"].([]any)[0].(float64) <= 0 || second["StatusCode"] != "Complete" {
		t.Errorf("the second: %v", second)
	}
	if got := aws.fails(t, "cloudwatch", "get-metric-data", "--metric-data-queries", query, "--start-time", "2026-01-02T00:00:00Z", "--end-time", "2026-01-01T00:00:00Z"); !strings.Contains(got, "StartTime must be less") {
		t.Errorf("times in the wrong order: %s", got)
	}

	aws.run(t, "ssm", "put-parameter", "--name", "/app/a/x", "--value", "1", "--type", "String")
	if got := aws.run(t, "ssm", "get-parameters-by-path", "--path", "/app", "--recursive")["Parameters"].([]any); len(got) != 1 {
		t.Errorf("get-parameters-by-path: %v", got)
	}
	if got := aws.run(t, "ssm", "delete-parameters", "--names", "/app/a/x", "/nosuch"); len(got["DeletedParameters"].([]any)) != 1 || len(got["InvalidParameters"].([]any)) != 1 {
		t.Errorf("delete-parameters: %v", got)
	}
	aws.run(t, "ecs", "delete-service", "--service", "api", "--force")
}
