package sdk_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// hands is a clock that a test moves.
type hands struct {
	sdk.Clock
	mu  sync.Mutex
	now time.Time
}

func (h *hands) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hands) set(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = t
}

// TestIDsGrow: IDs sort by time as bytes and as text, also within one
// nanosecond and when the clock steps back.
func TestIDsGrow(t *testing.T) {
	clock := &hands{now: time.Date(2026, 1, 2, 3, 4, 5, 999_999_000, time.UTC)}
	src := sdk.NewIDSource(clock)
	var last sdk.ID
	for i := range 20000 {
		switch i % 5000 {
		case 1000:
			clock.set(clock.Now().Add(-time.Hour))
		case 2000:
			clock.set(clock.Now().Add(time.Nanosecond))
		case 3000:
			clock.set(clock.Now().Add(2 * time.Hour))
		}
		id := src.NewID()
		if id.String() <= last.String() || slices.Compare(id[:], last[:]) <= 0 {
			t.Fatalf("ID %d: %s after %s", i, id, last)
		}
		last = id
	}
}

func TestIDsUniqueAtOnce(t *testing.T) {
	src := sdk.NewIDSource(sdk.SystemClock())
	const workers, each = 8, 5000
	got := make([][]sdk.ID, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for range each {
				got[w] = append(got[w], src.NewID())
			}
		})
	}
	wg.Wait()
	seen := map[sdk.ID]bool{}
	for _, ids := range got {
		if !slices.IsSortedFunc(ids, func(a, b sdk.ID) int { return slices.Compare(a[:], b[:]) }) {
			t.Error("one goroutine's IDs are not in order")
		}
		for _, id := range ids {
			if seen[id] {
				t.Fatalf("%s came twice", id)
			}
			seen[id] = true
		}
	}
}

func TestIDIsUUIDv7(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	src := sdk.NewIDSource(&hands{now: at})
	for range 100 {
		id := src.NewID()
		if id[6]>>4 != 7 || id[8]>>6 != 2 {
			t.Fatalf("version %d, variant %d", id[6]>>4, id[8]>>6)
		}
		if !id.Time().Equal(at) {
			t.Fatalf("time %s, want %s", id.Time().UTC(), at)
		}
		s := id.String()
		if len(s) != sdk.IDLen || s != strings.ToLower(s) || !strings.HasSuffix(s, id.Short()) || len(id.Short()) != sdk.ShortIDLen {
			t.Fatalf("text %q, short %q", s, id.Short())
		}
		if strings.ContainsAny(s, "ilou") {
			t.Fatalf("%q has letters that are mistaken for others", s)
		}
	}
}

func TestParseIDRefuses(t *testing.T) {
	good := sdk.NewIDSource(sdk.SystemClock()).NewID().String()
	for _, s := range []string{"", good[1:], good + "0", strings.ToUpper(good), " " + good[1:], "8" + good[1:], "z" + good[1:], good[:25] + "u", good[:25] + "é",
		strings.Repeat("0", 25) + "-", strings.Repeat("0", 26), "0192f0c1-2345-7abc-8def-0123456789ab"} {
		if s == good {
			continue
		}
		if id, err := sdk.ParseID(s); !errors.Is(err, sdk.InvalidArgument) || !id.IsZero() {
			t.Errorf("%q: got %s, %v; want InvalidArgument", s, id, err)
		}
	}
}

func TestZeroID(t *testing.T) {
	var id sdk.ID
	if !id.IsZero() || id.String() != "" || id.Short() != "" {
		t.Errorf("zero ID is %q", id.String())
	}
	b, err := json.Marshal(id)
	if err != nil || string(b) != `""` {
		t.Errorf("got %s, %v", b, err)
	}
	id[0] = 1
	if err := json.Unmarshal([]byte(`""`), &id); err != nil || !id.IsZero() {
		t.Errorf("got %s, %v", id, err)
	}
	if err := json.Unmarshal([]byte(`"x"`), &id); !errors.Is(err, sdk.InvalidArgument) {
		t.Errorf("got %v", err)
	}
}

// FuzzParseID: what is taken is the one text form of what comes out.
func FuzzParseID(f *testing.F) {
	f.Add("")
	f.Add("7zzzzzzzzzzzzzzzzzzzzzzzzz")
	f.Add("8zzzzzzzzzzzzzzzzzzzzzzzzz")
	f.Add(strings.Repeat("0", 26))
	f.Add(sdk.NewIDSource(sdk.SystemClock()).NewID().String())
	f.Fuzz(func(t *testing.T, s string) {
		id, err := sdk.ParseID(s)
		switch {
		case err != nil && !errors.Is(err, sdk.InvalidArgument):
			t.Fatalf("%q: %v", s, err)
		case err == nil && id.IsZero():
			t.Fatalf("%q is zero", s)
		case err == nil && id.String() != s:
			t.Fatalf("%q is %q", s, id)
		}
	})
}
