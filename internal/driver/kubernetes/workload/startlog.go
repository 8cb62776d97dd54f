package workload

import (
	"bytes"
	"context"
	"io"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/cloud/kube/podlog"
	"github.com/windlass-run/windlass/sdk"
)

// startLog reads the output of the starts of one container, one behind the other.
type startLog struct {
	t         *tailing
	pod       string
	uid       types.UID
	container string
	// last is the stamp of the last line that was given: a start's log that was opened
	// under the number of the one before it isn't given twice.
	last time.Time
	// from leaves out lines before a time; until is the first line that is wanted.
	from  time.Time
	until *tailLine
	// whole: the last stream came to an end that the node made.
	whole bool
}

// tailLine is where the last lines of an output begin.
type tailLine struct {
	stamp time.Time
	text  []byte
}

// read gives one start's output.
func (s *startLog) read(ctx context.Context, n int, first bool) {
	s.from, s.until, s.whole = s.t.r.Since, nil, false
	if first && s.t.r.Tail != nil && !s.tail(ctx, *s.t.r.Tail, n) {
		return
	}
	before := s.last
	r := podlog.Reader{Kind: s.t.w.c.Kind, Op: opTail, Provider: s.t.w.c.Provider, Source: startSource{s, n}, Stall: s.t.w.c.Stall}
	for it, err := range r.Read(ctx, nil, s.t.r.Follow) {
		if err != nil {
			if ctx.Err() == nil {
				s.give(ctx, sdk.WorkloadLogItem{Instance: s.pod, Gap: &sdk.LogGap{From: s.last, Bytes: -1, Why: "its output can't be read: " + err.Error()}})
			}
			return
		}
		switch {
		case it.Gap != nil && s.whole:
			// The pod has gone, behind the end of its container's output.
		case it.Gap != nil:
			if !s.give(ctx, sdk.WorkloadLogItem{Instance: s.pod, Gap: it.Gap}) {
				return
			}
		case it.Entry != nil && s.wanted(it.Entry, before):
			it.Entry.Launch = n
			s.last = it.Entry.Time
			if !s.give(ctx, sdk.WorkloadLogItem{Instance: s.pod, Entry: it.Entry}) {
				return
			}
		}
	}
}

// wanted reports whether a line was asked for, and not given already.
func (s *startLog) wanted(c *sdk.LogChunk, before time.Time) bool {
	if s.until != nil {
		if !c.Time.Equal(s.until.stamp) || !bytes.HasPrefix(c.Data, s.until.text) {
			return false
		}
		s.until = nil
	}
	return !c.Time.Before(s.from) && (before.IsZero() || c.Time.After(before))
}

func (s *startLog) give(ctx context.Context, it sdk.WorkloadLogItem) bool {
	select {
	case s.t.items <- it:
		return true
	case <-ctx.Done():
		return false
	}
}

// maxPeek bounds what is kept of a line to know it again.
const maxPeek = 1 << 10

// tail finds where the last lines begin. It returns false where nothing is wanted at
// all.
func (s *startLog) tail(ctx context.Context, lines, n int) bool {
	if lines == 0 {
		if s.t.r.Follow && s.from.Before(s.t.w.c.Session.Now()) {
			s.from = s.t.w.c.Session.Now()
		}
		return s.t.r.Follow
	}
	body, err := s.open(ctx, url.Values{"tailLines": {strconv.Itoa(lines)}}, n)
	if err != nil {
		return true // the read tells what is wrong
	}
	defer body.Close() //nolint:errcheck // it was only read
	head := make([]byte, maxPeek)
	k, _ := io.ReadFull(body, head) // a shorter one is all there is
	stamp, text, ok := bytes.Cut(head[:k], []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if !ok || err != nil {
		return true // it is empty: all that comes is new
	}
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	if at.Before(s.from) {
		return true // what is too old is left out by its time
	}
	s.until = &tailLine{at, text}
	return true
}

// open opens the log of a start. That of one before the newest is asked for as such.
func (s *startLog) open(ctx context.Context, query url.Values, n int) (io.ReadCloser, error) {
	w := s.t.w
	_, c, err := s.status(ctx)
	if err != nil {
		return nil, err
	}
	query.Set("container", s.container)
	query.Set("timestamps", "true")
	if c != nil && int(c.RestartCount) > n {
		query.Set("previous", "true")
		query.Del("follow")
	}
	var body io.ReadCloser
	err = w.c.Spend(ctx, opTail, func() (err error) {
		body, err = w.c.Session.Stream(ctx, opTail, kube.Log(s.t.ref.namespace, s.pod), query)
		return err
	})
	return body, err
}

// status reads the pod, nil where it is gone.
func (s *startLog) status(ctx context.Context) (*corev1.Pod, *corev1.ContainerStatus, error) {
	var p corev1.Pod
	err := s.t.w.get(ctx, opTail, kube.Pods(s.t.ref.namespace, s.pod), &p)
	if sdk.CodeOf(err) == sdk.NotFound || err == nil && p.UID != s.uid {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == s.container })
	if i < 0 {
		return &p, nil, nil
	}
	return &p, &p.Status.ContainerStatuses[i], nil
}

// startSource is where the output of one start is.
type startSource struct {
	s *startLog
	n int
}

var _ podlog.Source = startSource{}

// Look implements podlog.Source. A node keeps the log of the newest start, and of the
// one before.
func (x startSource) Look(ctx context.Context) (podlog.Sight, error) {
	p, c, err := x.s.status(ctx)
	if err != nil {
		return podlog.Sight{}, err
	}
	if p == nil || c == nil || int(c.RestartCount) > x.n+1 {
		return podlog.Sight{Over: true}, nil
	}
	ended := int(c.RestartCount) > x.n || c.State.Running == nil
	return podlog.Sight{Over: ended, Containers: []podlog.Container{{UID: string(x.s.uid) + "/" + strconv.Itoa(x.n), Pod: x.s.pod, Started: true, Ended: ended}}}, nil
}

// Open implements podlog.Source.
func (x startSource) Open(ctx context.Context, _ podlog.Container, since time.Time, follow bool) (io.ReadCloser, error) {
	query := url.Values{}
	if since.IsZero() {
		since = x.s.from
		if u := x.s.until; u != nil {
			since = u.stamp
		}
	}
	if !since.IsZero() {
		query.Set("sinceTime", since.UTC().Truncate(time.Second).Format(time.RFC3339))
	}
	if follow {
		query.Set("follow", "true")
	}
	body, err := x.s.open(ctx, query, x.n)
	if err != nil {
		return nil, err
	}
	x.s.whole = false
	return &noted{ReadCloser: body, s: x.s}, nil
}

// noted notes whether a stream came to an end that the node made.
type noted struct {
	io.ReadCloser
	s *startLog
}

// Read implements io.Reader.
func (r *noted) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err == io.EOF {
		r.s.whole = true
	}
	return n, err
}
