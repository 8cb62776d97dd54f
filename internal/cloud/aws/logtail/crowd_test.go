package logtail

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

// line is an event of a stream. It can be read from seen on.
type line struct {
	at   int64
	seq  int
	text string
	seen time.Time
}

// town is a log group with many streams, in virtual time. One that isn't in it
// isn't there.
type town struct {
	mu      sync.Mutex
	streams map[string][]line
	jobs    map[string]Job
	seq     int
	page    int
	// fail is asked before each call.
	fail func(action string) error
	// gets and filters count calls; asked are the streams of the latter.
	gets, filters, asked int

	reader  *Reader
	refused atomic.Bool
	quiet   time.Duration
}

func newTown() *town {
	return &town{streams: map[string][]line{}, jobs: map[string]Job{}, page: 10000, reader: newReader("group"), quiet: 4 * time.Second, fail: func(string) error { return nil }}
}

// say adds a line that was written at a time and can be read later.
func (c *town) say(stream, text string, at time.Time, late time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	c.streams[stream] = append(c.streams[stream], line{at.UnixMilli(), c.seq, text, time.Now().Add(late)})
	slices.SortStableFunc(c.streams[stream], func(a, b line) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) })
}

// open makes a stream.
func (c *town) open(stream string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[stream] = nil
}

// job sets what is known of a stream's job.
func (c *town) job(stream string, j Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j.Shown = time.Now()
	c.jobs[stream] = j
}

func (c *town) visible(stream string, since int64) []line {
	var out []line
	for _, l := range c.streams[stream] {
		if l.at >= since && !time.Now().Before(l.seen) {
			out = append(out, l)
		}
	}
	return out
}

func (c *town) get(_ context.Context, in *cloudwatchlogs.GetLogEventsInput) (*cloudwatchlogs.GetLogEventsOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gets++
	if err := c.fail("get"); err != nil {
		return nil, err
	}
	if _, ok := c.streams[*in.LogStreamName]; !ok {
		return nil, sdk.Errorf(sdk.NotFound, opLogs, "no stream")
	}
	since, after := int64(0), 0
	if in.StartTime != nil {
		since = *in.StartTime
	}
	if in.NextToken != nil {
		at, seq, _ := strings.Cut(*in.NextToken, "/")
		since, _ = strconv.ParseInt(at, 10, 64) // it is ours
		after, _ = strconv.Atoi(seq)
	}
	next := fmt.Sprintf("%d/%d", since, after)
	out := &cloudwatchlogs.GetLogEventsOutput{NextForwardToken: &next}
	for _, l := range c.visible(*in.LogStreamName, since) {
		if l.at == since && l.seq <= after {
			continue
		}
		if len(out.Events) == c.page {
			break
		}
		out.Events = append(out.Events, types.OutputLogEvent{Message: new(l.text), Timestamp: new(l.at)})
		next = fmt.Sprintf("%d/%d", l.at, l.seq)
	}
	return out, nil
}

func (c *town) filter(_ context.Context, in *cloudwatchlogs.FilterLogEventsInput) (*cloudwatchlogs.FilterLogEventsOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.filters++
	c.asked += len(in.LogStreamNames)
	if err := c.fail("filter"); err != nil {
		return nil, err
	}
	type entry struct {
		stream string
		line
	}
	var all []entry
	since := int64(0)
	if in.StartTime != nil {
		since = *in.StartTime
	}
	for _, n := range in.LogStreamNames {
		if _, ok := c.streams[n]; !ok {
			return nil, sdk.Errorf(sdk.NotFound, opLogs, "The specified log stream does not exist.")
		}
		for _, l := range c.visible(n, since) {
			all = append(all, entry{n, l})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) })
	from := 0
	if in.NextToken != nil {
		from, _ = strconv.Atoi(*in.NextToken) // it is ours
	}
	out := &cloudwatchlogs.FilterLogEventsOutput{}
	for i, e := range all[min(from, len(all)):] {
		if i == c.page {
			out.NextToken = new(strconv.Itoa(from + i))
			break
		}
		out.Events = append(out.Events, types.FilteredLogEvent{LogStreamName: &e.stream, EventId: new(strconv.Itoa(e.seq)), Message: &e.text, Timestamp: &e.at})
	}
	return out, nil
}

