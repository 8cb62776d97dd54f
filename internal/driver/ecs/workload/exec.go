package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/internal/cloud/aws/datachannel"
	"github.com/windlass-run/windlass/sdk"
)

const opExec = "run command"

// agentWait is how long an agent that isn't connected yet is waited for.
const agentWait = 30 * time.Second

// ExecWorkload implements sdk.Execer: ECS opens a session of Session Manager, whose
// channel is spoken here. ECS tells no exit codes; with a shell in the container
// the shell prints it behind the command's output.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs-exec.html
func (s *Services) ExecWorkload(ctx context.Context, r sdk.ExecWorkloadRequest) (sdk.ExecWorkloadResult, error) {
	a, err := s.address(opExec, r.Op.Path)
	if err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	if len(r.Command) == 0 || r.Command[0] == "" {
		return sdk.ExecWorkloadResult{}, s.fail(sdk.InvalidArgument, opExec, errors.New("there is no command"))
	}
	if r.Terminal == nil && r.Stdin != nil {
		e := s.fail(sdk.FailedPrecondition, opExec, errors.New("a command on ECS has a terminal for its input, and nothing else: the input's end and bytes that are keys can't be told apart"))
		e.Remedy = "run it with a terminal, or bring the input by other means"
		return sdk.ExecWorkloadResult{}, e
	}
	v, err := s.look(ctx, opExec, a)
	if err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	if v.service == nil {
		return sdk.ExecWorkloadResult{}, s.absent(opExec, a)
	}
	if err := r.Op.Expect.Check(opExec, v.status(r.Op.Path, "")); err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	t, container, err := s.choose(v, r)
	if err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	res := sdk.ExecWorkloadResult{Instance: lastPart(str(t.TaskArn))}
	if r.Op.DryRun {
		res.Calls = []sdk.PlannedCall{{Name: "ecs:ExecuteCommand", Object: "task " + res.Instance, Args: map[string]string{"container": container, "words": itoa(len(r.Command))}}}
		return res, nil
	}
	w := wrap(r.Command, s.o.ExecShell)
	session, err := s.open(ctx, &ecs.ExecuteCommandInput{Cluster: &a.cluster, Task: t.TaskArn, Container: &container, Command: new(quote(w.argv)), Interactive: true})
	if err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	res.Trace = "session " + str(session.SessionId)
	res.ExitCode, res.Why = s.carry(ctx, r, w, session)
	return res, nil
}

// choose finds the task that is meant, or any that is ready, and its container.
func (s *Services) choose(v view, r sdk.ExecWorkloadRequest) (types.Task, string, error) {
	refuse := func(remedy, format string, args ...any) (types.Task, string, error) {
		e := s.fail(sdk.FailedPrecondition, opExec, fmt.Errorf("%s: "+format, append([]any{r.Op.Path}, args...)...))
		e.Remedy = remedy
		return types.Task{}, "", e
	}
	i := slices.IndexFunc(v.tasks, func(t types.Task) bool {
		if r.Instance != "" {
			return lastPart(str(t.TaskArn)) == r.Instance && v.instance(t).State == sdk.InstanceRunning
		}
		return v.instance(t).Ready
	})
	if i < 0 && r.Instance != "" {
		return refuse("`windlass svc status` lists its tasks", "no task %s runs", r.Instance)
	}
	if i < 0 {
		return refuse("wait until one is: `windlass svc status --wait`", "no task is ready")
	}
	t := v.tasks[i]
	if !t.EnableExecuteCommand {
		return refuse("give the task definition a task role that may use ssmmessages, then `aws ecs update-service --enable-execute-command --force-new-deployment`",
			"its tasks were started without enableExecuteCommand")
	}
	container := r.Container
	if container == "" {
		container = str(v.definition.ContainerDefinitions[v.definition.main()].Name)
	}
	if !slices.ContainsFunc(t.Containers, func(c types.Container) bool { return str(c.Name) == container }) {
		return refuse("", "the task has no container %s", container)
	}
	return t, container, nil
}

