package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
)

type svcExecOptions struct {
	f *Factory
	changeFlags
	instance, container string
	stdin, tty, record  bool
	shell               bool
}

// idExecUnknown is the ID of a command whose end isn't known.
const idExecUnknown = "svc.exit-unknown"

// execOutputMost bounds what --json keeps of each output.
const execOutputMost = 1 << 20

func newSvcExec(f *Factory, runF func(context.Context, *svcExecOptions, string, []string) error) *cobra.Command {
	o := &svcExecOptions{f: f}
	cmd := &cobra.Command{
		Use:   "exec TARGET -- COMMAND [ARG...]",
		Short: "Run a command inside an instance of a live workload",
		Long: `Run a command inside an instance and end with its exit code. A code that the
provider doesn't tell, as when the connection breaks, is 125 with the reason, never
0. The command is a row of the ledger before it is sent.

The words reach the command as a list that no shell re-reads; --shell hands them as
one line to the container's /bin/sh -c. Some providers take one string and tell no
exit code (aws-ecs, azure-aci): there --shell, or a shell under exec_shell in the
provider's config, is what makes the exit code known.

With -t the command has this terminal: keys go as they are typed, Ctrl-C too, and a
change of the terminal's size follows. Without it the first Ctrl-C goes to the command
where the provider passes signals on, and else leaves it; the second always leaves.
--record keeps what the command writes, which windlass logs shows; what is typed is in
it only as far as a terminal echoes it.`,
		Example: "  windlass svc exec api -- ls /data\n  windlass svc exec -i api -- sh < script.sh\n  windlass svc exec -t --record api -- sh\n  windlass svc exec --shell api -- 'ls /data | wc -l'",
		Args:    atLeast(2, "TARGET or COMMAND"),
		RunE: func(cmd *cobra.Command, args []string) error {
			// Flags end at the target, so that the command may have some of its own.
			command := args[1:]
			if command[0] == "--" {
				command = command[1:]
			}
			if len(command) == 0 {
				return usagef(cmd, "COMMAND is missing")
			}
			if args[1] != "--" && strings.HasPrefix(command[0], "-") {
				return usagef(cmd, "%s: flags come before TARGET; what stands behind it is the command", command[0])
			}
			if o.shell {
				command = []string{"/bin/sh", "-c", strings.Join(command, " ")}
			}
			if err := o.check(cmd.Flags()); err != nil {
				return usageOf(cmd, err)
			}
			if o.tty && o.json {
				return usagef(cmd, "--json: what a terminal shows isn't collected; leave -t out")
			}
			if runF != nil {
				return runF(cmd.Context(), o, args[0], command)
			}
			return o.run(cmd.Context(), args[0], command)
		},
		ValidArgsFunction: f.completeWorkloads,
	}
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	fs.StringVar(&o.instance, "instance", "", "the `instance`, as svc status prints it; unset is any that is ready")
	fs.StringVar(&o.container, "container", "", "the `container` of the instance; unset is the first")
	fs.BoolVar(&o.shell, "shell", false, "join the words to one line for the container's /bin/sh -c")
	fs.BoolVarP(&o.stdin, "interactive", "i", false, "pass standard input on")
	fs.BoolVarP(&o.tty, "tty", "t", false, "give the command this terminal, with standard input")
	fs.BoolVar(&o.record, "record", false, "keep what the command writes, for windlass logs")
	fs.IntVar(&o.expectReplicas, "expect-replicas", unset, "refuse unless so `many` replicas are wanted at the moment")
	fs.StringVar(&o.expectGeneration, "expect-generation", "", "refuse unless this is the `generation` at the moment")
	fs.BoolVar(&o.dryRun, "dry-run", false, "show the call that would be made; makes none and writes no row")
	fs.BoolVar(&o.json, "json", false, "print JSON, with the output in base64, at most 1 MiB of each")
	o.timeout = defaultWait
	return cmd
}

// ExecView is the end of a command inside an instance.
type ExecView struct {
	Target    string            `json:"target" doc:"PROVIDER/PATH."`
	Run       string            `json:"run,omitzero" doc:"ID of the ledger's row; none for a dry run."`
	Instance  string            `json:"instance" doc:"Where it ran."`
	ExitCode  *int              `json:"exit_code" doc:"The command's own exit code; null when it isn't known."`
	Why       string            `json:"why,omitzero" doc:"Why no exit code is known."`
	Stdout    []byte            `json:"stdout,omitzero" doc:"What it wrote to stdout, in base64."`
	Stderr    []byte            `json:"stderr,omitzero" doc:"What it wrote to stderr, in base64."`
	Truncated bool              `json:"truncated,omitzero" doc:"It wrote more than is kept here."`
	Calls     []sdk.PlannedCall `json:"calls,omitzero" doc:"The calls of a dry run."`
}

