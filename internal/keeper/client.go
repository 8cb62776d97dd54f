package keeper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Verb is the hidden first argument that makes this program a keeper.
const Verb = "__keeper"

// startTime bounds the wait for a keeper that was started.
const startTime = 10 * time.Second

// Client reaches the keeper of a state directory, and starts one when there is
// none.
type Client struct {
	StateDir string
	Version  string
	Origin   Origin
	// Executable is this program; Env what a started keeper gets.
	Executable string
	Env        []string
	Clock      sdk.Clock
}

// Take has the keeper drive a run that was released, and returns once it does.
// A keeper is started when there is none; one of another version is asked to
// leave first.
func (c *Client) Take(ctx context.Context, run sdk.ID) error {
	_, err := c.ask(ctx, request{Op: opTake, Run: run, Origin: c.Origin}, true)
	return err
}

// Renew hands this command's surroundings over, for runs whose credentials have
// expired. Without a keeper it does nothing.
func (c *Client) Renew(ctx context.Context) error {
	_, err := c.ask(ctx, request{Op: opRenew, Origin: c.Origin}, false)
	if errors.Is(err, errNone) {
		return nil
	}
	return err
}

// Ensure starts a keeper when there is none, so that runs whose holders died
// are taken up.
func (c *Client) Ensure(ctx context.Context) error {
	_, err := c.ask(ctx, request{Op: opRenew, Origin: c.Origin}, true)
	return err
}

// Status describes a keeper.
type Status struct {
	PID     int
	Version string
	Held    []sdk.ID
}

// Status asks the keeper, and starts none; NotFound when there is none.
func (c *Client) Status(ctx context.Context) (Status, error) {
	res, err := c.ask(ctx, request{Op: opStatus}, false)
	if errors.Is(err, errNone) {
		return Status{}, sdk.Errorf(sdk.NotFound, "ask the keeper", "none is running for %s", c.StateDir)
	}
	return Status{PID: res.PID, Version: res.Version, Held: res.Held}, err
}

// Leave asks the keeper to hand its runs over and go; none is no error.
func (c *Client) Leave(ctx context.Context) error {
	_, err := c.ask(ctx, request{Op: opLeave}, false)
	if errors.Is(err, errNone) {
		return nil
	}
	return err
}

var errNone = errors.New("no keeper is running")

func (c *Client) clock() sdk.Clock {
	if c.Clock == nil {
		return sdk.SystemClock()
	}
	return c.Clock
}

// ask makes one request, starting a keeper where that is allowed.
func (c *Client) ask(ctx context.Context, req request, start bool) (response, error) {
	path, err := socketPath(c.StateDir)
	if err != nil {
		return response{}, err
	}
	req.Proto, req.Version = protocolVersion, c.Version
	deadline := c.clock().Now().Add(startTime)
	started, wait := false, 5*time.Millisecond
	for {
		res, err := c.once(ctx, path, req)
		if err == nil {
			return res, res.err()
		}
		if ctx.Err() != nil {
			return response{}, context.Cause(ctx)
		}
		if !start {
			if errors.Is(err, errOther) {
				return response{}, err
			}
			return response{}, fmt.Errorf("%w (%w)", errNone, err)
		}
		if errors.Is(err, errOther) {
			// It hands its runs over and leaves; then one of ours starts.
			if _, err := c.once(ctx, path, request{Op: opLeave}); err != nil && ctx.Err() != nil {
				return response{}, context.Cause(ctx)
			}
			started = false
		} else if !started {
			if err := c.spawn(ctx); err != nil {
				return response{}, err
			}
			started = true
		}
		if c.clock().Now().After(deadline) {
			return response{}, &sdk.Error{Code: sdk.Unavailable, Op: "start keeper", ID: "keeper.not-started",
				Remedy: "see " + logPath(c.StateDir) + ", or set WINDLASS_KEEPER=off", Err: err}
		}
		if err := c.clock().Sleep(ctx, wait); err != nil {
			return response{}, err
		}
		if wait < 100*time.Millisecond {
			wait *= 2
		} else {
			started = false // it may have lost the election to one that then left
		}
	}
}

var errOther = errors.New("a keeper of another version is running")

func (c *Client) once(ctx context.Context, path string, req request) (response, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return response{}, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(askTime)); err != nil {
		return response{}, err
	}
	r := bufio.NewReader(conn)
	exchange := func(q request) (res response, err error) {
		if err := writeMessage(conn, q); err != nil {
			return res, err
		}
		return res, readMessage(r, &res)
	}
	if req.Op != opLeave {
		// Surroundings go to a keeper of the same program only.
		hello, err := exchange(request{Op: opHello, Proto: protocolVersion, Version: c.Version})
		if err != nil {
			return response{}, err
		}
		if hello.Proto != protocolVersion || hello.Version != c.Version {
			return response{}, fmt.Errorf("%w: version %s, pid %d", errOther, hello.Version, hello.PID)
		}
	}
	return exchange(req)
}

// spawn starts a keeper that outlives this process.
func (c *Client) spawn(ctx context.Context) error {
	logFile, err := openLog(c.StateDir)
	if err != nil {
		return err
	}
	defer func() { _ = logFile.Close() }()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("start keeper: %w", err)
	}
	defer func() { _ = null.Close() }()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), c.Executable, Verb)
	cmd.Env, cmd.Dir = c.Env, c.StateDir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = null, null, logFile
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start keeper: %w", err)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

// maxLog is the size at which a keeper's log starts anew, keeping one old one.
const maxLog = 4 << 20

func openLog(stateDir string) (*os.File, error) {
	path := logPath(stateDir)
	if fi, err := os.Stat(path); err == nil && fi.Size() > maxLog {
		if err := os.Rename(path, path+".old"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("start keeper: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	return f, nil
}
