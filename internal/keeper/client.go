package keeper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Verb is the hidden first argument that makes this program a keeper.
const Verb = "__keeper"

// ErrNotStarted is the stable name of the error that no keeper could be reached
// or started.
const ErrNotStarted = "keeper.not-started"

const (
	// startTime bounds the wait for a keeper that was started.
	startTime = 10 * time.Second
	// respawnTime is the least time between two that are started.
	respawnTime = 500 * time.Millisecond
	// helloTime bounds the wait for its first word, hurryTime that while another
	// is being started in its place, askTime the wait for an answer.
	helloTime = 4 * time.Second
	hurryTime = 500 * time.Millisecond
	askTime   = messageTime + 5*time.Second
)

// Client reaches the keeper of a state directory, and starts one when there is
// none.
type Client struct {
	StateDir string
	Version  string
	Origin   Origin
	// Executable is this program; Env what a started keeper gets. It should
	// hold no secrets: surroundings go over the socket.
	Executable string
	Env        []string

	mu sync.Mutex
	// inherited is what a keeper of another version knew that this client has
	// asked to leave.
	inherited []Bound
}

// Offer hands this command's surroundings to the keeper, for runs that it will
// take and for those whose credentials have expired. It starts a keeper when
// there is none; one of another version is asked to leave first, and what it
// knew goes to its successor.
func (c *Client) Offer(ctx context.Context, runs ...sdk.ID) error {
	_, err := c.ask(ctx, request{Op: opOffer, Bound: []Bound{{c.Origin, runs}}}, true)
	return err
}

// Take has the keeper drive a run, in place of its present holder, and returns
// once it does.
func (c *Client) Take(ctx context.Context, run sdk.ID) error {
	_, err := c.ask(ctx, request{Op: opTake, Run: run, Bound: []Bound{{c.Origin, []sdk.ID{run}}}}, true)
	return err
}

// Renew hands surroundings over as Offer does, and starts no keeper.
func (c *Client) Renew(ctx context.Context) error {
	_, err := c.ask(ctx, request{Op: opOffer, Bound: []Bound{{c.Origin, nil}}}, false)
	if errors.Is(err, errNone) {
		return nil
	}
	return err
}

// Status describes a keeper.
type Status struct {
	PID     int
	Version string
	Held    []sdk.ID
}

// Status asks the keeper, of whatever version, and starts none; NotFound when
// there is none.
func (c *Client) Status(ctx context.Context) (Status, error) {
	res, err := c.ask(ctx, request{Op: opStatus}, false)
	if errors.Is(err, errNone) {
		return Status{}, sdk.Errorf(sdk.NotFound, "ask the keeper", "none is running for %s", c.StateDir)
	}
	return Status{PID: res.PID, Version: res.Version, Held: res.Held}, err
}

// Leave asks the keeper to leave its runs to others and go; none is no error.
func (c *Client) Leave(ctx context.Context) error {
	_, err := c.ask(ctx, request{Op: opLeave}, false)
	if errors.Is(err, errNone) {
		return nil
	}
	return err
}

var (
	errNone  = errors.New("no keeper is running")
	errOther = errors.New("a keeper of another version is running")
)

// ask makes one request, starting a keeper where that is allowed.
func (c *Client) ask(ctx context.Context, req request, start bool) (response, error) {
	// The machine's own clock: these waits are for processes.
	deadline := time.Now().Add(startTime)
	var child *process
	wait, hello := 5*time.Millisecond, helloTime
	for {
		res, err := c.once(ctx, req, hello)
		switch {
		case err == nil:
			return res, res.err()
		case ctx.Err() != nil:
			return response{}, fmt.Errorf("ask the keeper: %w", context.Cause(ctx))
		case !start && nobody(err):
			return response{}, errNone
		case !start:
			return response{}, &sdk.Error{Code: sdk.Unavailable, Op: "ask the keeper", Err: err}
		case errors.Is(err, errOther):
			if err := c.replace(ctx); err != nil {
				return response{}, err
			}
			deadline = time.Now().Add(startTime + LeaveTime)
		case child == nil || child.lost() && time.Since(child.at) > respawnTime:
			// The last one may have lost the election to one that then left.
			if child == nil {
				deadline, hello = time.Now().Add(startTime), hurryTime
			}
			next, serr := c.spawn(ctx)
			if serr != nil {
				return response{}, serr
			}
			child = next
		}
		if err := child.failure(); err != nil {
			return response{}, c.notStarted(err)
		}
		if time.Now().After(deadline) {
			return response{}, c.notStarted(err)
		}
		if err := sdk.SystemClock().Sleep(ctx, wait); err != nil {
			return response{}, fmt.Errorf("ask the keeper: %w", err)
		}
		wait = min(2*wait, 100*time.Millisecond)
	}
}