func (c *town) log(stream string) *Log {
	return &Log{Kind: "aws-x", Provider: "test", Clock: sdk.SystemClock(), Group: "group", Stream: stream, Quiet: c.quiet, Remedy: "do something",
		Get: c.get, Filter: c.filter, Reader: c.reader, Refused: &c.refused,
		Known: func() (Job, bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			j, ok := c.jobs[stream]
			return j, ok
		},
		Look: func(context.Context) (Job, bool, error) { return Job{}, false, nil },
	}
}

// heard is what a follower got.
type heard struct {
	lines  []string
	looks  int
	cursor *sdk.LogCursor
	err    error
}

// hear follows a stream from a cursor until so many lines have come, or for a
// while.
func (c *town) hear(ctx context.Context, stream string, cursor *sdk.LogCursor, lines int, most time.Duration) *heard {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	h := &heard{cursor: cursor}
	for it, err := range c.log(stream).Read(ctx, cursor, true) {
		if err != nil {
			h.err = err
			return h
		}
		if it == (sdk.LogItem{}) {
			h.looks++
		}
		if it.Entry != nil {
			h.lines = append(h.lines, string(it.Entry.Data))
		}
		if it.Cursor != nil {
			h.cursor = it.Cursor
		}
		if lines > 0 && len(h.lines) >= lines && it.Cursor != nil || it.End != nil {
			return h
		}
	}
	return h
}

// TestFewReadAlone: a handful of followers have exact tokens and quick looks.
func TestFewReadAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTown()
		var all sync.WaitGroup
		for i := range few {
			s := fmt.Sprint("s", i)
			c.job(s, Job{Ran: true})
			c.say(s, "hello", time.Now(), 0)
			all.Go(func() { c.hear(t.Context(), s, nil, 0, time.Minute) })
		}
		all.Wait()
		if c.filters > 0 || c.gets < few*10 {
			t.Errorf("%d calls for several, %d for one", c.filters, c.gets)
		}
	})
}

// TestF53ManyReadTogether: a hundred streams cost one call, each follower gets
// its own lines in order, and is told of each look that found nothing.
func TestF53ManyReadTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, lines = 300, 5
		c := newTown()
		got := make([]*heard, streams)
		var all sync.WaitGroup
		for i := range streams {
			s := fmt.Sprint("s", i)
			c.job(s, Job{Ran: true})
			c.open(s)
			all.Go(func() { got[i] = c.hear(t.Context(), s, nil, 0, time.Minute) })
		}
		for n := range lines {
			time.Sleep(time.Second)
			for i := range streams {
				c.say(fmt.Sprint("s", i), fmt.Sprint(i, "/", n), time.Now(), 0)
			}
		}
		all.Wait()
		for i, h := range got {
			var want []string
			for n := range lines {
				want = append(want, fmt.Sprint(i, "/", n))
			}
			if !slices.Equal(h.lines, want) {
				t.Fatalf("stream %d: %q instead of %q", i, h.lines, want)
			}
			if h.looks < 20 {
				t.Errorf("stream %d: told of %d looks", i, h.looks)
			}
		}
		// A look every second within a minute, once it is silent.
		if most := 2 * 60 * streams / together; c.filters > most || c.gets > 3*60 {
			t.Errorf("%d calls for several, %d for one; %d are due", c.filters, c.gets, most)
		}
		if c.asked < together/2*c.filters {
			t.Errorf("%d streams in %d calls: they aren't full", c.asked, c.filters)
		}
	})
}

