package providertest

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

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
				return []sdk.LogItem{{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, Data: []byte("no output\n"), LineEnd: sdk.LineEndKept}}, it}
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
		{name: "looks kept quiet", fails: "log-looks", settings: settings(func(g *sdk.Guarantees) {
			g.Logs.EndProven, g.Logs.Looks, g.Logs.Settle = false, true, sdk.LogSettle{Quiet: time.Second, Max: time.Minute}
		}), broken: entries(func(_ *broken, _ sdk.JobLogsRequest, it sdk.LogItem) []sdk.LogItem {
			if it == (sdk.LogItem{}) {
				return nil
			}
			return []sdk.LogItem{it}
		})},
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
