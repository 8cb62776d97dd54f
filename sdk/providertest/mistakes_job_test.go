package providertest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

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
			if r.Grace != nil && *r.Grace == 6*time.Second {
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
