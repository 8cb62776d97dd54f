// Package logtail follows the output of Cloud Run's jobs and services in Cloud
// Logging.
//
// A project has 60 reads a minute, for everybody. So all logs that one process
// follows in a project are read by one query at a time, which whoever's turn it
// is makes for all.
package logtail

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"

	"github.com/windlass-run/windlass/sdk"
)

const (
	// pageSize is the largest page of entries.
	// https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list
	pageSize = 1000
	// together is how many sources one query is for: a filter has up to 20,000
	// characters, and a source's name up to 63.
	// https://cloud.google.com/logging/quotas
	together = 250
	// The waits between two rounds that bring nothing new.
	firstRound = 500 * time.Millisecond
	lastRound  = 4 * time.Second

	// orderBy: entries with equal timestamps come in the order of their insert
	// IDs.
	orderBy     = "timestamp asc"
	newestFirst = "timestamp desc"
)

// List makes a call of entries.list, when its budget allows.
type List func(ctx context.Context, r *loggingpb.ListLogEntriesRequest) (*loggingpb.ListLogEntriesResponse, error)

// Readers are the shared readers, one for each project and endpoint. The zero
// value is ready, and safe for concurrent use.
type Readers struct {
	mu sync.Mutex
	m  map[readerKey]*Reader
}

type readerKey struct{ project, endpoint string }

// For returns a project's reader.
func (r *Readers) For(project, endpoint string) *Reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		r.m = map[readerKey]*Reader{}
	}
	k := readerKey{project, endpoint}
	if r.m[k] == nil {
		r.m[k] = &Reader{project: project, turn: make(chan struct{}, 1), followers: map[*follower]struct{}{}}
	}
	return r.m[k]
}

// Reader reads for all who follow logs of a project.
type Reader struct {
	project string
	// turn is held by the follower that makes a round.
	turn chan struct{}

	mu        sync.Mutex
	followers map[*follower]struct{}
	// due is when the next round may begin, wait the pause before it.
	due  time.Time
	wait time.Duration
	// rounds numbers rounds.
	rounds int64
}

func (r *Reader) join(f *follower) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.followers[f] = struct{}{}
	r.due, r.wait = time.Time{}, 0
}

func (r *Reader) leave(f *follower) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.followers, f)
}

// untilDue returns the time until the next round.
func (r *Reader) untilDue() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.due)
}

// await waits for something new, and makes the next round where it is due and
// nobody else makes it.
func (r *Reader) await(ctx context.Context, f *follower, list List) error {
	if due := r.untilDue(); due > 0 {
		timer := time.NewTimer(due)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.wake:
		case <-timer.C:
		}
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.wake:
		return nil
	case r.turn <- struct{}{}:
	}
	defer func() { <-r.turn }()
	if r.untilDue() > 0 {
		return nil // somebody has just made it
	}
	return r.round(ctx, list)
}

// round reads what is new for the followers that have waited longest. The turn
// is held. An error is the caller's alone: its credentials are its own.
func (r *Reader) round(ctx context.Context, list List) error {
	group := r.group()
	if len(group) == 0 {
		return nil
	}
	req := &loggingpb.ListLogEntriesRequest{ResourceNames: []string{"projects/" + r.project}, PageSize: pageSize, OrderBy: orderBy,
		Filter: filter(r.project, group)}
	news, pause, begun := false, lastRound, time.Now()
	for {
		out, err := list(ctx, req)
		if sdk.CodeOf(err) == sdk.ResourceExhausted {
			// Others spend from the project's quota too. It comes back by the minute.
			r.rest(max(sdk.RetryAfter(err), lastRound))
			return nil
		}
		if err != nil {
			return err
		}
		bySource := map[source][]*loggingpb.LogEntry{}
		for _, e := range out.GetEntries() {
			from := sourceOf(e)
			bySource[from] = append(bySource[from], e)
		}
		for _, f := range group {
			if f.add(bySource[f.source]) {
				news = true
			}
		}
		if req.PageToken = out.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	for _, f := range group {
		pause = min(pause, max(f.late/4, 10*time.Millisecond))
		f.looked(begun)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wait = min(max(2*r.wait, firstRound), pause); news {
		r.wait = min(firstRound, pause)
	}
	r.due = time.Now().Add(r.wait)
	return nil
}

// rest puts the next round off.
func (r *Reader) rest(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = time.Now().Add(d)
}

// group chooses the followers of a round, those first that were read longest ago.
func (r *Reader) group() []*follower {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*follower
	for f := range r.followers {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *follower) int {
		return cmp.Or(cmp.Compare(a.round, b.round), a.source.compare(b.source))
	})
	all = all[:min(len(all), together)]
	r.rounds++
	for _, f := range all {
		f.round = r.rounds
	}
	return all
}
