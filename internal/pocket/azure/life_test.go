package azure

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"
)

// TestJob goes through the life of a job by Azure's own client.
func TestJob(t *testing.T) {
	c := newCloud(t, Options{})
	spec := with(job("sh", "-c", `echo "hello $WHO $PASS"; echo err >&2; exit 3`), func(g *arm.ContainerGroup) {
		g.Tags = map[string]*string{"windlass-run": to.Ptr("one")}
		g.Properties.Containers[0].Properties.EnvironmentVariables = []*arm.EnvironmentVariable{
			{Name: to.Ptr("WHO"), Value: to.Ptr("you")}, {Name: to.Ptr("PASS"), SecureValue: to.Ptr("hush")}}
	})
	poller, err := c.groups.BeginCreateOrUpdate(t.Context(), ResourceGroup, "one", spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	made, err := poller.PollUntilDone(t.Context(), &runtime.PollUntilDoneOptions{Frequency: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if *made.Properties.ProvisioningState != "Succeeded" || *made.Name != "one" || *made.Tags["windlass-run"] != "one" {
		t.Errorf("the group is %+v", made.ContainerGroup)
	}
	g := c.until(t, "one", "Failed")
	v := mainOf(g)
	if s := v.CurrentState; *s.State != "Terminated" || *s.ExitCode != 3 || *s.DetailStatus != "Error" || s.StartTime == nil || s.FinishTime == nil || *v.RestartCount != 0 || v.PreviousState != nil {
		t.Errorf("the container is %+v", s)
	}
	var events []string
	for _, e := range v.Events {
		events = append(events, *e.Name)
	}
	if got := strings.Join(events, " "); got != "Pulling Pulled Started" {
		t.Errorf("its events are %s", got)
	}
	for _, e := range g.Properties.Containers[0].Properties.EnvironmentVariables {
		if e.SecureValue != nil || *e.Name == "PASS" && e.Value != nil {
			t.Errorf("variable %s shows %v, %v", *e.Name, e.Value, e.SecureValue)
		}
	}
	if log := c.log(t, "one", nil); log == nil || !strings.Contains(*log, "hello you hush\n") || !strings.Contains(*log, "err\n") {
		t.Errorf("the log is %v", log)
	}
	for page := c.groups.NewListByResourceGroupPager(ResourceGroup, nil); page.More(); {
		out, err := page.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Value) != 1 || out.Value[0].Properties.InstanceView != nil || out.Value[0].Properties.Containers[0].Properties.InstanceView != nil {
			t.Errorf("the list is %v", out.Value)
		}
	}
	gone, err := c.groups.BeginDelete(t.Context(), ResourceGroup, "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gone.PollUntilDone(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.groups.Get(t.Context(), ResourceGroup, "one", nil); codeOf(err) != "ResourceNotFound" {
		t.Errorf("after the delete: %v", err)
	}
	if a := c.call(t, http.MethodDelete, c.groupPath("one"), nil); a.status != http.StatusNoContent {
		t.Errorf("a second delete: %d", a.status)
	}
}

// TestStop ends a running group, which then shows how its container ended.
func TestStop(t *testing.T) {
	c := newCloud(t, Options{})
	c.create(t, "slow", job("sh", "-c", `trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.05; done`))
	c.untilThat(t, "slow", "with output", func(arm.ContainerGroup) bool { l := c.log(t, "slow", nil); return l != nil && *l == "up\n" })
	if _, err := c.groups.Stop(t.Context(), ResourceGroup, "slow", nil); err != nil {
		t.Fatal(err)
	}
	g := c.until(t, "slow", "Stopped")
	if s := mainOf(g).CurrentState; *s.State != "Terminated" || *s.ExitCode != 5 || *g.Properties.ProvisioningState != "Succeeded" {
		t.Errorf("the container is %+v", s)
	}
	if log := c.log(t, "slow", nil); *log != "up\nbye\n" {
		t.Errorf("the log is %q", *log)
	}
	if events := mainOf(g).Events; *events[len(events)-1].Name != "Killing" {
		t.Errorf("the last event is %s", *events[len(events)-1].Name)
	}
}
