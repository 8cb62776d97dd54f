package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testwait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const wait = 20 * time.Second

// buffer may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// started is a container with its outputs.
type started struct {
	Container
	out, err *buffer
}

func start(t *testing.T, e Executor, s Spec) started {
	t.Helper()
	c := started{out: &buffer{}, err: &buffer{}}
	s.Stdout, s.Stderr = c.out, c.err
	var err error
	if c.Container, err = e.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return c
}

func (s started) ends(t *testing.T) Exit {
	t.Helper()
	select {
	case <-s.Done():
	case <-time.After(wait):
		t.Fatal("the container doesn't end")
	}
	return s.Exit()
}

// executors are those that really run something, with the image for each.
func executors(t *testing.T, each func(t *testing.T, e Executor, image string)) {
	t.Run("processes", func(t *testing.T) {
		e := NewProcesses(nil)
		t.Cleanup(func() { closes(t, e) })
		each(t, e, "any")
	})
	t.Run("docker", func(t *testing.T) {
		host := testneed.Docker(t)
		e, err := NewDocker(host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			closes(t, e)
			if left := containers(t, host); len(left) > 0 {
				t.Errorf("containers are left: %v", left)
			}
		})
		each(t, e, testneed.Image)
	})
}

func closes(t *testing.T, e Executor) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// containers are the engine's that bear this test's name.
func containers(t *testing.T, host string) []string {
	t.Helper()
	api, err := client.New(client.WithHost(host))
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	list, err := api.ContainerList(context.Background(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", dockerLabel+"="+t.Name())})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range list.Items {
		ids = append(ids, c.ID)
	}
	return ids
}

// TestRun sees both outputs and the code of what ran.
func TestRun(t *testing.T) {
	executors(t, func(t *testing.T, e Executor, image string) {
		c := start(t, e, Spec{Name: t.Name(), Image: image, Command: []string{"sh", "-c", `echo "$A $PWD"; printf bye >&2; exit 7`}, Env: []string{"A=b"}, Dir: "/tmp"})
		if got := c.ends(t); got != (Exit{Code: 7}) || c.out.String() != "b /tmp\n" || c.err.String() != "bye" {
			t.Errorf("ended with %+v, %q, %q", got, c.out, c.err)
		}
		c = start(t, e, Spec{Name: t.Name(), Image: image, Entrypoint: []string{"echo", "$X"}, Command: []string{"", "a b", "*"}})
		if c.ends(t); c.out.String() != "$X  a b *\n" {
			t.Errorf("the list arrived as %q", c.out)
		}
	})
}

// TestStop lets a polite process end, and kills a rude one.
func TestStop(t *testing.T) {
	executors(t, func(t *testing.T, e Executor, image string) {
		polite := start(t, e, Spec{Name: t.Name(), Image: image, Command: []string{"sh", "-c", `trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.05; done`}})
		rude := start(t, e, Spec{Name: t.Name(), Image: image, Command: []string{"sh", "-c", `trap '' TERM; echo up; while :; do sleep 0.05; done`}})
		for _, c := range []started{polite, rude} {
			testwait.Until(t, wait, "first line", func() bool { return c.out.String() == "up\n" })
		}
		polite.Stop(wait)
		rude.Stop(time.Hour)
		rude.Stop(time.Second) // a shorter grace counts
		rude.Stop(time.Hour)
		if got := polite.ends(t); got.Code != 5 || polite.out.String() != "up\nbye\n" {
			t.Errorf("the polite one ended with %+v, %q", got, polite.out)
		}
		if got := rude.ends(t); got.Code != 137 || got.OOM {
			t.Errorf("the rude one ended with %+v", got)
		}
		rude.Stop(0) // it is over
	})
}

// TestStartErrors tells in which phase a start fails.
func TestStartErrors(t *testing.T) {
	executors(t, func(t *testing.T, e Executor, image string) {
		for name, k := range map[string]struct {
			spec  Spec
			phase Phase
			text  string
		}{
			"no program": {Spec{Image: image, Command: []string{"nosuch"}}, Start, "executable file not found in $PATH"},
			"a folder":   {Spec{Image: image, Command: []string{"/tmp"}}, Start, "permission denied"},
			"no user":    {Spec{Image: image, Command: []string{"true"}, User: "nosuchuser"}, Start, "unable to find user nosuchuser"},
		} {
			k.spec.Name, k.spec.Stdout, k.spec.Stderr = t.Name(), &buffer{}, &buffer{}
			_, err := e.Start(t.Context(), k.spec)
			var failed *StartError
			if !errors.As(err, &failed) || failed.Phase != k.phase || !strings.Contains(failed.Text, k.text) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestClose ends what runs, and starts nothing more.
func TestClose(t *testing.T) {
	executors(t, func(t *testing.T, e Executor, image string) {
		var all []started
		for range 3 {
			all = append(all, start(t, e, Spec{Name: t.Name(), Image: image, Command: []string{"sh", "-c", "trap '' TERM; sleep 60"}}))
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			if got := c.ends(t); got.Code != 137 {
				t.Errorf("ended with %+v", got)
			}
		}
		if _, err := e.Start(t.Context(), Spec{Image: image, Command: []string{"true"}}); err == nil {
			t.Error("a closed executor starts")
		}
	})
}

// TestDockerOnly has what processes can't do: images and limits.
func TestDockerOnly(t *testing.T) {
	e, err := NewDocker(testneed.Docker(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closes(t, e) })
	_, err = e.Start(t.Context(), Spec{Name: t.Name(), Image: "nosuch.invalid/image:1", Command: []string{"true"}})
	var failed *StartError
	if !errors.As(err, &failed) || failed.Phase != Pull {
		t.Errorf("no image: %v", err)
	}
	c := start(t, e, Spec{Name: t.Name(), Image: testneed.Image, MemoryMiB: 16, Command: []string{"sh", "-c", `x=a; while :; do x=$x$x; done`}})
	if got := c.ends(t); !got.OOM || got.Code != 137 {
		t.Errorf("beyond its memory it ended with %+v", got)
	}
}

// TestProcessLeavesNothing kills what a process left in its group, and doesn't
// wait for what left the group and holds the output.
func TestProcessLeavesNothing(t *testing.T) {
	testneed.Program(t, "setsid")
	e := NewProcesses(nil)
	t.Cleanup(func() { closes(t, e) })
	folder := t.TempDir()
	file := filepath.Join(folder, "alive")
	c := start(t, e, Spec{Image: "any", Command: []string{"sh", "-c", `
		(sleep 0.2; echo child >` + file + `) &
		setsid sh -c 'sleep 2' &
		echo done`}})
	if got := c.ends(t); got.Code != 0 || c.out.String() != "done\n" {
		t.Errorf("ended with %+v, %q", got, c.out)
	}
	// The child would have written within the second for which the output of
	// the one that left was waited for.
	if _, err := os.Stat(file); err == nil {
		t.Error("a child outlived its group")
	}
}

// TestProcessImage adds what an image would.
func TestProcessImage(t *testing.T) {
	e := NewProcesses(map[string]Image{"app": {Entrypoint: []string{"echo", "from"}, Command: []string{"image"}, Env: []string{"A=image"}, Dir: "/tmp"}})
	t.Cleanup(func() { closes(t, e) })
	for _, k := range []struct {
		spec Spec
		want string
	}{
		{Spec{}, "from image\n"},
		{Spec{Command: []string{"job"}}, "from job\n"},
		{Spec{Entrypoint: []string{"echo"}}, "\n"},
		{Spec{Entrypoint: []string{"sh", "-c", `echo "$A $PWD"`}}, "image /tmp\n"},
		{Spec{Entrypoint: []string{"sh", "-c", `echo "$A"`}, Env: []string{"A=job"}}, "job\n"},
	} {
		k.spec.Image = "app"
		c := start(t, e, k.spec)
		if c.ends(t); c.out.String() != k.want {
			t.Errorf("%+v printed %q, want %q", k.spec, c.out, k.want)
		}
	}
}

// TestProcessEnvironment inherits nothing.
func TestProcessEnvironment(t *testing.T) {
	t.Setenv("LEAK", "x")
	e := NewProcesses(nil)
	t.Cleanup(func() { closes(t, e) })
	c := start(t, e, Spec{Command: []string{"env"}, Env: []string{"A=b"}})
	c.ends(t)
	lines := strings.Split(strings.TrimSpace(c.out.String()), "\n")
	slices.Sort(lines)
	if got := strings.Join(lines, " "); got != "A=b PATH="+Path {
		t.Errorf("the environment is %s", got)
	}
}

// TestProcessUser changes the user where root may.
func TestProcessUser(t *testing.T) {
	testneed.Root(t)
	e := NewProcesses(nil)
	t.Cleanup(func() { closes(t, e) })
	for user, want := range map[string]string{"1234": "1234:0", "1234:56": "1234:56", "nobody": "65534:65534", "0": "0:0"} {
		c := start(t, e, Spec{Command: []string{"sh", "-c", `echo "$(id -u):$(id -g)"`}, User: user})
		if c.ends(t); strings.TrimSpace(c.out.String()) != want {
			t.Errorf("user %s runs as %q", user, c.out)
		}
	}
}

// TestProcessMany starts and ends many at once.
func TestProcessMany(t *testing.T) {
	e := NewProcesses(nil)
	t.Cleanup(func() { closes(t, e) })
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			out := &buffer{}
			c, err := e.Start(t.Context(), Spec{Command: []string{"sh", "-c", fmt.Sprintf("echo %d; exit %d", i, i)}, Stdout: out, Stderr: out})
			if err != nil {
				t.Error(err)
				return
			}
			<-c.Done()
			if c.Exit().Code != i || out.String() != fmt.Sprintln(i) {
				t.Errorf("%d ended with %+v, %q", i, c.Exit(), out)
			}
		})
	}
	all.Wait()
}

// TestScripted plays without processes.
func TestScripted(t *testing.T) {
	e := NewScripted(func(s Spec) Play {
		switch s.Name {
		case "fails":
			return Play{Start: &StartError{Phase: Pull, Text: "no"}}
		case "stays":
			return Play{For: -1}
		case "short":
			return Play{For: time.Millisecond, Exit: Exit{Code: 1}}
		default:
			return Play{Stdout: []byte("out"), Stderr: []byte("err"), Exit: Exit{Code: 137, OOM: true}}
		}
	})
	c := start(t, e, Spec{Name: "now"})
	if got := c.ends(t); got != (Exit{Code: 137, OOM: true}) || c.out.String() != "out" || c.err.String() != "err" {
		t.Errorf("ended with %+v, %q, %q", got, c.out, c.err)
	}
	if got := start(t, e, Spec{Name: "short"}).ends(t); got.Code != 1 {
		t.Errorf("ended with %+v", got)
	}
	if _, err := e.Start(t.Context(), Spec{Name: "fails"}); err == nil {
		t.Error("a start that is to fail doesn't")
	}
	stays := start(t, e, Spec{Name: "stays"})
	stays.Stop(time.Hour)
	if got := stays.ends(t); got.Code != 143 {
		t.Errorf("stopped, it ended with %+v", got)
	}
	last := start(t, e, Spec{Name: "stays"})
	closes(t, e)
	last.ends(t)
	if _, err := e.Start(t.Context(), Spec{Name: "now"}); err == nil {
		t.Error("a closed executor starts")
	}
}
