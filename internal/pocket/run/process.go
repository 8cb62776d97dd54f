package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Path is the PATH that a process gets when its job sets none, that of most
// images.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Image says what an image would add to a process that stands for it.
type Image struct {
	Entrypoint, Command, Env []string
	Dir                      string
}

// Processes runs each container as a process group of this machine, without
// isolation: it sees the machine's files and network, nothing limits its memory,
// and a descendant that makes a session of its own outlives its group. On Linux
// the process dies with the server.
type Processes struct {
	images map[string]Image

	mu      sync.Mutex
	closed  bool
	running map[*process]struct{}
	all     sync.WaitGroup
}

// NewProcesses returns an executor of processes. Images tells what an image
// brings along by its reference; an image that isn't there brings nothing.
func NewProcesses(images map[string]Image) *Processes {
	return &Processes{images: images, running: map[*process]struct{}{}}
}

// Start starts a process.
func (p *Processes) Start(_ context.Context, s Spec) (Container, error) {
	image := p.images[s.Image]
	entrypoint, command := s.Entrypoint, s.Command
	if entrypoint == nil {
		entrypoint = image.Entrypoint
		if command == nil {
			command = image.Command
		}
	}
	argv := append(append([]string{}, entrypoint...), command...)
	if len(argv) == 0 {
		return nil, &StartError{Phase: Create, Text: "no command specified"}
	}
	env := append(append([]string{}, image.Env...), s.Env...)
	if value(env, "PATH") == "" {
		env = append(env, "PATH="+Path)
	}
	dir := s.Dir
	if dir == "" {
		dir = image.Dir
	}
	if dir == "" {
		dir = string(filepath.Separator)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, &StartError{Phase: Start, Text: fmt.Sprintf("chdir to cwd (%q) set in config.json failed: no such file or directory", dir)}
	}
	file, err := find(argv[0], dir, value(env, "PATH"))
	if err != nil {
		return nil, &StartError{Phase: Start, Text: err.Error()}
	}
	attr, err := attributes(s.User)
	if err != nil {
		return nil, &StartError{Phase: Start, Text: err.Error()}
	}

	proc := &process{
		cmd:  &exec.Cmd{Path: file, Args: argv, Env: env, Dir: dir, SysProcAttr: attr},
		done: make(chan struct{}),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, &StartError{Phase: Create, Text: "the executor is closed"}
	}
	if err := proc.start(s.Stdout, s.Stderr, func() {
		p.mu.Lock()
		delete(p.running, proc)
		p.mu.Unlock()
		p.all.Done()
	}); err != nil {
		return nil, &StartError{Phase: Start, Text: err.Error()}
	}
	p.running[proc] = struct{}{}
	p.all.Add(1)
	return proc, nil
}

// Close kills what runs.
func (p *Processes) Close() error {
	p.mu.Lock()
	p.closed = true
	for proc := range p.running {
		proc.kill()
	}
	p.mu.Unlock()
	p.all.Wait()
	return nil
}

// value returns the last setting of a variable.
func value(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// find looks a program up as a container runtime does, by the PATH of the
// container and from its working directory.
func find(name, dir, path string) (string, error) {
	if name == "" {
		return "", errors.New(`exec: "": executable file not found in $PATH`)
	}
	runnable := func(file string) error {
		info, err := os.Stat(file)
		if err != nil {
			return fmt.Errorf("exec: %q: stat %s: no such file or directory", name, name)
		}
		if info.IsDir() || info.Mode()&0o111 == 0 {
			return fmt.Errorf("exec: %q: permission denied", name)
		}
		return nil
	}
	if strings.ContainsRune(name, '/') {
		file := name
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		return file, runnable(file)
	}
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		if file := filepath.Join(folder, name); runnable(file) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("exec: %q: executable file not found in $PATH", name)
}

type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	exit Exit

	mu       sync.Mutex
	ended    bool // the process is reaped: its number may be another's
	deadline *time.Timer
	due      time.Time
}

// start starts the process on a thread that lives as long as the process: the
// kernel kills it when that thread ends (see attributes).
func (p *process) start(stdout, stderr io.Writer, gone func()) error {
	var pipes [2][2]*os.File
	closeAll := func() {
		for _, pair := range pipes {
			for _, f := range pair {
				if f != nil {
					_ = f.Close() // closing twice is all that can fail
				}
			}
		}
	}
	for i := range pipes {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll()
			return err
		}
		pipes[i] = [2]*os.File{r, w}
	}
	p.cmd.Stdout, p.cmd.Stderr = pipes[0][1], pipes[1][1]

	started := make(chan error, 1)
	go func() {
		defer holdThread()()
		err := p.cmd.Start()
		_, _ = pipes[0][1].Close(), pipes[1][1].Close()
		if err != nil {
			closeAll()
			started <- err
			return
		}
		outputs := []*output{{from: pipes[0][0], to: stdout}, {from: pipes[1][0], to: stderr}}
		var copies sync.WaitGroup
		for _, o := range outputs {
			copies.Go(o.copy)
		}
		started <- nil
		p.wait(&copies, outputs)
		gone()
		close(p.done)
	}()
	return <-started
}

// wait reaps the process, and ends what is left of its group and output.
func (p *process) wait(copies *sync.WaitGroup, outputs []*output) {
	state := p.reap()
	p.mu.Lock()
	p.ended = true
	if p.deadline != nil {
		p.deadline.Stop()
	}
	p.mu.Unlock()
	p.exit = Exit{Code: exitCode(state)}
	for _, o := range outputs {
		o.last()
	}
	copies.Wait()
}

// Done is closed when the process is reaped and its output copied.
func (p *process) Done() <-chan struct{} { return p.done }

// Exit returns the code.
func (p *process) Exit() Exit { return p.exit }

// Stop signals the group, and sets the time at which it is killed.
func (p *process) Stop(grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	due := time.Now().Add(grace)
	if p.deadline == nil {
		termGroup(p.cmd.Process)
	} else if !due.Before(p.due) || !p.deadline.Stop() {
		return
	}
	p.due = due
	p.deadline = time.AfterFunc(grace, p.kill)
}

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		killGroup(p.cmd.Process)
	}
}
