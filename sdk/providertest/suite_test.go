package providertest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// mistake is a broken backend and the checks that must fail for it, and no
// others.
type mistake struct {
	name  string
	fails string
	broken
	settings fake.Settings
	knobs    fake.Knobs
	driver   func(d *sdk.Driver)
}

func (m mistake) harness() Harness {
	c := fake.NewCloud(fake.Options{Record: true, Knobs: m.knobs})
	d := fake.NewDriver(c, m.settings)
	if m.driver != nil {
		m.driver(&d)
	}
	mu, mem, nth := &sync.Mutex{}, map[string]int{}, 0
	h := fakeHarness(func() *fake.Cloud { return c }, d, func(p sdk.Provider, c *fake.Cloud) sdk.Provider {
		b := m.broken
		nth++
		b.good, b.cloud, b.mu, b.mem, b.nth = p, c, mu, mem, nth
		return &b
	})
	return h
}

// failedChecks returns the names of the checks that failed.
func failedChecks(r *recorder) []string {
	var out []string
	for _, sub := range r.subs {
		if sub.Failed() {
			out = append(out, strings.TrimPrefix(sub.name, "suite/"))
		}
	}
	slices.Sort(out)
	return out
}

// TestBrokenBackends gives the suite backends with one mistake each.
func TestBrokenBackends(t *testing.T) {
	covered := map[string]bool{}
	for _, m := range mistakes() {
		want := strings.Fields(m.fails)
		slices.Sort(want)
		for _, name := range want {
			covered[name] = true
		}
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := m.harness()
				if testing.Short() {
					h.Only = want
				}
				r := record(t, h)
				// What a mistake leaked ends too.
				time.Sleep(2 * time.Hour)
				if got := failedChecks(r); !slices.Equal(got, want) {
					t.Errorf("failed: %q, want %q\n%s", got, want, r.text())
				}
			})
		})
	}
	for _, c := range Checks() {
		if !covered[c.Name] {
			t.Errorf("no broken backend shows that check %s can fail", c.Name)
		}
	}
}

func settings(change func(g *sdk.Guarantees)) fake.Settings {
	g := fake.BestGuarantees()
	change(&g)
	return fake.Settings{Guarantees: &g}
}

func mistakes() []mistake {
	return slices.Concat(contractMistakes(), specMistakes(), stateMistakes(), submitMistakes(), cancelMistakes(), cleanupMistakes(),
		logMistakes(), otherMistakes())
}

