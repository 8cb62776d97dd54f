package sqlite

import (
	"database/sql/driver"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// TestQueriesUseIndexes: what is asked often, or during an incident, doesn't
// read the whole ledger.
func TestQueriesUseIndexes(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	page := func(f ledger.RunFilter) func() (string, []driver.Value) {
		return func() (string, []driver.Value) {
			q := newRunQuery(f)
			q.from = 7
			return q.page(10)
		}
	}
	plain := func(text string, args ...driver.Value) func() (string, []driver.Value) {
		return func() (string, []driver.Value) { return text, args }
	}
	id := sdk.ID{1}
	for _, tc := range []struct {
		name  string
		query func() (string, []driver.Value)
		want  string
	}{
		{"newest", page(ledger.RunFilter{}), "INTEGER PRIMARY KEY (rowid<?)"},
		{"oldest", page(ledger.RunFilter{OldestFirst: true}), "INTEGER PRIMARY KEY (rowid>?)"},
		{"open", page(ledger.RunFilter{Open: true}), "INDEX workload_runs_open (num<?)"},
		{"open and held", page(ledger.RunFilter{Open: true, Holder: id}), "INDEX workload_runs_held (holder=?"},
		{"open runs", page(ledger.RunFilter{Open: true, Action: "run"}), "INDEX workload_runs_open (num<?)"},
		{"open on a target", page(ledger.RunFilter{Open: true, Action: "svc.scale", Target: "web"}), "INDEX workload_runs_open (num<?)"},
		{"open of a provider", page(ledger.RunFilter{Open: true, Provider: "p", Target: "web"}), "INDEX workload_runs_active (provider=?"},
		{"runs", page(ledger.RunFilter{Action: "run"}), "INTEGER PRIMARY KEY (rowid<?)"},
		{"changes", page(ledger.RunFilter{Action: "svc.scale"}), "INDEX workload_runs_incident (action=?)"},
		{"runs of an image", page(ledger.RunFilter{Action: "run", Target: "app:1.4"}), "INDEX workload_runs_incident (action=? AND target=?)"},
		{"suffix", page(ledger.RunFilter{Suffix: "abcdefghjk"}), "INDEX workload_runs_suffix (<expr>=?"},
		{"incident", page(ledger.RunFilter{Action: "svc.scale", Target: "web", Since: time.Now(), Until: time.Now()}), "INDEX workload_runs_incident (action=? AND target=? AND requested_at>? AND requested_at<?)"},
		{"since", page(ledger.RunFilter{Since: time.Now(), Until: time.Now()}), "INDEX workload_runs_requested (requested_at>? AND requested_at<?)"},
		{"claimable", func() (string, []driver.Value) { return claimable([]sdk.ID{id}, 0) }, "INDEX workload_runs_open"},
		{"run", plain("SELECT "+runColumns+" FROM workload_runs WHERE id=?", "x"), "(id=?)"},
		{"request", plain("SELECT "+runColumns+" FROM workload_runs WHERE request_id=?", "x"), "INDEX workload_runs_request (request_id=?)"},
		{"places", plain(takenPlaces, "p", "x"), "INDEX workload_runs_active (provider=? AND phase=?)"},
		{"stuck", plain(stuck, "p", "x"), "INDEX workload_runs_active (provider=? AND phase=?)"},
		{"older", plain(olderWaiting, "p", "x", int64(1), int64(1)), "INDEX workload_runs_active (provider=? AND phase=? AND rowid<?)"},
		{"events of a run", plain("SELECT "+eventColumns+" FROM run_events WHERE run=? AND seq>? ORDER BY seq LIMIT ?", "x", int64(1), int64(1)), "INDEX run_events_run (run=? AND rowid>?)"},
	} {
		text, args := tc.query()
		var plan []string
		err := s.read(t.Context(), "explain", func(c *conn) error {
			return c.query(t.Context(), "EXPLAIN QUERY PLAN "+text, args, func(r row) (bool, error) {
				plan = append(plan, r.text(3))
				return true, nil
			})
		})
		if err != nil || len(plan) == 0 || !strings.Contains(plan[0], tc.want) {
			t.Errorf("%s: %s (%v), want %s", tc.name, strings.Join(plan, "; "), err, tc.want)
		}
	}
}
