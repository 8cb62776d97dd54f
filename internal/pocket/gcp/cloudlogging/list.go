package cloudlogging

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/logging/apiv2/loggingpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

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
	after, empties := "", 0
	if r.PageToken != "" {
		if after, err = gapi.ReadToken(r.PageToken, query); err != nil {
			return nil, err
		}
		if n, rest, ok := strings.Cut(after, "!"); ok {
			if empties, err = strconv.Atoi(n); err != nil {
				return nil, gapi.Errorf(codes.InvalidArgument, "page_token is invalid.")
			}
			after = rest
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	if err := s.countRead(now); err != nil {
		return nil, err
	}
	if empties < s.knobs.EmptyPages {
		return &loggingpb.ListLogEntriesResponse{NextPageToken: gapi.MakeToken(strconv.Itoa(empties+1)+"!"+after, query)}, nil
	}
	size := gapi.Size(r.PageSize, standardPage, maxPage, s.knobs.PageSize)
	out := &loggingpb.ListLogEntriesResponse{}
	bytes, last := 0, ""
	for e := range s.walk(r.OrderBy == newestFirst, after, now) {
		if !f.Match(e.view) {
			continue
		}
		bytes += proto.Size(e.view)
		if len(out.Entries) == size || bytes > maxReply && len(out.Entries) > 0 {
			out.NextPageToken = gapi.MakeToken(last, query)
			break
		}
		out.Entries = append(out.Entries, proto.CloneOf(e.view))
		last = e.key()
	}
	return out, nil
}

// walk goes through what can be seen behind a key, in the order asked for. The
// lock is held.
func (s *Service) walk(backwards bool, after string, now time.Time) func(func(*entry) bool) {
	return func(yield func(*entry) bool) {
		for i := range s.entries {
			e := s.entries[i]
			if backwards {
				e = s.entries[len(s.entries)-1-i]
			}
			if e.visible.After(now) || after != "" && (!backwards && e.key() <= after || backwards && e.key() >= after) {
				continue
			}
			if !yield(e) {
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
	}
	return nil
}