func contractMistakes() []mistake {
	return []mistake{
		{name: "info changes", fails: "info", broken: broken{info: func(b *broken) sdk.Info {
			i := b.good.Info()
			i.Burst = b.count("info")
			return i
		}}},
		{name: "check without a remedy", fails: "check", broken: broken{check: func(b *broken, ctx context.Context) (sdk.CheckResult, error) {
			res, err := b.good.Check(ctx, sdk.CheckRequest{})
			return sdk.CheckResult{Items: append(res.Items, sdk.CheckItem{Name: "x"})}, err
		}}},
		{name: "config not looked at", fails: "config-unknown-member", driver: func(d *sdk.Driver) {
			open := d.Open
			d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
				r.Config = nil
				return open(ctx, r)
			}
		}},
		{name: "a row is missing", fails: "support-table", driver: func(d *sdk.Driver) { d.Support = d.Support[1:] }},
		{name: "the table refuses what is taken", fails: "support-table", driver: func(d *sdk.Driver) {
			d.Support = slices.Clone(d.Support)
			d.Support[0] = sdk.FieldSupport{Field: d.Support[0].Field, Refused: "no"}
		}},
		{name: "launches differ", fails: "prepare-deterministic", broken: launches(func(b *broken, _ sdk.PrepareJobRequest, l *sdk.Launch) {
			l.Warnings = append(l.Warnings, strings.Repeat("x", b.count("prepare")))
		})},
		{name: "prepare makes something", fails: "prepare-changes-nothing find-absent", broken: broken{
			prepare: func(b *broken, ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
				l, err := need(b.good, sdk.Runner()).PrepareJob(ctx, r)
				made := r.AttemptID
				made[15] ^= 0xff
				_, _ = b.cloud.Forge("someone", r.RunID, made)
				return l, err
			},
			run: func(b *broken, ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
				for _, id := range b.cloud.JobsOf(r.Launch.RunID) {
					if !strings.Contains(id, r.Launch.AttemptID.String()) && bytes.Contains(b.cloud.Describe(id), []byte("someone")) {
						b.cloud.Vanish(id)
					}
				}
				return need(b.good, sdk.Runner()).RunJob(ctx, r)
			},
		}},
		{name: "one problem at a time", fails: "problems-at-once", broken: launches(func(_ *broken, _ sdk.PrepareJobRequest, l *sdk.Launch) {
			l.Problems = l.Problems[:min(1, len(l.Problems))]
		})},
		{name: "NUL in labels", fails: "nul-refused", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) {
			for k, v := range r.Spec.Labels {
				r.Spec.Labels = map[string]string{k: strings.ReplaceAll(v, "\x00", "")}
			}
		})},
		{name: "unknown options dropped", fails: "options-unknown-member", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) {
			var m map[string]json.RawMessage
			if json.Unmarshal(r.Spec.Options, &m) == nil && m != nil {
				r.Spec.Options, _ = json.Marshal(map[string]json.RawMessage{"script": m["script"]})
			}
		})},
		{name: "long grace dropped", fails: "unset-or-set", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) {
			if g := r.Spec.Grace; g != nil && *g > time.Hour {
				r.Spec.Grace = nil
			}
		})},
		{name: "image taken", fails: "image", settings: settings(func(g *sdk.Guarantees) { g.NoImage = true })},
		{name: "handle of another kind", fails: "handle-round-trip", broken: handles(func(_ *broken, _ sdk.RunJobRequest, res *sdk.RunJobResult) {
			res.Handle.Kind = "other"
		})},
		{name: "close kills", fails: "fresh-process", broken: broken{
			run: func(b *broken, ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
				res, err := need(b.good, sdk.Runner()).RunJob(ctx, r)
				b.count("ran " + string(rune(b.nth)) + res.Handle.ID)
				return res, err
			},
			close: func(b *broken) error {
				for _, id := range b.cloud.Jobs() {
					if b.seen("ran " + string(rune(b.nth)) + id) {
						b.cloud.Vanish(id)
					}
				}
				return b.good.Close()
			},
		}},
		{name: "foreign handles taken", fails: "foreign-identity", broken: broken{
			status: func(b *broken, ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
				r.Handle.Identity = b.good.Info().Identity
				return need(b.good, sdk.Runner()).JobStatus(ctx, r)
			}}},
		{name: "newer launches taken", fails: "newer-version", broken: runs(func(_ *broken, r *sdk.RunJobRequest) {
			r.Launch.V = min(r.Launch.V, sdk.LaunchVersion)
		})},
	}
}

func specMistakes() []mistake {
	substituting := settings(func(g *sdk.Guarantees) { g.Argv = sdk.ArgvSubstituting })
	substituting.Unescaped = true
	return []mistake{
		{name: "argv joined by spaces", fails: "argv argv-bytes", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) {
			if len(r.Spec.Args) > 1 {
				r.Spec.Args = sdk.Argv{strings.Join(r.Spec.Args, " ")}
			}
		})},
		{name: "metacharacters not escaped", fails: "argv", settings: substituting},
		{name: "arguments made UTF-8", fails: "argv-bytes", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) {
			r.Spec.Args = slices.Clone(r.Spec.Args)
			for i, a := range r.Spec.Args {
				r.Spec.Args[i] = strings.ToValidUTF8(a, "\ufffd")
			}
		})},
		{name: "variables trimmed", fails: "env", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) {
			env := sdk.Env{}
			for k, v := range r.Spec.Env {
				env[k] = strings.TrimSpace(v)
			}
			r.Spec.Env = env
		})},
		{name: "workdir dropped", fails: "workdir", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) {
			if r.Spec.Workdir == "/tmp" {
				r.Spec.Workdir = ""
			}
		})},
		{name: "user dropped", fails: "user", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) {
			if r.Spec.User == "1234" {
				r.Spec.User = ""
			}
		})},
		{name: "a file dropped", fails: "files", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) {
			r.Spec.Files = slices.DeleteFunc(slices.Clone(r.Spec.Files), func(f sdk.InputFile) bool { return f.Mode == 0o600 })
		})},
		{name: "stdin left open", fails: "stdin-none", broken: runs(func(_ *broken, r *sdk.RunJobRequest) {
			if r.Launch.Stdin == sdk.StdinNone {
				r.Launch.Stdin = sdk.StdinAttached
			}
		})},
		{name: "stdin cut", fails: "stdin", broken: runs(func(_ *broken, r *sdk.RunJobRequest) {
			if r.Stdin != nil {
				r.Stdin = io.LimitReader(r.Stdin, 100)
			}
		})},
	}
}

