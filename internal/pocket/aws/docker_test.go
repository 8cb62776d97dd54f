package aws

import (
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/testneed"
)

// TestDocker runs tasks in an engine: the image's own command, an image that
// isn't there, and a real kill for memory.
func TestDocker(t *testing.T) {
	executor, err := run.NewDocker(testneed.Docker(t))
	if err != nil {
		t.Fatal(err)
	}
	c := newCloud(t, Options{Executor: executor})
	of := func(change func(*types.ContainerDefinition)) types.Task {
		d := definition("docker", "true")
		d.ContainerDefinitions[0].Image = sdk.String(testneed.Image)
		change(&d.ContainerDefinitions[0])
		return c.until(t, *c.run(t, onFargate(c.register(t, d))).TaskArn, "STOPPED")
	}
	task := of(func(d *types.ContainerDefinition) {
		d.Command = []string{"sh", "-c", "echo $AWS_EXECUTION_ENV; exit 9"}
	})
	if got := c.lines(t, *task.TaskArn); *task.Containers[0].ExitCode != 9 || len(got) != 1 || got[0] != "AWS_ECS_FARGATE" {
		t.Errorf("exit code %d, log %q", *task.Containers[0].ExitCode, got)
	}
	task = of(func(d *types.ContainerDefinition) { d.Image = sdk.String("nosuch.invalid/image:1") })
	if task.StopCode != types.TaskStopCodeTaskFailedToStart || !strings.HasPrefix(*task.StoppedReason, "CannotPullContainerError: ") || task.Containers[0].ExitCode != nil {
		t.Errorf("no image: %s: %s", task.StopCode, *task.StoppedReason)
	}
	task = of(func(d *types.ContainerDefinition) {
		d.Memory, d.Command = sdk.Int32(16), []string{"sh", "-c", `x=a; while :; do x=$x$x; done`}
	})
	if got := task.Containers[0]; *got.ExitCode != 137 || !strings.HasPrefix(sdk.ToString(got.Reason), "OutOfMemoryError: ") {
		t.Errorf("beyond its memory: exit code %d, %s", *got.ExitCode, sdk.ToString(got.Reason))
	}
}
