package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

type logsOptions struct {
	f          *Factory
	ref        string
	on         string
	follow     bool
	timestamps bool
	json       bool
	showCursor bool
	since      string
	tail       string
	cursor     string
	streams    []string
}

func newLogs(f *Factory, runF func(context.Context, *logsOptions) error) *cobra.Command {
	o := &logsOptions{f: f}
	cmd := &cobra.Command{
		Use:   "logs RUN",
		Short: "Show what a run wrote",
		Long: `Show the captured output of a run: what it wrote to stdout on stdout and to
stderr on stderr, byte for byte. With -f it starts before the job does and ends
when the run does, over all attempts. What the platform itself wrote into the
output, such as Argo's executor, is the stream system: windlass logs shows it on
stderr, windlass run and step run leave it in the record.

A cursor is a place in the output. --show-cursor prints the last one on stderr,
every line of --json has one, and --cursor goes on there: every later byte comes
once.`,
		Example: `  windlass logs -f nightly
  windlass logs --since 10m --timestamps --stream stderr nightly
  windlass logs --tail 20 nightly`,
		Annotations: map[string]string{streamAnnotation: "-"},
		Args:        exactly(1, "RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			fo, err := o.read()
			if err != nil {
				return usageOf(cmd, err)
			}
			return o.run(cmd.Context(), fo)
		},
		ValidArgsFunction: f.completeRuns(false, nil),
	}
	fs := cmd.Flags()
	fs.BoolVarP(&o.follow, "follow", "f", false, "go on until the run has ended")
	fs.StringVar(&o.since, "since", "", "only what was written since this `time`: 10m, 2026-01-31T15:04:05Z")
	fs.StringVarP(&o.tail, "tail", "n", "all", "only the last `number` of lines")
	fs.BoolVarP(&o.timestamps, "timestamps", "t", false, "put the time before each line")
	fs.StringArrayVar(&o.streams, "stream", nil, "only this `stream`: stdout, stderr, combined or system; may be repeated")
	fs.StringVar(&o.cursor, "cursor", "", "go on at this `place`")
	fs.BoolVar(&o.showCursor, "show-cursor", false, "print the place behind the last byte on stderr")
	fs.StringVar(&o.on, "on", "", "read from this `provider` by the run's labels, without the ledger")
	fs.BoolVar(&o.json, "json", false, "print a line of JSON for each piece of output")
	complete(cmd, "on", f.completeProviders)
	complete(cmd, "stream", fixed(string(sdk.StreamStdout), string(sdk.StreamStderr), string(sdk.StreamCombined), string(sdk.StreamSystem)))
	return cmd
}

func (o *logsOptions) read() (control.FollowOptions, error) {
	fo := control.FollowOptions{Follow: o.follow}
	if o.since != "" {
		t, err := parseSince(o.since, o.f.Now())
		if err != nil {
			return fo, fmt.Errorf("--since: %w", err)
		}
		fo.Since = t
	}
	if o.tail != "all" {
		n, err := strconv.Atoi(o.tail)
		if err != nil || n < 0 {
			return fo, fmt.Errorf("--tail: %q is neither a number of lines nor all", o.tail)
		}
		fo.Tail = joblog.Lines(n)
	}
	for _, s := range o.streams {
		switch st := sdk.Stream(s); st {
		case sdk.StreamStdout, sdk.StreamStderr, sdk.StreamCombined, sdk.StreamSystem:
			fo.Streams = append(fo.Streams, st)
		default:
			return fo, fmt.Errorf("--stream: %q is none of stdout, stderr, combined, system", s)
		}
	}
	if o.cursor != "" {
		p, err := joblog.ParsePosition(o.cursor)
		if err != nil {
			return fo, fmt.Errorf("--cursor: %w", err)
		}
		fo.From, fo.Attempt = p, p.Attempt()
	}
	if o.on != "" && (o.since != "" || o.cursor != "" || fo.Tail != nil || o.showCursor) {
		return fo, fmt.Errorf("--on: reads the provider's own copy, which --since, --tail and cursors don't work on")
	}
	return fo, nil
}

func (o *logsOptions) run(ctx context.Context, fo control.FollowOptions) error {
	if o.on != "" {
		return o.remote(ctx, fo.Streams)
	}
	s, run, err := o.f.look(ctx, o.ref)
	if err != nil {
		return err
	}
	if o.follow {
		if err := o.f.attend(ctx, s, run); err != nil {
			return &runError{run.ID, err}
		}
		defer s.mind(ctx, run.ID)()
		defer o.f.heed(ctx, s, run)()
	}
	out := newSink(o.f.Streams, run.ID, o.json)
	out.system = true
	out.render.Timestamps = o.timestamps
	cursor, whole := fo.From, false
	for it, err := range s.Engine.Follow(ctx, run.ID, fo) {
		if err != nil {
			return &runError{run.ID, fmt.Errorf("logs of run %s: %w", run.ID.Short(), err)}
		}
		if err := out.item(it); err != nil {
			return err
		}
		cursor, whole = it.Pos, it.End != nil
		if out.outGone && out.errGone {
			break
		}
	}
	if !o.follow && !whole && run.State.Terminal() && !settled(run) {
		o.f.Streams.note("run %s has ended, and its output is still being fetched from %s: more may come; windlass logs -f %s waits for all of it", run.ID.Short(), run.Provider, run.ID.Short())
	}
	if o.showCursor {
		o.f.Streams.fresh()
		_, err = fmt.Fprintln(o.f.Streams.Err, "cursor: "+cursor.String())
	}
	return err
}

// settled reports whether the output of a run that has ended is all there will be.
func settled(r ledger.Run) bool { return r.Verdict != "" || r.Phase.Final() || !r.Open() }

// remote reads the provider's own copy.
func (o *logsOptions) remote(ctx context.Context, only []sdk.Stream) error {
	id, err := parseRunID(o.ref)
	if err != nil {
		return err
	}
	s, err := o.f.open(ctx)
	if err != nil {
		return err
	}
	out := newSink(o.f.Streams, id, o.json)
	out.system = true
	out.render.Timestamps = o.timestamps
	for it, err := range s.Engine.RemoteLogs(ctx, o.on, id, o.follow) {
		if err != nil {
			return &runError{id, fmt.Errorf("logs of run %s: %w", id.Short(), err)}
		}
		if it.Entry != nil && len(only) > 0 && !hasStream(only, it.Entry.Stream) {
			continue
		}
		var item control.FollowItem
		item.Entry, item.Gap, item.End = it.Entry, it.Gap, it.End
		if err := out.item(item); err != nil {
			return err
		}
	}
	return nil
}

func hasStream(list []sdk.Stream, s sdk.Stream) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// parseRunID reads the full ID that finding by labels needs.
func parseRunID(ref string) (sdk.ID, error) {
	id, err := sdk.ParseID(ref)
	if err != nil {
		return id, &sdk.Error{Code: sdk.InvalidArgument, Op: "find run", ID: idNeedFullID, Remedy: "give all 26 characters, as windlass run -d prints them",
			Err: fmt.Errorf("%q is no full ID, which --on needs", ref)}
	}
	return id, nil
}

// pause waits for a moment, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