func stateMistakes() []mistake {
	return []mistake{
		{name: "exit code lost", fails: "exit-codes", broken: states(func(_ *broken, _ sdk.JobHandle, st *sdk.JobStatusResult) {
			if st.ExitCode != nil && *st.ExitCode == 254 {
				st.ExitCode = nil
			}
		})},
		{name: "a signal guessed from 128+n", fails: "exit-codes", broken: states(func(_ *broken, _ sdk.JobHandle, st *sdk.JobStatusResult) {
			if st.ExitCode != nil && *st.ExitCode == 139 {
				st.Reason, st.Signal = sdk.ReasonSignaled, "SIGSEGV"
			}
		})},
		{name: "exit code 0 while running", fails: "exit-code-evidence", broken: states(func(_ *broken, _ sdk.JobHandle, st *sdk.JobStatusResult) {
			if st.State == sdk.StateRunning {
				st.ExitCode = new(int)
			}
		})},
		{name: "illegal reason", fails: "state-order", broken: states(func(_ *broken, _ sdk.JobHandle, st *sdk.JobStatusResult) {
			if st.State == sdk.StateRunning {
				st.Reason = sdk.ReasonCompleted
			}
		})},
		{name: "terminal state changes", fails: "terminal-final", broken: states(func(b *broken, _ sdk.JobHandle, st *sdk.JobStatusResult) {
			if st.State.Terminal() && b.nth > 1 {
				st.EndedAt = st.EndedAt.Add(time.Second)
			}
		})},
		{name: "ended before it started", fails: "times", broken: states(func(_ *broken, _ sdk.JobHandle, st *sdk.JobStatusResult) {
			if st.State == sdk.StateSucceeded {
				st.EndedAt = st.StartedAt.Add(-time.Second)
			}
		})},
		{name: "status with side effects", fails: "status-no-side-effects", broken: states(func(b *broken, h sdk.JobHandle, _ *sdk.JobStatusResult) {
			if b.count("status "+h.ID) == 10 {
				attempt, err := sdk.ParseID(strings.TrimPrefix(h.ID, "wl-"))
				if err == nil {
					var run sdk.ID
					res, _ := need(b.good, sdk.Finder()).FindJobs(context.Background(), sdk.FindJobsRequest{Launch: &sdk.Launch{AttemptID: attempt, Identity: h.Identity, Owner: "suite", LedgerID: "ledger"}})
					for _, j := range res.Jobs {
						run = j.RunID
					}
					attempt[15] ^= 0xff
					_, _ = b.cloud.Forge("suite", run, attempt)
				}
			}
		})},
		{name: "signal taken for OOM", fails: "signal", broken: states(func(_ *broken, _ sdk.JobHandle, st *sdk.JobStatusResult) {
			if st.Reason == sdk.ReasonSignaled {
				st.Reason = sdk.ReasonOOMKilled
			}
		})},
		{name: "OOM taken for a signal", fails: "oom", broken: states(func(_ *broken, _ sdk.JobHandle, st *sdk.JobStatusResult) {
			if st.Reason == sdk.ReasonOOMKilled {
				st.Reason, st.Signal = sdk.ReasonSignaled, "SIGKILL"
			}
		})},
		{name: "OOM of a child not seen", fails: "oom-child", broken: states(func(_ *broken, _ sdk.JobHandle, st *sdk.JobStatusResult) {
			if st.State == sdk.StateSucceeded {
				st.OOMObserved = false
			}
		})},
		{name: "time-out dropped", fails: "deadline", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) { r.Spec.Timeout = 0 })},
	}
}

// asName makes a backend that is searched claim that it goes by names.
func asName(m mistake) mistake {
	m.settings = settings(func(g *sdk.Guarantees) { g.Submit.By = sdk.SubmitBySearch })
	m.info = func(b *broken) sdk.Info {
		i := b.good.Info()
		i.Guarantees.Submit.By = sdk.SubmitByName
		return i
	}
	m.prepare = launches(func(_ *broken, _ sdk.PrepareJobRequest, l *sdk.Launch) {
		l.Resubmit.By, l.Names = sdk.SubmitByName, map[string]string{"job": l.AttemptID.String()}
	}).prepare
	return m
}

