package ecs

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	autoscaling "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	scaling "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketecs "github.com/windlass-run/windlass/internal/pocket/ecs"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/pocket/run/runtest"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/workloadtest"
)

// up is a command that tells its name and stays.
const up = `echo "up"; trap 'exit 0' TERM; while :; do sleep 60 & wait $!; done`

func TestServices(t *testing.T) {
	workloadtest.Run(t, serviceWorld(t).services(t))
}

// serviceWorld is a world whose containers are processes, one for each test: they
// are quick, and have a shell.
func serviceWorld(t testing.TB) *world {
	w := newWorld(t, pocket.Options{LogGroups: []string{"/windlass"}, Executor: runtest.Contained{Executor: run.NewProcesses(map[string]run.Image{"app:1": {Command: []string{"sh", "-c", up}}})}},
		map[string]any{"task_role": role("task"), "exec_shell": "sh", "metric_interval": "20ms", "service_rate": 10000, "change_grace": "200ms"})
	w.cloud.ECS().TuneKnobs(func(k *pocketecs.Knobs) { k.MetricPeriod = 10 * time.Millisecond })
	w.cloud.ECS().Strike(pocketecs.Mishap{Family: brokenFamily, Stage: pocketecs.StagePull})
	return w
}

// brokenFamily is the family of the definition of default/broken, whose tasks never
// come up.
const brokenFamily = "windlass-svc-default-broken--4f0e3d59abb95657"

// live is a service of the world, made by the API alone.
type live struct {
	w *world
	p *provider
	n int
}

// services is the harness of the suite of live workloads.
func (w *world) services(t testing.TB) workloadtest.Harness {
	l := &live{w: w, p: w.Open()}
	return workloadtest.Harness{
		Open:    func(t workloadtest.T) sdk.Provider { return w.opened(t) },
		Make:    l.make,
		Changes: l.changes,
		Spec:    func(workloadtest.T) (sdk.WorkloadPath, sdk.DeploymentSpec) { return l.spec(l.name(), "app:1") },
		Broken:  func(workloadtest.T) (sdk.WorkloadPath, sdk.DeploymentSpec) { return l.spec("broken", "app:1") },
		Absent:  "default/none", Autoscale: l.autoscale,
		Commands: workloadtest.Commands{
			Exit: func(code int) sdk.Argv { return sdk.Argv{"sh", "-c", fmt.Sprintf("exit %d", code)} },
			Print: func(out, errs string) sdk.Argv {
				return sdk.Argv{"sh", "-c", `echo "$1"; echo "$2" >&2`, "sh", out, errs}
			},
			Cat: func() sdk.Argv { return sdk.Argv{"cat"} },
			Args: func(args ...string) sdk.Argv {
				return append(sdk.Argv{"sh", "-c", `for a; do printf 'arg '; printf %s "$a" | od -An -v -tx1 | tr -d ' \n'; echo; done`, "sh"}, args...)
			},
			Env: func(name string) sdk.Argv {
				return sdk.Argv{"sh", "-c", fmt.Sprintf(`if [ -n "${%[1]s+x}" ]; then printf 'env %[1]s '; printf %%s "$%[1]s" | od -An -v -tx1 | tr -d ' \n'; echo; else echo 'env %[1]s unset'; fi`, name)}
			},
			Hang: func() sdk.Argv { return sdk.Argv{"sleep", "600"} },
		},
		Line:   func(string) string { return "up\n" },
		Faults: l.faults(),
	}
}

// opened opens a provider whose close is the suite's.
func (w *world) opened(t workloadtest.T) sdk.Provider {
	p, err := Driver().Open(t.Context(), w.Request())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return p
}

func (l *live) name() string {
	l.n++
	return fmt.Sprintf("svc-%d", l.n)
}

