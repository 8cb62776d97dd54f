package compose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

const opExec = "run command"

const (
	// endPatience is how long the engine may take to note a command's end behind
	// the end of its output.
	endPatience = 5 * time.Second
	endPoll     = 20 * time.Millisecond
)

// ExecWorkload implements sdk.Execer. The code is the engine's own record of the
// process; where that isn't reached, or the connection broke, there is none.
func (p *provider) ExecWorkload(ctx context.Context, r sdk.ExecWorkloadRequest) (sdk.ExecWorkloadResult, error) {
	c, err := p.execTarget(ctx, r)
	if err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	res := sdk.ExecWorkloadResult{Instance: c.name}
	opt := client.ExecCreateOptions{TTY: r.Terminal != nil, AttachStdin: r.Stdin != nil, AttachStdout: true, AttachStderr: true, Cmd: []string(r.Command)}
	if r.Op.DryRun {
		res.Calls = []sdk.PlannedCall{{Name: "docker exec", Object: c.name, Args: map[string]string{"command": strings.Join(opt.Cmd, " ")}}}
		return res, nil
	}
	var id string
	err = p.client.Call(ctx, opExec, func(ctx context.Context, api *client.Client) error {
		made, err := api.ExecCreate(ctx, c.id, opt)
		id = made.ID
		return err
	})
	if err != nil {
		return res, err
	}
	res.Trace = "exec " + short(id) + " of container " + c.name
	var stream client.ExecAttachResult
	release, err := p.client.Stream(ctx, opExec, func(ctx context.Context, api *client.Client) error {
		var err error
		stream, err = api.ExecAttach(ctx, id, client.ExecAttachOptions{TTY: opt.TTY, ConsoleSize: console(r.Terminal)})
		return err
	})
	if err != nil {
		if sdk.IsClear(err) {
			return res, err
		}
		res.Why = "whether the command was started isn't known: " + text(err)
		return res, nil
	}
	defer release()
	if err := p.session(ctx, id, r, &stream.HijackedResponse); err != nil {
		res.Why = err.Error()
		return res, nil
	}
	res.ExitCode, res.Why = p.exitCode(ctx, id)
	return res, nil
}

func console(t *sdk.TerminalSize) client.ConsoleSize {
	if t == nil || t.Rows <= 0 || t.Columns <= 0 {
		return client.ConsoleSize{}
	}
	return client.ConsoleSize{Height: uint(t.Rows), Width: uint(t.Columns)}
}

// execTarget finds the container.
func (p *provider) execTarget(ctx context.Context, r sdk.ExecWorkloadRequest) (instance, error) {
	name, err := p.serviceName(opExec, r.Op.Path)
	if err != nil {
		return instance{}, err
	}
	if len(r.Command) == 0 || r.Command[0] == "" {
		e := p.fail(sdk.InvalidArgument, opExec, "there is no command")
		e.Field = "command"
		return instance{}, e
	}
	s, err := p.found(ctx, opExec, name)
	if err != nil {
		return instance{}, err
	}
	if err := r.Op.Expect.Check(opExec, s.status()); err != nil {
		return instance{}, err
	}
	if r.Container != "" && r.Container != name {
		e := p.fail(sdk.InvalidArgument, opExec, "an instance of a Compose service is one container; there is no %q", r.Container)
		e.Field = "container"
		return instance{}, e
	}
	var up *instance
	for i, c := range s.list {
		if r.Instance != "" && c.name != r.Instance {
			continue
		}
		if r.Instance != "" && !c.running() {
			return instance{}, p.fail(sdk.FailedPrecondition, opExec, "container %s doesn't run: %s", c.name, c.state)
		}
		if c.ready() || r.Instance != "" {
			return c, nil
		}
		if c.running() && up == nil {
			up = &s.list[i]
		}
	}
	switch {
	case up != nil:
		return *up, nil
	case r.Instance != "":
		e := p.fail(sdk.NotFound, opExec, "service %s has no container %s", name, r.Instance)
		e.Field, e.Remedy = "instance", "`windlass svc status` lists them"
		return instance{}, e
	}
	return instance{}, p.fail(sdk.FailedPrecondition, opExec, "service %s has no container that runs", name)
}

