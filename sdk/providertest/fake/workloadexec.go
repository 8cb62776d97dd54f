package fake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// ExecWorkload implements sdk.Execer. The command is read as steps; of those that
// a job may have, it can write, wait, read its input and end. The word "size"
// shows the terminal's size, and each new one until the input ends.
func (p *provider) ExecWorkload(ctx context.Context, r sdk.ExecWorkloadRequest) (sdk.ExecWorkloadResult, error) {
	d, err := p.enterExec(ctx, r)
	if err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	now := p.cloud.clock.Now()
	st := d.status(now)
	if err := r.Op.Expect.Check(opName(OpExecWorkload), st); err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	at := slices.IndexFunc(st.Instances, func(in sdk.InstanceStatus) bool { return in.Ready && (r.Instance == "" || in.Name == r.Instance) })
	if at < 0 {
		return sdk.ExecWorkloadResult{}, precondition(OpExecWorkload, "%s: no instance is ready%s", r.Op.Path, orText(ofInstance(r.Instance), ""))
	}
	res := sdk.ExecWorkloadResult{Instance: st.Instances[at].Name}
	if r.Op.DryRun {
		res.Calls = []sdk.PlannedCall{plan(OpExecWorkload, r.Op.Path, map[string]string{"instance": res.Instance, "words": fmt.Sprint(len(r.Command))})}
		return res, nil
	}
	in, err := p.cloud.enter(ctx, OpExecWorkload, execBody{r.Op, res.Instance, r.Command})
	if err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	s := &session{p: p, d: d, r: r}
	code, why := s.run(ctx)
	if in.lost {
		code, why = nil, "the connection ended before the command's end was told"
	}
	if code == nil && ctx.Err() != nil {
		why = "the session was left: " + context.Cause(ctx).Error()
	}
	res.ExitCode, res.Why = code, why
	return res, nil
}

func ofInstance(name string) string {
	if name == "" {
		return ""
	}
	return " that is called " + name
}

type execBody struct {
	Op       sdk.OpRequest `json:"op"`
	Instance string        `json:"instance"`
	Command  sdk.Argv      `json:"command"`
}

// enterExec looks at the workload before a command is sent.
func (p *provider) enterExec(ctx context.Context, r sdk.ExecWorkloadRequest) (*deployment, error) {
	if len(r.Command) == 0 || r.Command[0] == "" {
		return nil, sdk.Errorf(sdk.InvalidArgument, opName(OpExecWorkload), "there is no command")
	}
	d, err := p.read(ctx, OpWorkloadStatus, r.Op.Path)
	if sdk.CodeOf(err) == sdk.NotFound {
		return nil, noWorkload(OpExecWorkload, r.Op.Path)
	}
	return d, err
}

// session is a command that runs in an instance.
type session struct {
	p *provider
	d *deployment
	r sdk.ExecWorkloadRequest
}

var errWriter = errors.New("the reader of the output is gone")

// run carries the command's steps out.
func (s *session) run(ctx context.Context) (code *int, why string) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	end := func(n int) (*int, string) { return &n, "" }
	if s.r.Command[0] == "size" {
		return s.sizes(ctx)
	}
	steps, ps := parseWords("command", s.r.Command)
	if len(ps) > 0 {
		_ = s.write("stderr", []byte(ps[0].String()+"\n"))
		return end(127)
	}
	for _, st := range steps {
		var err error
		switch st.Do {
		case "output":
			err = s.write(st.Stream, []byte(st.Text+string(st.Data)))
		case "lines":
			for i := range st.N {
				if err = s.write("stdout", fmt.Appendf(nil, "line %d\n", i)); err != nil {
					break
				}
			}
		case "long_line":
			err = s.write("stdout", []byte(strings.Repeat("x", int(st.N))+"\n"))
		case "env":
			err = s.write("stdout", []byte(s.variable(st.Name)))
		case "secret":
			err = s.write("stdout", []byte("secret "+st.Name+" "+orText(s.d.Secrets[st.Name], "unset")+"\n"))
		case "stdin":
			err = s.copyStdin(ctx)
		case "sleep":
			err = s.p.cloud.clock.Sleep(ctx, time.Duration(st.For))
		case "hang":
			select {
			case sig := <-s.r.Signals:
				return nil, "the command was ended by the signal " + sig
			case <-ctx.Done():
				return nil, "the session was left"
			}
		case "signal":
			return nil, "the command was ended by the signal " + strings.TrimPrefix(st.Name, "SIG")
		case "exit":
			return end(int(st.N))
		}
		if err != nil {
			return nil, "the session was left: " + err.Error()
		}
	}
	return end(0)
}

func (s *session) variable(name string) string {
	v, ok := s.d.Config[name]
	if !ok {
		v, ok = s.d.Env[name]
	}
	if !ok {
		return "env " + name + " unset\n"
	}
	return fmt.Sprintf("env %s %x\n", name, v)
}

func (s *session) write(stream string, data []byte) error {
	w := s.r.Stdout
	if stream == "stderr" && s.r.Terminal == nil {
		w = s.r.Stderr
	}
	if w == nil {
		return nil
	}
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("%w: %w", errWriter, err)
	}
	return nil
}

// copyStdin copies the input until its end, as far as ctx lets it. A reader that
// blocks is left behind.
func (s *session) copyStdin(ctx context.Context) error {
	for chunk := range s.input(ctx) {
		if err := s.write("stdout", chunk); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// input gives what is read until the end of the input or of ctx.
func (s *session) input(ctx context.Context) <-chan []byte {
	out := make(chan []byte)
	if s.r.Stdin == nil {
		close(out)
		return out
	}
	read := make(chan []byte)
	go func() {
		defer close(read)
		for {
			buf := make([]byte, 4096)
			n, err := s.r.Stdin.Read(buf)
			if n > 0 {
				select {
				case read <- buf[:n]:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(out)
		for {
			select {
			case b, ok := <-read:
				if !ok {
					return
				}
				select {
				case out <- b:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// sizes shows the terminal's sizes until the input ends.
func (s *session) sizes(ctx context.Context) (code *int, why string) {
	ok := 0
	if s.r.Terminal == nil {
		_ = s.write("stdout", []byte("no terminal\n"))
		return &ok, ""
	}
	show := func(z sdk.TerminalSize) { _ = s.write("stdout", fmt.Appendf(nil, "%dx%d\n", z.Columns, z.Rows)) }
	show(*s.r.Terminal)
	input := s.input(ctx)
	for {
		select {
		case z := <-s.r.Resize:
			show(z)
		case _, more := <-input:
			if !more {
				if ctx.Err() != nil {
					return nil, "the session was left"
				}
				return &ok, ""
			}
		}
	}
}
