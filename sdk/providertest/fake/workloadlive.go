package fake

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// logLine is a line that an instance wrote.
type logLine struct {
	instance string
	at       time.Time
	text     string
}

// lines are what the workload's instances have written until now, oldest first.
// Each says that it is up; then those of the command that write something do.
func (d *deployment) lines(now time.Time) []logLine {
	var out []logLine
	steps, _ := parseWords("command", d.Command)
	for _, e := range d.Epochs {
		if e.At.After(now) {
			continue
		}
		for i := range e.Replicas {
			name := d.instance(e.Revision, i)
			out = append(out, logLine{name, e.At, name + " is up\n"})
			for _, s := range steps {
				if s.Do == "output" && s.Stream != "stderr" {
					out = append(out, logLine{name, e.At, s.Text + string(s.Data)})
				}
			}
		}
	}
	return out
}

// since leaves out what is older, and all but the last lines of each instance.
func since(lines []logLine, r sdk.TailLogsRequest) []logLine {
	var out []logLine
	left := map[string]int{}
	for _, l := range slices.Backward(lines) {
		if r.Instance != "" && l.instance != r.Instance || !r.Since.IsZero() && l.at.Before(r.Since) {
			continue
		}
		if r.Tail != nil && left[l.instance] >= *r.Tail {
			continue
		}
		left[l.instance]++
		out = append(out, l)
	}
	slices.Reverse(out)
	return out
}

// TailLogs implements sdk.LogTailer.
func (p *provider) TailLogs(ctx context.Context, r sdk.TailLogsRequest) iter.Seq2[sdk.WorkloadLogItem, error] {
	return func(yield func(sdk.WorkloadLogItem, error) bool) {
		sub := p.cloud.liveHub.subscribe(string(r.Path))
		defer p.cloud.liveHub.unsubscribe(sub)
		// An instance writes a line once, so what was given is known by its text;
		// one that scales down and up again is a new epoch and writes again.
		given, first := map[logLine]int{}, true
		for {
			d, err := p.read(ctx, OpTailLogs, r.Path)
			if err != nil {
				yield(sdk.WorkloadLogItem{}, err)
				return
			}
			now := p.cloud.clock.Now()
			all := d.lines(now)
			fresh := unseen(all, given)
			if first {
				fresh = since(all, r)
			} else if r.Instance != "" {
				fresh = slices.DeleteFunc(fresh, func(l logLine) bool { return l.instance != r.Instance })
			}
			first = false
			for _, l := range fresh {
				it := sdk.WorkloadLogItem{Instance: l.instance, Entry: &sdk.LogChunk{Time: l.at, Stream: sdk.StreamStdout, Data: []byte(l.text), LineEnd: sdk.LineEndKept}}
				if !yield(it, nil) {
					return
				}
			}
			if !r.Follow {
				return
			}
			if err := p.cloud.wait(ctx, sub, d.wakes(now)); err != nil {
				yield(sdk.WorkloadLogItem{}, ended(ctx, OpTailLogs))
				return
			}
		}
	}
}

// unseen returns the lines that were not counted yet, and counts them.
func unseen(lines []logLine, counted map[logLine]int) []logLine {
	var out []logLine
	have := map[logLine]int{}
	for _, l := range lines {
		if have[l]++; have[l] > counted[l] {
			out = append(out, l)
			counted[l] = have[l]
		}
	}
	return out
}

// wakes is when something happens by itself; zero is never.
func (d *deployment) wakes(now time.Time) time.Time {
	if at := d.done(); at.After(now) {
		return at
	}
	return time.Time{}
}

// StreamMetrics implements sdk.MetricStreamer.
func (p *provider) StreamMetrics(ctx context.Context, r sdk.StreamMetricsRequest) iter.Seq2[sdk.MetricItem, error] {
	return func(yield func(sdk.MetricItem, error) bool) {
		every := r.Interval
		if every <= 0 {
			every = time.Second
		}
		for {
			for _, path := range r.Paths {
				for _, it := range p.measure(ctx, path) {
					if ctx.Err() != nil {
						yield(sdk.MetricItem{}, ended(ctx, OpStreamMetrics))
						return
					}
					if !yield(it, nil) {
						return
					}
				}
			}
			if err := p.cloud.clock.Sleep(ctx, every); err != nil {
				yield(sdk.MetricItem{}, ended(ctx, OpStreamMetrics))
				return
			}
		}
	}
}

// measure looks at a workload once. The numbers are made of the instance's place,
// so that a test knows them.
func (p *provider) measure(ctx context.Context, path sdk.WorkloadPath) []sdk.MetricItem {
	d, err := p.read(ctx, OpStreamMetrics, path)
	if err != nil {
		return []sdk.MetricItem{{Path: path, Failed: err}}
	}
	now, warm := p.cloud.clock.Now(), time.Duration(p.cloud.Knobs().MetricsWarm)
	st := d.status(now)
	var out []sdk.MetricItem
	for i, in := range st.Instances {
		it := sdk.MetricItem{Path: path, Instance: in.Name}
		if in.State != sdk.InstanceRunning || now.Before(in.Started.Add(warm)) {
			it.Warming = "no sample of it yet"
			out = append(out, it)
			continue
		}
		up := int64(now.Sub(in.Started) / time.Millisecond)
		cpu, mem, restarts := int64(100*(i+1)), int64(32<<20)+int64(i), 0
		it.Sample = &sdk.MetricSample{At: now, CPU: &cpu, Memory: &mem, Received: &up, Sent: &up, Restarts: &restarts}
		out = append(out, it)
	}
	return out
}