func submitMistakes() []mistake {
	adopt := func(b *broken, ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, bool) {
		res, err := need(b.good, sdk.Finder()).FindJobs(ctx, sdk.FindJobsRequest{Launch: &r.Launch})
		if err != nil || len(res.Jobs) == 0 {
			return sdk.RunJobResult{}, false
		}
		return sdk.RunJobResult{Handle: res.Jobs[0].Handle, Adopted: true}, true
	}
	return []mistake{
		asName(mistake{name: "RunJob not idempotent", fails: "run-twice run-at-once lost-reply"}),
		asName(mistake{name: "RunJob looks, then makes", fails: "run-at-once", knobs: fake.Knobs{Latency: fake.Duration(time.Millisecond)},
			broken: broken{run: func(b *broken, ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
				if res, ok := adopt(b, ctx, r); ok {
					return res, nil
				}
				return need(b.good, sdk.Runner()).RunJob(ctx, r)
			}}}),
		{name: "RunJob tries again by itself", fails: "lost-reply", settings: settings(func(g *sdk.Guarantees) { g.Submit.By = sdk.SubmitBySearch }),
			broken: broken{run: func(b *broken, ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
				res, err := need(b.good, sdk.Runner()).RunJob(ctx, r)
				if errors.Is(err, sdk.Unavailable) {
					res, err = need(b.good, sdk.Runner()).RunJob(ctx, r)
				}
				return res, err
			}}},
		{name: "an unclear error made clear", fails: "lost-reply", broken: broken{
			run: func(b *broken, ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
				res, err := need(b.good, sdk.Runner()).RunJob(ctx, r)
				if errors.Is(err, sdk.Unavailable) {
					err = sdk.Errorf(sdk.FailedPrecondition, "run job", "cut")
				}
				return res, err
			}}},
		{name: "RunJob waits for the job", fails: "run-returns", broken: handles(func(b *broken, r sdk.RunJobRequest, res *sdk.RunJobResult) {
			if bytes.Contains(r.Launch.Request, []byte(`"500ms"`)) {
				time.Sleep(600 * time.Millisecond) //sleep: what the double does wrong
			}
		})},
		{name: "something is always found", fails: "lost-request find-absent", broken: finds(func(b *broken, r sdk.FindJobsRequest, res *sdk.FindJobsResult) {
			if res.Outcome == sdk.FindAbsent && r.Launch != nil {
				res.Outcome = sdk.FindFound
				res.Jobs = []sdk.FoundJob{{Handle: sdk.JobHandle{V: 1, Kind: "fake", Identity: r.Launch.Identity, ID: "wl-none"}}}
			}
		})},
		{name: "absence never proven", fails: "find-absent find-run", broken: finds(func(b *broken, r sdk.FindJobsRequest, res *sdk.FindJobsResult) {
			if res.Outcome == sdk.FindAbsent && r.Launch == nil {
				res.Outcome = sdk.FindNotVisible
			}
		})},
		{name: "found with a wrong ledger", fails: "find-found", broken: finds(func(b *broken, r sdk.FindJobsRequest, res *sdk.FindJobsResult) {
			for i := range res.Jobs {
				if r.Launch != nil {
					res.Jobs[i].LedgerID = "other"
				}
			}
		})},
		{name: "search without the owner", fails: "find-run", broken: broken{
			find: func(b *broken, ctx context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
				r.Owner = ""
				return need(b.good, sdk.Finder()).FindJobs(ctx, r)
			}}},
		{name: "a lagging list taken for proof", fails: "find-hidden", settings: settings(func(g *sdk.Guarantees) {
			g.Submit = sdk.SubmitGuarantee{By: sdk.SubmitByToken, TokenWindow: time.Hour}
			g.Found.Within = time.Second
		}), broken: finds(func(b *broken, r sdk.FindJobsRequest, res *sdk.FindJobsResult) {
			if res.Outcome == sdk.FindNotVisible {
				*res = sdk.FindJobsResult{Outcome: sdk.FindAbsent}
			}
		})},
	}
}

