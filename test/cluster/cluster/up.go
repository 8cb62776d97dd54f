package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// readyWithin bounds a start. An idle machine needs 4 to 6 seconds.
const readyWithin = 8 * time.Minute

// cluster is what up prints of one that is ready.
type cluster struct {
	// Dir has its state: logs in log/, and control, a FIFO that takes "kill PART"
	// and "start PART".
	Dir string `json:"dir"`
	// Programs is the folder of the build: bin/kube is kubectl too.
	Programs string `json:"programs"`
	// Kubeconfig names a file for an administrator outside of the namespaces.
	Kubeconfig string `json:"kubeconfig"`
	// Server, Token and Authority, a PEM, are what stands in it.
	Server    string `json:"server"`
	Token     string `json:"token"`
	Authority string `json:"authority"`
	// Level is what runs: the API alone, a node, Argo besides.
	Level string `json:"level"`
}

// clusterEnv tells COMMAND of the cluster, in JSON.
const clusterEnv = "WINDLASS_TEST_CLUSTER"

func up(args []string) error {
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	level := flags.String("level", "node", "")
	crds := flags.String("crds", "minimal", "")
	detach := flags.Bool("detach", false, "")
	detached := flags.Bool("detached", false, "") // up's own
	flags.SetOutput(io.Discard)
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if !slices.Contains([]string{"api", "node", "argo"}, *level) || !slices.Contains([]string{"minimal", "full"}, *crds) {
		return errUsage
	}
	if err := possible(); err != nil {
		return err
	}
	if *detach {
		return upDetached(args)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	home, err := claim(*detached)
	if err != nil {
		return err
	}
	n := &node{home: home, level: *level, crds: *crds}
	err = n.start()
	if err == nil {
		err = n.serve(signals, flags.Args(), *detached)
	}
	return errors.Join(err, n.stop())
}

// node is a cluster that up has started.
type node struct {
	home        *home
	level, crds string

	c    cluster
	cmd  *exec.Cmd
	done chan struct{} // closed once the first process has ended
}

func (n *node) start() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	programs := filepath.Dir(filepath.Dir(exe))
	dir := n.home.dir
	for _, d := range []string{"etc", "log", "parts", "fake", "containerd", "kubelet", "cni"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	listener, err := listenLoopback()
	if err != nil {
		return err
	}
	n.c = cluster{Dir: dir, Programs: programs, Server: "https://" + listener.Addr().String(), Level: n.level}
	if err := identities(filepath.Join(dir, "etc"), &n.c); err != nil {
		return err
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "control"), 0o600); err != nil {
		return err
	}
	if err := n.home.makeGroups(); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "log", "node.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	n.cmd = exec.Command(exe, append([]string{"join", dir}, "unshare", "-m", "-n", "-p", "-u", "-i", "-C", "--fork", "--kill-child=SIGKILL", "--mount-proc",
		"bash", filepath.Join(programs, "node.sh"))...)
	n.cmd.Env = append(os.Environ(), "STATE="+dir, "PROGRAMS="+programs, "LEVEL="+n.level, "CRDS="+n.crds)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	n.done = make(chan struct{})
	started := make(chan error)
	go func() {
		// The kernel sends Pdeathsig when the thread that forked ends.
		runtime.LockOSThread()
		err := n.cmd.Start()
		started <- err
		if err == nil {
			_ = n.cmd.Wait()
			close(n.done)
		}
	}()
	if err := <-started; err != nil {
		n.cmd = nil
		return err
	}
	go accept(listener, "unix", filepath.Join(dir, "api.sock"))
	return nil
}

// serve waits until the cluster is ready, tells of it, and returns when it is to end.
func (n *node) serve(signals <-chan os.Signal, command []string, detached bool) error {
	ready := filepath.Join(n.home.dir, "ready")
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(readyWithin)
	for {
		if _, err := os.Stat(ready); err == nil {
			break
		}
		select {
		case <-tick.C:
		case s := <-signals:
			return fmt.Errorf("stopped by %s before it was ready", s)
		case <-late:
			return fmt.Errorf("not ready within %s\n%s", readyWithin, n.lastWords())
		case <-n.done:
			return fmt.Errorf("ended before it was ready\n%s", n.lastWords())
		}
	}
	line, err := json.Marshal(n.c)
	if err != nil {
		return err
	}
	if len(command) > 0 {
		return n.during(signals, command, string(line))
	}
	fmt.Println(string(line))
	closed := make(chan struct{})
	if !detached {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			close(closed)
		}()
	}
	select {
	case <-closed:
	case <-signals:
	case <-n.done:
		return fmt.Errorf("ended by itself\n%s", n.lastWords())
	}
	return nil
}

// during runs a command for which the cluster is there.
func (n *node) during(signals <-chan os.Signal, command []string, line string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), clusterEnv+"="+line, "KUBECONFIG="+n.c.Kubeconfig)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	go func() {
		select {
		case <-signals:
		case <-n.done:
			fmt.Fprintf(os.Stderr, "cluster: ended by itself\n%s", n.lastWords())
		case <-ctx.Done():
		}
		cancel()
	}()
	return cmd.Run()
}

// lastWords are the ends of the logs.
func (n *node) lastWords() string {
	var b strings.Builder
	files, _ := filepath.Glob(filepath.Join(n.home.dir, "log", "*"))
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil || len(data) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
		fmt.Fprintf(&b, "--- %s\n%s\n", filepath.Base(f), strings.Join(lines[max(0, len(lines)-8):], "\n"))
	}
	return b.String()
}

// stop ends all processes and removes all else. An error tells what is left.
func (n *node) stop() error {
	if n.cmd != nil {
		_ = n.cmd.Process.Kill() // the kernel ends the namespaces' first process, and with it all others
		<-n.done
	}
	return n.home.remove()
}

// upDetached starts another up that goes on, and returns once that is ready.
func upDetached(args []string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.TrimLeft(a, "-") == "detach" })
	cmd := exec.Command(exe, append([]string{"up", "-detached"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return errors.Join(cmd.Wait(), err)
	}
	fmt.Print(line)
	return nil
}
