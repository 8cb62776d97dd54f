package azure

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/testwait"
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

// TestPut answers before the group is deployed, and tells where to follow that.
func TestPut(t *testing.T) {
	c := newCloud(t, Options{})
	c.TuneKnobs(func(k *Knobs) { k.Pace.Pending, k.RetryAfter = 50*time.Millisecond, 1500*time.Millisecond })
	a := c.put(t, "new", job("true"))
	p := a.body["properties"].(doc)
	container := p["containers"].([]any)[0].(doc)["properties"].(doc)
	if a.status != 201 || p["provisioningState"] != "Pending" || p["instanceView"].(doc)["state"] != "Pending" || container["instanceView"] != nil || a.body["type"] != groupType ||
		a.body["id"] != c.groupPath("new") || a.header.Get("Retry-After") != "2" {
		t.Errorf("%d %v %v", a.status, a.header, a.body)
	}
	follow := strings.TrimPrefix(a.header.Get("Azure-AsyncOperation"), c.url)
	if got := c.call(t, http.MethodGet, follow, nil).body["status"]; got != "InProgress" {
		t.Errorf("the operation is %v", got)
	}
	for _, verb := range []string{"stop", "start", "restart"} {
		if a := c.call(t, http.MethodPost, c.groupPath("new")+"/"+verb, nil); a.status != 409 || a.code() != "ContainerGroupTransitioning" {
			t.Errorf("%s of what is pending: %d %v", verb, a.status, a.body)
		}
	}
	c.until(t, "new", "Succeeded")
	if got := c.call(t, http.MethodGet, follow, nil).body; got["status"] != "Succeeded" || got["endTime"] == nil {
		t.Errorf("the operation is %v", got)
	}
	if a := c.put(t, "new", job("true")); a.status != 200 || a.header.Get("Azure-AsyncOperation") == "" {
		t.Errorf("again: %d", a.status)
	}
	c.until(t, "new", "Succeeded")
}

// counter is a group that counts its runs in a file, and stays.
func counter(file, after string) arm.ContainerGroup {
	return with(job("sh", "-c", `echo run >>"$F"; echo up; `+after), func(g *arm.ContainerGroup) {
		g.Properties.Containers[0].Properties.EnvironmentVariables = []*arm.EnvironmentVariable{{Name: to.Ptr("F"), Value: &file}}
	})
}

// runs counts them.
func runs(t *testing.T, file string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(data), "run\n")
}

// TestF30PutAgain runs the job once more when its group is put again, unchanged:
// in place while it runs, anew when it has ended. That is why a driver must look
// first.
func TestF30PutAgain(t *testing.T) {
	c := newCloud(t, Options{})
	file := filepath.Join(t.TempDir(), "runs")
	g := counter(file, "exec sleep 100")
	c.create(t, "twice", g)
	c.untilThat(t, "twice", "at its first run", func(arm.ContainerGroup) bool { return runs(t, file) == 1 })
	c.until(t, "twice", "Running")
	c.TuneKnobs(func(k *Knobs) { k.SamePutKeeps = true })
	if a := c.put(t, "twice", g); a.status != 200 || a.body["properties"].(doc)["instanceView"].(doc)["state"] != "Running" {
		t.Errorf("by the knob: %v", a.body)
	}
	c.TuneKnobs(func(k *Knobs) { k.SamePutKeeps = false })
	if a := c.put(t, "twice", g); a.status != 200 {
		t.Fatal(a.body)
	}
	v := mainOf(c.untilThat(t, "twice", "at its second run", func(g arm.ContainerGroup) bool {
		return *g.Properties.InstanceView.State == "Running" && runs(t, file) == 2
	}))
	if *v.RestartCount != 1 || v.PreviousState == nil || *v.PreviousState.State != "Terminated" || *v.PreviousState.ExitCode != 143 {
		t.Errorf("in place: %v, before: %v", v, v.PreviousState)
	}

	c.create(t, "ended", counter(file, "exit 0"))
	c.until(t, "ended", "Succeeded")
	// A changed size is no hindrance any more.
	if a := c.put(t, "ended", with(counter(file, "exit 0"), func(g *arm.ContainerGroup) { *g.Properties.Containers[0].Properties.Resources.Requests.CPU = 2 })); a.status != 200 {
		t.Fatal(a.body)
	}
	v = mainOf(c.untilThat(t, "ended", "anew", func(g arm.ContainerGroup) bool {
		return *g.Properties.InstanceView.State == "Succeeded" && runs(t, file) == 4
	}))
	if *v.RestartCount != 0 || v.PreviousState != nil {
		t.Errorf("anew: %v", v)
	}
}