func cancelMistakes() []mistake {
	return []mistake{
		{name: "cancel not accepted", fails: "cancel-running", broken: broken{
			cancel: func(b *broken, ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
				res, err := need(b.good, sdk.Canceler()).CancelJob(ctx, r)
				res.Accepted = false
				return res, err
			}}},
		{name: "cancel ignored", fails: "cancel-running cancel-early cancel-ignoring-term cancel-grace cancel-at-once cancel-tree cancel-twice cancel-one log-cancelled context-blocked",
			broken: broken{cancel: func(b *broken, ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
				st, err := need(b.good, sdk.Runner()).JobStatus(ctx, sdk.JobStatusRequest{Handle: r.Handle})
				if err == nil && !st.State.Terminal() && r.Why == "test" || r.Why == "" && err == nil && b.count("calls "+r.Handle.ID) <= 4 && st.State == sdk.StateRunning {
					return sdk.CancelJobResult{Accepted: true}, ctx.Err()
				}
				return need(b.good, sdk.Canceler()).CancelJob(ctx, r)
			}}},
		{name: "cancel before the start lost", fails: "cancel-early", knobs: fake.Knobs{StartDelay: fake.Duration(10 * time.Millisecond)}, broken: broken{
			cancel: func(b *broken, ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
				st, err := need(b.good, sdk.Runner()).JobStatus(ctx, sdk.JobStatusRequest{Handle: r.Handle})
				if err == nil && st.State == sdk.StatePending && r.Why == "test" {
					return sdk.CancelJobResult{Accepted: true}, nil
				}
				return need(b.good, sdk.Canceler()).CancelJob(ctx, r)
			}}},
		{name: "killed before the grace", fails: "cancel-ignoring-term", broken: cancels(func(_ *broken, r *sdk.CancelJobRequest) {
			if r.Grace != nil && *r.Grace == 100*time.Millisecond {
				r.Grace = new(time.Duration)
			}
		})},
		{name: "no TERM", fails: "cancel-grace", broken: cancels(func(_ *broken, r *sdk.CancelJobRequest) {
			if r.Grace != nil && *r.Grace == time.Second {
				r.Grace = new(time.Duration)
			}
		})},
		{name: "zero grace taken for unset", fails: "cancel-at-once", broken: cancels(func(_ *broken, r *sdk.CancelJobRequest) {
			if r.Grace != nil && *r.Grace == 0 {
				r.Grace = nil
			}
		})},
		{name: "grandchild not reached", fails: "cancel-tree", broken: runs(func(_ *broken, r *sdk.RunJobRequest) {
			r.Launch.Request = bytes.ReplaceAll(r.Launch.Request, []byte(`"grandchild"`), []byte(`"mark"`))
		})},
		{name: "second cancel refused", fails: "cancel-twice", broken: broken{
			cancel: func(b *broken, ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
				if r.Why == "" && b.count("cancel "+r.Handle.ID) > 1 {
					return sdk.CancelJobResult{}, sdk.Errorf(sdk.Aborted, "cancel job", "already asked for")
				}
				return need(b.good, sdk.Canceler()).CancelJob(ctx, r)
			}}},
		{name: "cancel overwrites an end", fails: "cancel-ended", broken: broken{
			cancel: func(b *broken, ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
				b.count("cancelled " + r.Handle.ID)
				return need(b.good, sdk.Canceler()).CancelJob(ctx, r)
			},
			status: states(func(b *broken, h sdk.JobHandle, st *sdk.JobStatusResult) {
				if b.seen("cancelled "+h.ID) && st.State.Terminal() {
					st.State, st.Reason = sdk.StateCancelled, sdk.ReasonCancelled
				}
			}).status}},
		{name: "cancel ends other jobs", fails: "cancel-one", broken: cancels(func(b *broken, r *sdk.CancelJobRequest) {
			for _, id := range b.cloud.Jobs() {
				if id != r.Handle.ID && r.Why == "test" {
					b.cloud.Vanish(id)
				}
			}
		})},
	}
}

