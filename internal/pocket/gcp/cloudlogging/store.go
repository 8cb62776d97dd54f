package cloudlogging

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// entry is a stored log entry.
type entry struct {
	view    *loggingpb.LogEntry
	at      time.Time
	visible time.Time
	size    int // in bytes on the wire
	// seq is the order of writing, which breaks the last tie: a doubled entry.
	seq int64
}

// compare orders as entries.list does: by timestamp, then by insert ID.
func (e *entry) compare(o *entry) int {
	return cmp.Or(e.at.Compare(o.at), cmp.Compare(e.view.InsertId, o.view.InsertId), cmp.Compare(e.seq, o.seq))
}

// key is the position as a text, for tokens.
func (e *entry) key() string {
	return fmt.Sprintf("%d/%s/%d", e.at.UnixNano(), e.view.InsertId, e.seq)
}

// parseKey reads a key back. What it returns serves for comparisons only.
func parseKey(key string) (*entry, error) {
	at, rest, _ := strings.Cut(key, "/")
	i := strings.LastIndexByte(rest, '/')
	if i < 0 {
		return nil, gapi.Errorf(codes.InvalidArgument, "page_token is invalid.")
	}
	nanos, err := strconv.ParseInt(at, 10, 64)
	seq, err2 := strconv.ParseInt(rest[i+1:], 10, 64)
	if err != nil || err2 != nil {
		return nil, gapi.Errorf(codes.InvalidArgument, "page_token is invalid.")
	}
	return &entry{view: &loggingpb.LogEntry{InsertId: rest[:i]}, at: time.Unix(0, nanos), seq: seq}, nil
}

// add stores entries that were written now. Their timestamps and insert IDs are
// filled in where they have none, as the API does.
func (s *Service) add(list ...*loggingpb.LogEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	for _, view := range list {
		s.written++
		at := now.Truncate(time.Microsecond)
		if view.Timestamp != nil {
			at = view.Timestamp.AsTime()
		}
		if s.knobs.Tick > 0 {
			at = at.Truncate(s.knobs.Tick)
		}
		view.Timestamp, view.ReceiveTimestamp = timestamppb.New(at), timestamppb.New(now)
		if view.InsertId == "" {
			view.InsertId = fmt.Sprintf("%08x%08x%08x", uint32(now.Unix()), uint32(now.Nanosecond()/1000), uint32(s.written)) //nolint:gosec // it is an ID, cut to its width
		}
		delay := s.knobs.Delay
		if n := int64(s.knobs.LateEvery); n > 0 && s.written%n == 0 {
			delay += s.knobs.LateBy
		}
		e := &entry{view: view, at: at, visible: now.Add(delay), seq: s.written}
		s.insert(e)
		if n := int64(s.knobs.DoubleEvery); n > 0 && s.written%n == 0 {
			s.written++
			s.insert(&entry{view: proto.CloneOf(view), at: at, visible: e.visible, seq: s.written})
		}
	}
}

// insert puts an entry at its place. The lock is held.
func (s *Service) insert(e *entry) {
	e.size = proto.Size(e.view)
	if n := len(s.entries); n == 0 || s.entries[n-1].compare(e) < 0 {
		s.entries = append(s.entries, e)
		return
	}
	i, _ := slices.BinarySearchFunc(s.entries, e, (*entry).compare)
	s.entries = slices.Insert(s.entries, i, e)
}
