package joblog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/windlass-run/windlass/sdk"
	"pgregory.net/rapid"
)

func drawSource(t *rapid.T, gaps bool, most int) *source {
	s := &source{strips: rapid.Bool().Draw(t, "strips"), streams: []sdk.Stream{sdk.StreamStdout}}
	if rapid.Bool().Draw(t, "two streams") {
		s.streams = append(s.streams, sdk.StreamStderr)
	}
	sections := 1
	if gaps {
		sections = rapid.IntRange(1, 4).Draw(t, "sections")
	}
	const alphabet = "ab\n\n\x00\xff\xc3\xa9"
	seed := rapid.Uint64().Draw(t, "seed")
	rnd := rand.New(rand.NewPCG(seed, seed))
	for i := range sections {
		m := map[sdk.Stream][]byte{}
		for _, st := range s.streams {
			m[st] = make([]byte, rapid.IntRange(0, most).Draw(t, fmt.Sprintf("%s %d", st, i)))
			for j := range m[st] {
				m[st][j] = alphabet[rnd.IntN(len(alphabet))]
			}
		}
		s.sections = append(s.sections, m)
	}
	return s
}

// model is one life of a log: holders come and go, are killed, freeze and wake
// up; the power fails; the disk fills; readers read all the time.
type model struct {
	t   *rapid.T
	fs  *memFS
	key Key
	src *source
	// processes, each with a store of its own
	w        *Writer
	feed     *feed
	epoch    uint64
	stale    []*Writer
	stales   []*feed
	watchers []*watcher
	done     bool // the feed is at its end

	gaps, disk, power, cap bool
	open                   int // files that a process keeps open
}

func (m *model) store() *Store {
	s, err := Open("/logs", Options{FS: m.fs, FlushEvery: -1, SegmentBytes: 4 << 10, MaxOpen: m.open})
	must(m.t, err)
	s.segBytes = 700 // smaller than is allowed, for many segments
	s.flushAt, s.keepAtMost = 300, 900
	if m.cap {
		s.maxBytes = 5000
	}
	return s
}

func (m *model) rnd(n int) int { return rapid.IntRange(0, n-1).Draw(m.t, "chance") }

// takeOver starts a new holder.
func (m *model) takeOver() {
	m.epoch += uint64(m.rnd(2))
	w, err := m.store().Writer(m.key, m.epoch)
	must(m.t, err)
	m.w = w
	m.feed = m.src.feed(w.Cursor(), m.rnd, 1+m.rnd(300), m.rnd(5))
	m.done = false
}

func (m *model) appendSome() {
	for range 1 + m.rnd(8) {
		it, ok := m.feed.next()
		if !ok {
			m.done = true
			return
		}
		must(m.t, m.w.Append(it))
	}
}

func (m *model) run() {
	m.takeOver()
	for range rapid.IntRange(1, 60).Draw(m.t, "steps") {
		switch m.rnd(12) {
		case 0, 1, 2:
			m.appendSome()
		case 3, 4:
			must(m.t, m.w.Flush())
		case 5:
			if err := m.w.Sync(); err != nil && !(m.disk && sdk.CodeOf(err) == sdk.ResourceExhausted) {
				m.t.Fatal(err)
			}
		case 6: // killed
			m.takeOver()
		case 7: // frozen; it wakes up later
			m.stale = append(m.stale, m.w)
			m.stales = append(m.stales, m.feed)
			m.takeOver()
		case 8:
			for i, w := range m.stale {
				m.wake(w, m.stales[i])
			}
		case 9, 10:
			if len(m.watchers) < 5 && m.rnd(3) == 0 {
				m.watchers = append(m.watchers, watch(m.t, fmt.Sprintf("watcher %d", len(m.watchers)), m.src))
			}
			for _, x := range m.watchers {
				must(m.t, x.read(context.Background(), m.store(), m.key, 1+m.rnd(12), ReadOptions{}))
			}
		case 11:
			switch {
			case m.power && m.rnd(2) == 0:
				m.fs = m.fs.powerLoss(m.rnd)
				m.stale, m.stales = nil, nil
				m.takeOver()
			case m.disk && m.rnd(2) == 0:
				m.fs.setRoom(int64(m.rnd(2000)))
				m.appendSome()
				_ = m.w.Flush()
				if m.rnd(2) == 0 {
					m.fs.setRoom(-1)
				}
			}
		}
	}
}

