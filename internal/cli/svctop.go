package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/telemetry"
	"github.com/windlass-run/windlass/sdk"
)

type svcTopOptions struct {
	f        *Factory
	on       []string
	refs     []string
	interval time.Duration
	sort     string
	once     bool
	json     bool
	listen   string
}

const (
	// leastInterval keeps looks from being all that a provider does.
	leastInterval = 200 * time.Millisecond
	// stillTime is how long --once waits for what hasn't been measured yet.
	stillTime = 10 * time.Second
)

// idNoWorkloads is the ID of having nothing to show.
const idNoWorkloads = "svc.none"

func newSvcTop(f *Factory, runF func(context.Context, *svcTopOptions) error) *cobra.Command {
	o := &svcTopOptions{f: f}
	cmd := &cobra.Command{
		Use:   "top [TARGET...]",
		Short: "Show what live workloads use, and what happens to them",
		Long: `Show CPU, memory, network, restarts and replicas of live workloads: of all
providers side by side, of those that --on names, or of the targets that are given.
On a terminal the picture is renewed until Ctrl-C. In a pipe, and with --once, it is
printed once, when everything has been measured or 10 seconds have passed.

CPU is in thousandths of a core (m) over the time since the sample before, network
in bytes a second. A dash is what the provider doesn't tell; "warming" is what isn't
measured yet. Neither is ever shown as zero.

--json prints a line for each sample, count and event. --listen serves the same to
Prometheus under /metrics; whoever reaches the address can read it.`,
		Example: `  windlass svc top
  windlass svc top --on prod --sort memory
  windlass svc top --json api | jq -r 'select(.event == "restarted") | .instance'
  windlass svc top --listen 127.0.0.1:9464`,
		Annotations: map[string]string{streamAnnotation: "-"},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.refs = args
			if err := o.check(cmd.Context()); err != nil {
				return usageOf(cmd, err)
			}
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
		ValidArgsFunction: f.completeWorkloads,
	}
	fs := cmd.Flags()
	fs.StringArrayVar(&o.on, "on", nil, "only the workloads of this `provider`; may be repeated")
	fs.DurationVar(&o.interval, "interval", time.Second, "`time` between two samples; a provider may have fewer")
	fs.StringVar(&o.sort, "sort", sortName, "`order` of workloads and instances: name, cpu, memory or restarts")
	fs.BoolVar(&o.once, "once", false, "print the picture once")
	fs.BoolVar(&o.json, "json", false, "print a line of JSON for each sample, count and event")
	fs.StringVar(&o.listen, "listen", "", "serve Prometheus on this `address`, HOST:PORT")
	complete(cmd, "on", f.completeProviders)
	complete(cmd, "sort", cobra.FixedCompletions(sorts(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *svcTopOptions) check(ctx context.Context) error {
	switch {
	case o.interval < leastInterval:
		return fmt.Errorf("--interval %s: it is %s or more", o.interval, leastInterval)
	case !slices.Contains(sorts(), o.sort):
		return fmt.Errorf("--sort %q: it is name, cpu, memory or restarts", o.sort)
	case len(o.refs) > 0 && len(o.on) > 0:
		return errors.New("--on: targets name their providers; leave one of them out")
	case o.once && (o.json || o.listen != "") || o.json && o.listen != "":
		return errors.New("--once, --json and --listen are three ways to show it; give one of them")
	case o.listen != "":
		if err := checkListen(ctx, o.listen); err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
	}
	return nil
}

func (o *svcTopOptions) run(ctx context.Context) error {
	w, err := o.f.workloads(ctx)
	if err != nil {
		return err
	}
	l, err := o.sources(ctx, w)
	if err != nil {
		return err
	}
	stream := func(ctx context.Context) iter.Seq[telemetry.Item] {
		return telemetry.Stream(ctx, l.sources, telemetry.Options{Interval: o.interval})
	}
	switch {
	case o.json:
		for it := range stream(ctx) {
			if err := encode(o.f.Streams.Out, topEvent(it), false); err != nil {
				return err
			}
		}
		return nil
	case o.listen != "":
		return o.serve(ctx, stream)
	}
	p := &picture{s: o.f.Streams, sort: o.sort}
	if o.once || !o.f.Streams.OutTerminal {
		return o.still(ctx, stream, l, p)
	}
	return o.live(ctx, stream, p)
}

// topSources are the sources, and what their listings have said.
type topSources struct {
	sources []telemetry.Source

	mu sync.Mutex
	// paths are nil until the first listing; failed is its error.
	paths  map[string][]sdk.WorkloadPath
	failed map[string]bool
}

// sources groups what is to be shown by providers.
func (o *svcTopOptions) sources(ctx context.Context, w *control.WorkloadRuntime) (*topSources, error) {
	l := &topSources{paths: map[string][]sdk.WorkloadPath{}, failed: map[string]bool{}}
	if len(o.refs) > 0 {
		chosen := map[string][]sdk.WorkloadPath{}
		var names []string
		for _, ref := range o.refs {
			t, err := w.Resolve(ctx, ref)
			if err != nil {
				return nil, err
			}
			if chosen[t.Provider] == nil {
				names = append(names, t.Provider)
			}
			if !slices.Contains(chosen[t.Provider], t.Path) {
				chosen[t.Provider] = append(chosen[t.Provider], t.Path)
			}
		}
		for _, name := range names {
			if err := l.add(ctx, w, name, func(context.Context) ([]sdk.WorkloadPath, error) { return chosen[name], nil }); err != nil {
				return nil, err
			}
		}
		return l, nil
	}
	names := o.on
	if len(names) == 0 {
		names = w.Providers()
	}
	for _, name := range names {
		able, err := w.Able(ctx, name, sdk.Workloads().String())
		switch {
		case err != nil && len(o.on) > 0:
			return nil, err
		case err == nil && !able && len(o.on) == 0:
			continue // it has no workloads, which nobody asked it for
		}
		err = l.add(ctx, w, name, func(ctx context.Context) ([]sdk.WorkloadPath, error) {
			found := w.ListAll(ctx, []string{name}, "")[0]
			var paths []sdk.WorkloadPath
			for _, x := range found.Workloads {
				paths = append(paths, x.Target.Path)
			}
			return paths, found.Err
		})
		if err != nil && len(o.on) > 0 {
			return nil, err
		}
	}
	if len(l.sources) == 0 {
		return nil, &sdk.Error{Code: sdk.FailedPrecondition, Op: "watch workloads", ID: idNoWorkloads, Err: errors.New("no provider that is configured operates live workloads"),
			Remedy: "`windlass provider ls --kinds` lists the kinds, docs/providers.md what each can do"}
	}
	return l, nil
}

// add adds a provider's source. Its error is of a provider that can't be opened; the
// source tells it too, so that one broken provider doesn't hide the others.
func (l *topSources) add(ctx context.Context, w *control.WorkloadRuntime, name string, list func(context.Context) ([]sdk.WorkloadPath, error)) error {
	s := telemetry.Source{Provider: name, List: func(ctx context.Context) ([]sdk.WorkloadPath, error) {
		paths, err := list(ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.failed[name] = err != nil; err == nil {
			l.paths[name] = slices.Concat([]sdk.WorkloadPath{}, paths)
		}
		return paths, err
	}}
	measures, err := w.Able(ctx, name, sdk.WorkloadMetrics().String())
	if measures {
		s.Metrics = func(ctx context.Context, r sdk.StreamMetricsRequest) iter.Seq2[sdk.MetricItem, error] {
			return w.Metrics(ctx, name, r)
		}
	}
	if looks, _ := w.Able(ctx, name, sdk.WorkloadStates().String()); looks {
		s.Status = func(ctx context.Context, p sdk.WorkloadPath) (sdk.DeploymentStatus, error) {
			return w.Status(ctx, sdk.Target{Provider: name, Path: p})
		}
	}
	l.sources = append(l.sources, s)
	return err
}

// settled reports whether everything that is listed has been looked at and measured,
// as far as its provider can.
func (l *topSources) settled(t *telemetry.Table) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows := map[sdk.Target]telemetry.Workload{}
	for _, w := range t.Workloads() {
		rows[w.Target] = w
	}
	unknown := t.Unknown()
	for _, s := range l.sources {
		paths, answered := l.paths[s.Provider]
		// A listing that failed has told so here before it has told the table.
		if !answered && (!l.failed[s.Provider] || unknown[s.Provider] == "") {
			return false
		}
		for _, p := range paths {
			w := rows[sdk.Target{Provider: s.Provider, Path: p}]
			if w.Unknown != "" {
				continue
			}
			if s.Status != nil && w.Counts == nil || s.Metrics != nil && !measured(w) {
				return false
			}
		}
	}
	return true
}

// measured reports whether every instance has a sample; one with none to be
// measured has.
func measured(w telemetry.Workload) bool {
	if c := w.Counts; c != nil && len(c.Instances) == 0 {
		return true
	}
	for _, in := range w.Instances {
		if in.Sample == nil {
			return false
		}
	}
	return len(w.Instances) > 0
}

// still prints one picture.
func (o *svcTopOptions) still(ctx context.Context, stream func(context.Context) iter.Seq[telemetry.Item], l *topSources, p *picture) error {
	limited, cancel := context.WithTimeout(ctx, stillTime)
	defer cancel()
	t := telemetry.NewTable()
	for it := range stream(limited) {
		t.Add(it)
		if l.settled(t) {
			break
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := p.table(t).print(o.f.Streams); err != nil {
		return err
	}
	if unknown := p.unknown(t); len(unknown) > 0 {
		for _, line := range unknown {
			o.f.Streams.note("%s", line)
		}
		return exitError{ExitFaults}
	}
	return nil
}

// live renews the picture on a terminal until ctx ends, and leaves the terminal as it
// was.
func (o *svcTopOptions) live(ctx context.Context, stream func(context.Context) iter.Seq[telemetry.Item], p *picture) (err error) {
	s := o.f.Streams
	if _, err := io.WriteString(s.Out, screenOpen); err != nil {
		return err
	}
	defer func() {
		_, e := io.WriteString(s.Out, screenClose)
		err = errors.Join(err, e)
	}()
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var mu sync.Mutex
	t := telemetry.NewTable()
	wg.Go(func() {
		for it := range stream(ctx) {
			mu.Lock()
			t.Add(it)
			mu.Unlock()
		}
	})
	tick := time.NewTicker(max(o.interval, leastRedraw))
	defer tick.Stop()
	for {
		mu.Lock()
		frame := p.frame(t, o.f.Now())
		mu.Unlock()
		if _, err := io.WriteString(s.Out, frame); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// serve serves Prometheus until ctx ends.
func (o *svcTopOptions) serve(ctx context.Context, stream func(context.Context) iter.Seq[telemetry.Item]) error {
	e := telemetry.NewEndpoint()
	h, err := e.Handler()
	if err != nil {
		return err
	}
	lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "serve metrics", ID: idNetwork, Err: err, Remedy: "name another address with --listen"}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "windlass svc top: see /metrics\n")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		for it := range stream(ctx) {
			e.Add(it)
		}
	})
	wg.Go(func() {
		<-ctx.Done()
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer stop()
		if server.Shutdown(end) != nil {
			_ = server.Close()
		}
	})
	o.f.Streams.note("metrics are served on http://%s/metrics", lis.Addr())
	if _, err := fmt.Fprintln(o.f.Streams.Out, "ready"); err != nil {
		return errors.Join(err, lis.Close())
	}
	if err := server.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
