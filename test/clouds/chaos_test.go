package clouds

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// chaosRounds asks for more rounds of TestChaos, each by its own chance. One
// round is what CI runs.
const chaosRounds = "WINDLASS_CHAOS_ROUNDS"

const (
	// chaosJobs is how many jobs run in each weather.
	chaosJobs = 6
	// window is how long the clouds' providers wait for what was made to show.
	window = 2 * time.Second
	// The canaries: a job's secret, and what the provider authenticates with.
	canarySecret = "canary-secret-7d0c41b6f2"
	canaryKey    = "canary-key-93e0b8a75c14"
)

// weather is what goes wrong.
type weather struct {
	// refused, reset and dropped are the shares of calls that are refused, cut
	// before, and, of those that change something, cut after they were done.
	refused, reset, dropped float64
	// lag is how long what was made can't be seen.
	lag time.Duration
	// ahead is by how much the cloud's clock is ahead of this machine's.
	ahead time.Duration
}

// weathers are what each kind has to come through. Beyond the declared window a
// cloud breaks its word: a run may then end in doubt, but says so.
var weathers = map[string]weather{
	"faults":         {refused: 0.2, reset: 0.1},
	"lost replies":   {dropped: 0.3, lag: window / 4},
	"lag":            {lag: window / 2},
	"lag beyond":     {dropped: 0.1, lag: 3 * window},
	"clock behind":   {ahead: 10 * time.Minute, reset: 0.1},
	"clock too fast": {ahead: -3 * time.Hour, reset: 0.1},
}

func (w weather) make(s sky) {
	add := func(action string, share float64, e fault.Effect) {
		if share > 0 {
			s.faults.Add(fault.Rule{Action: action, Share: share, Effect: e})
		}
	}
	for _, r := range s.refusals {
		add("", w.refused/float64(len(s.refusals)), fault.Effect{Refuse: r})
	}
	add("", w.reset, fault.Effect{Reset: true})
	for _, action := range s.changes {
		add(action, w.dropped, fault.Effect{Drop: true})
	}
	s.lag(w.lag)
}

// plays counts how often each job ran.
type plays struct {
	mu sync.Mutex
	n  map[int]int
}

// executor plays job N: it writes lines, and ends with N modulo 3.
func (p *plays) executor() run.Executor {
	return run.NewScripted(func(s run.Spec) run.Play {
		// A cloud may hand over a shell's words.
		words := strings.Fields(strings.Join(slices.Concat(s.Entrypoint, s.Command), " "))
		n, err := strconv.Atoi(strings.Trim(words[len(words)-1], "'"))
		if err != nil {
			return run.Play{Start: &run.StartError{Text: err.Error()}}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.n[n]++
		return run.Play{Stdout: []byte(chaosOutput(n)), For: time.Duration(n%4) * 300 * time.Millisecond, Exit: run.Exit{Code: n % 3}}
	})
}

func (p *plays) count(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n[n]
}

func chaosOutput(n int) string {
	var b strings.Builder
	for i := range 20 {
		fmt.Fprintf(&b, "job %d, line %d\n", n, i)
	}
	return b.String()
}

// TestChaos: in any weather jobs end as on a calm day, each has run once, its log
// is whole or says that it isn't, no secret is where it may not be, and nothing
// stays.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds: left out by -short")
	}
	rounds := 1
	if n, err := strconv.Atoi(os.Getenv(chaosRounds)); err == nil {
		rounds = max(n, 1)
	}
	for round := range rounds {
		for kind, build := range skies {
			for name, w := range weathers {
				t.Run(fmt.Sprintf("%s/%s/%d", kind, name, round), func(t *testing.T) {
					t.Parallel()
					chaos(t, build, w, uint64(round)+7)
				})
			}
		}
	}
}