// wake lets a frozen holder go on until it learns that it is one no more.
func (m *model) wake(w *Writer, f *feed) {
	for range 5 {
		it, ok := f.next()
		if !ok {
			break
		}
		if err := w.Append(it); err != nil {
			if !errors.Is(err, sdk.Aborted) {
				m.t.Fatal(err)
			}
			return
		}
	}
	w.fenced = w.fenced.Add(1 << 40) // it has just looked, before it froze
	_ = w.Flush()
	if err := w.Sync(); !errors.Is(err, sdk.Aborted) {
		m.t.Fatalf("a stale holder syncs: %v", err)
	}
}

func (m *model) finish() {
	m.fs.setRoom(-1)
	if len(m.stale) > 0 && m.rnd(2) == 0 {
		m.wake(m.stale[0], m.stales[0])
	}
	for !m.done {
		m.appendSome()
	}
	v, err := m.w.Finish(sdk.VerdictComplete)
	must(m.t, err)
	late := watch(m.t, "late reader", m.src)
	m.watchers = append(m.watchers, late)
	for _, x := range m.watchers {
		must(m.t, x.read(context.Background(), m.store(), m.key, -1, ReadOptions{}))
		x.complete()
		if x.end.Verdict != v {
			m.t.Fatalf("%s: verdict %s, finished with %s", x.name, x.end.Verdict, v)
		}
	}
	if gaps := len(m.src.sections) - 1; v == sdk.VerdictComplete && (late.gone > 0 || gaps > 0) {
		m.t.Fatalf("complete, with %d bytes gone and %d gaps", late.gone, gaps)
	}
	if v == sdk.VerdictGap && late.gone == 0 && len(m.src.sections) == 1 {
		m.t.Fatal("gap, but nothing is missing")
	}
	if v == sdk.VerdictTruncatedByUs && (late.gone == 0 || !m.cap) {
		m.t.Fatal("truncated, but nothing is missing")
	}
	if m.cap && m.fs.size(segSuffix) > 5000+400 { // one frame may be longer than these small segments
		m.t.Fatalf("%d bytes on the disk, the cap is 5000", m.fs.size(segSuffix))
	}
	if m.disk || m.cap {
		return
	}
	for _, x := range m.watchers {
		if x.gone != 0 {
			m.t.Fatalf("%s: %d bytes told missing", x.name, x.gone)
		}
		if len(x.gaps) != len(m.src.sections)-1 {
			m.t.Fatalf("%s: gaps %q", x.name, x.gaps)
		}
	}
}

func runModel(t *testing.T, proto model) {
	rapid.Check(t, func(t *rapid.T) {
		m := proto
		m.t, m.fs, m.key, m.epoch = t, newMemFS(), newKey(), 1
		m.open = rapid.SampledFrom([]int{1, 1000}).Draw(t, "files kept open")
		most := 400
		if m.cap {
			most = 20_000
		}
		m.src = drawSource(t, m.gaps, most)
		m.run()
		m.finish()
	})
}

// Holders are killed at any time and others go on, in other chunks and another
// order: no reader, early or late, loses or doubles a byte.
func TestKillAndResume(t *testing.T)        { runModel(t, model{}) }
func TestKillAndResumeGaps(t *testing.T)    { runModel(t, model{gaps: true}) }
func TestPowerLoss(t *testing.T)            { runModel(t, model{gaps: true, power: true}) }
func TestFullDiskNowAndThen(t *testing.T)   { runModel(t, model{disk: true}) }
func TestFullDiskAndPowerLoss(t *testing.T) { runModel(t, model{disk: true, power: true}) }

// With a cap, what is shown and what is told missing are always all there was.
func TestCapAndResume(t *testing.T)    { runModel(t, model{cap: true}) }
func TestCapAndPowerLoss(t *testing.T) { runModel(t, model{cap: true, power: true}) }
func TestCapAndFullDisk(t *testing.T)  { runModel(t, model{cap: true, disk: true}) }