// found reads the containers of a service, and asks Compose about it only when
// there are none.
func (p *provider) found(ctx context.Context, op, name string) (*scene, error) {
	list, err := p.list(ctx, op, name, false)
	if err != nil {
		return nil, err
	}
	j, err := p.readJournal(op, name)
	if err != nil {
		return nil, err
	}
	s := &scene{name: name, list: list, journal: j}
	if len(list) > 0 {
		return s, nil
	}
	if s.model, err = p.resolve(ctx, op); err != nil {
		return nil, err
	}
	s.service, err = p.service(op, name, s.model)
	return s, err
}

// session copies until the command's output has come to its end. Its error says
// why that end proves nothing.
func (p *provider) session(ctx context.Context, id string, r sdk.ExecWorkloadRequest, conn *client.HijackedResponse) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The end of the context, or of the copying, ends the connection and so every
	// read and write of it.
	stop := context.AfterFunc(ctx, conn.Close)
	defer func() {
		if stop() {
			conn.Close()
		}
	}()
	if r.Stdin != nil {
		go func() {
			// A read that is under way is left behind.
			_, _ = io.Copy(conn.Conn, r.Stdin)
			_ = conn.CloseWrite()
		}()
	}
	resized := make(chan struct{})
	go func() {
		defer close(resized)
		p.resize(ctx, id, r)
	}()
	out, errs := writer(r.Stdout), writer(r.Stderr)
	var err error
	if r.Terminal != nil {
		_, err = io.Copy(out, conn.Reader)
	} else {
		_, err = stdcopy.StdCopy(out, errs, conn.Reader)
	}
	left := ctx.Err() != nil
	cancel()
	<-resized
	switch {
	case left:
		return errors.New("the session was left; the command may go on")
	case err != nil:
		return fmt.Errorf("the connection broke before the command's end was told: %w", err)
	}
	return nil
}

func writer(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// resizeTries is how often the first size is passed on: the engine refuses it until
// the command runs.
const resizeTries = 50

// resize passes the terminal's sizes on. Engines before API 1.42 take the first one
// in no other way.
func (p *provider) resize(ctx context.Context, id string, r sdk.ExecWorkloadRequest) {
	if r.Terminal == nil {
		return
	}
	for range resizeTries {
		if p.sized(ctx, id, *r.Terminal) || p.clock.Sleep(ctx, endPoll) != nil {
			break
		}
	}
	for r.Resize != nil {
		select {
		case <-ctx.Done():
			return
		case size, ok := <-r.Resize:
			if !ok {
				return
			}
			p.sized(ctx, id, size)
		}
	}
}

func (p *provider) sized(ctx context.Context, id string, size sdk.TerminalSize) bool {
	c := console(&size)
	if c == (client.ConsoleSize{}) {
		return true
	}
	err := p.client.Call(ctx, opExec, func(ctx context.Context, api *client.Client) error {
		_, err := api.ExecResize(ctx, id, client.ExecResizeOptions{Height: c.Height, Width: c.Width})
		return err
	})
	if err != nil {
		p.log.Debug("the terminal's size wasn't passed on", "error", err)
	}
	return err == nil
}

// exitCode asks the engine for a command's code. Its client can't tell no code
// from 0, but a command that was never started has no process either.
func (p *provider) exitCode(ctx context.Context, id string) (*int, string) {
	until := p.clock.Now().Add(endPatience)
	for {
		var x client.ExecInspectResult
		err := p.client.Call(ctx, opExec, func(ctx context.Context, api *client.Client) error {
			var err error
			x, err = api.ExecInspect(ctx, id, client.ExecInspectOptions{})
			return err
		})
		switch {
		case err != nil:
			return nil, "the engine didn't tell the command's end: " + text(err)
		case !x.Running && x.PID == 0 && x.ExitCode == 0:
			return nil, "the connection broke before the command was started"
		case !x.Running:
			return &x.ExitCode, ""
		case p.clock.Now().After(until):
			return nil, "the connection ended, and the command goes on"
		}
		if p.clock.Sleep(ctx, endPoll) != nil {
			return nil, "the session was left; the command may go on"
		}
	}
}