// TestStates sees the states in their order. Short ones may pass unseen; the
// first run lasts until it was seen.
func TestStates(t *testing.T) {
	c := newCloud(t, Options{})
	const step = 60 * time.Millisecond
	c.TuneKnobs(func(k *Knobs) { k.Pace.Pending, k.Pace.Pull, k.Pace.Backoff = step, step, step })
	release := filepath.Join(t.TempDir(), "go")
	c.create(t, "one", with(job("sh", "-c", "until [ -e '"+release+"' ]; do sleep 0.01; done; exit 1"), func(g *arm.ContainerGroup) {
		g.Properties.RestartPolicy = to.Ptr(arm.ContainerGroupRestartPolicyOnFailure)
	}))
	const running = "Succeeded/Running/Running "
	order := []string{"Pending/Pending", "Creating/Pending/Waiting ", running, "Succeeded/Running/Terminated Error", "Succeeded/Running/Waiting CrashLoopBackOff: Back-off restarting failed", "Succeeded/Running/Waiting "}
	var seen []string
	c.untilThat(t, "one", "run twice", func(g arm.ContainerGroup) bool {
		v := mainOf(g)
		now := *g.Properties.ProvisioningState + "/" + *g.Properties.InstanceView.State
		if v.CurrentState != nil {
			now += "/" + *v.CurrentState.State + " " + *v.CurrentState.DetailStatus
		}
		if len(seen) == 0 || seen[len(seen)-1] != now {
			seen = append(seen, now)
		}
		if now == running {
			if err := os.WriteFile(release, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return *v.RestartCount == 2
	})
	at := 0
	for _, s := range seen {
		i := slices.Index(order, s)
		if i < 0 {
			t.Errorf("%s is no state: %q", s, seen)
			continue
		}
		// Until the first run has ended there is one order; then it goes round.
		if at <= 2 && i < at {
			t.Errorf("%s comes late: %q", s, seen)
		}
		at = max(at, i)
	}
	if !slices.Contains(seen, running) {
		t.Errorf("it never ran: %q", seen)
	}
}

// TestF30GroupState shows a group as running whose container has ended, and one
// as failed without any event: the containers' states decide.
func TestF30GroupState(t *testing.T) {
	c := newCloud(t, Options{})
	c.Strike(Mishap{Group: "odd", Stage: StageGroupState, State: "Running"})
	c.Strike(Mishap{Group: "silent", Stage: StageFail})
	c.Strike(Mishap{Group: "codeless", Stage: StageNoCode})
	for name, code := range map[string]string{"odd": "0", "silent": "0", "fine": "0", "bad": "7", "codeless": "0"} {
		c.create(t, name, job("sh", "-c", "exit "+code))
	}
	g := c.untilThat(t, "odd", "with an ended container", func(g arm.ContainerGroup) bool {
		s := mainOf(g).CurrentState
		return s != nil && *s.State == "Terminated"
	})
	if *g.Properties.InstanceView.State != "Running" {
		t.Errorf("the group is %s", *g.Properties.InstanceView.State)
	}
	g = c.until(t, "silent", "Failed")
	if *g.Properties.ProvisioningState != "Failed" || len(g.Properties.InstanceView.Events) > 0 || mainOf(g).CurrentState != nil || len(mainOf(g).Events) > 0 {
		t.Errorf("the group is %+v", g.Properties.InstanceView)
	}
	c.until(t, "fine", "Succeeded")
	c.until(t, "bad", "Failed")
	if s := mainOf(c.until(t, "codeless", "Failed")).CurrentState; s.ExitCode != nil || *s.State != "Terminated" {
		t.Errorf("the container is %+v", s)
	}
}

// TestUnstarted ends a container whose command can't be run with docker run's
// codes.
func TestUnstarted(t *testing.T) {
	c := newCloud(t, Options{})
	for name, k := range map[string]struct {
		command string
		code    int32
	}{"none": {"no-such-program", 127}, "folder": {"/tmp", 126}} {
		c.create(t, name, job(k.command))
		v := mainOf(c.until(t, name, "Failed"))
		if *v.CurrentState.ExitCode != k.code || *v.CurrentState.State != "Terminated" || *v.Events[len(v.Events)-1].Name != "Failed" {
			t.Errorf("%s: %+v, %+v", name, v.CurrentState, v.Events)
		}
	}
	// Without a command the image's own is run, which a process hasn't.
	c.create(t, "bare", job())
	if code := *mainOf(c.until(t, "bare", "Failed")).CurrentState.ExitCode; code != 125 {
		t.Errorf("bare: %d", code)
	}
}

// TestF32Restarts runs containers again and counts it, which for a job is a trap.
func TestF32Restarts(t *testing.T) {
	c := newCloud(t, Options{})
	c.TuneKnobs(func(k *Knobs) { k.LogNull = true })
	policy := func(p arm.ContainerGroupRestartPolicy, command string) arm.ContainerGroup {
		return with(job("sh", "-c", command), func(g *arm.ContainerGroup) { g.Properties.RestartPolicy = &p })
	}
	c.create(t, "always", policy(arm.ContainerGroupRestartPolicyAlways, "exit 0"))
	c.create(t, "failing", policy(arm.ContainerGroupRestartPolicyOnFailure, "exit 4"))
	c.create(t, "well", policy(arm.ContainerGroupRestartPolicyOnFailure, "exit 0"))
	c.create(t, "once", policy(arm.ContainerGroupRestartPolicyNever, "exit 4"))
	for _, name := range []string{"always", "failing"} {
		v := mainOf(c.untilThat(t, name, "run three times", func(g arm.ContainerGroup) bool { return *mainOf(g).RestartCount >= 2 }))
		if v.PreviousState == nil || *v.PreviousState.State != "Terminated" {
			t.Errorf("%s: %+v", name, v)
		}
		if i := slices.IndexFunc(v.Events, func(e *arm.Event) bool { return *e.Name == "Started" }); *v.Events[i].Count < 2 {
			t.Errorf("%s: %+v", name, v.Events[i])
		}
		if a := c.call(t, http.MethodPost, c.groupPath(name)+"/stop", nil); a.status != 204 {
			t.Errorf("stop: %v", a.body)
		}
		c.until(t, name, "Stopped")
	}
	for name, state := range map[string]string{"well": "Succeeded", "once": "Failed"} {
		if n := *mainOf(c.until(t, name, state)).RestartCount; n != 0 {
			t.Errorf("%s was run %d times more", name, n)
		}
	}
}

// TestCommand puts a command in the place of what the image would run.
func TestCommand(t *testing.T) {
	c := newCloud(t, Options{Executor: run.NewProcesses(map[string]run.Image{"busybox:local": {Entrypoint: []string{"echo", "entry"}, Command: []string{"point"}}})})
	c.create(t, "own", job("echo", "a b", "$(c)"))
	c.create(t, "images", job())
	c.until(t, "own", "Succeeded")
	c.until(t, "images", "Succeeded")
	if got := *c.log(t, "own", nil) + *c.log(t, "images", nil); got != "a b $(c)\nentry point\n" {
		t.Errorf("they wrote %q", got)
	}
}

// TestSealed finds secrets in no reply.
func TestSealed(t *testing.T) {
	c := newCloud(t, Options{})
	const canary = "c4nary"
	g := with(job("sh", "-c", "test ${#S} = 6"), func(g *arm.ContainerGroup) {
		g.Properties.Containers[0].Properties.EnvironmentVariables = []*arm.EnvironmentVariable{{Name: to.Ptr("S"), SecureValue: to.Ptr(canary)}}
		g.Properties.ImageRegistryCredentials = []*arm.ImageRegistryCredential{{Server: to.Ptr("example.azurecr.io"), Username: to.Ptr("me"), Password: to.Ptr(canary)}}
		g.Identity = &arm.ContainerGroupIdentity{Type: to.Ptr(arm.ResourceIdentityTypeSystemAssigned)}
		g.Properties.SubnetIDs = []*arm.ContainerGroupSubnetID{{ID: to.Ptr("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/n")}}
	})
	c.create(t, "one", g)
	got := c.until(t, "one", "Succeeded")
	if r := got.Properties.ImageRegistryCredentials[0]; *r.Username != "me" || *got.Identity.PrincipalID == "" || *got.Identity.TenantID != TenantID {
		t.Errorf("the group is %+v", got)
	}
	c.call(t, http.MethodGet, "/subscriptions/"+SubscriptionID+"/providers/"+groupType, nil)
	// Started again, it has its secret still.
	if _, err := c.groups.BeginStart(t.Context(), ResourceGroup, "one", nil); err != nil {
		t.Fatal(err)
	}
	c.until(t, "one", "Succeeded")
	for _, call := range c.Calls().Calls("") {
		if strings.Contains(string(call.Reply), canary) {
			t.Errorf("%s shows it: %s", call.Action, call.Reply)
		}
		if strings.Contains(string(call.Request), canary) && call.Action != "ContainerGroups_CreateOrUpdate" {
			t.Errorf("%s has it: %s", call.Action, call.Request)
		}
	}
}

// TestTags replaces tags and leaves the containers alone.
func TestTags(t *testing.T) {
	c := newCloud(t, Options{})
	file := filepath.Join(t.TempDir(), "runs")
	c.create(t, "one", with(counter(file, "exec sleep 100"), func(g *arm.ContainerGroup) { g.Tags = map[string]*string{"a": to.Ptr("1"), "b": to.Ptr("2")} }))
	c.untilThat(t, "one", "running", func(g arm.ContainerGroup) bool {
		return *g.Properties.InstanceView.State == "Running" && runs(t, file) == 1
	})
	if _, err := c.groups.Update(t.Context(), ResourceGroup, "one", arm.Resource{Tags: map[string]*string{"a": to.Ptr("3")}}, nil); err != nil {
		t.Fatal(err)
	}
	g := c.get(t, "one")
	if len(g.Tags) != 1 || *g.Tags["a"] != "3" || *mainOf(g).CurrentState.State != "Running" || *mainOf(g).RestartCount != 0 || runs(t, file) != 1 {
		t.Errorf("the group is %+v", g)
	}
}

// TestF98Start deploys a group anew that was stopped or has ended, and restarts
// one in place that runs.
func TestF98Start(t *testing.T) {
	c := newCloud(t, Options{})
	file := filepath.Join(t.TempDir(), "runs")
	c.create(t, "one", counter(file, "exec sleep 100"))
	at := func(n int) arm.ContainerGroup {
		return c.untilThat(t, "one", "at another run", func(g arm.ContainerGroup) bool {
			return *g.Properties.InstanceView.State == "Running" && runs(t, file) == n
		})
	}
	at(1)
	if a := c.call(t, http.MethodPost, c.groupPath("one")+"/start", nil); a.status != 204 {
		t.Errorf("start of what runs: %d", a.status)
	}
	if a := c.call(t, http.MethodPost, c.groupPath("one")+"/restart", nil); a.status != 204 || a.header.Get("Location") == "" {
		t.Errorf("restart: %d %v", a.status, a.header)
	}
	if v := mainOf(at(2)); *v.RestartCount != 1 || v.PreviousState == nil {
		t.Errorf("restarted: %+v", v)
	}
	if a := c.call(t, http.MethodPost, c.groupPath("one")+"/stop", nil); a.status != 204 {
		t.Errorf("stop: %d", a.status)
	}
	c.until(t, "one", "Stopped")
	poller, err := c.groups.BeginStart(t.Context(), ResourceGroup, "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := mainOf(at(3)); *v.RestartCount != 0 || v.PreviousState != nil {
		t.Errorf("started: %+v", v)
	}
	if _, err := poller.PollUntilDone(t.Context(), &runtime.PollUntilDoneOptions{Frequency: time.Second}); err != nil {
		t.Errorf("the start ends with %v", err)
	}
	// A stop has no effect on what ended by itself.
	c.create(t, "ended", job("true"))
	c.until(t, "ended", "Succeeded")
	if a := c.call(t, http.MethodPost, c.groupPath("ended")+"/stop", nil); a.status != 204 || *c.get(t, "ended").Properties.InstanceView.State != "Succeeded" {
		t.Errorf("stop of what has ended: %d", a.status)
	}
}

// TestDelete deletes at once, or by an operation; what runs is ended.
func TestDelete(t *testing.T) {
	c := newCloud(t, Options{})
	file := filepath.Join(t.TempDir(), "runs")
	c.create(t, "one", counter(file, `trap 'echo run >>"$F"; exit 0' TERM; while :; do sleep 0.05; done`))
	c.untilThat(t, "one", "running", func(arm.ContainerGroup) bool { l := c.log(t, "one", nil); return l != nil && *l == "up\n" })
	if a := c.call(t, http.MethodDelete, c.groupPath("one"), nil); a.status != 200 || a.body["name"] != "one" {
		t.Errorf("%d %v", a.status, a.body)
	}
	if a := c.call(t, http.MethodGet, c.groupPath("one"), nil); a.status != 404 || a.code() != "ResourceNotFound" {
		t.Errorf("%d %v", a.status, a.body)
	}
	testwait.Until(t, long, "TERM", func() bool { return runs(t, file) == 2 })
	// The name is free, and a new group is its own.
	c.create(t, "one", job("true"))
	c.until(t, "one", "Succeeded")

	c.TuneKnobs(func(k *Knobs) { k.DeleteTakes, k.RetryAfter = 100*time.Millisecond, time.Second })
	poller, err := c.groups.BeginDelete(t.Context(), ResourceGroup, "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := poller.PollUntilDone(t.Context(), &runtime.PollUntilDoneOptions{Frequency: time.Second}); err != nil {
		t.Fatal(err)
	}
	if a := c.call(t, http.MethodGet, c.groupPath("one"), nil); a.status != 404 {
		t.Errorf("%d %v", a.status, a.body)
	}

	c.TuneKnobs(func(k *Knobs) { k.DeleteTakes, k.BusyDelete = 0, true })
	c.Strike(Mishap{Stage: StageWait, Count: 1})
	c.create(t, "busy", job("true"))
	if a := c.call(t, http.MethodDelete, c.groupPath("busy"), nil); a.status != 409 || a.code() != "ContainerGroupTransitioning" {
		t.Errorf("%d %v", a.status, a.body)
	}
	if a := c.call(t, http.MethodPost, c.groupPath("busy")+"/stop", nil); a.status != 204 {
		t.Errorf("%d %v", a.status, a.body)
	}
	c.until(t, "busy", "Stopped")
	if a := c.call(t, http.MethodDelete, c.groupPath("busy"), nil); a.status != 200 {
		t.Errorf("%d %v", a.status, a.body)
	}
}

// TestMaintenance ends a container for the platform's reasons, with and without
// another run, and one for its memory.
func TestMaintenance(t *testing.T) {
	c := newCloud(t, Options{})
	c.Strike(Mishap{Group: "host", Stage: StageHost, Code: 7148})
	c.Strike(Mishap{Group: "again", Stage: StageMaintenance, After: 20 * time.Millisecond})
	c.Strike(Mishap{Group: "memory", Stage: StageOOM})
	file := filepath.Join(t.TempDir(), "runs")
	c.create(t, "host", job("sleep", "100"))
	c.create(t, "memory", job("sleep", "100"))
	c.create(t, "again", counter(file, `[ "$(wc -l <"$F")" = 2 ] || sleep 100`))
	v := mainOf(c.until(t, "host", "Failed"))
	if *v.CurrentState.ExitCode != 7148 || *v.RestartCount != 0 || *v.Events[len(v.Events)-1].Name != "Killing" {
		t.Errorf("host: %+v", v)
	}
	if s := mainOf(c.until(t, "memory", "Failed")).CurrentState; *s.ExitCode != 137 || *s.DetailStatus != "OOMKilled" {
		t.Errorf("memory: %+v", s)
	}
	v = mainOf(c.until(t, "again", "Succeeded"))
	if *v.CurrentState.ExitCode != 0 || *v.RestartCount != 1 || *v.PreviousState.ExitCode != 7147 || runs(t, file) != 2 {
		t.Errorf("again: %+v", v)
	}
}

// TestPull leaves a container without its image waiting, until the platform
// gives up or the group is stopped.
func TestPull(t *testing.T) {
	c := newCloud(t, Options{})
	c.Strike(Mishap{Stage: StagePull})
	stuck := func(g arm.ContainerGroup) bool {
		s := mainOf(g).CurrentState
		return s != nil && *s.State == "Waiting" && *s.DetailStatus == "ImagePullBackOff"
	}
	c.create(t, "one", job("true"))
	g := c.untilThat(t, "one", "waiting for its image", stuck)
	if got := eventsOf(g); got != noImage || *g.Properties.ProvisioningState != "Creating" || *g.Properties.InstanceView.State != "Pending" {
		t.Errorf("%s; %s, %s", got, *g.Properties.ProvisioningState, *g.Properties.InstanceView.State)
	}
	if a := c.call(t, http.MethodPost, c.groupPath("one")+"/stop", nil); a.status != 204 {
		t.Errorf("stop: %v", a.body)
	}
	c.until(t, "one", "Stopped")
	c.TuneKnobs(func(k *Knobs) { k.Pace.PullTimeout = 20 * time.Millisecond })
	a := c.put(t, "two", job("true"))
	if g := c.until(t, "two", "Failed"); *g.Properties.ProvisioningState != "Failed" || *mainOf(g).CurrentState.State != "Waiting" {
		t.Errorf("given up: %+v", g.Properties)
	}
	if got := c.call(t, http.MethodGet, strings.TrimPrefix(a.header.Get("Azure-AsyncOperation"), c.url), nil).body; got["status"] != "Failed" || got["error"].(doc)["code"] == "" {
		t.Errorf("the operation is %v", got)
	}
}

// noImage are the events of a container whose image can't be pulled.
const noImage = "Pulling Normal, Failed Warning, BackOff Normal"

// eventsOf lists the names and types of the container's events.
func eventsOf(g arm.ContainerGroup) string {
	var events []string
	for _, e := range mainOf(g).Events {
		events = append(events, *e.Name+" "+*e.Type)
	}
	return strings.Join(events, ", ")
}

// TestPullByExecutor: an image that only the executor finds missing has never been
// pulled, and one that is there has, even if its command can't be started.
func TestPullByExecutor(t *testing.T) {
	c := newCloud(t, Options{Executor: run.NewScripted(func(s run.Spec) run.Play {
		if slices.Contains(s.Entrypoint, "missing") {
			return run.Play{Start: &run.StartError{Phase: run.Pull, Text: "manifest unknown"}}
		}
		return run.Play{Start: &run.StartError{Phase: run.Start, Text: "no such file or directory"}}
	})})
	c.create(t, "one", job("missing"))
	g := c.untilThat(t, "one", "waiting for its image", func(g arm.ContainerGroup) bool {
		s := mainOf(g).CurrentState
		return s != nil && *s.State == "Waiting" && *s.DetailStatus == "ImagePullBackOff"
	})
	if got := eventsOf(g); got != noImage {
		t.Errorf("the events are %s", got)
	}
	c.create(t, "two", job("there"))
	if got := eventsOf(c.until(t, "two", "Failed")); got != "Pulling Normal, Pulled Normal, Failed Warning" {
		t.Errorf("of an image that is there they are %s", got)
	}
}

// TestCapacity fails a deployment that was accepted.
func TestCapacity(t *testing.T) {
	c := newCloud(t, Options{})
	c.Strike(Mishap{Stage: StageCapacity, Count: 1})
	poller, err := c.groups.BeginCreateOrUpdate(t.Context(), ResourceGroup, "one", job("true"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := poller.PollUntilDone(t.Context(), &runtime.PollUntilDoneOptions{Frequency: time.Second}); codeOf(err) != "ServiceUnavailable" {
		t.Errorf("the deployment ends with %v", err)
	}
	g := c.until(t, "one", "Failed")
	if e := g.Properties.InstanceView.Events; len(e) != 1 || !strings.Contains(*e[0].Message, "Resource requested: '1' CPU '0.5' GB memory 'Linux' OS") || mainOf(g).CurrentState != nil {
		t.Errorf("the group is %+v", g.Properties.InstanceView)
	}
}

// TestContainers runs all containers of a group.
func TestContainers(t *testing.T) {
	c := newCloud(t, Options{})
	c.create(t, "two", with(job("true"), func(g *arm.ContainerGroup) {
		other := clone(g.Properties.Containers[0])
		other.Name, other.Properties.Command = to.Ptr("side"), to.SliceOfPtrs("sh", "-c", "echo side; exit 2")
		g.Properties.Containers = append(g.Properties.Containers, other)
	}))
	g := c.until(t, "two", "Failed")
	out, err := c.containers.ListLogs(t.Context(), ResourceGroup, "two", "side", nil)
	if err != nil || *out.Content != "side\n" || *mainOf(g).CurrentState.ExitCode != 0 || *g.Properties.Containers[1].Properties.InstanceView.CurrentState.ExitCode != 2 {
		t.Errorf("%v, %v, %+v", out, err, g.Properties)
	}
}
