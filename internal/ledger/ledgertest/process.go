package ledgertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// childArg as the first argument makes the test binary a process of the suite.
const childArg = "ledgertest-child"

// Main belongs into TestMain of every package that calls Run: it returns when
// this process is to run tests, and never when the suite started it to write.
func Main(open Opener) {
	if len(os.Args) != 4 || os.Args[1] != childArg {
		return
	}
	n, err := strconv.Atoi(os.Args[3])
	if err == nil {
		err = child(open, os.Args[2], n, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child writes n lives (without end when n is 0) and prints, after every
// acknowledged write, the run and its number of events so far.
func child(open Opener, where string, n int, out io.Writer) error {
	ctx := context.Background()
	s, err := open(ctx, where)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "ledger", s.ID()); err != nil {
		return err
	}
	ids := newIDs()
	holder := ids.NewID()
	var mu sync.Mutex
	work := func(n int) error {
		for i := 0; n == 0 || i < n; i++ {
			sc := NewScript(ids, holder, nil)
			events := 0
			for _, w := range sc.Writes {
				if err := s.Write(ctx, w); err != nil {
					return err
				}
				events += len(w.Events)
				mu.Lock()
				_, err := fmt.Fprintln(out, sc.Run, events)
				mu.Unlock()
				if err != nil {
					return err
				}
			}
		}
		return nil
	}
	const workers = 3
	errs := make(chan error, workers)
	for range workers {
		go func() { errs <- work(n) }()
	}
	var all []error
	for range workers {
		all = append(all, <-errs)
	}
	return errors.Join(append(all, s.Close())...)
}

// process is a started child with what it acknowledged.
type process struct {
	cmd    *exec.Cmd
	ledger string
	// acked maps runs to their acknowledged numbers of events.
	acked map[sdk.ID]int64
	lines chan struct{}
	read  chan error
}

func startProcess(t testing.TB, where string, n int) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(t.Context(), exe, childArg, where, strconv.Itoa(n)), acked: map[sdk.ID]int64{}, lines: make(chan struct{}, 1), read: make(chan error, 1)}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.read <- p.scan(out) }()
	return p
}

func (p *process) scan(out io.Reader) error {
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		word, num, ok := strings.Cut(sc.Text(), " ")
		if word == "ledger" {
			p.ledger = num
			continue
		}
		id, err := sdk.ParseID(word)
		if err != nil || !ok {
			continue // the last line may be cut by the kill
		}
		n, err := strconv.ParseInt(num, 10, 64)
		if err != nil {
			continue
		}
		p.acked[id] = n
		select {
		case p.lines <- struct{}{}:
		default:
		}
	}
	return sc.Err()
}

// wait returns when the process has ended and its output is read.
func (p *process) wait() error {
	rerr := <-p.read
	return errors.Join(p.cmd.Wait(), rerr)
}

func testProcesses(t *testing.T, h Harness) {
	const processes, lives, workers = 4, 8, 3
	s := h.open(t)
	var ps []*process
	for range processes {
		ps = append(ps, startProcess(t, h.Where, lives))
	}
	want := int64(0)
	for _, p := range ps {
		if err := p.wait(); err != nil {
			t.Fatalf("process: %v", err)
		}
		if p.ledger != s.ID() {
			t.Errorf("a process wrote to ledger %s, this is %s", p.ledger, s.ID())
		}
		for _, n := range p.acked {
			want += n
		}
	}
	// This process, too, sees what the others did, and goes on behind them.
	mustWrite(t, s, NewScript(newIDs(), sdk.ID{}, nil).Writes...)
	want += NewScript(newIDs(), sdk.ID{}, nil).Events()
	rep := sound(t, s)
	if rep.Events != want || rep.Runs != processes*lives*workers+1 {
		t.Errorf("%d events of %d runs, want %d of %d", rep.Events, rep.Runs, want, processes*lives*workers+1)
	}
}

// testCreateRace opens a ledger that isn't there from many sides at once.
func testCreateRace(t *testing.T, h Harness) {
	var ps []*process
	for range 4 {
		ps = append(ps, startProcess(t, h.Where, 1))
	}
	const goroutines = 4
	opened := make(chan ledger.Store, goroutines)
	for range goroutines {
		go func() {
			s, err := h.Open(context.Background(), h.Where)
			if err != nil {
				t.Errorf("open: %v", err)
			}
			opened <- s
		}()
	}
	seen := map[string]bool{}
	for range goroutines {
		if s := <-opened; s != nil {
			seen[s.ID()] = true
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, p := range ps {
		if err := p.wait(); err != nil {
			t.Fatalf("process: %v", err)
		}
		seen[p.ledger] = true
	}
	if len(seen) != 1 {
		t.Errorf("one place has the ledgers %v", seen)
	}
	sound(t, h.open(t))
}

// testKilled kills a writing process again and again: what was acknowledged is
// there, whole, and the ledger is sound without repair.
func testKilled(t *testing.T, h Harness) {
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	acked := map[sdk.ID]int64{}
	for round := range rounds {
		p := startProcess(t, h.Where, 0)
		for range 5 + 7*round {
			select {
			case <-p.lines:
			case err := <-p.read:
				t.Fatalf("the process ended by itself: %v", err)
			}
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := p.wait(); err == nil {
			t.Fatal("the process was not killed")
		}
		for id, n := range p.acked {
			acked[id] = n
		}
	}
	s := h.open(t)
	for id, n := range acked {
		run, _ := check(t, s, id)
		if run.Events < n {
			t.Errorf("run %s has %d events, %d were acknowledged", id, run.Events, n)
		}
	}
	for _, r := range runs(t, s, ledger.RunFilter{}) {
		if r.Events < 2 {
			t.Errorf("run %s has %d events: half a write", r.ID, r.Events)
		}
	}
	sound(t, s)
}
