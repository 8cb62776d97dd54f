//go:build linux || darwin

package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
	"github.com/windlass-run/windlass/internal/driver/local/supervisor"
	"github.com/windlass-run/windlass/sdk"
)

// child is a supervisor that was just started.
type child struct {
	cmd          *exec.Cmd
	order, reply *os.File
}

// spawn starts a supervisor, in a session of its own and with nothing of ours
// but the files that it needs: its environment is empty, and its arguments name
// the attempt for people's sake.
func (s *submission) spawn(lock, stdin *os.File) (*child, error) {
	fail := func(err error) (*child, error) {
		return nil, &sdk.Error{Code: sdk.FailedPrecondition, Op: "start supervisor", Err: err}
	}
	orderR, orderW, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	replyR, replyW, err := os.Pipe()
	if err != nil {
		_, _ = orderR.Close(), orderW.Close()
		return fail(err)
	}
	c := &child{order: orderW, reply: replyR}
	log, err := os.OpenFile(s.folder.Path(attempt.ErrorsFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		c.cmd = &exec.Cmd{
			Path: s.p.exe, Args: []string{"windlass", supervisor.Verb, s.r.Launch.AttemptID.String()},
			Env: s.p.supervisorEnv(), Dir: "/", Stderr: log,
			ExtraFiles:  []*os.File{lock, orderR, replyW},
			SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		}
		if stdin != nil {
			c.cmd.ExtraFiles = append(c.cmd.ExtraFiles, stdin)
		}
		err = c.cmd.Start()
		_ = log.Close()
	}
	_, _ = orderR.Close(), replyW.Close()
	if err != nil {
		c.close()
		return fail(err)
	}
	return c, nil
}

// supervisorEnv is empty and not nil, which would inherit.
func (p *provider) supervisorEnv() []string { return append([]string{}, p.env...) }

func (c *child) close() { _, _ = c.order.Close(), c.reply.Close() }

// kill ends a supervisor that has no order yet, and waits for it.
func (c *child) kill() {
	c.close()
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// hello waits until the supervisor is up.
func (c *child) hello(ctx context.Context, limit time.Duration) error {
	defer c.until(ctx, c.reply.SetReadDeadline)()
	_ = c.reply.SetReadDeadline(time.Now().Add(limit))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var b [1]byte
	_, err := io.ReadFull(c.reply, b[:])
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil && b[0] == supervisor.Hello:
		return nil
	case err == nil:
		err = fmt.Errorf("it answered %q", b[0])
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("it did not come up within %s", limit)
	}
	return &sdk.Error{Code: sdk.FailedPrecondition, Op: "start supervisor", Remedy: "its main must call local.Supervise first",
		Err: fmt.Errorf("%s: %w", c.cmd.Path, err)}
}

// until makes ctx's end the end of what waits on a file.
func (c *child) until(ctx context.Context, set func(time.Time) error) func() {
	stop := context.AfterFunc(ctx, func() { _ = set(time.Unix(1, 0)) })
	return func() {
		stop()
		_ = set(time.Time{})
	}
}

// send gives the order and closes the pipe, which completes it.
func (c *child) send(ctx context.Context, o attempt.Order) error {
	b, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode order: %w", err)
	}
	done := c.until(ctx, c.order.SetWriteDeadline)
	_, err = c.order.Write(b)
	done()
	if ctx.Err() != nil {
		_ = c.order.Close()
		return context.Cause(ctx)
	}
	if cerr := c.order.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return &sdk.Error{Code: sdk.Unavailable, Op: "start supervisor", Err: fmt.Errorf("send order: %w", err)}
	}
	return nil
}

// answer waits until the job runs or is recorded as one that can't.
func (c *child) answer(ctx context.Context) (attempt.Reply, error) {
	defer c.until(ctx, c.reply.SetReadDeadline)()
	var r attempt.Reply
	if err := json.NewDecoder(c.reply).Decode(&r); err != nil {
		if ctx.Err() != nil {
			return r, context.Cause(ctx)
		}
		return r, fmt.Errorf("read the supervisor's answer: %w", err)
	}
	return r, nil
}
