//go:build !race

package bench

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// dayLine is one line of a panel of the picture.
type dayLine struct {
	name  string
	value func(daySample) float64
}

// dayPanels are the panels, each with the unit of its lines.
func dayPanels() []struct {
	title, unit string
	lines       []dayLine
} {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return []struct {
		title, unit string
		lines       []dayLine
	}{
		{"Disk", "MB", []dayLine{{"output", func(s daySample) float64 { return mb(s.logs) }}, {"ledger", func(s daySample) float64 { return mb(s.ledger) }}}},
		{"Memory of the process", "MB", []dayLine{{"resident", func(s daySample) float64 { return mb(s.rss) }}, {"stacks", func(s daySample) float64 { return mb(s.stacks) }}, {"live heap", func(s daySample) float64 { return mb(s.heap) }}}},
		{"In flight, and goroutines", "", []dayLine{{"goroutines", func(s daySample) float64 { return float64(s.goroutines) }}, {"runs in flight", func(s daySample) float64 { return float64(s.inFlight) }}}},
		{"Open files", "", []dayLine{{"files", func(s daySample) float64 { return float64(s.files) }}}},
		{"From a job's end until it is known (simulated)", "s", []dayLine{{"p99", func(s daySample) float64 { return s.p99.Seconds() }}, {"p50", func(s daySample) float64 { return s.p50.Seconds() }}}},
		{"Processor time of a run; listing the open ones (real)", "ms", []dayLine{{"a run", func(s daySample) float64 { return ms(s.cpu) }}, {"the list", func(s daySample) float64 { return ms(s.list) }}}},
	}
}

// draw writes the picture to path, and the numbers beside it.
func (d *day) draw(path string) error {
	const width, height, left, right, top, bottom = 460, 190, 62, 96, 34, 30
	colours := []string{"#1f6feb", "#bc4c00", "#1a7f37"}
	last := d.samples[len(d.samples)-1]
	panels := dayPanels()
	rows := (len(panels) + 1) / 2
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", 2*width, rows*height+30, 2*width, rows*height+30)
	fmt.Fprintf(&s, `<title>%d runs in %s of simulated time</title><rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n", last.runs, hours(last.at))
	fmt.Fprintf(&s, `<text x="16" y="22" font-size="14" font-weight="bold">%d runs in %s of simulated time</text>`+"\n", last.runs, hours(last.at))
	for i, p := range panels {
		x0, y0 := float64(i%2*width+left), float64(i/2*height+30+top)
		w, h := float64(width-left-right), float64(height-top-bottom)
		most := 0.0
		for _, l := range p.lines {
			for _, sample := range d.samples {
				most = max(most, l.value(sample))
			}
		}
		most = roundUp(most)
		title := p.title
		if p.unit != "" {
			title += ", " + p.unit
		}
		fmt.Fprintf(&s, `<text x="%.0f" y="%.0f" font-weight="bold">%s</text>`+"\n", x0, y0-12, title)
		for _, part := range []float64{0, 0.5, 1} {
			y := y0 + h*(1-part)
			fmt.Fprintf(&s, `<line x1="%.0f" y1="%.1f" x2="%.0f" y2="%.1f" stroke="#d0d7de"/><text x="%.0f" y="%.1f" text-anchor="end">%.4g</text>`+"\n", x0, y, x0+w, y, x0-6, y+4, most*part)
			fmt.Fprintf(&s, `<text x="%.0f" y="%.0f" text-anchor="middle">%s</text>`+"\n", x0+w*part, y0+h+16, hours(time.Duration(float64(last.at)*part)))
		}
		for j, l := range p.lines {
			var points []string
			for _, sample := range d.samples {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x0+w*float64(sample.at)/float64(last.at), y0+h*(1-l.value(sample)/most)))
			}
			fmt.Fprintf(&s, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/><text x="%.0f" y="%.0f" fill="%s">%s</text>`+"\n",
				strings.Join(points, " "), colours[j], x0+w+8, y0+float64(12+15*j), colours[j], l.name)
		}
	}
	s.WriteString("</svg>\n")
	if err := os.WriteFile(path, []byte(s.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(path, ".svg")+".csv", []byte(d.table()), 0o644)
}

// table is the samples as CSV.
func (d *day) table() string {
	var s strings.Builder
	s.WriteString("simulated_s,ended,in_flight,goroutines,files,heap_bytes,stack_bytes,resident_bytes,ledger_bytes,output_bytes,known_p50_ms,known_p99_ms,cpu_us_a_run,list_us\n")
	for _, x := range d.samples {
		fmt.Fprintf(&s, "%.0f,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d\n", x.at.Seconds(), x.runs, x.inFlight, x.goroutines, x.files, x.heap, x.stacks, x.rss, x.ledger, x.logs,
			x.p50.Milliseconds(), x.p99.Milliseconds(), x.cpu.Microseconds(), x.list.Microseconds())
	}
	return s.String()
}

// hours are a time of the day as people say it.
func hours(d time.Duration) string {
	if d < time.Hour {
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%.3g h", d.Hours())
}

// roundUp is the next number that an axis may end with.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := 1.0
	for unit > v {
		unit /= 10
	}
	for unit*10 <= v {
		unit *= 10
	}
	for _, m := range []float64{1, 1.5, 2, 3, 4, 5, 6, 8, 10} {
		if v <= m*unit {
			return m * unit
		}
	}
	return v
}
