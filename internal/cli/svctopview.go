package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/telemetry"
	"github.com/windlass-run/windlass/sdk"
)

// The orders of svc top.
const (
	sortName     = "name"
	sortCPU      = "cpu"
	sortMemory   = "memory"
	sortRestarts = "restarts"
)

func sorts() []string { return []string{sortName, sortCPU, sortMemory, sortRestarts} }

const (
	// screenOpen takes the terminal's other screen and hides the cursor; screenClose
	// gives both back.
	screenOpen  = "\x1b[?1049h\x1b[?25l"
	screenClose = "\x1b[?25h\x1b[?1049l"
	// leastRedraw is the time between two pictures.
	leastRedraw = time.Second
	// eventLines is how many events are below the table.
	eventLines = 5
	// defaultHeight is a terminal's that doesn't tell it.
	defaultHeight = 24
)

// TopName is what a line of svc top is about: sample, counts, or a kind of event.
type TopName string

const (
	topSample TopName = "sample"
	topCounts TopName = "counts"
)

func topNames() []TopName {
	names := []TopName{topSample, topCounts}
	for _, k := range telemetry.Kinds() {
		names = append(names, TopName(k))
	}
	return names
}

// TopEvent is one line of svc top --json. Numbers that the provider doesn't tell are
// null, never zero.
type TopEvent struct {
	Event    TopName    `json:"event" doc:"sample, counts, or what happened: appeared, gone, restarted, scaled, rollout, failure, warming, measured, unknown, known, lost."`
	Time     time.Time  `json:"time" doc:"When it was read here."`
	Target   string     `json:"target,omitzero" doc:"PROVIDER/PATH; PROVIDER alone for what is about all of it."`
	Instance string     `json:"instance,omitzero" doc:"The instance; none for what is about the whole workload."`
	Sample   *TopSample `json:"sample,omitzero" doc:"In sample: what was measured."`
	Counts   *TopCounts `json:"counts,omitzero" doc:"In counts: how the workload stands."`
	What     string     `json:"what,omitzero" doc:"In unknown and known: list, status or measure."`
	Message  string     `json:"message,omitzero" doc:"One line for people."`
	Count    int        `json:"count,omitzero" doc:"How many: restarts, the number wanted after scaled, items lost."`
}

// TopSample is what was measured of an instance.
type TopSample struct {
	At       *time.Time `json:"at" doc:"When the provider measured it; null when not told."`
	CPU      *int64     `json:"cpu_millicores" doc:"CPU in thousandths of a core, over the time since the sample before."`
	Memory   *int64     `json:"memory_bytes" doc:"Memory in use."`
	Received *int64     `json:"received_bytes" doc:"Bytes received since the instance started."`
	Sent     *int64     `json:"sent_bytes" doc:"Bytes sent since the instance started."`
	Restarts *int       `json:"restarts" doc:"How often the provider started the instance again."`
}

// TopCounts is how a workload stands.
type TopCounts struct {
	Desired  *int             `json:"desired" doc:"How many instances there are to be."`
	Ready    *int             `json:"ready" doc:"How many serve."`
	Updated  *int             `json:"updated" doc:"How many are of the newest generation."`
	Restarts *int             `json:"restarts" doc:"Sum over the instances that tell it."`
	Rollout  sdk.RolloutState `json:"rollout" doc:"progressing, complete, failed or unknown."`
	Stopped  bool             `json:"stopped" doc:"It was stopped, and waits to be started."`
	Unmade   bool             `json:"unmade,omitzero" doc:"It is described, and was never made: svc start does."`
}

func topEvent(it telemetry.Item) TopEvent {
	e := TopEvent{Time: it.Time.UTC(), Target: whose(it.Target), Instance: it.Instance}
	switch {
	case it.Sample != nil:
		s := it.Sample
		e.Event, e.Sample = topSample, &TopSample{At: timeOrNil(s.At), CPU: s.CPU, Memory: s.Memory, Received: s.Received, Sent: s.Sent, Restarts: s.Restarts}
	case it.Counts != nil:
		c := it.Counts
		e.Event, e.Counts = topCounts, &TopCounts{Desired: c.Desired, Ready: c.Ready, Updated: c.Updated, Restarts: c.Restarts, Rollout: c.Rollout, Stopped: c.Stopped, Unmade: c.Unmade}
	default:
		e.Event, e.What, e.Message, e.Count = TopName(it.Event.Kind), it.Event.What, it.Event.Message, it.Event.Count
	}
	return e
}

// whose is a workload, or a provider alone.
func whose(t sdk.Target) string {
	if t.Path == "" {
		return t.Provider
	}
	return t.String()
}