// TestTakenUpTogether: those that go on from cursors of their own are read
// together too; one with much to read again reads alone in the end.
func TestTakenUpTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 120
		c := newTown()
		c.quiet = time.Second
		var all sync.WaitGroup
		for i := range streams {
			s := fmt.Sprint("s", i)
			c.job(s, Job{Ran: true})
			n := 3
			if i == 100 {
				n = 2 * wasteMost
			}
			for k := range n {
				c.say(s, fmt.Sprint(k), time.Now().Add(time.Duration(i)*time.Second-time.Duration(n-k)*time.Millisecond), 0)
			}
			last := c.streams[s][n-1]
			cursor := position{millis: last.at, same: 1}.cursor("aws-x")
			all.Go(func() {
				if h := c.hear(t.Context(), s, cursor, 0, 15*time.Second); len(h.lines) > 0 {
					t.Errorf("%s: %d lines are given again", s, len(h.lines))
				}
			})
		}
		all.Wait()
		// Alone they would have 4 looks a second each, at a quarter of the
		// window of silence.
		if c.gets > streams*4*15/10 || c.asked < together/4*c.filters {
			t.Errorf("%d calls for one, %d for several, of %d streams", c.gets, c.filters, c.asked)
		}
	})
}

// TestNotStartedCostsNothing: where many are followed, jobs that are known not to
// have started cost no call; once nobody looks at them any more they do.
func TestNotStartedCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTown()
		var all sync.WaitGroup
		for i := range 100 {
			c.job(fmt.Sprint("s", i), Job{})
			all.Go(func() { c.hear(t.Context(), fmt.Sprint("s", i), nil, 0, 3*time.Minute) })
		}
		time.Sleep(lately - time.Second)
		synctest.Wait()
		c.mu.Lock()
		if c.gets+c.filters > 2*few { // by the first, who were few
			t.Errorf("%d calls", c.gets+c.filters)
		}
		c.mu.Unlock()
		all.Wait()
		if c.gets < 100 {
			t.Errorf("%d calls after nobody had looked for long", c.gets)
		}
	})
}

// TestMissingStreamInTheCrowd: one stream that isn't there fails a call for all.
// It holds up nobody, and its own follower is told.
func TestMissingStreamInTheCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTown()
		got := map[string]*heard{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 60 {
			s := fmt.Sprint("s", i)
			c.job(s, Job{Ran: true, Ended: true, EndSeen: time.Now()})
			if i != 7 && i != 41 {
				c.say(s, "line of "+s, time.Now(), 100*time.Millisecond)
			}
			all.Go(func() {
				h := c.hear(t.Context(), s, nil, 1, time.Minute)
				mu.Lock()
				defer mu.Unlock()
				got[s] = h
			})
		}
		all.Wait()
		for s, h := range got {
			if s == "s7" || s == "s41" {
				if sdk.CodeOf(h.err) != sdk.NotFound || !strings.Contains(h.err.Error(), s) {
					t.Errorf("%s, which isn't there: %v", s, h.err)
				}
			} else if h.err != nil || !slices.Equal(h.lines, []string{"line of " + s}) {
				t.Errorf("%s: %q, %v", s, h.lines, h.err)
			}
		}
		if c.filters > 80 {
			t.Errorf("%d calls", c.filters)
		}
	})
}

// TestRefusals: a provider that may not read several streams reads each, after one
// call; one that is throttled waits; another error is that of who made the call.
func TestRefusals(t *testing.T) {
	for name, k := range map[string]struct {
		err         error
		times       int
		most, fails int
	}{
		"not permitted": {sdk.Errorf(sdk.PermissionDenied, opLogs, "not allowed"), 1 << 30, 1, 0},
		"throttled":     {sdk.Errorf(sdk.ResourceExhausted, opLogs, "slow down"), 3, 1 << 30, 0},
		"out of order":  {sdk.Errorf(sdk.Unavailable, opLogs, "oops"), 2, 1 << 30, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTown()
				left := k.times
				c.fail = func(action string) error {
					if action == "filter" && left > 0 {
						left--
						return k.err
					}
					return nil
				}
				var whole, failed atomic.Int32
				var all sync.WaitGroup
				for i := range 40 {
					s := fmt.Sprint("s", i)
					c.job(s, Job{Ran: true})
					c.say(s, s, time.Now(), time.Second)
					all.Go(func() {
						switch h := c.hear(t.Context(), s, nil, 1, time.Minute); {
						case slices.Equal(h.lines, []string{s}):
							whole.Add(1)
						case h.err != nil:
							failed.Add(1)
						}
					})
				}
				all.Wait()
				if int(failed.Load()) != k.fails || int(whole.Load()) != 40-k.fails || c.filters > k.most {
					t.Errorf("%d whole, %d failed, %d calls", whole.Load(), failed.Load(), c.filters)
				}
			})
		})
	}
}

