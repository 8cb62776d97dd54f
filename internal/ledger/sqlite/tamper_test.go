package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/ledgertest"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/sdk"
)

func dbPath(dir string) string { return filepath.Join(dir, "ledger.db") }

func exec(t testing.TB, dir, text string) {
	t.Helper()
	n, err := sqlite.Exec(context.Background(), dbPath(dir), text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if n == 0 {
		t.Fatalf("%s: changed nothing", text)
	}
}

// written makes a ledger with n whole runs of nine events each, and returns its
// directory and its head.
func written(t testing.TB, n int) (dir string, head ledger.Head) {
	t.Helper()
	dir = t.TempDir()
	s, err := sqlite.Open(context.Background(), dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := sdk.NewIDSource(sdk.SystemClock())
	for range n {
		for _, w := range ledgertest.NewScript(ids, sdk.ID{}, nil).Writes {
			if err := s.Write(context.Background(), w); err != nil {
				t.Fatal(err)
			}
		}
	}
	if head, err = s.Head(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, head
}

func faults(t testing.TB, dir string, known *ledger.Head) []string {
	t.Helper()
	s := open(t, dir, sqlite.Options{Inspect: true})
	rep, err := s.Verify(context.Background(), known)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range rep.Faults {
		out = append(out, fmt.Sprintf("%s@%d", f.What, f.Seq))
		t.Logf("%s at event %d, run %q: %s", f.What, f.Seq, f.Run, f.Detail)
	}
	return out
}

// TestVerifyNamesTampering changes the database behind the store's back, with
// three runs of nine events each.
func TestVerifyNamesTampering(t *testing.T) {
	const swap = `CREATE TEMP TABLE x AS SELECT * FROM run_events WHERE seq IN (4,5);
		DELETE FROM run_events WHERE seq IN (4,5);
		UPDATE x SET seq=9-seq;
		INSERT INTO run_events SELECT * FROM x`
	for _, tc := range []struct {
		name string
		sql  string
		want string // the first fault
		// head: only the known head shows it.
		head bool
	}{
		{"nothing", "UPDATE run_events SET actor=actor", "", false},
		{"time edited", "UPDATE run_events SET at=at+1 WHERE seq=4", "edited@4", false},
		{"actor edited", "UPDATE run_events SET actor='mallory' WHERE seq=27", "edited@27", false},
		{"kind edited", "UPDATE run_events SET kind='note' WHERE seq=1", "edited@1", false},
		{"attempt edited", "UPDATE run_events SET attempt=2 WHERE seq=13", "edited@13", false},
		{"change edited", `UPDATE run_events SET change=replace(change,'"exit_code":0','"exit_code":7') WHERE seq=6`, "edited@6", false},
		{"run edited", "UPDATE run_events SET run=(SELECT run FROM run_events WHERE seq=10) WHERE seq=5", "edited@5", false},
		{"hash edited", "UPDATE run_events SET hash=randomblob(32) WHERE seq=5", "edited@5", false},
		{"prev edited", "UPDATE run_events SET prev=randomblob(32) WHERE seq=5", "edited@5", false},
		{"removed", "DELETE FROM run_events WHERE seq=5", "removed@5", false},
		{"the first removed", "DELETE FROM run_events WHERE seq=1", "removed@1", false},
		{"several removed", "DELETE FROM run_events WHERE seq BETWEEN 10 AND 18", "removed@10", false},
		{"removed and renumbered", "DELETE FROM run_events WHERE seq=5; UPDATE run_events SET seq=-seq WHERE seq>5; UPDATE run_events SET seq=-seq-1 WHERE seq<0", "removed@5", false},
		{"swapped", swap, "reordered@4", false},
		{"the end removed", "DELETE FROM run_events WHERE seq>25", "cut_off@26", false},
		{"the end removed, head edited", "DELETE FROM run_events WHERE seq>25; UPDATE meta SET head_count=25, head_hash=(SELECT hash FROM run_events WHERE seq=25)", "cut_off@26", true},
		{"head edited", "UPDATE meta SET head_hash=randomblob(32)", "bad_head@27", false},
		{"another ledger", "UPDATE meta SET ledger_id='x'", "edited@1", false},
		{"a run removed", "DELETE FROM workload_runs WHERE num=2", "row_differs@10", false},
		{"an attempt removed", "DELETE FROM run_attempts WHERE num=2", "row_differs@0", false},
		{"a run's events and rows removed", "DELETE FROM run_events WHERE seq BETWEEN 10 AND 18; DELETE FROM run_attempts WHERE num=2; DELETE FROM workload_runs WHERE num=2", "removed@10", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, head := written(t, 3)
			exec(t, dir, tc.sql)
			got := faults(t, dir, nil)
			if tc.head {
				for _, g := range got {
					if !strings.HasPrefix(g, ledger.FaultRowDiffers) {
						t.Errorf("without the known head: %v", got)
					}
				}
				got = faults(t, dir, &head)
			}
			switch {
			case tc.want == "" && len(got) > 0:
				t.Errorf("faults: %v", got)
			case tc.want != "" && (len(got) == 0 || got[0] != tc.want):
				t.Errorf("faults: %v, want %s first", got, tc.want)
			}
		})
	}
}

// TestVerifyNamesDifferingFields edits every folded column of the rows.
func TestVerifyNamesDifferingFields(t *testing.T) {
	dir, _ := written(t, 1)
	value := func(column string) string {
		switch {
		case strings.HasSuffix(column, "_at") || strings.HasSuffix(column, "_running") || column == "not_before":
			return "1234567"
		case strings.Contains("attempt exit_code oom launches events", column):
			return "7"
		case column == "raw":
			return `'{"x":"y"}'`
		case column == "id" || column == "run":
			return "'" + sdk.ID{1}.String() + "'"
		}
		return "'other'"
	}
	for table, columns := range map[string]string{
		"workload_runs": "actor action target provider kind account region endpoint request_id spec_hash name requested_at attempt phase state reason exit_code signal message started_at ended_at finished_at verdict cancel_at cancel_by cancel_why not_before events oom spec settings",
		"run_attempts":  "id handle sent_at phase state reason exit_code signal oom launches message raw created_at started_at seen_running ended_at verdict cleanup_err launch",
	} {
		for column := range strings.FieldsSeq(columns) {
			exec(t, dir, fmt.Sprintf("CREATE TABLE saved AS SELECT %s AS v FROM %s; UPDATE %s SET %s=%s", column, table, table, column, value(column)))
			s := open(t, dir, sqlite.Options{})
			rep, err := s.Verify(t.Context(), nil)
			if err != nil {
				t.Fatalf("%s.%s: %v", table, column, err)
			}
			name := column
			switch {
			case strings.Contains("kind account region endpoint", column):
				name = "identity"
			case column == "finished_at" && table == "workload_runs":
				name = "finished_at"
			}
			if len(rep.Faults) != 1 || rep.Faults[0].What != ledger.FaultRowDiffers || !strings.Contains(rep.Faults[0].Detail, name+":") {
				t.Errorf("%s.%s: %+v", table, column, rep.Faults)
			}
			exec(t, dir, fmt.Sprintf("UPDATE %s SET %s=(SELECT v FROM saved); DROP TABLE saved", table, column))
		}
	}
	if got := faults(t, dir, nil); len(got) != 0 {
		t.Errorf("after all: %v", got)
	}
}

// TestCheckpointTampering: what a checkpoint doesn't list may not be missing.
func TestCheckpointTampering(t *testing.T) {
	for _, tc := range []struct{ name, sql, want string }{
		{"nothing", "UPDATE run_events SET actor=actor", ""},
		{"one more run removed", "DELETE FROM run_events WHERE seq BETWEEN 28 AND 36; DELETE FROM run_attempts; DELETE FROM workload_runs", "removed@28"},
		{"checkpoint edited", `UPDATE run_events SET change=replace(change,'"to":27','"to":26')`, "removed@27"},
		{"checkpoint removed", "DELETE FROM run_events WHERE kind='checkpoint'", "removed@37"},
		{"checkpoint forgotten", "UPDATE meta SET checkpoint=0", "bad_head@37"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, _ := written(t, 3)
			s, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var last ledger.Run
			for r, err := range s.Runs(t.Context(), ledger.RunFilter{Limit: 1}) {
				if err != nil {
					t.Fatal(err)
				}
				last = r
			}
			for _, w := range ledgertest.NewScript(sdk.NewIDSource(sdk.SystemClock()), sdk.ID{}, nil).Writes {
				if err := s.Write(t.Context(), w); err != nil {
					t.Fatal(err)
				}
			}
			if n, err := s.Prune(t.Context(), last.FinishedAt.Add(1), "ann"); n != 3 || err != nil {
				t.Fatal(n, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			exec(t, dir, tc.sql)
			got := faults(t, dir, nil)
			if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) == 0 || got[0] != tc.want) {
				t.Errorf("faults: %v, want %q first", got, tc.want)
			}
		})
	}
}
