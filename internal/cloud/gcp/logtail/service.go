package logtail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"

	"github.com/windlass-run/windlass/sdk"
)

// ServiceLog is the output of a service's instances.
type ServiceLog struct {
	// Provider is for errors.
	Provider string
	Reader   *Reader
	List     List
	// Region and Service say whose output it is.
	Region, Service string
	// Late is how long entries wait for older ones that may still arrive.
	Late time.Duration
}

// Read implements sdk.LogTailer. Of a bounded number of last lines it looks for
// those instances alone that have output within a page of entries behind the
// others': how many instances there ever were, nobody tells.
func (l *ServiceLog) Read(ctx context.Context, r sdk.TailLogsRequest) iter.Seq2[sdk.WorkloadLogItem, error] {
	return func(yield func(sdk.WorkloadLogItem, error) bool) {
		give := func(e *loggingpb.LogEntry) error {
			if r.Instance != "" && instanceOf(e) != r.Instance {
				return nil
			}
			it := sdk.WorkloadLogItem{Instance: instanceOf(e)}
			it.Entry, it.Gap = output(e)
			if !yield(it, nil) {
				return errLeft
			}
			return nil
		}
		err := l.read(ctx, r, give)
		switch {
		case err == nil || errors.Is(err, errLeft):
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			yield(sdk.WorkloadLogItem{}, &sdk.Error{Code: sdk.CodeOf(ctx.Err()), Op: opLogs, Provider: l.Provider, Err: err})
		default:
			yield(sdk.WorkloadLogItem{}, err)
		}
	}
}

// instanceOf names the instance that wrote an entry, or its revision where its own
// labels have taken the name's place.
func instanceOf(e *loggingpb.LogEntry) string {
	return cmp.Or(e.GetLabels()[labelInstance], e.GetResource().GetLabels()["revision_name"], "unknown")
}

func (l *ServiceLog) read(ctx context.Context, r sdk.TailLogsRequest, give func(*loggingpb.LogEntry) error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// What arrives late is behind what was read, so the follower begins before the
	// end of that and leaves out what it has.
	seen := recent{late: l.Late}
	show := func(e *loggingpb.LogEntry) error {
		seen.add(e)
		return give(e)
	}
	if n := r.Tail; n == nil {
		if err := l.all(ctx, r, show); err != nil {
			return err
		}
	} else {
		last, err := l.last(ctx, r, *n, seen.add)
		if err != nil {
			return err
		}
		for _, e := range last {
			if err := give(e); err != nil {
				return err
			}
		}
	}
	if !r.Follow {
		return nil
	}
	f := &follower{source: source{region: l.Region, service: l.Service}, late: l.Late, from: seen.from(r.Since), wake: make(chan struct{}, 1)}
	l.Reader.join(f)
	defer l.Reader.leave(f)
	for {
		ready, _, _ := f.take()
		for _, e := range ready {
			if seen.has(e) {
				continue
			}
			if err := give(e); err != nil {
				return err
			}
		}
		if err := l.Reader.await(ctx, f, l.List); err != nil {
			return err
		}
	}
}

// request asks for what is of interest of a service's output.
func (l *ServiceLog) request(r sdk.TailLogsRequest, order string) *loggingpb.ListLogEntriesRequest {
	f := &follower{source: source{region: l.Region, service: l.Service}, from: r.Since}
	q := filter(l.Reader.project, []*follower{f})
	if r.Instance != "" {
		q += fmt.Sprintf(" AND labels.%s=%q", labelInstance, r.Instance)
	}
	return &loggingpb.ListLogEntriesRequest{ResourceNames: []string{"projects/" + l.Reader.project}, PageSize: pageSize, OrderBy: order, Filter: q}
}

// all gives what there is, in order.
func (l *ServiceLog) all(ctx context.Context, r sdk.TailLogsRequest, give func(*loggingpb.LogEntry) error) error {
	req := l.request(r, orderBy)
	var at position
	for {
		out, err := l.List(ctx, req)
		if err != nil {
			return err
		}
		for _, e := range out.GetEntries() {
			p := positionOf(e)
			if p.compare(at) <= 0 {
				continue // stored twice
			}
			at = p
			if err := give(e); err != nil {
				return err
			}
		}
		if req.PageToken = out.GetNextPageToken(); req.PageToken == "" {
			return nil
		}
	}
}

// last returns the last n lines of each instance, in order. It reads from the
// newest backwards, until a page has nothing that counts; see is shown every entry.
func (l *ServiceLog) last(ctx context.Context, r sdk.TailLogsRequest, n int, see func(*loggingpb.LogEntry)) ([]*loggingpb.LogEntry, error) {
	req := l.request(r, newestFirst)
	lines := map[string]int{}
	whole := map[string]bool{} // the line at hand is one of the last
	known := map[position]bool{}
	var out []*loggingpb.LogEntry
	for {
		page, err := l.List(ctx, req)
		if err != nil {
			return nil, err
		}
		useful := len(page.GetEntries()) == 0 // an empty page may have others behind it
		for _, e := range page.GetEntries() {
			see(e)
			in, at := instanceOf(e), positionOf(e)
			if known[at] {
				continue // stored twice
			}
			if !goesOn(e) {
				whole[in] = lines[in] < n
				lines[in]++
			}
			if whole[in] {
				known[at], useful = true, true
				out = append(out, e)
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" || !useful {
			slices.Reverse(out)
			return out, nil
		}
	}
}

// goesOn reports whether a line goes on behind an entry.
func goesOn(e *loggingpb.LogEntry) bool {
	s := e.GetSplit()
	return s != nil && s.GetIndex() < s.GetTotalSplits()-1
}

// recent remembers entries near the end of what was read.
type recent struct {
	late time.Duration
	end  time.Time
	at   map[position]bool
}

func (s *recent) add(e *loggingpb.LogEntry) {
	p := positionOf(e)
	if p.at.After(s.end) {
		s.end = p.at
		for q := range s.at {
			if q.at.Before(s.start()) {
				delete(s.at, q)
			}
		}
	}
	if s.at == nil {
		s.at = map[position]bool{}
	}
	if !p.at.Before(s.start()) {
		s.at[p] = true
	}
}

// margin is what is read again though it should have arrived.
const margin = time.Second

func (s *recent) start() time.Time { return s.end.Add(-s.late - margin) }

// from is where a follower begins: nothing before since is of interest.
func (s *recent) from(since time.Time) time.Time {
	if s.end.IsZero() || s.start().Before(since) {
		return since
	}
	return s.start()
}

func (s *recent) has(e *loggingpb.LogEntry) bool { return s.at[positionOf(e)] }
