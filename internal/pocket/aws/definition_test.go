package aws

import (
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// TestFamilies lists families by their state and prefix.
func TestFamilies(t *testing.T) {
	c := newCloud(t, Options{})
	c.register(t, definition("app-a", "true"))
	c.register(t, definition("web", "true"))
	gone := c.register(t, definition("app-b", "true"))
	if _, err := c.ecs.DeregisterTaskDefinition(t.Context(), &ecs.DeregisterTaskDefinitionInput{TaskDefinition: &gone}); err != nil {
		t.Fatal(err)
	}
	for want, in := range map[string]*ecs.ListTaskDefinitionFamiliesInput{
		"app-a app-b web": {},
		"app-a web":       {Status: types.TaskDefinitionFamilyStatusActive},
		"app-b":           {Status: types.TaskDefinitionFamilyStatusInactive},
		"app-a app-b":     {FamilyPrefix: sdk.String("app")},
	} {
		out, err := c.ecs.ListTaskDefinitionFamilies(t.Context(), in)
		if err != nil || strings.Join(out.Families, " ") != want {
			t.Errorf("listed %v, %v, want %s", out, err, want)
		}
	}
	var sorted []string
	for _, order := range []types.SortOrder{types.SortOrderAsc, types.SortOrderDesc} {
		out, err := c.ecs.ListTaskDefinitions(t.Context(), &ecs.ListTaskDefinitionsInput{Sort: order})
		if err != nil {
			t.Fatal(err)
		}
		if order == types.SortOrderDesc {
			slices.Reverse(out.TaskDefinitionArns)
		}
		if sorted == nil {
			sorted = out.TaskDefinitionArns
		} else if !slices.Equal(sorted, out.TaskDefinitionArns) {
			t.Errorf("the other way round: %v, %v", sorted, out.TaskDefinitionArns)
		}
	}
}

// TestDeletedInUse keeps a deleted definition for as long as a task runs it.
func TestDeletedInUse(t *testing.T) {
	c := newCloud(t, Options{})
	d := definition("used", "sleep", "60")
	d.RuntimePlatform = &types.RuntimePlatform{CpuArchitecture: types.CPUArchitectureArm64, OperatingSystemFamily: types.OSFamilyLinux}
	def := c.register(t, d)
	task := c.run(t, onFargate(def))
	if got := *task.Attributes[0].Value; got != "arm64" {
		t.Errorf("the architecture is %s", got)
	}
	if _, err := c.ecs.DeregisterTaskDefinition(t.Context(), &ecs.DeregisterTaskDefinitionInput{TaskDefinition: &def}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ecs.RunTask(t.Context(), onFargate(def)); code(err) != "ClientException" {
		t.Errorf("an INACTIVE definition runs: %v", err)
	}
	out, err := c.ecs.DeleteTaskDefinitions(t.Context(), &ecs.DeleteTaskDefinitionsInput{TaskDefinitions: []string{def}})
	if err != nil || len(out.TaskDefinitions) != 1 {
		t.Fatalf("deleted %v, %v", out, err)
	}
	got, err := c.ecs.DescribeTaskDefinition(t.Context(), &ecs.DescribeTaskDefinitionInput{TaskDefinition: &def})
	if err != nil || got.TaskDefinition.Status != types.TaskDefinitionStatusDeleteInProgress {
		t.Errorf("a deleted definition in use: %v, %v", got, err)
	}
	if _, err := c.ecs.StopTask(t.Context(), &ecs.StopTaskInput{Task: task.TaskArn}); err != nil {
		t.Fatal(err)
	}
	c.until(t, *task.TaskArn, "STOPPED")
	if _, err := c.ecs.DescribeTaskDefinition(t.Context(), &ecs.DescribeTaskDefinitionInput{TaskDefinition: &def}); code(err) != "ClientException" {
		t.Errorf("after its last task: %v", err)
	}
}

// TestClusters counts a cluster's tasks, and keeps its tasks to itself.
func TestClusters(t *testing.T) {
	c := newCloud(t, Options{Clusters: []string{"mine"}})
	in := onFargate(c.register(t, definition("clusters", "sleep", "60")))
	in.Cluster = sdk.String("mine")
	arn := c.run(t, in).TaskArn
	if _, err := c.ecs.StopTask(t.Context(), &ecs.StopTaskInput{Task: sdk.String((*arn)[len(*arn)-32:])}); code(err) != "InvalidParameterException" {
		t.Errorf("a task of another cluster: %v", err)
	}
	for {
		out, err := c.ecs.DescribeClusters(t.Context(), &ecs.DescribeClustersInput{Clusters: []string{"mine", "nosuch"}})
		if err != nil || len(out.Clusters) != 1 || len(out.Failures) != 1 || *out.Failures[0].Reason != "MISSING" {
			t.Fatalf("described %v, %v", out, err)
		}
		if out.Clusters[0].RunningTasksCount == 1 {
			break
		}
	}
	out, err := c.ecs.ListClusters(t.Context(), &ecs.ListClustersInput{})
	if err != nil || len(out.ClusterArns) != 2 || !strings.HasSuffix(out.ClusterArns[1], ":cluster/mine") {
		t.Errorf("listed %v, %v", out, err)
	}
}