// picture shows a table of telemetry.
type picture struct {
	s    *Streams
	sort string
}

// topLine is a row: a workload, or one of its instances.
type topLine struct {
	name            string
	instance        bool
	ready           cell
	cpu, memory     *int64
	receives, sends *float64
	// unpaced: counters of traffic are known, and no two samples of one yet.
	unpaced  bool
	restarts *int
	why      string
	children []topLine
}

// lines are the workloads in their order, with their instances.
func (p *picture) lines(t *telemetry.Table) []topLine {
	var out []topLine
	for _, w := range t.Workloads() {
		l := topLine{name: w.Target.String(), ready: workloadCell(w), why: cmp.Or(w.Unknown, w.Warming)}
		ready := map[string]sdk.InstanceStatus{}
		if w.Counts != nil {
			l.restarts = w.Counts.Restarts
			for _, in := range w.Counts.Instances {
				ready[in.Name] = in
			}
		}
		for _, in := range w.Instances {
			c := topLine{name: in.Name, instance: true, restarts: in.Restarts, receives: in.Receives, sends: in.Sends, why: in.Warming}
			if s := in.Sample; s != nil {
				c.cpu, c.memory = s.CPU, s.Memory
				c.unpaced = s.Received != nil && in.Receives == nil || s.Sent != nil && in.Sends == nil
			}
			l.unpaced = l.unpaced || c.unpaced
			st, known := ready[in.Name]
			c.ready = instanceCell(st, known)
			l.cpu, l.memory = sum(l.cpu, c.cpu), sum(l.memory, c.memory)
			l.receives, l.sends = sum(l.receives, c.receives), sum(l.sends, c.sends)
			if in.Name == "" {
				continue // the row of the workload says it
			}
			l.children = append(l.children, c)
		}
		p.order(l.children)
		out = append(out, l)
	}
	p.order(out)
	return out
}

// sum adds what is known.
func sum[N int64 | float64](a, b *N) *N {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	v := *a + *b
	return &v
}

// order sorts lines: the greatest first, what isn't known last, by name where equal.
func (p *picture) order(lines []topLine) {
	greatest := func(v func(topLine) *int64) func(a, b topLine) int {
		return func(a, b topLine) int {
			x, y := v(a), v(b)
			switch {
			case x == nil && y == nil:
				return 0
			case x == nil:
				return 1
			case y == nil:
				return -1
			}
			return cmp.Compare(*y, *x)
		}
	}
	by := func(topLine, topLine) int { return 0 }
	switch p.sort {
	case sortCPU:
		by = greatest(func(l topLine) *int64 { return l.cpu })
	case sortMemory:
		by = greatest(func(l topLine) *int64 { return l.memory })
	case sortRestarts:
		by = greatest(func(l topLine) *int64 {
			if l.restarts == nil {
				return nil
			}
			n := int64(*l.restarts)
			return &n
		})
	}
	slices.SortStableFunc(lines, func(a, b topLine) int { return cmp.Or(by(a, b), cmp.Compare(a.name, b.name)) })
}

func workloadCell(w telemetry.Workload) cell {
	c := w.Counts
	if c == nil {
		return plain("?")
	}
	text, st := readyWords(c.Ready, c.Desired), stylePlain
	switch {
	case c.Unmade:
		return cell{notCreated, styleDim}
	case c.Stopped:
		return cell{"stopped", styleDim}
	case c.Rollout == sdk.RolloutFailed:
		text, st = text+" failed", styleRed
	case c.Rollout == sdk.RolloutProgressing:
		text, st = text+" moving", styleBold
	case c.Ready != nil && c.Desired != nil && *c.Ready < *c.Desired:
		st = styleBold
	}
	return cell{text, st}
}

func instanceCell(in sdk.InstanceStatus, known bool) cell {
	switch {
	case !known:
		return plain("?")
	case in.Ready:
		return plain("ready")
	}
	return cell{clean(string(in.State)), styleBold}
}

// table is the picture as a table.
func (p *picture) table(t *telemetry.Table) *table {
	out := &table{head: []string{"WORKLOAD", "READY", "CPU", "MEMORY", "IN/s", "OUT/s", "RESTARTS"}, flex: 0}
	for _, l := range p.lines(t) {
		out.add(l.cells(0)...)
		for _, c := range l.children {
			out.add(c.cells(2)...)
		}
	}
	// The traffic goes first where there is no room for a name beside it.
	for _, name := range []string{"OUT/s", "IN/s", "RESTARTS", "MEMORY", "CPU", "READY"} {
		out.gives = append(out.gives, give{name, 0})
	}
	return out
}

