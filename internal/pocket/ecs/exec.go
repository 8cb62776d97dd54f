package ecs

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/pocket/ssmmessages"
)

// session is one that ExecuteCommand opened and whose channel isn't yet.
type session struct {
	token     string
	container run.Container
	command   string
	cut       bool
}

// channelPath is where data channels are; the ID of the session comes behind.
const channelPath = "/v1/data-channel/"

// withAgents shows the agent of ExecuteCommand in each container.
func (s *Service) withAgents(t *task, list []types.Container) []types.Container {
	out := slices.Clone(list)
	for i := range out {
		a := types.ManagedAgent{Name: types.ManagedAgentNameExecuteCommandAgent, LastStatus: ptr(pending)}
		if s.connected(t) {
			a.LastStatus, a.LastStartedAt = ptr(running), t.view.StartedAt
		}
		out[i].ManagedAgents = []types.ManagedAgent{a}
	}
	return out
}

// connected says whether a task's agents are. The lock is held.
func (s *Service) connected(t *task) bool {
	return *t.view.LastStatus == running && t.view.StartedAt != nil && !s.o.Now().Before(t.view.StartedAt.Add(s.knobs.AgentDelay))
}

func (s *Service) executeCommand(_ context.Context, call awsjson.Call, in *ecs.ExecuteCommandInput) (*ecs.ExecuteCommandOutput, error) {
	if !in.Interactive {
		return nil, refuse(ruleExecInteractive, "Interactive is the only mode supported currently.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	t := s.find(c, *in.Task)
	switch {
	case t == nil || *t.view.LastStatus == stopped || *t.view.DesiredStatus == stopped:
		return nil, refuse(ruleExecTask, "The execute command failed because the task is not running or was not found.")
	case !t.view.EnableExecuteCommand:
		return nil, refuse(ruleExecEnabled, "The execute command failed because execute command was not enabled when the task was run or the execute command agent isn't running. Wait and try again or run a new task with execute command enabled and try again.")
	}
	name := text(in.Container)
	if name == "" {
		if len(t.def.ContainerDefinitions) > 1 {
			return nil, refuse(ruleExecContainer, "A container name must be specified for a task with several containers.")
		}
		name = *t.def.ContainerDefinitions[0].Name
	}
	i := slices.IndexFunc(t.view.Containers, func(c types.Container) bool { return *c.Name == name })
	switch {
	case !slices.ContainsFunc(t.def.ContainerDefinitions, func(d types.ContainerDefinition) bool { return *d.Name == name }):
		return nil, refuse(ruleExecContainer, "The container %s was not found in the task.", name)
	case i < 0 || t.boxes[name] == nil || !s.connected(t):
		return nil, refuse(ruleExecAgent, "The execute command failed due to an internal error. Try again later.")
	}
	id := fmt.Sprintf("ecs-execute-command-%s", s.o.NewID()[:17])
	v := &session{token: "AAEAA" + s.o.NewID(), container: t.boxes[name], command: *in.Command}
	if s.knobs.CutSessions > 0 {
		s.knobs.CutSessions--
		v.cut = true
	}
	s.sessions[id] = v
	return &ecs.ExecuteCommandOutput{ClusterArn: t.view.ClusterArn, ContainerArn: t.view.Containers[i].ContainerArn, ContainerName: &name, Interactive: true,
		TaskArn: t.view.TaskArn, Session: &types.Session{SessionId: &id, TokenValue: &v.token,
			StreamUrl: ptr("ws://" + call.Host + channelPath + id + "?role=publish_subscribe")}}, nil
}

// Channel is the session's ID in the address of a data channel.
func Channel(path string) (id string, ok bool) { return strings.CutPrefix(path, channelPath) }

// ServeChannel carries the session of an ID, once, over a request for a websocket.
func (s *Service) ServeChannel(w http.ResponseWriter, r *http.Request, id string) {
	s.mu.Lock()
	v := s.sessions[id]
	delete(s.sessions, id)
	closed := s.closed
	if v != nil && !closed {
		s.lives.Add(1)
		defer s.lives.Done()
	}
	s.mu.Unlock()
	if v == nil || closed {
		http.Error(w, "there is no such session", http.StatusNotFound)
		return
	}
	ssmmessages.Serve(w, r, ssmmessages.Session{ID: id, Token: v.token, Cut: v.cut, Done: s.end, Start: func() (ssmmessages.Command, error) {
		return startCommand(v)
	}})
}

// startCommand runs a session's command, split into words as the agent in a
// container does:
// https://github.com/aws/amazon-ssm-agent/blob/mainline/agent/session/shell/shell_unix.go
func startCommand(v *session) (ssmmessages.Command, error) {
	fail := func(why string) error {
		return fmt.Errorf("----------ERROR-------\nUnable to start command: Failed to start pty: %s", why)
	}
	argv, err := split(v.command)
	if err != nil {
		return nil, fail(err.Error())
	}
	o, ok := v.container.(run.TerminalOpener)
	if !ok {
		return nil, fail("this executor runs no further commands")
	}
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	t, err := o.OpenTerminal(ctx, argv, run.TerminalSize{})
	if err != nil {
		return nil, fail(err.Error())
	}
	return terminal{t}, nil
}

// startWait bounds a command's start.
const startWait = 30 * time.Second

// terminal adds what a terminal of some executors can't do.
type terminal struct{ run.Terminal }

// Resize implements ssmmessages.Command, where the executor can.
func (t terminal) Resize(columns, rows uint16) error {
	if r, ok := t.Terminal.(run.Resizer); ok {
		return r.Resize(run.TerminalSize{Columns: columns, Rows: rows})
	}
	return nil
}
