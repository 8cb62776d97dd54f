package logtail

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

const (
	// together is how many streams one call of FilterLogEvents reads.
	// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_FilterLogEvents.html
	together = 100
	// few is up to how many followers of a group each read for themselves. AWS
	// gives an account 25 calls of GetLogEvents a second and 5 of FilterLogEvents:
	// a call for several has to serve more than five to be the cheaper one.
	// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/cloudwatch_limits_cwl.html
	few = 5
	// wasteMost is how many events of a call may be known before.
	wasteMost = 5000
	// pagesMost is how many pages a round reads before others have their turn.
	pagesMost = 10
	// beat is the pause after a call with room for more streams: meanwhile more
	// become due.
	beat = 250 * time.Millisecond
	// throttled is the least pause after a refusal.
	throttled = time.Second
)

// Filter makes a call of FilterLogEvents, when its budget allows.
type Filter func(ctx context.Context, in *cloudwatchlogs.FilterLogEventsInput) (*cloudwatchlogs.FilterLogEventsOutput, error)

// Account is what all drivers that run jobs of one AWS account hold together:
// AWS counts calls for the account, whoever makes them. The zero value is ready.
type Account struct {
	Budgets aws.Budgets
	Readers Readers
}

// searchPart is how many calls of GetLogEvents AWS gives for one of
// FilterLogEvents.
const searchPart = 5

// LogBudgets returns the budgets of GetLogEvents and FilterLogEvents where a
// session leads, for so many calls of the former a second.
func (a *Account) LogBudgets(x *aws.Session, perSecond int) (reads, searches *aws.Budget) {
	return a.Budgets.For(x, "log read", float64(perSecond), perSecond),
		a.Budgets.For(x, "log search", float64(perSecond)/searchPart, max(1, perSecond/searchPart))
}

// Readers are the shared readers, one for each log group of an account and
// region. The zero value is ready, and safe for concurrent use.
type Readers struct {
	mu sync.Mutex
	m  map[readerKey]*Reader
}

type readerKey struct{ account, region, endpoint, group string }

// For returns the reader of a group where a session leads.
func (r *Readers) For(x *aws.Session, group string) *Reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		r.m = map[readerKey]*Reader{}
	}
	k := readerKey{x.Account, x.Region, x.Endpoint, group}
	if r.m[k] == nil {
		r.m[k] = newReader(group)
	}
	return r.m[k]
}

// Reader reads for all who follow logs of a group, once there are many: up to a
// hundred streams by one call, which whoever has the turn makes for all.
type Reader struct {
	group string
	// turn is held by the follower that reads for others.
	turn chan struct{}
	// earlier has a value when somebody is due before next.
	earlier chan struct{}

	mu        sync.Mutex
	followers int
	waiting   map[*follower]struct{}
	// rest is when calls may go on.
	rest time.Time
	// next is until when the holder of the turn waits, zero for not at all.
	next time.Time
}

func newReader(group string) *Reader {
	return &Reader{group: group, turn: make(chan struct{}, 1), earlier: make(chan struct{}, 1), waiting: map[*follower]struct{}{}}
}

// join counts one who follows a log, until leave.
func (r *Reader) join() (leave func()) {
	r.count(1)
	return func() { r.count(-1) }
}

func (r *Reader) count(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.followers += n
}

// crowded reports whether reading together is the cheaper way.
func (r *Reader) crowded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.followers > few
}

// await waits until a follower was served, a while from now at the earliest, and
// reads for all meanwhile when it is its turn. An error is that of its own
// reading: its credentials are its own.
func (r *Reader) await(ctx context.Context, f *follower, after time.Duration, filter Filter) (served, error) {
	r.enter(f, time.Now().Add(after))
	defer r.drop(f)
	for {
		select {
		case <-ctx.Done():
			return served{}, ctx.Err()
		case <-f.wake:
			return f.served, nil
		case r.turn <- struct{}{}:
		}
		err := r.lead(ctx, f, filter)
		<-r.turn
		if err != nil {
			return served{}, err
		}
	}
}

func (r *Reader) enter(f *follower, due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.due, f.served = due, served{}
	r.waiting[f] = struct{}{}
	if due.Before(r.next) {
		select {
		case r.earlier <- struct{}{}:
		default:
		}
	}
}

// drop takes a follower out that leaves. What it was given and didn't take is
// lost with it: it isn't used again.
func (r *Reader) drop(f *follower) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, f)
	select {
	case <-f.wake:
	default:
	}
}

// serve wakes followers that have been served. The lock is held.
func (r *Reader) serve(f *follower) {
	if _, ok := r.waiting[f]; !ok {
		return
	}
	delete(r.waiting, f)
	f.wake <- struct{}{} // it has room: who waits has taken the last value
}