func (l topLine) cells(indent int) []cell {
	cpu := dash
	switch {
	case l.cpu != nil:
		cpu = strconv.FormatInt(*l.cpu, 10) + "m"
	case l.why != "" && l.instance:
		cpu = warming
	}
	restarts := dash
	if l.restarts != nil {
		restarts = strconv.Itoa(*l.restarts)
	}
	name := cell{strings.Repeat(" ", indent) + clean(l.name), stylePlain}
	if !l.instance {
		name.style = styleBold
	}
	memory := dash
	if l.memory != nil {
		memory = sizeWords(*l.memory)
	}
	return []cell{name, l.ready, plain(cpu), plain(memory), plain(l.rateWords(l.receives)), plain(l.rateWords(l.sends)), plain(restarts)}
}

// dash is what isn't told, warming what isn't measured yet.
const (
	dash    = "-"
	warming = "warming"
)

// rateWords is a rate; a sum of which a part isn't known yet is none.
func (l topLine) rateWords(v *float64) string {
	switch {
	case l.unpaced:
		return warming
	case v == nil:
		return dash
	}
	return sizeWords(int64(*v))
}

// sizeWords is a size in three figures at most.
func sizeWords(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return strconv.FormatInt(n, 10)
	}
	v, unit := float64(n), byte(0)
	for i := 0; v >= 999.5 && i < len(units); i++ {
		v, unit = v/1024, units[i]
	}
	if v < 9.95 {
		return fmt.Sprintf("%.1f%ci", v, unit)
	}
	return fmt.Sprintf("%.0f%ci", v, unit)
}

// unknown are the lines of what can't be read.
func (p *picture) unknown(t *telemetry.Table) []string {
	var out []string
	whole := t.Unknown()
	for _, name := range sortedKeys(whole) {
		out = append(out, name+": "+whole[name])
	}
	for _, w := range t.Workloads() {
		if w.Unknown != "" {
			out = append(out, w.Target.String()+": "+w.Unknown)
		}
	}
	return out
}

// frame is the whole screen: the table, what can't be read, and the newest events. It
// writes over what is there, so that nothing flickers.
func (p *picture) frame(t *telemetry.Table, now time.Time) string {
	width, height := p.s.size()
	var b strings.Builder
	// Nothing that goes to a strings.Builder fails.
	_ = p.table(t).write(&b, width, !p.s.NoColor)
	rows := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	var below []string
	for _, line := range p.unknown(t) {
		below = append(below, paint(styleRed, shorten(clean(line), width), !p.s.NoColor))
	}
	recent := t.Recent()
	for _, it := range recent[max(len(recent)-eventLines, 0):] {
		below = append(below, shorten(clean(eventWords(it)), width))
	}
	foot := fmt.Sprintf("%s  Ctrl-C ends", now.Format("15:04:05"))
	if n := t.Lost(); n > 0 {
		foot += fmt.Sprintf("  %d items left out", n)
	}
	below = append(below, paint(styleDim, shorten(foot, width), !p.s.NoColor))
	if over := len(below) - height/2; over > 0 {
		below = below[over:]
	}
	if room := height - len(below) - 1; len(rows) > room {
		hidden := len(rows) - room + 1
		rows = append(rows[:max(room-1, 1)], fmt.Sprintf("… %d more rows", hidden))
	}
	rows = append(append(rows, ""), below...)
	return "\x1b[H" + strings.Join(rows, "\x1b[K\r\n") + "\x1b[K\x1b[J"
}

// eventWords is an event in one line.
func eventWords(it telemetry.Item) string {
	who := whose(it.Target)
	if it.Instance != "" {
		who += " " + it.Instance
	}
	e := it.Event
	text := string(e.Kind)
	switch {
	case e.Kind == telemetry.Scaled:
		text = "scaled to " + strconv.Itoa(e.Count)
	case e.Kind == telemetry.Known:
		text = e.What + " works again"
	case e.Kind == telemetry.Unknown:
		text = e.What + " fails: " + e.Message
	case e.Kind == telemetry.Restarted && e.Count > 1:
		text = fmt.Sprintf("restarted %d times", e.Count)
	case e.Kind == telemetry.Lost:
		text = fmt.Sprintf("%d items left out: %s", e.Count, e.Message)
	case e.Message != "":
		text += ": " + e.Message
	}
	return strings.TrimSpace(it.Time.Local().Format("15:04:05") + " " + strings.TrimSpace(who+" "+text))
}
