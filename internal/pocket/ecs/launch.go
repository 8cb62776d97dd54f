package ecs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/pocket/logs"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// defaultStopTimeout is the time between TERM and KILL when a container sets
// none: https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_ContainerDefinition.html
const defaultStopTimeout = 30 * time.Second

// box is a container that was started.
type box struct {
	name        string
	index       int // in the definition and in what is shown
	essential   bool
	stopTimeout time.Duration
	container   run.Container
	driver      *logs.Driver
}

// log writes what is left of the output. The container has ended.
func (b *box) log() {
	if b.driver != nil {
		b.driver.Close()
	}
}

// plan is what a container needs before it can start.
type plan struct {
	spec   run.Spec
	driver *logs.Driver
}

// launch prepares and starts the containers.
func (s *Service) launch(t *task) ([]*box, *end) {
	m := t.mishap
	if m.Stage == StageInit {
		return nil, failed(m, "ResourceInitializationError: unable to pull secrets or registry auth: execution resource retrieval failed", "")
	}
	plans, why := s.prepare(t)
	if why != nil {
		return nil, why
	}
	s.change(t, func(v *types.Task, now time.Time) { v.PullStartedAt = &now })
	if m.Stage == StagePull {
		if why := s.wait(t, m.After); why != nil {
			return nil, why
		}
		text := startFailure(t.onFargate(), *t.def.ContainerDefinitions[0].Image, &run.StartError{Phase: run.Pull,
			Text: "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed"})
		return nil, failed(m, text, text)
	}
	s.change(t, func(v *types.Task, now time.Time) { v.PullStoppedAt, v.LastStatus = &now, ptr(activating) })

	var boxes []*box
	for _, i := range startOrder(t.def.ContainerDefinitions) {
		cd := t.def.ContainerDefinitions[i]
		if why := s.awaitOthers(t, cd, boxes); why != nil {
			return boxes, why
		}
		b, err := s.startContainer(t, i, plans[i])
		if err != nil {
			text := startFailure(t.onFargate(), *cd.Image, err)
			s.change(t, func(v *types.Task, _ time.Time) {
				v.Containers = slices.Clone(v.Containers)
				v.Containers[i].LastStatus, v.Containers[i].Reason = ptr(stopped), &text
			})
			return boxes, failed(Mishap{}, text, "")
		}
		boxes = append(boxes, b)
	}
	return boxes, nil
}

// prepare resolves secrets and opens logs, as the agent does before any image
// is pulled.
func (s *Service) prepare(t *task) ([]plan, *end) {
	plans := make([]plan, len(t.def.ContainerDefinitions))
	for i, cd := range t.def.ContainerDefinitions {
		env, err := s.environment(t, cd)
		if err != nil {
			return nil, failed(Mishap{}, "ResourceInitializationError: unable to pull secrets or registry auth: execution resource retrieval failed: unable to retrieve secret from "+err.Error(), "")
		}
		o := t.override(*cd.Name)
		p := &plans[i]
		p.spec = run.Spec{Name: t.id + "-" + *cd.Name, Image: *cd.Image, Entrypoint: nonEmpty(cd.EntryPoint), Command: nonEmpty(cd.Command),
			Env: env, Dir: text(cd.WorkingDirectory), User: text(cd.User), Stdout: io.Discard, Stderr: io.Discard, MemoryMiB: t.memory(cd, o)}
		if len(o.Command) > 0 {
			p.spec.Command = o.Command
		}
		log := cd.LogConfiguration
		if log == nil || log.LogDriver != types.LogDriverAwslogs || s.o.Logs == nil {
			continue
		}
		stream := fmt.Sprintf("%s/%s/%s", log.Options["awslogs-stream-prefix"], *cd.Name, t.id)
		if log.Options["awslogs-stream-prefix"] == "" {
			stream = runtimeID(t, i)
		}
		driver, err := s.o.Logs.OpenDriver(log.Options["awslogs-group"], stream, log.Options["awslogs-create-group"] == "true")
		if err != nil {
			return nil, failed(Mishap{}, "ResourceInitializationError: failed to validate logger args: create stream has been retried 1 times: failed to create Cloudwatch log stream: "+err.Error()+" : exit status 1", "")
		}
		p.driver, p.spec.Stdout, p.spec.Stderr = driver, driver.Writer(), driver.Writer()
	}
	return plans, nil
}