// lead reads for all until f has been served. The turn is held.
func (r *Reader) lead(ctx context.Context, f *follower, filter Filter) error {
	for {
		group, wait := r.choose(f)
		switch {
		case wait < 0:
			return nil
		case wait > 0:
			if err := r.pause(ctx, wait); err != nil {
				return err
			}
		default:
			if err := r.round(ctx, group, filter); err != nil {
				return err
			}
			if len(group) < together {
				r.relax(beat)
			}
		}
	}
}

// pause waits, or until somebody is due earlier.
func (r *Reader) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	case <-r.earlier:
	}
	return nil
}

// choose returns those that are read next, or how long to wait until then;
// negative, once f has been served.
func (r *Reader) choose(f *follower) (group []*follower, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = time.Time{}
	if f.refused.Load() {
		f.alone = true
		r.serve(f)
	}
	group, due := r.company()
	if _, ok := r.waiting[f]; !ok {
		return nil, -1
	}
	due = latest(due, r.rest)
	if wait = time.Until(due); wait > 0 {
		r.next = due
		return nil, wait
	}
	return group, 0
}

// company returns those that can be read together with the one that has been due
// longest, and since when. A call reads all its streams from the same time on, so
// who has read further gets events again; those are bounded. One that is due and
// has no company is told to read alone. The lock is held.
func (r *Reader) company() (best []*follower, due time.Time) {
	all := slices.SortedFunc(maps.Keys(r.waiting), func(a, b *follower) int {
		return cmp.Or(cmp.Compare(a.seen.since(a.overlap), b.seen.since(b.overlap)), cmp.Compare(a.stream, b.stream))
	})
	now := time.Now()
	for len(all) > 0 {
		since, waste, n := all[0].seen.since(all[0].overlap), 0, 0
		first := all[0].due
		for ; n < min(len(all), together); n++ {
			if waste += all[n].seen.again(since); waste > wasteMost && n > 0 {
				break
			}
			if all[n].due.Before(first) {
				first = all[n].due
			}
		}
		switch {
		case n == 1 && !first.After(now):
			all[0].alone = true
			r.serve(all[0])
		case best == nil || first.Before(due):
			best, due = all[:n], first
		}
		all = all[n:]
	}
	return best, due
}

// round reads what is new for a group. The turn is held.
func (r *Reader) round(ctx context.Context, group []*follower, filter Filter) error {
	in := &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &r.group}
	by := map[string][]*follower{}
	since := group[0].seen.since(group[0].overlap)
	for _, f := range group {
		by[f.stream] = append(by[f.stream], f)
		since = min(since, f.seen.since(f.overlap))
	}
	for _, f := range group {
		if since < f.seen.complete {
			f.seen.older = 0 // it is counted anew
		}
	}
	in.LogStreamNames = slices.Sorted(maps.Keys(by))
	if since > 0 {
		in.StartTime = &since
	}
	for range pagesMost {
		out, err := filter(ctx, in)
		switch {
		case sdk.CodeOf(err) == sdk.NotFound:
			return r.missing(ctx, group, err, filter)
		case sdk.CodeOf(err) == sdk.ResourceExhausted:
			r.finish(group, served{})
			r.relax(max(sdk.RetryAfter(err), throttled))
			return nil
		case err != nil:
			r.finish(group, served{})
			return err
		}
		r.mu.Lock()
		for _, e := range out.Events {
			for _, f := range by[awssdk.ToString(e.LogStreamName)] {
				f.add(e)
			}
		}
		r.mu.Unlock()
		if in.NextToken = out.NextToken; awssdk.ToString(in.NextToken) == "" {
			r.finish(group, served{looked: true})
			return nil
		}
	}
	r.finish(group, served{})
	return nil
}

// finish ends a round: it serves those that have something, and all where it
// says something of all.
func (r *Reader) finish(group []*follower, s served) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range group {
		f.looked, f.missing = s.looked, s.missing
		if f.looked || f.missing || len(f.events) > 0 {
			r.serve(f)
		}
	}
}

// relax puts calls off.
func (r *Reader) relax(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest = latest(r.rest, time.Now().Add(d))
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// missing finds those whose stream isn't there: one is enough for CloudWatch to
// refuse a call, and it doesn't say which.
// https://github.com/percona/rds_exporter/issues/81
func (r *Reader) missing(ctx context.Context, group []*follower, err error, filter Filter) error {
	if len(group) == 1 || strings.Contains(err.Error(), "log group") {
		r.finish(group, served{missing: true})
		return nil
	}
	half := len(group) / 2
	if err := r.round(ctx, group[:half], filter); err != nil {
		return err
	}
	return r.round(ctx, group[half:], filter)
}
