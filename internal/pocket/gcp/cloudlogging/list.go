package cloudlogging

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/logging/apiv2/loggingpb"
	"google.golang.org/grpc/codes"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// The bounds of a listing:
// https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list
const (
	standardPage = 50
	maxPage      = 1000
	maxResources = 100
	maxFilter    = 20_000
	maxReply     = 3 << 20 // bytes of entries on one page, so that a gRPC message can carry it
)

// The values of order_by.
const (
	oldestFirst = "timestamp asc"
	newestFirst = "timestamp desc"
)

// ListLogEntries reads entries.
func (s *Service) ListLogEntries(_ context.Context, r *loggingpb.ListLogEntriesRequest) (*loggingpb.ListLogEntriesResponse, error) {
	if err := s.checkResources(r.ResourceNames); err != nil {
		return nil, err
	}
	switch r.OrderBy {
	case "", oldestFirst, newestFirst:
	default:
		return nil, refuse(ruleOrder, "order_by %q: only %q and %q are permitted.", r.OrderBy, oldestFirst, newestFirst)
	}
	if r.PageSize < 0 || r.PageSize > maxPage {
		return nil, refuse(rulePageSize, "page_size is %d, must be between 0 and %d.", r.PageSize, maxPage)
	}
	if n := utf8.RuneCountInString(r.Filter); n > maxFilter {
		return nil, refuse(ruleLength, "The filter has %d characters, at most %d are allowed.", n, maxFilter)
	}
	f, err := ParseFilter(r.Filter)
	if err != nil {
		return nil, err
	}
	query := gapi.Query(append(slices.Clone(r.ResourceNames), r.Filter, r.OrderBy)...)
	empties, at, err := readPosition(r.PageToken, query)
	if err != nil {
		return nil, err
	}
	var after *entry
	if at != "" {
		if after, err = parseKey(at); err != nil {
			return nil, err
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	if err := s.countRead(now); err != nil {
		return nil, err
	}
	if empties < s.knobs.EmptyPages {
		return &loggingpb.ListLogEntriesResponse{NextPageToken: gapi.MakeToken(strconv.Itoa(empties+1)+"!"+at, query)}, nil
	}
	size := gapi.Size(r.PageSize, standardPage, maxPage, s.knobs.PageSize)
	out := &loggingpb.ListLogEntriesResponse{}
	bytes, last := 0, ""
	for e := range s.walk(r.OrderBy == newestFirst, f.Since(), after, now) {
		if !f.Match(e.view) {
			continue
		}
		bytes += e.size
		if len(out.Entries) == size || bytes > maxReply && len(out.Entries) > 0 {
			out.NextPageToken = gapi.MakeToken("0!"+last, query)
			break
		}
		out.Entries = append(out.Entries, e.view) // no entry changes once it is stored
		last = e.key()
	}
	return out, nil
}

// readPosition reads a token: how many empty pages came before, and the key of
// the last entry that was shown, empty for none.
func readPosition(pageToken string, query uint64) (empties int, at string, err error) {
	if pageToken == "" {
		return 0, "", nil
	}
	text, err := gapi.ReadToken(pageToken, query)
	if err != nil {
		return 0, "", err
	}
	n, at, ok := strings.Cut(text, "!")
	empties, err = strconv.Atoi(n)
	if !ok || err != nil {
		return 0, "", gapi.Errorf(codes.InvalidArgument, "page_token is invalid.")
	}
	return empties, at, nil
}

// walk goes through what can be seen from a moment on and behind a position, in
// the order asked for. The lock is held.
func (s *Service) walk(backwards bool, since time.Time, after *entry, now time.Time) iter.Seq[*entry] {
	from := 0
	if !since.IsZero() {
		from, _ = slices.BinarySearchFunc(s.entries, since, func(e *entry, t time.Time) int { return e.at.Compare(t) })
	}
	list := s.entries[from:]
	if after != nil {
		i, found := slices.BinarySearchFunc(list, after, (*entry).compare)
		switch {
		case backwards:
			list = list[:i]
		case found:
			list = list[i+1:]
		default:
			list = list[i:]
		}
	}
	return func(yield func(*entry) bool) {
		for i := range list {
			e := list[i]
			if backwards {
				e = list[len(list)-1-i]
			}
			if !e.visible.After(now) && !yield(e) {
				return
			}
		}
	}
}

// countRead refuses a read beyond the quota, which is counted by the minute. The
// lock is held.
func (s *Service) countRead(now time.Time) error {
	if minute := now.Truncate(time.Minute); !minute.Equal(s.window) {
		s.window, s.reads = minute, 0
	}
	if s.knobs.ReadsPerMinute > 0 && s.reads >= s.knobs.ReadsPerMinute {
		return Rules().QuotaExceeded(ruleReads, "Read requests", "Read requests per minute", "logging.googleapis.com", "project_number:"+s.o.Project.Number)
	}
	s.reads++
	return nil
}

// checkResources takes the project alone, which is all that there is.
func (s *Service) checkResources(names []string) error {
	if len(names) == 0 {
		return refuse(ruleResources, "resource_names must not be empty.")
	}
	if len(names) > maxResources {
		return refuse(ruleResources99, "resource_names has %d names, at most %d are allowed.", len(names), maxResources)
	}
	for _, name := range names {
		if strings.Contains(name, "/views/") {
			return refuse(ruleOther, "The pocket cloud doesn't offer views: %s.", name)
		}
		kind, id, ok := strings.Cut(name, "/")
		if !ok || id == "" || strings.Contains(id, "/") || !slices.Contains([]string{"projects", "organizations", "folders", "billingAccounts"}, kind) {
			return refuse(ruleResource, "resource_names: %q is no resource.", name)
		}
		if kind != "projects" || !s.o.Project.Is(id) {
			return gapi.PermissionDenied("logging.logEntries.list", name)
		}
		if err := s.o.Policy.Check("logging.logEntries.list", name); err != nil {
			return err
		}
	}
	return nil
}