// open opens a session. An agent that isn't connected yet has run nothing, and is
// asked again for a while. A reply that is lost isn't: something may run.
func (s *Services) open(ctx context.Context, in *ecs.ExecuteCommandInput) (*types.Session, error) {
	deadline := s.o.Clock.Now().Add(agentWait)
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 4*time.Second) {
		var out *ecs.ExecuteCommandOutput
		err := s.call(ctx, opExec, func(ctx context.Context) (err error) {
			out, err = s.o.ECS.ExecuteCommand(ctx, in)
			return err
		})
		switch {
		case err == nil && (out.Session == nil || out.Session.StreamUrl == nil || out.Session.TokenValue == nil):
			return nil, s.fail(sdk.Unavailable, opExec, errors.New("the answer holds no session"))
		case err == nil:
			return out.Session, nil
		case aws.ErrorCode(err) != "TargetNotConnectedException":
			return nil, err
		case !s.o.Clock.Now().Add(pause).Before(deadline):
			var e *sdk.Error
			if errors.As(err, &e) {
				e.Remedy = "check that the task role may do ssmmessages:CreateControlChannel, CreateDataChannel, OpenControlChannel and OpenDataChannel, and that the task reaches Session Manager"
			}
			return nil, err
		}
		if err := s.o.Clock.Sleep(ctx, pause); err != nil {
			return nil, s.fail(sdk.CodeOf(err), opExec, err)
		}
	}
}

// carry joins a session to the request's streams, and returns the command's code,
// or why there is none.
func (s *Services) carry(ctx context.Context, r sdk.ExecWorkloadRequest, w wrapped, session *types.Session) (*int, string) {
	conn, err := s.o.Session.Websocket(ctx, *session.StreamUrl)
	if err != nil {
		return nil, "the session was opened, and its channel wasn't: " + err.Error()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := w.reader(orDiscard(r.Stdout), r.Terminal == nil)
	streams := datachannel.Streams{Output: out}
	if r.Terminal != nil {
		streams.Keys, streams.Sizes = keys(ctx, r), sizes(ctx, r)
	} else {
		// No input is an input that ends at once.
		end := make(chan []byte, 1)
		end <- []byte{keyEnd}
		streams.Keys = end
	}
	end, err := datachannel.Run(ctx, conn, *session.TokenValue, streams)
	flushErr := out.flush()
	switch {
	case err != nil:
		return nil, "the session was left: " + err.Error()
	case !end.Told && end.Text != "":
		return nil, "the service closed the channel: " + end.Text
	case !end.Told:
		return nil, "the connection ended before the command's end was told"
	case flushErr != nil:
		return nil, "the session was left: " + flushErr.Error()
	case out.code != nil:
		return out.code, ""
	case end.Text != "":
		return nil, end.Text
	case w.nonce != "":
		return nil, "the shell that ran the command ended without telling its code"
	}
	return nil, "ECS tells no exit codes; with --shell, or exec_shell under config: of the provider, a shell in the container tells it"
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// keys gives what is typed, and what signals are as keys.
func keys(ctx context.Context, r sdk.ExecWorkloadRequest) <-chan []byte {
	out := make(chan []byte)
	give := func(b []byte) bool {
		select {
		case out <- b:
			return true
		case <-ctx.Done():
			return false
		}
	}
	if r.Stdin != nil {
		// A read that is under way when the session ends is left behind.
		go func() {
			for {
				buf := make([]byte, 1024)
				n, err := r.Stdin.Read(buf)
				if n > 0 && !give(buf[:n]) {
					return
				}
				if err != nil {
					give([]byte{keyEnd})
					return
				}
			}
		}()
	}
	go func() {
		for {
			select {
			case sig, ok := <-r.Signals:
				if !ok {
					return
				}
				if k, known := map[string]byte{"INT": keyInterrupt, "QUIT": keyQuit}[sig]; known && !give([]byte{k}) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// The keys that a terminal takes for a signal, or for the input's end.
const (
	keyInterrupt = 0x03
	keyEnd       = 0x04
	keyQuit      = 0x1c
)

// sizes gives the terminal's sizes, the first at once.
func sizes(ctx context.Context, r sdk.ExecWorkloadRequest) <-chan datachannel.Size {
	out := make(chan datachannel.Size)
	go func() {
		z := *r.Terminal
		for {
			select {
			case out <- datachannel.Size{Columns: z.Columns, Rows: z.Rows}:
			case <-ctx.Done():
				return
			}
			select {
			case next, ok := <-r.Resize:
				if !ok {
					return
				}
				z = next
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
