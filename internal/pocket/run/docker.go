package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// dockerLabel marks the containers of a pocket cloud, so that what a killed
// server leaves can be found: docker ps -aq --filter label=windlass-pocket.
const dockerLabel = "windlass-pocket"

// removeWait bounds the calls that clean up after a container.
const removeWait = 30 * time.Second

// Docker runs each container in a Docker engine: with its image, its limits and
// the kernel's own OOM kills. It doesn't pull: an image must be there.
type Docker struct {
	api *client.Client

	mu      sync.Mutex
	closed  bool
	running map[*dockerContainer]struct{}
	all     sync.WaitGroup
}

// NewDocker returns an executor on the engine at a host like
// unix:///var/run/docker.sock.
func NewDocker(host string) (*Docker, error) {
	api, err := client.New(client.WithHost(host))
	if err != nil {
		return nil, fmt.Errorf("open the Docker engine at %s: %w", host, err)
	}
	return &Docker{api: api, running: map[*dockerContainer]struct{}{}}, nil
}

// Start creates and starts a container.
func (d *Docker) Start(ctx context.Context, s Spec) (Container, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, &StartError{Phase: Create, Text: "the executor is closed"}
	}
	d.all.Add(1) // Close waits for starts, too
	d.mu.Unlock()
	c, err := d.start(ctx, s)
	if err != nil {
		d.all.Done()
		return nil, err
	}
	d.mu.Lock()
	d.running[c] = struct{}{}
	closed := d.closed
	d.mu.Unlock()
	if closed {
		c.Stop(0)
	}
	go func() {
		defer d.all.Done()
		c.follow()
		d.mu.Lock()
		delete(d.running, c)
		d.mu.Unlock()
		close(c.done)
	}()
	return c, nil
}

func (d *Docker) start(ctx context.Context, s Spec) (*dockerContainer, error) {
	config := &container.Config{Image: s.Image, Cmd: s.Command, Entrypoint: s.Entrypoint, Env: s.Env, WorkingDir: s.Dir, User: s.User,
		Labels: map[string]string{dockerLabel: s.Name}}
	host := &container.HostConfig{LogConfig: container.LogConfig{Type: "none"}}
	host.Memory, host.MemorySwap = s.MemoryMiB<<20, s.MemoryMiB<<20 // no swap beside it
	made, err := d.api.ContainerCreate(ctx, client.ContainerCreateOptions{Config: config, HostConfig: host})
	if err != nil {
		if cerrdefs.IsNotFound(err) {
			return nil, &StartError{Phase: Pull, Text: "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed"}
		}
		return nil, &StartError{Phase: Create, Text: engineText(err)}
	}
	c := &dockerContainer{api: d.api, id: made.ID, spec: s, done: make(chan struct{})}
	attached, err := d.api.ContainerAttach(ctx, c.id, client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, errors.Join(&StartError{Phase: Create, Text: engineText(err)}, c.remove())
	}
	c.output = attached.HijackedResponse
	// Waiting begins before the start: the container may end in no time.
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.unwait = cancel
	c.waited = d.api.ContainerWait(waiting, c.id, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if _, err := d.api.ContainerStart(ctx, c.id, client.ContainerStartOptions{}); err != nil {
		c.output.Close()
		c.unwait()
		c.awaitExit()
		return nil, errors.Join(&StartError{Phase: Start, Text: engineText(err)}, c.remove())
	}
	return c, nil
}

// engineText takes the engine's own frame off an error.
func engineText(err error) string {
	text := strings.TrimPrefix(err.Error(), "Error response from daemon: ")
	if _, inner, ok := strings.Cut(text, "unable to start container process: "); ok {
		text = strings.TrimSuffix(inner, ": unknown")
	} else if _, inner, ok := strings.Cut(text, "starting container process caused: "); ok {
		text = strings.TrimSuffix(inner, ": unknown")
	}
	return text
}

// Close kills and removes what runs.
func (d *Docker) Close() error {
	d.mu.Lock()
	d.closed = true
	for c := range d.running {
		c.Stop(0)
	}
	d.mu.Unlock()
	d.all.Wait()
	return d.api.Close()
}

type dockerContainer struct {
	api    *client.Client
	id     string
	spec   Spec
	output client.HijackedResponse
	waited client.ContainerWaitResult
	unwait context.CancelFunc
	done   chan struct{}
	exit   Exit

	mu      sync.Mutex
	stopped time.Time // the earliest KILL that was asked for
	stops   sync.WaitGroup
}

// follow copies the output until the container has ended, and removes it.
func (c *dockerContainer) follow() {
	// The stream ends with the container; what cuts it short loses output, and
	// the end is told by the wait.
	_, _ = stdcopy.StdCopy(c.spec.Stdout, c.spec.Stderr, c.output.Reader)
	c.output.Close()
	c.exit = Exit{Code: 137}
	if code, ok := c.awaitExit(); ok {
		c.exit.Code = code
	} // else the engine is gone: as if the host were
	c.unwait()
	ctx, cancel := context.WithTimeout(context.Background(), removeWait)
	defer cancel()
	if seen, err := c.api.ContainerInspect(ctx, c.id, client.ContainerInspectOptions{}); err == nil && seen.Container.State != nil {
		c.exit.OOM = seen.Container.State.OOMKilled
	}
	c.stops.Wait()
	_ = c.remove() // its label finds it, if that fails
}

// awaitExit returns the code of the engine's wait, if it has one.
func (c *dockerContainer) awaitExit() (code int, ok bool) {
	select {
	case end := <-c.waited.Result:
		return int(end.StatusCode), true
	case err := <-c.waited.Error:
		return 0, err == nil
	}
}

func (c *dockerContainer) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), removeWait)
	defer cancel()
	_, err := c.api.ContainerRemove(ctx, c.id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	return err
}

// Done is closed when the container is removed.
func (c *dockerContainer) Done() <-chan struct{} { return c.done }

// Exit is what the engine says.
func (c *dockerContainer) Exit() Exit { return c.exit }

// Stop has the engine send TERM, and KILL after whole seconds of grace.
func (c *dockerContainer) Stop(grace time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	due := time.Now().Add(grace)
	if !c.stopped.IsZero() && !due.Before(c.stopped) {
		return
	}
	c.stopped = due
	select {
	case <-c.done:
		return
	default:
	}
	c.stops.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), grace+removeWait)
		defer cancel()
		seconds := int((grace + time.Second - 1) / time.Second)
		if seconds == 0 {
			_, _ = c.api.ContainerKill(ctx, c.id, client.ContainerKillOptions{Signal: "KILL"}) // it may have ended
			return
		}
		_, _ = c.api.ContainerStop(ctx, c.id, client.ContainerStopOptions{Timeout: &seconds})
	})
}
