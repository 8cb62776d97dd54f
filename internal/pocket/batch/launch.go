package batch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/internal/pocket/logs"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// logged is where a container writes: its log driver, and the stream.
type logged struct {
	*logs.Driver
	stream string
}

// launch starts the container of an attempt.
func (s *Service) launch(j *job, task string, n int32) (run.Container, *logged, *end) {
	s.mu.Lock()
	v := j.view
	s.mu.Unlock()
	switch j.mishap.Stage {
	case StageInit:
		return nil, nil, &end{status: "ResourceInitializationError: unable to pull secrets or registry auth: execution resource retrieval failed"}
	case StagePull:
		return nil, nil, &end{status: noStart, container: pullFailure(*v.Container.Image,
			"pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed")}
	}
	env, err := s.environment(j, n)
	if err != nil {
		return nil, nil, &end{status: "ResourceInitializationError: unable to pull secrets or registry auth: execution resource retrieval failed: unable to retrieve secret from " + err.Error()}
	}
	out, err := s.openLog(j, task)
	if err != nil {
		return nil, nil, &end{status: "ResourceInitializationError: failed to validate logger args: create stream has been retried 1 times: failed to create Cloudwatch log stream: " + err.Error() + " : exit status 1"}
	}
	spec := run.Spec{Name: task, Image: *v.Container.Image, Env: env, User: text(v.Container.User), Stdout: out.Writer(), Stderr: out.Writer()}
	if len(v.Container.Command) > 0 {
		spec.Command = v.Container.Command
	}
	for _, r := range v.Container.ResourceRequirements {
		if r.Type == types.ResourceTypeMemory {
			spec.MemoryMiB, _ = strconv.ParseInt(*r.Value, 10, 64) // it was checked
		}
	}
	c, err := s.o.Executor.Start(context.Background(), spec)
	if err != nil {
		out.Close()
		return nil, nil, &end{status: noStart, container: startFailure(*v.Container.Image, err)}
	}
	return c, out, nil
}

// openLog makes the stream of an attempt: DEFINITION/default/TASK in the group
// of all jobs, unless the definition says otherwise. See
// https://docs.aws.amazon.com/batch/latest/userguide/using_awslogs.html
func (s *Service) openLog(j *job, task string) (*logged, error) {
	prefix := *j.def.JobDefinitionName
	if len(prefix) > 200 {
		prefix = prefix[:200]
	}
	group, create := DefaultLogGroup, true
	if l := j.view.Container.LogConfiguration; l != nil {
		if g := l.Options["awslogs-group"]; g != "" && g != group {
			group, create = g, l.Options["awslogs-create-group"] == "true"
		}
		if p := l.Options["awslogs-stream-prefix"]; p != "" {
			prefix = p
		}
	}
	out := &logged{stream: prefix + "/default/" + task}
	var err error
	out.Driver, err = s.o.Logs.OpenDriver(group, out.stream, create)
	return out, err
}

// environment makes the container's variables: the platform's own, the job's and
// the secrets. See https://docs.aws.amazon.com/batch/latest/userguide/job_env_vars.html
func (s *Service) environment(j *job, n int32) ([]string, error) {
	execution := "AWS_ECS_FARGATE"
	if j.queue.Instances {
		execution = "AWS_ECS_EC2"
	}
	env := []string{"AWS_EXECUTION_ENV=" + execution, "AWS_REGION=" + s.o.Region, "AWS_DEFAULT_REGION=" + s.o.Region, "AWS_BATCH_JOB_ID=" + j.id,
		fmt.Sprintf("AWS_BATCH_JOB_ATTEMPT=%d", n), "AWS_BATCH_JQ_NAME=" + j.queue.Name, "AWS_BATCH_CE_NAME=" + j.queue.environment()}
	for _, e := range j.view.Container.Environment {
		env = append(env, text(e.Name)+"="+text(e.Value))
	}
	for _, secret := range j.view.Container.Secrets {
		value, err := s.o.Secret(*secret.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", service(*secret.ValueFrom), err)
		}
		env = append(env, *secret.Name+"="+value)
	}
	return env, nil
}

// service names in the agent's words where a secret comes from.
func service(valueFrom string) string {
	if strings.HasPrefix(valueFrom, "arn:aws:secretsmanager:") {
		return "asm: service call has been retried 1 time(s): failed to fetch secret " + valueFrom + " from secrets manager"
	}
	return "ssm: service call has been retried 1 time(s): failed to fetch parameter " + valueFrom
}

func pullFailure(image, why string) string {
	return fmt.Sprintf("CannotPullContainerError: pull image manifest has been retried 1 time(s): failed to resolve ref %s: %s", image, why)
}

// startFailure words the failure of a container to start.
func startFailure(image string, err error) string {
	var failed *run.StartError
	if !errors.As(err, &failed) {
		failed = &run.StartError{Phase: run.Start, Text: err.Error()}
	}
	switch failed.Phase {
	case run.Pull:
		return pullFailure(image, failed.Text)
	case run.Create:
		return "CannotCreateContainerError: Error response from daemon: " + failed.Text
	default:
		return "CannotStartContainerError: Error response from daemon: failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: " + failed.Text + ": unknown"
	}
}
