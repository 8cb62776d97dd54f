package cloudrun

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	pocket "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudlogging"
	"github.com/windlass-run/windlass/sdk"
)

// TestF61SharedReader: many runs are followed within the quota of reads; lines
// that come late, twice and with equal times are given once and in order.
func TestF61SharedReader(t *testing.T) {
	const jobs, lines = 12, 30
	w := newWorld(t, pocket.Options{}, map[string]any{"log_late": "1s", "log_quiet": "1500ms", "log_max": "20s", "log_rate": 50})
	w.cloud.Logging().TuneKnobs(func(k *cloudlogging.Knobs) {
		k.ReadsPerMinute, k.LateEvery, k.LateBy, k.DoubleEvery, k.EmptyPages = cloudlogging.ReadsPerMinute, 7, 500*time.Millisecond, 5, 1
	})
	d := Driver()
	p, q := w.OpenOn(d), w.OpenOn(d)
	var want strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	got := make([]string, jobs)
	var wg sync.WaitGroup
	for i := range jobs {
		h := w.Run(p, w.Plan(p, shell(fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo line $i; i=$((i+1)); done", lines))))
		reader := p
		if i%2 == 1 {
			reader = q
		}
		wg.Go(func() {
			var err error
			if got[i], err = w.Follow(t.Context(), reader, h, func(text string) bool { return len(text) >= want.Len() }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, g := range got {
		if g != want.String() {
			t.Errorf("job %d: %q", i, g)
		}
	}
	// Each round takes two reads, for the empty page.
	if n := w.Count("logging:ListLogEntries"); n > cloudlogging.ReadsPerMinute {
		t.Errorf("%d reads for %d followers", n, jobs)
	}
}

// TestF62HandleFindsLog: a handle alone is enough to read a log, also once the job
// was deleted.
func TestF62HandleFindsLog(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell(`echo one; echo '{"severity":"WARNING","message":"two"}'`)))
	w.Ended(p, h)
	if _, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
		t.Fatal(err)
	}
	raw, err := h.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := sdk.DecodeHandle(raw)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := w.Text(w.Open(), back, nil)
	if want := "one\n" + `{"message":"two","severity":"WARNING"}` + "\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestF53Batch: many states cost few calls.
func TestF53Batch(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	var handles []sdk.JobHandle
	for range 40 {
		handles = append(handles, w.Run(p, w.Plan(p, shell("sleep 100"))))
	}
	for _, h := range handles {
		w.Running(p, h)
	}
	gets, lists := w.Count("run:GetExecution"), w.Count("run:ListExecutions")
	res, err := p.JobStatuses(t.Context(), sdk.JobStatusesRequest{Handles: handles})
	if err != nil {
		t.Fatal(err)
	}
	for i, it := range res.Items {
		if it.Err != nil || it.Result.State != sdk.StateRunning {
			t.Errorf("job %d: %s, %v", i, it.Result.State, it.Err)
		}
	}
	if g, l := w.Count("run:GetExecution")-gets, w.Count("run:ListExecutions")-lists; g != 0 || l != 1 {
		t.Errorf("%d gets and %d lists for %d jobs", g, l, len(handles))
	}
}
