package aci

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/azure"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/pocket/run/runtest"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/workloadtest"
)

// withShell is the config of a provider whose exec has a shell.
func withShell() map[string]any { return map[string]any{"exec_shell": "/bin/sh"} }

func workloadWorld(t testing.TB, change map[string]any) *world {
	w := newWorld(t, pocket.Options{Executor: runtest.Contained{Executor: run.NewProcesses(nil)}}, change)
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.MeterEvery = 50 * time.Millisecond })
	return w
}

// TestWorkloadSuite tries all that the driver promises of live workloads.
func TestWorkloadSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute: left out by -short")
	}
	t.Parallel() // it mostly waits
	workloadtest.Run(t, workloadWorld(t, withShell()).workloads())
}

// TestF91WorkloadSuitePlain tries what differs where there is no shell: F91.
func TestF91WorkloadSuitePlain(t *testing.T) {
	t.Parallel() // it mostly waits
	h := workloadWorld(t, nil).workloads()
	h.Commands = workloadtest.Commands{Exit: func(int) sdk.Argv { return sdk.Argv{"true"} }}
	h.Only = []string{"exec-code", "exec-instance", "exec-absent", "exec-cut"}
	workloadtest.Run(t, h)
}

// workloads is the suite's harness.
func (w *world) workloads() workloadtest.Harness {
	var mu sync.Mutex
	made := 0
	name := func(what string) string {
		mu.Lock()
		defer mu.Unlock()
		made++
		return fmt.Sprintf("%s-%d", what, made)
	}
	remove := func(t workloadtest.T, group string) {
		t.Cleanup(func() {
			p := w.Another(t)
			if _, err := p.groups.BeginDelete(context.Background(), pocket.ResourceGroup, group, nil); err != nil {
				t.Errorf("delete %s: %v", group, err)
			}
		})
	}
	spec := func(t workloadtest.T, what string) (sdk.WorkloadPath, sdk.DeploymentSpec) {
		group := name(what)
		remove(t, group)
		return path(group), sdk.DeploymentSpec{Name: group, Image: "busybox:local", Command: service("main"), Env: sdk.Env{"A": "b"}}
	}
	effect := func(op workloadtest.Op, n int, e fault.Effect) {
		w.cloud.Faults().Add(fault.Rule{Action: workloadAction(op), Count: n, Effect: e})
	}
	w.cloud.Strike(pocket.Mishap{Group: "broken-*", Stage: pocket.StagePull})
	return workloadtest.Harness{
		Open: func(t workloadtest.T) sdk.Provider { return w.opened(t) },
		Make: func(t workloadtest.T, replicas int) sdk.WorkloadPath {
			group := name("web")
			remove(t, group)
			w.up(t, group, replicas)
			return path(group)
		},
		Changes: func(_ workloadtest.T, path sdk.WorkloadPath) int {
			return w.cloud.Changes(pocket.ResourceGroup, path.Name())
		},
		Spec:   func(t workloadtest.T) (sdk.WorkloadPath, sdk.DeploymentSpec) { return spec(t, "new") },
		Broken: func(t workloadtest.T) (sdk.WorkloadPath, sdk.DeploymentSpec) { return spec(t, "broken") },
		Absent: path("none"),
		Commands: workloadtest.Commands{
			Exit:  func(code int) sdk.Argv { return script(fmt.Sprintf("exit %d", code)) },
			Print: func(stdout, stderr string) sdk.Argv { return script(`echo "$1"; echo "$2" >&2`, stdout, stderr) },
			Args: func(args ...string) sdk.Argv {
				return script(`for a do printf 'arg %s\n' "$(printf %s "$a" | od -An -v -tx1 | tr -d ' \n')"; done`, args...)
			},
			Env: func(name string) sdk.Argv {
				return script(`if [ "${` + name + `+set}" ]; then printf 'env ` + name + ` %s\n' "$(printf %s "$` + name + `" | od -An -v -tx1 | tr -d ' \n')"; else echo 'env ` + name + ` unset'; fi`)
			},
			Hang: func() sdk.Argv { return sdk.Argv{"sleep", "1000"} },
		},
		Line: func(instance string) string { return "up " + instance + "\n" },
		Faults: workloadtest.Faults{
			LoseReply: func(_ workloadtest.T, op workloadtest.Op) { effect(op, 1, fault.Effect{Drop: true}) },
			Refuse:    func(_ workloadtest.T, op workloadtest.Op) { effect(op, 1, fault.Effect{Reset: true}) },
			Throttle: func(_ workloadtest.T, op workloadtest.Op, n int) {
				effect(op, n, fault.Effect{Refuse: pocket.Throttled()})
			},
			Calls: func(_ workloadtest.T, op workloadtest.Op) int { return w.Count(workloadAction(op)) },
		},
		Poll: 20 * time.Millisecond, Eventually: drivertest.Patience,
	}
}

