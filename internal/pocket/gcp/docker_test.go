package gcp

import (
	"testing"

	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/testneed"
)

// TestDocker runs a job in a real container, with the image's own entry point
// and a memory limit that the kernel keeps.
func TestDocker(t *testing.T) {
	executor, err := run.NewDocker(testneed.Docker(t))
	if err != nil {
		t.Fatal(err)
	}
	c := newCloud(t, Options{Executor: executor})
	j := jobOf("sh", "-c", `echo "in a container: $0"`, "yes")
	j.Template.Template.Containers[0].Image = testneed.Image
	c.create(t, "job", j)
	e := c.ended(t, "job", nil)
	if got := c.output(t, e, "stdout"); countsOf(e) != (counts{succeeded: 1}) || got != "in a container: yes\n" {
		t.Errorf("the execution ended as %+v with output %q: %v", countsOf(e), got, e.Conditions)
	}

	j = jobOf("sh", "-c", "tail /dev/zero")
	j.Template.Template.Containers[0].Image = testneed.Image
	c.create(t, "greedy", j)
	e = c.ended(t, "greedy", nil)
	if r := c.lastResult(t, e); r.GetTermSignal() != 9 || r.GetExitCode() != 0 || countsOf(e) != (counts{failed: 1}) {
		t.Errorf("a task above its memory left %v, %v", r, e.Conditions)
	}

	j = jobOf("true")
	j.Template.Template.Containers[0].Image = "no/such:image"
	c.create(t, "missing", j)
	e = c.ended(t, "missing", nil)
	if got := conditionOf(e.Conditions, "ContainerReady"); got.State != runpb.Condition_CONDITION_FAILED || got.GetReason() != runpb.Condition_CONTAINER_MISSING || countsOf(e) != (counts{failed: 1}) {
		t.Errorf("without its image the execution ended with %v", e.Conditions)
	}
}