func (c *Client) notStarted(cause error) error {
	return &sdk.Error{Code: sdk.Unavailable, Op: "start keeper", ID: ErrNotStarted, Remedy: "see " + logPath(c.StateDir) + ", or set WINDLASS_KEEPER=off", Err: cause}
}

// replace asks a keeper of another version to leave. It hands its runs over;
// then one of ours starts.
func (c *Client) replace(ctx context.Context) error {
	res, err := c.once(ctx, request{Op: opLeave}, helloTime)
	if ctx.Err() != nil {
		return fmt.Errorf("ask the keeper: %w", context.Cause(ctx))
	}
	if err == nil && res.Proto == protocolVersion {
		c.mu.Lock()
		c.inherited = append(c.inherited, res.Bound...)
		c.mu.Unlock()
	}
	return nil
}

// once makes one connection and one request.
func (c *Client) once(ctx context.Context, req request, patience time.Duration) (response, error) {
	conn, err := dial(ctx, c.StateDir)
	if err != nil {
		return response{}, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	r := bufio.NewReader(conn)
	exchange := func(q request, limit time.Duration) (res response, err error) {
		q.Proto, q.Version = protocolVersion, c.Version
		if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
			return res, err
		}
		if err := writeMessage(conn, q); err != nil {
			return res, err
		}
		return res, readMessage(r, &res)
	}
	hello, err := exchange(request{Op: opHello}, patience)
	if err != nil {
		return response{}, fmt.Errorf("the keeper doesn't answer: %w", err)
	}
	other := hello.Proto != protocolVersion || hello.Version != c.Version
	if other && req.Op != opLeave && req.Op != opStatus {
		// Surroundings go to a keeper of the same program only.
		return response{}, fmt.Errorf("%w: version %s, process %d", errOther, hello.Version, hello.PID)
	}
	if req.Op == opOffer || req.Op == opTake {
		if err := c.pass(exchange); err != nil {
			return response{}, err
		}
	}
	return exchange(req, askTime)
}

// pass gives a keeper what its predecessor knew, the older first.
func (c *Client) pass(exchange func(request, time.Duration) (response, error)) error {
	c.mu.Lock()
	list := c.inherited
	c.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	if _, err := exchange(request{Op: opOffer, Bound: list}, askTime); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inherited = c.inherited[len(list):]
	return nil
}

// nobody reports whether a failed connection means that no keeper is there.
func nobody(err error) bool {
	return errors.Is(err, os.ErrNotExist) || refused(err) || errors.Is(err, io.EOF)
}

// process is a keeper that this client has started.
type process struct {
	at   time.Time
	done chan struct{}
	err  error // set before done is closed
}

// lost reports whether it has ended without a failure: another was elected.
func (p *process) lost() bool {
	select {
	case <-p.done:
		return p.err == nil
	default:
		return false
	}
}

func (p *process) failure() error {
	if p == nil {
		return nil
	}
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// spawn starts a keeper that outlives this process.
func (c *Client) spawn(ctx context.Context) (*process, error) {
	logFile, err := os.OpenFile(logPath(c.StateDir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	defer func() { _ = logFile.Close() }()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), c.Executable, Verb)
	cmd.Env, cmd.Dir = c.Env, c.StateDir
	cmd.Stderr = logFile
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	p := &process{at: time.Now(), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		if err := cmd.Wait(); err != nil {
			p.err = fmt.Errorf("the keeper's process ended: %w", err)
		}
	}()
	return p, nil
}
