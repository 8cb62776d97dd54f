package gcp

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/run/apiv2/runpb"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/genproto/googleapis/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// TestDefaults fills in what a job leaves open.
func TestDefaults(t *testing.T) {
	c := newCloud(t, Options{})
	op, err := c.jobs.CreateJob(t.Context(), &runpb.CreateJobRequest{Parent: parent, Job: &runpb.Job{Template: &runpb.ExecutionTemplate{Template: &runpb.TaskTemplate{Containers: []*runpb.Container{{Image: "app"}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	j := &runpb.Job{}
	c.result(t, op, j)
	task := j.Template.Template
	limits := task.Containers[0].Resources.Limits
	if !strings.HasPrefix(short(j.Name), "job-") || j.LaunchStage != api.LaunchStage_GA || j.Template.TaskCount != 1 || task.GetMaxRetries() != 3 || task.Timeout.AsDuration() != 10*time.Minute ||
		task.ServiceAccount != Number+"-compute@developer.gserviceaccount.com" || task.ExecutionEnvironment != runpb.ExecutionEnvironment_EXECUTION_ENVIRONMENT_GEN2 || limits["cpu"] != "1000m" || limits["memory"] != "512Mi" {
		t.Errorf("the job is %v", j)
	}
}

// TestLegal makes a job that goes to every bound.
func TestLegal(t *testing.T) {
	c := newCloud(t, Options{})
	if _, err := c.Secrets().Put("s", []byte("v")); err != nil {
		t.Fatal(err)
	}
	j := jobOf("true")
	j.LaunchStage = api.LaunchStage_BETA
	j.Labels, j.Annotations = map[string]string{"windlass-run": strings.Repeat("a", 63)}, map[string]string{"example.com/Long_Name": "Any text, at all"}
	j.Template.TaskCount, j.Template.Parallelism = 10_000, 10_000
	task := j.Template.Template
	task.Timeout = durationpb.New(168 * time.Hour)
	task.Retries = &runpb.TaskTemplate_MaxRetries{MaxRetries: 10}
	task.ServiceAccount = "runner@" + Project + ".iam.gserviceaccount.com"
	task.VpcAccess = &runpb.VpcAccess{NetworkInterfaces: []*runpb.VpcAccess_NetworkInterface{{Network: "n", Subnetwork: "s", Tags: []string{"t"}}}}
	task.Volumes = []*runpb.Volume{{Name: "v", VolumeType: &runpb.Volume_Secret{Secret: &runpb.SecretVolumeSource{Secret: "s", DefaultMode: 0o444, Items: []*runpb.VersionToPath{{Path: "a/b", Version: "1"}}}}}}
	task.Containers[0].Name = "main"
	task.Containers[0].Resources = &runpb.ResourceRequirements{Limits: map[string]string{"cpu": "8", "memory": "32Gi"}}
	task.Containers[0].Env = []*runpb.EnvVar{{Name: "lower.case-1", Values: &runpb.EnvVar_Value{Value: strings.Repeat("x", 32768)}},
		{Name: "S", Values: &runpb.EnvVar_ValueSource{ValueSource: &runpb.EnvVarSource{SecretKeyRef: &runpb.SecretKeySelector{Secret: "projects/" + Project + "/secrets/s", Version: "1"}}}}}
	id := strings.Repeat("a", 49)
	if got := c.create(t, id, j); got.Template.TaskCount != 10_000 {
		t.Errorf("the job is %v", got)
	}
	if e := c.ended(t, id, &runpb.RunJobRequest_Overrides{TaskCount: 1, ContainerOverrides: []*runpb.RunJobRequest_Overrides_ContainerOverride{{Name: "main", ClearArgs: true}}}); e.SucceededCount != 1 {
		t.Errorf("the execution is %v", e)
	}
}

// TestPolicy takes permissions away.
func TestPolicy(t *testing.T) {
	c := newCloud(t, Options{})
	c.create(t, "job", jobOf("true"))
	c.Policy().Deny("run.jobs.runWithOverrides", "secretmanager.versions.access", "logging.logEntries.list")
	c.ended(t, "job", nil)
	job := parent + "/jobs/job"
	if _, err := c.jobs.RunJob(t.Context(), &runpb.RunJobRequest{Name: job, Overrides: &runpb.RunJobRequest_Overrides{}}); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "run.jobs.runWithOverrides") {
		t.Errorf("a run with overrides: %v", err)
	}
	if _, err := c.secrets.AccessSecretVersion(t.Context(), &secretmanagerpb.AccessSecretVersionRequest{Name: "projects/" + Project + "/secrets/s/versions/1"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("an access: %v", err)
	}
	code, _, reply := c.rest(t, "POST", "/v2/entries:list", doc{"resourceNames": []string{"projects/" + Project}})
	if kind, _, _ := problem(reply); code != 403 || kind != "PERMISSION_DENIED" {
		t.Errorf("a listing: %d %v", code, reply)
	}
	got, err := c.jobs.TestIamPermissions(t.Context(), &iampb.TestIamPermissionsRequest{Resource: job, Permissions: []string{"run.jobs.run", "run.jobs.runWithOverrides", "run.jobs.get"}})
	if err != nil || !slices.Equal(got.Permissions, []string{"run.jobs.run", "run.jobs.get"}) {
		t.Errorf("the permissions are %v, %v", got, err)
	}
	got, err = c.secrets.TestIamPermissions(t.Context(), &iampb.TestIamPermissionsRequest{Resource: "projects/" + Project + "/secrets/any", Permissions: []string{"secretmanager.versions.access"}})
	if err != nil || len(got.Permissions) != 0 {
		t.Errorf("the permissions are %v, %v", got, err)
	}
}
