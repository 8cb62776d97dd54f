package ecs

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/sdk"
)

// TestOwnedSize: what a task costs by is read from the task, and what it doesn't
// tell is unknown.
func TestOwnedSize(t *testing.T) {
	arch := func(v string) []types.Attribute {
		return []types.Attribute{{Name: new("ecs.cpu-architecture"), Value: &v}}
	}
	for name, c := range map[string]struct {
		task types.Task
		want sdk.OwnedSize
	}{
		"nothing": {},
		"Fargate": {types.Task{LaunchType: types.LaunchTypeFargate, Cpu: new("256"), Memory: new("512"), Attributes: arch("x86_64"), EphemeralStorage: &types.EphemeralStorage{SizeInGiB: 20}},
			sdk.OwnedSize{CPU: 250, Memory: 512 << 20, Disk: 20 << 30, Class: "FARGATE"}},
		"ARM": {types.Task{LaunchType: types.LaunchTypeFargate, CapacityProviderName: new("FARGATE"), Cpu: new("4096"), Memory: new("8192"), Attributes: arch("arm64")},
			sdk.OwnedSize{CPU: 4000, Memory: 8 << 30, Class: "FARGATE/ARM64"}},
		"spot":     {types.Task{LaunchType: types.LaunchTypeFargate, CapacityProviderName: new("FARGATE_SPOT")}, sdk.OwnedSize{Class: "FARGATE_SPOT"}},
		"instance": {types.Task{LaunchType: types.LaunchTypeEc2, Cpu: new("odd"), Memory: new("")}, sdk.OwnedSize{Class: "EC2"}},
	} {
		if got := sizeOf(c.task); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestOwnedTimes: a task is billed from the pull of its image on.
func TestOwnedTimes(t *testing.T) {
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	id := sdk.ID{15: 1}.String()
	task := types.Task{CreatedAt: &made, PullStartedAt: new(made.Add(time.Second)), StartedAt: new(made.Add(time.Minute)), LastStatus: new("RUNNING"), StoppedAt: new(made.Add(time.Hour)),
		Tags: tagList(map[string]string{sdk.LabelRun: id, sdk.LabelAttempt: id, sdk.LabelOwner: "me"})}
	if o, ok := ownedTask(task); !ok || !o.Live || !o.Started.Equal(made.Add(time.Second)) || !o.Ended.IsZero() {
		t.Errorf("%+v", o)
	}
	task.PullStartedAt, task.LastStatus = nil, new("STOPPED")
	if o, ok := ownedTask(task); !ok || o.Live || !o.Started.Equal(made.Add(time.Minute)) || !o.Ended.Equal(made.Add(time.Hour)) {
		t.Errorf("%+v", o)
	}
}