func (l *live) make(t workloadtest.T, replicas int) sdk.WorkloadPath {
	name := l.name()
	def, err := l.p.ecs.RegisterTaskDefinition(t.Context(), &ecs.RegisterTaskDefinitionInput{Family: &name, NetworkMode: types.NetworkModeAwsvpc,
		RequiresCompatibilities: []types.Compatibility{types.CompatibilityFargate}, Cpu: new("256"), Memory: new("512"), ExecutionRoleArn: new(role("execution")), TaskRoleArn: new(role("task")),
		ContainerDefinitions: []types.ContainerDefinition{{Name: new("app"), Image: new("app:1"), LogConfiguration: &types.LogConfiguration{LogDriver: types.LogDriverAwslogs,
			Options: map[string]string{"awslogs-group": "/windlass", "awslogs-region": pocket.Region, "awslogs-stream-prefix": "svc"}}}}})
	if err != nil {
		t.Fatalf("register: %v", err)
	}
	if _, err := l.p.ecs.CreateService(t.Context(), &ecs.CreateServiceInput{ServiceName: &name, TaskDefinition: def.TaskDefinition.TaskDefinitionArn, DesiredCount: new(int32(replicas)),
		LaunchType: types.LaunchTypeFargate, EnableExecuteCommand: true, NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{"subnet-0123456789abcdef0"}}}}); err != nil {
		t.Fatalf("create: %v", err)
	}
	l.remove(t, name)
	l.w.Eventually("service "+name, func() bool {
		out, err := l.p.ecs.DescribeServices(t.Context(), &ecs.DescribeServicesInput{Services: []string{name}})
		return err == nil && out.Services[0].RunningCount == int32(replicas)
	})
	return sdk.WorkloadPath("default/" + name)
}

// remove deletes a service when the test is over.
func (l *live) remove(t workloadtest.T, name string) {
	t.Cleanup(func() {
		_, _ = l.p.ecs.DeleteService(l.w.T.Context(), &ecs.DeleteServiceInput{Service: &name, Force: new(true)}) // it may never have been made
	})
}

func (l *live) spec(name, image string) (sdk.WorkloadPath, sdk.DeploymentSpec) {
	return sdk.WorkloadPath("default/" + name), sdk.DeploymentSpec{Name: name, Image: image, Ports: []sdk.Port{{Port: 80}}}
}

// changes counts what was carried out of the calls that change what runs. The mark,
// a tag, changes nothing of it.
func (l *live) changes(_ workloadtest.T, p sdk.WorkloadPath) int {
	n := 0
	for _, c := range l.w.cloud.Calls().Calls("") {
		if c.Status != 200 {
			continue
		}
		switch c.Action {
		case "ecs:CreateService", "ecs:UpdateService", "ecs:DeleteService":
			if strings.Contains(string(c.Request), fmt.Sprintf(`"%s"`, path.Base(string(p)))) {
				n++
			}
		}
	}
	return n
}

func (l *live) autoscale(t workloadtest.T, p sdk.WorkloadPath, minimum, maximum int) {
	c := autoscaling.NewFromConfig(l.p.session.Config)
	if _, err := c.RegisterScalableTarget(t.Context(), &autoscaling.RegisterScalableTargetInput{ServiceNamespace: scaling.ServiceNamespaceEcs, ScalableDimension: scaling.ScalableDimensionECSServiceDesiredCount,
		ResourceId: new("service/" + string(p)), MinCapacity: new(int32(minimum)), MaxCapacity: new(int32(maximum))}); err != nil {
		t.Fatalf("register target: %v", err)
	}
}

// faults put what goes wrong at the call by which an operation changes things.
func (l *live) faults() workloadtest.Faults {
	put := func(op workloadtest.Op, e fault.Effect, n int) {
		if op == "ExecWorkload" {
			l.w.cloud.ECS().TuneKnobs(func(k *pocketecs.Knobs) { k.CutSessions = n })
			return
		}
		l.w.cloud.Faults().Add(fault.Rule{Action: "ecs:UpdateService", Count: n, Effect: e})
	}
	return workloadtest.Faults{
		LoseReply: func(_ workloadtest.T, op workloadtest.Op) { put(op, fault.Effect{Drop: true}, 1) },
		Refuse:    func(_ workloadtest.T, op workloadtest.Op) { put(op, fault.Effect{Reset: true}, 1) },
		Throttle:  func(_ workloadtest.T, op workloadtest.Op, n int) { put(op, fault.Effect{Refuse: pocket.Throttle()}, n) },
		Calls:     func(workloadtest.T, workloadtest.Op) int { return len(l.w.cloud.Calls().Calls("ecs:UpdateService")) },
	}
}