// environment merges a container's variables: the platform's own, then those of
// the definition, the override and the secrets. See
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-tasks-services.html
func (s *Service) environment(t *task, cd types.ContainerDefinition) ([]string, error) {
	execution := "AWS_ECS_EC2"
	if t.onFargate() {
		execution = "AWS_ECS_FARGATE"
	}
	names := []string{"AWS_EXECUTION_ENV", "AWS_REGION", "AWS_DEFAULT_REGION"}
	values := map[string]string{names[0]: execution, names[1]: s.o.Region, names[2]: s.o.Region}
	set := func(name, value string) {
		if _, ok := values[name]; !ok {
			names = append(names, name)
		}
		values[name] = value
	}
	for _, e := range slices.Concat(cd.Environment, t.override(*cd.Name).Environment) {
		set(text(e.Name), text(e.Value))
	}
	for _, secret := range cd.Secrets {
		value, err := s.o.Secret(*secret.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", secretSource(*secret.ValueFrom), err)
		}
		set(*secret.Name, value)
	}
	env := make([]string, 0, len(names))
	for _, n := range names {
		env = append(env, n+"="+values[n])
	}
	return env, nil
}

// secretSource names in the agent's words where a secret comes from.
func secretSource(valueFrom string) string {
	if strings.HasPrefix(valueFrom, "arn:aws:secretsmanager:") {
		return "asm: service call has been retried 1 time(s): failed to fetch secret " + valueFrom + " from secrets manager"
	}
	return "ssm: service call has been retried 1 time(s): failed to fetch parameter " + valueFrom
}

func (t *task) override(name string) types.ContainerOverride {
	for _, o := range t.view.Overrides.ContainerOverrides { // it never changes
		if text(o.Name) == name {
			return o
		}
	}
	return types.ContainerOverride{}
}

// memory is a container's hard limit in MiB, the task's where it has none.
func (t *task) memory(cd types.ContainerDefinition, o types.ContainerOverride) int64 {
	switch {
	case o.Memory != nil:
		return int64(*o.Memory)
	case cd.Memory != nil:
		return int64(*cd.Memory)
	}
	var n int64
	_, _ = fmt.Sscan(text(t.view.Memory), &n) // no number is no limit
	return n
}

// onFargate says where a task runs, which never changes.
func (t *task) onFargate() bool { return t.view.LaunchType == types.LaunchTypeFargate }

// nonEmpty takes an empty list for an absent one, as Docker does.
func nonEmpty(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}

// runtimeID is the ID that the container runtime gave.
func runtimeID(t *task, index int) string {
	if t.onFargate() {
		return fmt.Sprintf("%s-%010d", t.id, index+1)
	}
	return fmt.Sprintf("%s%032d", t.id, index+1)
}

func (s *Service) startContainer(t *task, index int, p plan) (*box, *run.StartError) {
	cd := t.def.ContainerDefinitions[index]
	b := &box{name: *cd.Name, index: index, essential: *cd.Essential, stopTimeout: defaultStopTimeout, driver: p.driver}
	if cd.StopTimeout != nil {
		b.stopTimeout = time.Duration(*cd.StopTimeout) * time.Second
	}
	container, err := s.o.Executor.Start(context.Background(), p.spec)
	if err != nil {
		var failed *run.StartError
		if !errors.As(err, &failed) {
			failed = &run.StartError{Phase: run.Start, Text: err.Error()}
		}
		return nil, failed
	}
	b.container = container
	s.mu.Lock()
	if t.boxes == nil {
		t.boxes = map[string]run.Container{}
	}
	t.boxes[b.name] = container
	s.mu.Unlock()
	s.change(t, func(v *types.Task, _ time.Time) {
		v.Containers = slices.Clone(v.Containers)
		c := &v.Containers[index]
		c.LastStatus, c.RuntimeId = ptr(running), ptr(runtimeID(t, index))
	})
	return b, nil
}

// startOrder sorts containers so that each comes after those that it depends on.
func startOrder(list []types.ContainerDefinition) []int {
	var order []int
	placed := map[string]bool{}
	var place func(i int)
	place = func(i int) {
		if placed[*list[i].Name] {
			return
		}
		placed[*list[i].Name] = true
		for _, d := range list[i].DependsOn {
			place(slices.IndexFunc(list, func(c types.ContainerDefinition) bool { return *c.Name == *d.ContainerName }))
		}
		order = append(order, i)
	}
	for i := range list {
		place(i)
	}
	return order
}

// awaitOthers waits for what a container depends on.
func (s *Service) awaitOthers(t *task, cd types.ContainerDefinition, boxes []*box) *end {
	for _, d := range cd.DependsOn {
		if d.Condition == types.ContainerConditionStart {
			continue // it was started before
		}
		b := boxes[slices.IndexFunc(boxes, func(b *box) bool { return b.name == *d.ContainerName })]
		select {
		case <-b.container.Done():
		case <-t.stop:
			return s.asked(t)
		case <-s.end:
			return closing()
		}
		if d.Condition == types.ContainerConditionSuccess && b.container.Exit().Code != 0 {
			text := fmt.Sprintf("Dependency on container %s with condition SUCCESS was not met.", b.name)
			return failed(Mishap{}, text, text)
		}
	}
	return nil
}