func cleanupMistakes() []mistake {
	cleans := func(f func(b *broken, h sdk.JobHandle, res *sdk.CleanupJobResult, err *error)) broken {
		return broken{clean: func(b *broken, ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
			res, err := need(b.good, sdk.Cleaner()).CleanupJob(ctx, r)
			f(b, r.Handle, &res, &err)
			return res, err
		}}
	}
	return []mistake{
		{name: "clean-up names nothing", fails: "cleanup", broken: cleans(func(_ *broken, _ sdk.JobHandle, res *sdk.CleanupJobResult, _ *error) { res.Removed = nil })},
		{name: "clean-up leaves the job", fails: "cleanup gone-job batch context-blocked", broken: broken{
			clean: func(b *broken, ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
				st, err := need(b.good, sdk.Runner()).JobStatus(ctx, sdk.JobStatusRequest{Handle: r.Handle})
				if err != nil || !st.State.Terminal() {
					return need(b.good, sdk.Cleaner()).CleanupJob(ctx, r)
				}
				return sdk.CleanupJobResult{Removed: []string{"it"}}, nil
			}}},
		{name: "clean-up of a running job", fails: "cleanup-running", broken: cleans(func(b *broken, h sdk.JobHandle, _ *sdk.CleanupJobResult, err *error) {
			if errors.Is(*err, sdk.FailedPrecondition) && h.V == sdk.HandleVersion && h.Identity == b.good.Info().Identity {
				b.cloud.Vanish(h.ID)
				*err = nil
			}
		})},
		{name: "clean-up of others", fails: "cleanup-one batch", broken: cleans(func(b *broken, h sdk.JobHandle, res *sdk.CleanupJobResult, _ *error) {
			for _, id := range b.cloud.Jobs() {
				if bytes.Contains(b.cloud.Describe(id), []byte(`"exit"`)) && len(res.Removed) > 0 {
					b.cloud.Vanish(id)
				}
			}
		})},
		{name: "cleaned job taken for an outage", fails: "gone-job", broken: broken{
			clean: cleans(func(b *broken, h sdk.JobHandle, _ *sdk.CleanupJobResult, _ *error) { b.count("cleaned " + h.ID) }).clean,
			status: func(b *broken, ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
				st, err := need(b.good, sdk.Runner()).JobStatus(ctx, r)
				if errors.Is(err, sdk.NotFound) && b.seen("cleaned "+r.Handle.ID) {
					err = sdk.Errorf(sdk.Unavailable, "read job status", "it is not there")
				}
				return st, err
			}}},
		{name: "vanished job taken for failed", fails: "vanished-job", broken: broken{
			clean: cleans(func(b *broken, h sdk.JobHandle, _ *sdk.CleanupJobResult, _ *error) { b.count("cleaned " + h.ID) }).clean,
			status: func(b *broken, ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
				st, err := need(b.good, sdk.Runner()).JobStatus(ctx, r)
				if errors.Is(err, sdk.NotFound) && !b.seen("cleaned "+r.Handle.ID) {
					return sdk.JobStatusResult{State: sdk.StateFailed, Reason: sdk.ReasonUnknown}, nil
				}
				return st, err
			}}},
	}
}

// drop leaves out entries that hold a text.
func drop(text string) broken {
	return entries(func(_ *broken, _ sdk.JobLogsRequest, it sdk.LogItem) []sdk.LogItem {
		if it.Entry != nil && bytes.Contains(it.Entry.Data, []byte(text)) {
			return nil
		}
		return []sdk.LogItem{it}
	})
}

func logMistakes() []mistake {
	return []mistake{
		{name: "a line doubled", fails: "log-text", broken: entries(func(_ *broken, _ sdk.JobLogsRequest, it sdk.LogItem) []sdk.LogItem {
			if it.Entry != nil && bytes.Contains(it.Entry.Data, []byte("three")) {
				return []sdk.LogItem{it, it}
			}
			return []sdk.LogItem{it}
		})},
		{name: "bytes made UTF-8", fails: "log-bytes", broken: texts(func(b []byte) []byte { return bytes.ToValidUTF8(b, []byte("\ufffd")) })},
		{name: "stderr mixed in", fails: "log-apart log-follow", broken: entries(func(_ *broken, _ sdk.JobLogsRequest, it sdk.LogItem) []sdk.LogItem {
			if it.Entry != nil {
				c := *it.Entry
				c.Stream = sdk.StreamStdout
				it.Entry = &c
			}
			return []sdk.LogItem{it}
		})},
		{name: "long lines cut", fails: "log-long-line", broken: texts(func(b []byte) []byte { return b[:min(len(b), 128<<10)] })},
		{name: "the last lines lost", fails: "log-many-lines", broken: drop("line 9999\n")},
		{name: "output made up", fails: "log-empty", broken: entries(func(b *broken, r sdk.JobLogsRequest, it sdk.LogItem) []sdk.LogItem {
			if it.Entry != nil {
				b.count("output " + r.Handle.ID)
			}
			if it.End != nil && r.Follow && r.Cursor == nil && !b.seen("output "+r.Handle.ID) {
				return []sdk.LogItem{{Entry: &sdk.LogChunk{Stream: sdk.StreamSystem, Data: []byte("no output\n"), LineEnd: sdk.LineEndKept}}, it}
			}
			return []sdk.LogItem{it}
		})},
		{name: "no log yet is an error", fails: "log-early", broken: broken{
			logs: func(b *broken, ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
				return func(yield func(sdk.LogItem, error) bool) {
					any := r.Follow || r.Cursor != nil
					for it, err := range need(b.good, sdk.Logger()).JobLogs(ctx, r) {
						any = any || it.Entry != nil || err != nil
						if !any && it.End != nil && it.End.Verdict != sdk.VerdictComplete {
							yield(sdk.LogItem{}, sdk.Errorf(sdk.NotFound, "read job logs", "no log"))
							return
						}
						if !yield(it, err) {
							return
						}
					}
				}
			}}},
		{name: "nothing before the end", fails: "log-follow log-break", broken: broken{
			logs: func(b *broken, ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
				return func(yield func(sdk.LogItem, error) bool) {
					for r.Follow {
						st, err := need(b.good, sdk.Runner()).JobStatus(ctx, sdk.JobStatusRequest{Handle: r.Handle})
						if err != nil || st.State.Terminal() {
							break
						}
						if !bytes.Contains(b.cloud.Describe(r.Handle.ID), []byte(`"output"`)) && !bytes.Contains(b.cloud.Describe(r.Handle.ID), []byte(`"lines"`)) {
							break
						}
						time.Sleep(time.Millisecond) //sleep: what the double does wrong
					}
					need(b.good, sdk.Logger()).JobLogs(ctx, r)(yield)
				}
			}}},
		{name: "complete without proof", fails: "log-end", broken: entries(func(_ *broken, _ sdk.JobLogsRequest, it sdk.LogItem) []sdk.LogItem {
			if it.End != nil {
				it.End = &sdk.LogEnd{Verdict: sdk.VerdictComplete}
			}
			return []sdk.LogItem{it}
		})},
		{name: "cursors restart", fails: "log-resume", broken: broken{
			logs: func(b *broken, ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
				r.Cursor = nil
				return need(b.good, sdk.Logger()).JobLogs(ctx, r)
			}}},
		{name: "a log leaks", fails: "log-break", broken: broken{
			logs: func(b *broken, ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
				return func(yield func(sdk.LogItem, error) bool) {
					if r.Follow {
						go time.Sleep(time.Hour) //sleep: what the double does wrong
					}
					need(b.good, sdk.Logger()).JobLogs(ctx, r)(yield)
				}
			}}},
		{name: "a cancelled job's log dropped", fails: "log-cancelled", broken: drop("before\n")},
	}
}