func (o *svcExecOptions) run(ctx context.Context, ref string, command []string) error {
	w, t, err := o.f.workload(ctx, ref)
	if err != nil {
		return err
	}
	r := control.ExecRequest{Session: sdk.ExecWorkloadRequest{Instance: o.instance, Container: o.container, Command: command}}
	if r.ChangeRequest, err = o.request(o.f, t); err != nil {
		return err
	}
	s := o.f.Streams
	out, errs := &bounded{}, &bounded{}
	r.Session.Stdout, r.Session.Stderr = s.Out, s.Err
	if o.json {
		r.Session.Stdout, r.Session.Stderr = out, errs
	}
	if o.stdin {
		r.Session.Stdin = s.In
	}
	r.Record = o.record
	x, err := o.session(ctx, w, t, r)
	if err != nil {
		return rowError(control.Change{Row: x.Row}, err)
	}
	if o.record && !o.dryRun && x.Verdict != sdk.VerdictComplete {
		s.note("not all that the command wrote could be kept: windlass logs %s shows what was", x.Row.ID.Short())
	}
	if o.json {
		v := ExecView{Target: t.String(), Instance: x.Result.Instance, ExitCode: x.Result.ExitCode, Why: x.Result.Why, Stdout: out.b.Bytes(), Stderr: errs.b.Bytes(),
			Truncated: out.cut || errs.cut, Calls: x.Result.Calls}
		if !x.Row.ID.IsZero() {
			v.Run = x.Row.ID.String()
		}
		if err := writeJSON(s.Out, v); err != nil {
			return err
		}
	} else if o.dryRun {
		return printCalls(s, sdk.OpResult{Changed: true, Calls: x.Result.Calls})
	}
	switch {
	case o.dryRun:
		return nil
	case x.Result.ExitCode != nil:
		return withExit(expressible(*x.Result.ExitCode))
	case o.json:
		return exitError{ExitWindlass}
	}
	return &runError{x.Row.ID, &sdk.Error{Code: sdk.Unknown, Op: "exec in " + t.String(), ID: idExecUnknown, Err: errors.New("no exit code is known: " + x.Result.Why)}}
}

// session runs the command, with this terminal or with signals passed on.
func (o *svcExecOptions) session(ctx context.Context, w *control.WorkloadRuntime, t sdk.Target, r control.ExecRequest) (x control.Exec, err error) {
	switch {
	case o.dryRun:
		if o.tty {
			columns, rows := o.f.Streams.size()
			r.Session.Terminal = &sdk.TerminalSize{Columns: columns, Rows: rows}
		}
	case o.tty:
		giveBack, openErr := o.openTerminal(&r.Session)
		if openErr != nil {
			return x, openErr
		}
		defer func() { err = errors.Join(err, giveBack()) }()
	default:
		within, done, openErr := o.passSignals(ctx, w, t, &r.Session)
		if openErr != nil {
			return x, openErr
		}
		defer done()
		ctx = within
	}
	return w.Exec(ctx, r)
}

// bounded keeps the first bytes of an output.
type bounded struct {
	b   bytes.Buffer
	cut bool
}

var _ io.Writer = (*bounded)(nil)

// Write keeps what fits and takes all.
func (b *bounded) Write(p []byte) (int, error) {
	room := execOutputMost - b.b.Len()
	b.cut = b.cut || len(p) > room
	b.b.Write(p[:min(len(p), room)])
	return len(p), nil
}

type svcLogsOptions struct {
	f           *Factory
	ref         string
	instance    string
	since, tail string
	follow      bool
	bare        bool
	timestamps  bool
	json        bool
}