// workloadAction is the call that carries out an operation.
func workloadAction(op workloadtest.Op) string {
	switch op {
	case "StopWorkload":
		return "ContainerGroups_Stop"
	case "RestartWorkload":
		return "ContainerGroups_Restart"
	case "StartWorkload":
		return "ContainerGroups_Start"
	case "ApplyConfig":
		return "ContainerGroups_CreateOrUpdate"
	case "ExecWorkload":
		return pocket.ActionExecSession
	}
	return string(op)
}

func path(group string) sdk.WorkloadPath { return sdk.WorkloadPath(pocket.ResourceGroup + "/" + group) }

func script(text string, args ...string) sdk.Argv {
	return append(sdk.Argv{"sh", "-c", text, "sh"}, args...)
}

// service is a command that says its name and stays up until it is asked to end.
func service(name string) sdk.Argv {
	return sdk.Argv{"sh", "-c", "trap 'exit 0' TERM; echo up " + name + "; while :; do sleep 0.05; done"}
}

// opened is a further provider, for a test that closes it itself.
func (w *world) opened(t workloadtest.T) *provider {
	p, err := Driver().Open(t.Context(), w.Request())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return p.(*provider)
}

// up makes a group of containers that stay up, by the API alone, and waits until
// they run.
func (w *world) up(t workloadtest.T, group string, n int, change ...func(g *arm.ContainerGroup)) {
	p := w.Another(t)
	g := arm.ContainerGroup{Location: to.Ptr(pocket.Location), Properties: &arm.ContainerGroupPropertiesProperties{OSType: to.Ptr(arm.OperatingSystemTypesLinux), RestartPolicy: to.Ptr(arm.ContainerGroupRestartPolicyAlways)}}
	for i := range n {
		name := fmt.Sprintf("main-%d", i)
		g.Properties.Containers = append(g.Properties.Containers, &arm.Container{Name: &name, Properties: &arm.ContainerProperties{Image: to.Ptr("busybox:local"), Command: to.SliceOfPtrs(service(name)...),
			Resources: &arm.ResourceRequirements{Requests: &arm.ResourceRequests{CPU: to.Ptr(1.0), MemoryInGB: to.Ptr(0.5)}}}})
	}
	for _, f := range change {
		f(&g)
	}
	if _, err := p.groups.BeginCreateOrUpdate(t.Context(), pocket.ResourceGroup, group, g, nil); err != nil {
		t.Fatalf("make %s: %v", group, err)
	}
	w.Eventually("group "+group, func() bool {
		res, err := p.groups.Get(t.Context(), pocket.ResourceGroup, group, nil)
		if err != nil {
			t.Fatalf("read %s: %v", group, err)
		}
		for _, c := range res.Properties.Containers {
			if v := c.Properties.InstanceView; v == nil || v.CurrentState == nil || !strings.EqualFold(deref(v.CurrentState.State), "Running") {
				return false
			}
		}
		return true
	})
}
