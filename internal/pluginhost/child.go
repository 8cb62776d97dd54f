package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-plugin/runner"
)

// pipeTime is how long what a process has written is read after it has ended: a child
// of it may hold the pipes for ever.
const pipeTime = time.Second

// maxHandshake bounds what is read of a plugin's standard output, in bytes: one line
// counts, and what follows it goes nowhere.
const maxHandshake = 64 << 10

// child is the process of a plugin, as go-plugin's client drives it. What it has started
// is killed when it has ended, however that came: its process group, and on Windows its
// job object.
type child struct {
	cmd *exec.Cmd
	// words takes its standard error.
	words io.Writer
	// hold is the other end of its standard input: its end tells the plugin that the
	// host has gone, also by SIGKILL.
	hold        *os.File
	out, errOut *os.File
	ended       chan struct{}
	err         error // how it ended; set before ended is closed

	mu sync.Mutex
	// proc is the process while it may be killed, tree all that it starts; doomed says that
	// it was to be.
	proc   *os.Process
	tree   tree
	doomed bool
	pid    int
}

var _ runner.Runner = (*child)(nil)

func newChild(cmd *exec.Cmd, words io.Writer) *child {
	return &child{cmd: cmd, words: words, ended: make(chan struct{})}
}

// Start starts the process. Its parent, to the kernel, is the thread that forks, which
// therefore stays until the process has ended.
func (c *child) Start(context.Context) (err error) {
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
		if err != nil {
			c.closePipes()
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	var in, out, errOut *os.File
	in, c.hold = pipe()
	c.out, out = pipe()
	c.errOut, errOut = pipe()
	for _, f := range []*os.File{in, out, errOut} {
		if f != nil {
			theirs = append(theirs, f)
		}
	}
	if err != nil {
		return err
	}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = in, out, errOut
	separate(c.cmd)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		if err == nil {
			c.set(c.cmd.Process)
		}
		started <- err
		if err == nil {
			c.wait()
		}
	}()
	return <-started
}

// set notes the process, and kills one that is not wanted any more.
func (c *child) set(p *os.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proc, c.pid = p, p.Pid
	c.tree = hold(p)
	if c.doomed {
		c.tree.kill(p)
	}
}

// wait sees the process to its end.
func (c *child) wait() {
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(c.words, c.errOut) // ends with the process, or past its time
	}()
	if awaitEnd(c.cmd.Process.Pid) {
		c.release()
		c.err = c.cmd.Wait()
	} else {
		c.err = c.cmd.Wait()
		c.release()
	}
	_ = c.hold.Close()
	limit := time.Now().Add(pipeTime)
	_, _ = c.errOut.SetReadDeadline(limit), c.out.SetReadDeadline(limit)
	<-read
	_, _ = c.errOut.Close(), c.out.Close()
	close(c.ended)
}

// release kills what is left of the group, whose number is given back then.
func (c *child) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tree.kill(c.proc)
	c.tree.release()
	c.proc = nil
}

func (c *child) closePipes() {
	for _, f := range []*os.File{c.hold, c.out, c.errOut} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// end kills the process and its group, or sees to it that it never runs.
func (c *child) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doomed = true
	if c.proc != nil {
		c.tree.kill(c.proc)
	}
}

// started reports whether there was a process.
func (c *child) started() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pid != 0
}

// Wait implements runner.Runner.
func (c *child) Wait(context.Context) error {
	<-c.ended
	return c.err
}

// Kill implements runner.Runner.
func (c *child) Kill(context.Context) error {
	c.end()
	return nil
}

// Stdout gives the first line, and drops all after it so that the process never waits
// for a reader.
func (c *child) Stdout() io.ReadCloser { return &firstLine{from: c.out} }

// Stderr gives nothing: it goes into the log.
func (c *child) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name implements runner.Runner.
func (c *child) Name() string { return c.cmd.Path }

// ID implements runner.Runner.
func (c *child) ID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pid == 0 {
		return ""
	}
	return strconv.Itoa(c.pid)
}

// Diagnose implements runner.Runner.
func (c *child) Diagnose(context.Context) string { return "" }

// PluginToHost refuses what isn't of this machine.
func (c *child) PluginToHost(network, address string) (string, string, error) {
	if network == "unix" && runtime.GOOS == "windows" || network != "unix" && network != "tcp" {
		return "", "", fmt.Errorf("the plugin listens on %s %q", network, address)
	}
	if network == "tcp" && runtime.GOOS != "windows" {
		return "", "", errors.New("the plugin listens on TCP, where any user of this machine can reach it")
	}
	return network, address, nil
}

// HostToPlugin implements runner.Runner.
func (c *child) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// firstLine reads one line, and then to the end without giving more of it.
type firstLine struct {
	from io.ReadCloser
	n    int
	over bool
}

func (f *firstLine) Read(p []byte) (int, error) {
	for {
		if f.over {
			_, err := io.Copy(io.Discard, f.from)
			if err == nil {
				err = io.EOF
			}
			return 0, err
		}
		n, err := f.from.Read(p)
		if i := strings.IndexByte(string(p[:n]), '\n'); i >= 0 {
			n, f.over = i+1, true
		}
		if f.n += n; f.n >= maxHandshake {
			f.over = true
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (f *firstLine) Close() error { return f.from.Close() }