func otherMistakes() []mistake {
	lists := func(f func(b *broken, r *sdk.ListOwnedRequest, o *sdk.OwnedObject)) broken {
		return broken{list: func(b *broken, ctx context.Context, r sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
			f(b, &r, &sdk.OwnedObject{})
			return func(yield func(sdk.OwnedObject, error) bool) {
				for o, err := range need(b.good, sdk.Lister()).ListOwned(ctx, r) {
					f(b, &r, &o)
					if !yield(o, err) {
						return
					}
				}
			}
		}}
	}
	return []mistake{
		{name: "batch misaligned", fails: "batch", broken: broken{
			batch: func(b *broken, ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
				res, err := need(b.good, sdk.Batcher()).JobStatuses(ctx, r)
				slices.Reverse(res.Items)
				return res, err
			}}},
		{name: "too large a batch", fails: "batch-limits", settings: fake.Settings{BatchMax: 8}, broken: broken{
			batch: func(b *broken, ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
				r.Handles = r.Handles[:min(len(r.Handles), 8)]
				return need(b.good, sdk.Batcher()).JobStatuses(ctx, r)
			}}},
		{name: "a watch that tells nothing", fails: "watch", broken: broken{
			watch: func(b *broken, ctx context.Context, r sdk.WatchJobsRequest) iter.Seq2[sdk.WatchEvent, error] {
				return func(yield func(sdk.WatchEvent, error) bool) {
					for e, err := range need(b.good, sdk.Watcher()).WatchJobs(ctx, r) {
						if err != nil && !yield(e, err) {
							return
						}
					}
				}
			}}},
		{name: "nothing is live", fails: "owned-list", broken: lists(func(_ *broken, _ *sdk.ListOwnedRequest, o *sdk.OwnedObject) { o.Live = false })},
		{name: "a list leaks", fails: "owned-break", broken: lists(func(_ *broken, r *sdk.ListOwnedRequest, o *sdk.OwnedObject) {
			if r.Owner == "" && o.ID == "" {
				go time.Sleep(time.Hour) //sleep: what the double does wrong
			}
		})},
		{name: "removed in spite of its labels", fails: "owned-remove", broken: broken{
			remove: func(b *broken, ctx context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
				_, err := need(b.good, sdk.Lister()).RemoveOwned(ctx, r)
				if errors.Is(err, sdk.FailedPrecondition) {
					b.cloud.Vanish(r.Object.ID)
					err = nil
				}
				return sdk.RemoveOwnedResult{}, err
			}}},
		{name: "all owners listed", fails: "owned-foreign", broken: lists(func(_ *broken, r *sdk.ListOwnedRequest, _ *sdk.OwnedObject) {
			if r.Owner == "suite" {
				r.Owner = ""
			}
		})},
		{name: "expiry stays", fails: "renew", broken: broken{
			renew: func(b *broken, ctx context.Context, r sdk.RenewExpiryRequest) (sdk.RenewExpiryResult, error) {
				r.Expires = r.Expires.Add(-time.Hour)
				return need(b.good, sdk.Renewer()).RenewExpiry(ctx, r)
			}}},
		{name: "one line of a secret", fails: "secret-delivered", driver: func(d *sdk.Driver) {
			open := d.Open
			d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
				r.Secrets = firstLine{r.Secrets}
				return open(ctx, r)
			}
		}},
		secretInHandle(),
		{name: "a missing secret left out", fails: "secret-missing", broken: broken{
			run: func(b *broken, ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
				res, err := need(b.good, sdk.Runner()).RunJob(ctx, r)
				if errors.Is(err, sdk.NotFound) {
					r.Launch.Secrets = nil
					return need(b.good, sdk.Runner()).RunJob(ctx, r)
				}
				return res, err
			}}},
		{name: "visible secrets not refused", fails: "secret-visible", settings: settings(func(g *sdk.Guarantees) { g.Secrets = sdk.SecretVisibleEnv }),
			broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) { r.Spec.AllowVisibleSecret = true })},
		{name: "an ended context not looked at", fails: "context-ended", broken: broken{
			run: func(b *broken, ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
				if ctx.Err() != nil {
					ctx = context.WithoutCancel(ctx)
				}
				return need(b.good, sdk.Runner()).RunJob(ctx, r)
			}}},
		{name: "deaf to its context", fails: "context-blocked", broken: broken{
			status: func(b *broken, ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
				if ctx.Err() == nil {
					ctx = context.WithoutCancel(ctx)
				}
				return need(b.good, sdk.Runner()).JobStatus(ctx, r)
			}}},
		{name: "429 taken for an outage", fails: "throttled", broken: broken{
			status: func(b *broken, ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
				st, err := need(b.good, sdk.Runner()).JobStatus(ctx, r)
				if errors.Is(err, sdk.ResourceExhausted) {
					err = sdk.Errorf(sdk.Unavailable, "read job status", "429")
				}
				return st, err
			}}},
		{name: "handles mixed up", fails: "concurrent", broken: mixed()},
	}
}