// TestF51ComeAndGo: with many lines of one moment, pages of any size, calls that
// fail, and followers that go and come again at their cursors, with few and with
// many about, each line is given once and in order.
func TestF51ComeAndGo(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			const streams, lines = 15, 60
			random := rand.New(rand.NewPCG(seed, 1))
			c := newTown()
			c.page = 1 + random.IntN(40)
			fate := rand.New(rand.NewPCG(seed, 0))
			c.fail = func(string) error {
				if fate.IntN(10) == 0 { // the town's lock is held
					return sdk.Errorf(sdk.Unavailable, opLogs, "oops")
				}
				return nil
			}
			start := time.Now()
			var all sync.WaitGroup
			got := make([][]string, streams)
			for i := range streams {
				s := fmt.Sprint("s", i)
				c.job(s, Job{Ran: true})
				c.open(s)
				own := rand.New(rand.NewPCG(seed, uint64(i)+2))
				all.Go(func() {
					var cursor *sdk.LogCursor
					for len(got[i]) < lines && t.Context().Err() == nil {
						h := c.hear(t.Context(), s, cursor, 1+own.IntN(lines), time.Duration(1+own.IntN(60))*time.Second)
						got[i], cursor = append(got[i], h.lines...), h.cursor
						if time.Since(start) > time.Hour {
							t.Errorf("seed %d, %s: %d lines within an hour", seed, s, len(got[i]))
							return
						}
						time.Sleep(time.Duration(own.IntN(8)) * time.Second)
					}
				})
			}
			for n := range lines {
				for i := range streams {
					c.say(fmt.Sprint("s", i), fmt.Sprint(n), time.Now().Truncate(500*time.Millisecond), 0)
				}
				time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
			}
			all.Wait()
			for i, lines := range got {
				for n, text := range lines {
					if text != fmt.Sprint(n) {
						t.Fatalf("seed %d, stream %d, line %d is %s: %q", seed, i, n, text, lines)
					}
				}
			}
		})
	}
}

// TestLateLines: among many, a line that comes later than newer ones is given all
// the same, once.
func TestLateLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTown()
		var all sync.WaitGroup
		got := make([]*heard, 20)
		for i := range got {
			s := fmt.Sprint("s", i)
			c.job(s, Job{Ran: true})
			c.open(s)
			all.Go(func() { got[i] = c.hear(t.Context(), s, nil, 0, time.Minute) })
		}
		for n := range 10 {
			for i := range got {
				c.say(fmt.Sprint("s", i), fmt.Sprint(n), time.Now(), time.Duration(n%3)*time.Second)
			}
			time.Sleep(300 * time.Millisecond)
		}
		all.Wait()
		for i, h := range got {
			slices.Sort(h.lines)
			if want := strings.Split("0123456789", ""); !slices.Equal(h.lines, want) {
				t.Errorf("stream %d: %q", i, h.lines)
			}
		}
	})
}

// TestOneBudget: all drivers of a program spend from one budget, by account and
// region, and read a group by one reader.
func TestOneBudget(t *testing.T) {
	var a Account
	here, there := &aws.Session{Account: "1", Region: "x"}, &aws.Session{Account: "1", Region: "y"}
	reads, searches := a.LogBudgets(here, 20)
	if r, s := a.LogBudgets(here, 20); r != reads || s != searches {
		t.Error("the second driver has budgets of its own")
	}
	if r, s := a.LogBudgets(there, 20); r == reads || s == searches {
		t.Error("another region shares the budgets")
	}
	g := a.Readers.For(here, "g")
	if again := a.Readers.For(here, "g"); again != g || a.Readers.For(there, "g") == g || a.Readers.For(here, "h") == g {
		t.Error("a reader is for one group of an account and region")
	}
}
