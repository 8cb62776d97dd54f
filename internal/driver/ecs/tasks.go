package ecs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/sdk"
)

// tasks is what this process has seen of tasks that were not cleaned up: who
// uses a definition, and which have ended. It saves calls and decides nothing
// that a call wouldn't. The zero value is ready.
type tasks struct {
	mu sync.Mutex
	m  map[string]*task
	// uses counts tasks by definition.
	uses map[string]int
}

type task struct {
	definition string
	ended      bool
	// ran: a container of it was made, so that there is a log.
	ran bool
	// endSeen is when its end was first seen here.
	endSeen time.Time
	// shown is when a call last showed it.
	shown time.Time
}

// seen notes a task as a call has just shown it.
func (k *tasks) seen(h sdk.JobHandle, t types.Task) {
	k.note(h, hasEnded(t), ranAtAll(t))
}

func (k *tasks) note(h sdk.JobHandle, ended, ran bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.m[h.ID]
	if e == nil {
		if k.m == nil {
			k.m, k.uses = map[string]*task{}, map[string]int{}
		}
		e = &task{definition: h.Metadata[keyDefinition]}
		k.m[h.ID] = e
		k.uses[e.definition]++
	}
	e.shown = time.Now()
	if ended && !e.ended {
		e.ended, e.endSeen = true, time.Now()
	}
	e.ran = e.ran || ran
}

// drop forgets a task that was cleaned up.
func (k *tasks) drop(h sdk.JobHandle) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.m[h.ID]
	if e == nil {
		return
	}
	delete(k.m, h.ID)
	if k.uses[e.definition]--; k.uses[e.definition] <= 0 {
		delete(k.uses, e.definition)
	}
}

// leave forgets a task that is cleaned up where others are known that use its
// definition, and reports whether there are. The last of them stays, until its
// definition is gone: one of many that leave at once is the last.
func (k *tasks) leave(h sdk.JobHandle) (shared bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	definition := h.Metadata[keyDefinition]
	n := k.uses[definition]
	if k.m[h.ID] == nil {
		return n > 0
	}
	if n <= 1 {
		return false
	}
	delete(k.m, h.ID)
	k.uses[definition]--
	return true
}

// using reports whether tasks are known that use a definition.
func (k *tasks) using(definition string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.uses[definition] > 0
}

// get returns a copy of what is known.
func (k *tasks) get(arn string) (task, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.m[arn]; e != nil {
		return *e, true
	}
	return task{}, false
}

// describe returns tasks by ARN; one that ECS doesn't know is not among them.
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_DescribeTasks.html
func (p *provider) describe(ctx context.Context, op, cluster string, arns []string, tags bool) (map[string]types.Task, error) {
	in := &ecs.DescribeTasksInput{Cluster: &cluster, Tasks: arns}
	if tags {
		in.Include = []types.TaskField{types.TaskFieldTags}
	}
	var out *ecs.DescribeTasksOutput
	err := p.read(ctx, op, func(ctx context.Context) (err error) {
		out, err = p.ecs.DescribeTasks(ctx, in)
		return err
	})
	if err != nil {
		return nil, err
	}
	found := make(map[string]types.Task, len(out.Tasks))
	for _, t := range out.Tasks {
		found[str(t.TaskArn)] = t
	}
	for _, f := range out.Failures {
		if str(f.Reason) != "MISSING" {
			return nil, p.fail(sdk.Unavailable, op, errors.New("ECS can't describe "+str(f.Arn)+": "+str(f.Reason)+" "+str(f.Detail)))
		}
	}
	return found, nil
}

// hasEnded reports whether the job is over: the task has stopped, or its main
// container has and ECS has said why. What follows then, such as giving back a
// network interface, takes Fargate up to half a minute and is none of the job's.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-lifecycle-explanation.html
func hasEnded(t types.Task) bool {
	if str(t.LastStatus) == statusStopped {
		return true
	}
	main, ok := mainContainer(t)
	return ok && t.ExecutionStoppedAt != nil && t.StopCode != "" && str(main.LastStatus) == statusStopped && main.ExitCode != nil
}

// ranAtAll reports whether the main container was ever made.
func ranAtAll(t types.Task) bool {
	main, ok := mainContainer(t)
	return t.StartedAt != nil || ok && (main.ExitCode != nil || str(main.RuntimeId) != "" && str(main.LastStatus) != statusPending)
}

// mainContainer returns the container that decides. A task that was only just
// made, or that never started, may have none.
func mainContainer(t types.Task) (types.Container, bool) {
	for _, c := range t.Containers {
		if str(c.Name) == containerName {
			return c, true
		}
	}
	return types.Container{}, false
}