// secretInHandle puts a secret, in base64, where handles are kept.
func secretInHandle() mistake {
	var resolver sdk.SecretResolver
	m := mistake{name: "secret in the handle", fails: "secret-hidden"}
	m.driver = func(d *sdk.Driver) {
		open := d.Open
		d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
			if r.Secrets != nil {
				resolver = r.Secrets
			}
			return open(ctx, r)
		}
	}
	m.broken = handles(func(_ *broken, r sdk.RunJobRequest, res *sdk.RunJobResult) {
		for _, ref := range r.Launch.Secrets {
			if v, err := resolver.ResolveSecret(context.Background(), ref); err == nil {
				res.Handle.Metadata["note"] = base64.StdEncoding.EncodeToString(append([]byte("x"), v.Reveal()...))
			}
		}
	})
	return m
}

// mixed keeps the handle in a place that all calls share.
func mixed() broken {
	var mu sync.Mutex
	var last sdk.RunJobResult
	return handles(func(_ *broken, _ sdk.RunJobRequest, res *sdk.RunJobResult) {
		mu.Lock()
		last = *res
		mu.Unlock()
		time.Sleep(time.Millisecond) //sleep: what the double does wrong
		mu.Lock()
		*res = last
		mu.Unlock()
	})
}

// firstLine resolves secrets and loses all but their first line.
type firstLine struct{ sdk.SecretResolver }

func (f firstLine) ResolveSecret(ctx context.Context, ref sdk.SecretRef) (sdk.SecretValue, error) {
	v, err := f.SecretResolver.ResolveSecret(ctx, ref)
	line, _, _ := bytes.Cut(v.Reveal(), []byte{'\n'})
	return sdk.NewSecretValue(line), err
}

// TestStandardLibraryAlone keeps the dependencies of plugin authors to none.
func TestStandardLibraryAlone(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./...").Output()
	if err != nil {
		t.Skipf("go list: %v", err)
	}
	for _, p := range strings.Fields(string(out)) {
		if p != "github.com/windlass-run/windlass/sdk" && !strings.HasPrefix(p, "github.com/windlass-run/windlass/sdk/providertest") {
			t.Errorf("%s is imported; standard library only", p)
		}
	}
}