func newSvcLogs(f *Factory, runF func(context.Context, *svcLogsOptions) error) *cobra.Command {
	o := &svcLogsOptions{f: f}
	cmd := &cobra.Command{
		Use:   "logs TARGET",
		Short: "Show what the instances of a live workload write",
		Long: `Show the output of all instances, or of one, with the instance before each line.
With -f it goes on through restarts and replacements until it is interrupted.`,
		Example:     "  windlass svc logs -f api\n  windlass svc logs --since 10m --instance api-2-0 api",
		Annotations: map[string]string{streamAnnotation: "-"},
		Args:        exactly(1, "TARGET"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			r, err := o.read()
			if err != nil {
				return usageOf(cmd, err)
			}
			return o.run(cmd.Context(), r)
		},
		ValidArgsFunction: f.completeWorkloads,
	}
	fs := cmd.Flags()
	fs.BoolVarP(&o.follow, "follow", "f", false, "go on with what is written later")
	fs.StringVar(&o.instance, "instance", "", "only the output of this `instance`")
	fs.StringVar(&o.since, "since", "", "only what was written since this `time`: 10m, 2026-01-31T15:04:05Z")
	fs.StringVarP(&o.tail, "tail", "n", "all", "only the last `number` of lines of each instance")
	fs.BoolVarP(&o.timestamps, "timestamps", "t", false, "put the time before each line")
	fs.BoolVar(&o.bare, "no-prefix", false, "leave the instance out")
	fs.BoolVar(&o.json, "json", false, "print a line of JSON for each piece of output")
	return cmd
}

func (o *svcLogsOptions) read() (sdk.TailLogsRequest, error) {
	r := sdk.TailLogsRequest{Instance: o.instance, Follow: o.follow}
	if o.since != "" {
		t, err := parseSince(o.since, o.f.Now())
		if err != nil {
			return r, fmt.Errorf("--since: %w", err)
		}
		r.Since = t
	}
	if o.tail != "all" {
		n, err := strconv.Atoi(o.tail)
		if err != nil || n < 0 {
			return r, fmt.Errorf("--tail: %q is neither a number of lines nor all", o.tail)
		}
		r.Tail = &n
	}
	return r, nil
}

func (o *svcLogsOptions) run(ctx context.Context, r sdk.TailLogsRequest) error {
	w, t, err := o.f.workload(ctx, o.ref)
	if err != nil {
		return err
	}
	p := &instancePrinter{s: o.f.Streams, bare: o.bare, timestamps: o.timestamps}
	for it, err := range w.Logs(ctx, t, r) {
		if err != nil {
			return err
		}
		if o.json {
			err = encode(o.f.Streams.Out, instanceEvent(it), false)
		} else {
			err = p.print(it)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func instanceEvent(it sdk.WorkloadLogItem) Event {
	e := Event{Event: eventOutput, Instance: it.Instance}
	switch {
	case it.Entry != nil:
		e.Time, e.Stream, e.Data, e.LineEnd, e.Launch = timeOrNil(it.Entry.Time), it.Entry.Stream, it.Entry.Data, it.Entry.LineEnd, it.Entry.Launch
	case it.Gap != nil:
		e.Event, e.Time, e.Bytes, e.Message = eventGap, timeOrNil(it.Gap.From), it.Gap.Bytes, it.Gap.Why
	}
	return e
}

// instancePrinter shows the output of several instances: whole lines keep their
// instance, and one that another cuts off gets an end.
type instancePrinter struct {
	s                *Streams
	bare, timestamps bool
	// open is the instance and stream whose line has no end yet.
	open string
	buf  bytes.Buffer
}

func (p *instancePrinter) print(it sdk.WorkloadLogItem) error {
	if it.Gap != nil {
		p.s.note("%s: output is missing here%s: %s", it.Instance, bytesWords(it.Gap.Bytes), it.Gap.Why)
		return nil
	}
	e := it.Entry
	if e == nil {
		return nil
	}
	key := it.Instance + "\x00" + string(e.Stream)
	p.buf.Reset()
	if p.open != "" && p.open != key {
		p.buf.WriteByte('\n')
		p.open = ""
	}
	data := e.Data
	if e.LineEnd == sdk.LineEndStripped {
		data = append(bytes.Clone(data), '\n')
	}
	for line := range bytes.Lines(data) {
		if p.open == "" {
			p.head(it)
		}
		p.buf.Write(line)
		p.open = key
		if line[len(line)-1] == '\n' {
			p.open = ""
		}
	}
	w := p.s.Out
	if e.Stream == sdk.StreamStderr {
		w = p.s.Err
	}
	_, err := w.Write(p.buf.Bytes())
	return err
}

// head begins a line.
func (p *instancePrinter) head(it sdk.WorkloadLogItem) {
	if p.timestamps && !it.Entry.Time.IsZero() {
		p.buf.WriteString(it.Entry.Time.UTC().Format("2006-01-02T15:04:05.000Z") + " ")
	}
	if !p.bare {
		p.buf.WriteString("[" + clean(it.Instance) + "] ")
	}
}