func chaos(t *testing.T, build func(*testing.T, skyOptions) sky, w weather, seed uint64) {
	p := &plays{n: map[int]int{}}
	y := build(t, skyOptions{executor: p.executor(), seed: seed, now: func() time.Time { return time.Now().Add(w.ahead) }})
	opened := y.driver.Open
	y.driver.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
		r.Secrets = secretsOf{"secret://env/CANARY": canarySecret}
		return opened(ctx, r)
	}
	s := newSite(t, y.yard)
	e, _, shut := s.open()
	w.make(y)
	ids := make([]sdk.ID, chaosJobs)
	for n := range ids {
		ids[n] = s.submit(e, sdk.JobSpec{Image: "app:1", ImageEntrypoint: sdk.Argv{}, Args: sdk.Argv{"job", strconv.Itoa(n)},
			Secrets: map[string]sdk.SecretRef{"TOKEN": "secret://env/CANARY"}, AllowVisibleSecret: true})
	}
	broken := w.lag > window
	unsure := map[sdk.ID]bool{}
	for n, id := range ids {
		var got ledger.Run
		testwait.Until(t, soon, fmt.Sprintf("end of job %d", n), func() bool {
			var err error
			got, err = s.store.Run(t.Context(), id)
			return err == nil && (got.Phase == ledger.PhaseDrained || got.Phase == ledger.PhaseCleaned || got.Reason == sdk.ReasonSubmitUnconfirmed)
		})
		ran := p.count(n)
		switch doubt := got.State == sdk.StateUnknown || got.State == sdk.StateLost; {
		case doubt && broken && ran <= 1+y.again, doubt && y.doubts && ran == 0 && got.Reason == sdk.ReasonSubmitUnconfirmed:
			unsure[id] = true
			continue
		case got.ExitCode == nil != y.codeless || got.ExitCode != nil && *got.ExitCode != n%3 || (got.State == sdk.StateSucceeded) != (n%3 == 0) || got.Attempt != 1:
			t.Errorf("job %d: %s: %s, code %v, attempt %d, ran %d times: %s", n, got.State, got.Reason, got.ExitCode, got.Attempt, ran, got.Message)
		case ran != 1 && (!broken || ran > 1+y.again):
			t.Errorf("job %d ran %d times", n, ran)
		}
		if out := s.output(e, id); out != chaosOutput(n) && (got.Verdict == sdk.VerdictQuiet || got.Verdict == sdk.VerdictComplete) {
			t.Errorf("job %d: the verdict is %s, the output %q", n, got.Verdict, out)
		}
	}
	// The weather clears. Another process ends what is left to do.
	y.faults.Clear()
	y.lag(0)
	shut()
	e, provider, shut := s.open()
	if _, err := e.Recover(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if unsure[id] {
			if err := e.Abandon(t.Context(), id, "tester", "in doubt"); err != nil && !errors.Is(err, sdk.FailedPrecondition) {
				t.Error(err)
			}
		}
		if _, err := e.Wait(t.Context(), id, control.MilestoneFinished); err != nil {
			t.Error(err)
		}
	}
	for _, it := range s.reap(e, len(unsure) == 0) {
		if it.Object.Type == y.live && len(unsure) == 0 {
			t.Errorf("left: %+v", it.Object)
		}
	}
	s.reap(e, false)
	if left := s.listed(provider); len(left) > 0 {
		t.Errorf("%d objects are left, such as %+v", len(left), left[0])
	}
	if rep, err := s.store.Verify(t.Context(), nil); err != nil || len(rep.Faults) > 0 {
		t.Errorf("ledger: %+v, %v", rep.Faults, err)
	}
	shut() // files are still
	s.keptSecret(y)
}

// output returns a run's captured output.
func (s *site) output(e *control.Engine, id sdk.ID) string {
	s.t.Helper()
	var out []byte
	for it, err := range e.Follow(s.t.Context(), id, control.FollowOptions{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		if it.Entry != nil && it.Entry.Stream != sdk.StreamSystem {
			out = append(out, it.Entry.Data...)
			if it.Entry.LineEnd == sdk.LineEndStripped {
				out = append(out, '\n')
			}
		}
	}
	return string(out)
}

// keptSecret looks for the canaries in all calls but those that may carry them,
// and in all that is kept.
func (s *site) keptSecret(y sky) {
	s.t.Helper()
	carried := false
	for _, c := range y.calls.Calls("") {
		for _, body := range [][]byte{c.Request, c.Reply} {
			if bytes.Contains(body, []byte(canaryKey)) && c.Action != y.login {
				s.t.Errorf("the provider's key is in a call of %s", c.Action)
			}
			if bytes.Contains(body, []byte(canarySecret)) || bytes.Contains(body, []byte(base64.StdEncoding.EncodeToString([]byte(canarySecret)))) {
				if carried = true; !slices.Contains(y.carries, c.Action) {
					s.t.Errorf("the job's secret is in a call of %s", c.Action)
				}
			}
		}
	}
	if !carried {
		s.t.Error("no call carried the job's secret: the canary proves nothing")
	}
	for name, data := range files(s.t, s.dir) {
		if bytes.Contains(data, []byte(canaryKey)) || bytes.Contains(data, []byte(canarySecret)) {
			s.t.Errorf("a canary is in %s", name)
		}
	}
}
