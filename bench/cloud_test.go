package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// apart is the first argument of this test program that makes it a pocket AWS with a
// scripted executor and nothing else, so that what the other process takes is the engine's
// alone.
const apart = "pocket-aws-apart"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == apart {
		if err := serveApart(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveApart is the process of a cloud apart: its arguments are how long the first
// container runs, and the actions whose documented budgets are in force. It prints its
// address, and ends with its standard input.
func serveApart(args []string) error {
	after, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	e := &ends{after: after, at: map[int]time.Time{}}
	cloud, err := pocket.New(pocket.Options{Executor: run.NewScripted(e.play)})
	if err != nil {
		return err
	}
	var limits []pocket.Limit
	for _, l := range pocket.ECSLimits() {
		if slices.Contains(l.Actions, args[1]) || strings.HasPrefix(l.Actions[0], "logs:") {
			limits = append(limits, l)
		}
	}
	cloud.SetLimits(limits)
	mux := http.NewServeMux()
	tell := func(path string, what func() any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			if err := json.NewEncoder(w).Encode(what()); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	tell("/bench/calls", func() any { return cloud.Calls().Counts() })
	tell("/bench/ends", func() any { return e.all() })
	mux.Handle("/", cloud)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	web := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	_, err = io.Copy(io.Discard, os.Stdin)
	err = errors.Join(err, web.Close(), cloud.Close())
	if serr := <-served; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}

// cloudApart is a pocket AWS in a process of its own.
type cloudApart struct{ url string }

// startApart starts one whose first container runs for after, and whose looks are
// under the budget of the action describe.
func startApart(b *testing.B, after time.Duration, describe string) *cloudApart {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self, apart, after.String(), describe)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			b.Errorf("the cloud apart: %v", err)
		}
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatalf("the cloud apart doesn't start: %v", err)
	}
	return &cloudApart{"http://" + strings.TrimSpace(address)}
}

func (c *cloudApart) ask(b *testing.B, path string, into any) {
	b.Helper()
	res, err := http.Get(c.url + path)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		b.Fatal(err)
	}
}

// counts are the calls so far, by action.
func (c *cloudApart) counts(b *testing.B) (out map[string]int) {
	b.Helper()
	c.ask(b, "/bench/calls", &out)
	return out
}

// ends are when the containers ended, by job, on this machine's clock.
func (c *cloudApart) ends(b *testing.B) map[int]time.Time {
	b.Helper()
	var at map[int]int64
	c.ask(b, "/bench/ends", &at)
	out := make(map[int]time.Time, len(at))
	for n, ns := range at {
		out[n] = time.Unix(0, ns)
	}
	return out
}

// ends are the times at which containers end, by job.
type ends struct {
	// after is how long the first runs: until then all have been submitted.
	after time.Duration

	mu      sync.Mutex
	release time.Time
	at      map[int]time.Time
}

// play lets all jobs run until all have been submitted, and end within a minute
// then.
func (e *ends) play(s run.Spec) run.Play {
	n, err := strconv.Atoi(s.Command[len(s.Command)-1])
	if err != nil {
		return run.Play{Start: &run.StartError{Text: err.Error()}}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.release.IsZero() {
		e.release = time.Now().Add(e.after)
	}
	at := e.release.Add(time.Duration(n%600) * 100 * time.Millisecond)
	e.at[n] = time.Now().Add(max(time.Until(at), 0))
	return run.Play{Stdout: []byte("hello from " + s.Name + "\n"), For: max(time.Until(at), 0)}
}

// all are the ends in nanoseconds since 1970.
func (e *ends) all() map[int]int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make(map[int]int64, len(e.at))
	for n, at := range e.at {
		out[n] = at.UnixNano()
	}
	return out
}
