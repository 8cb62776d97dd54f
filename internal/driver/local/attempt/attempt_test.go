//go:build linux || darwin

package attempt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func folder(t *testing.T) Folder {
	t.Helper()
	f := In(t.TempDir(), sdk.NewIDSource(sdk.SystemClock()).NewID())
	if err := os.Mkdir(string(f), 0o700); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestRecords(t *testing.T) {
	f := folder(t)
	if _, err := Read[End](f, EndFile); !errors.Is(err, ErrNone) {
		t.Errorf("none: %v", err)
	}
	code := 3
	want := End{V: Version, ExitCode: &code, Ended: time.Now().UTC(), Why: "\"words\""}
	if err := f.Reserve(); err != nil {
		t.Fatal(err)
	}
	seen := false
	if err := f.WriteEnd(want, func() { seen = f.Has(EndFile) }); err != nil || !seen {
		t.Fatal(err, seen)
	}
	got, err := Read[End](f, EndFile)
	if err != nil || *got.ExitCode != 3 || !got.Ended.Equal(want.Ended) || got.Why != want.Why {
		t.Errorf("got %+v, %v", got, err)
	}
	for text, want := range map[string]sdk.Code{`{"v":99}`: sdk.FailedPrecondition, `{"v":1`: sdk.DataLoss, ``: sdk.DataLoss, `{"v":1,"exit_code":"x"}`: sdk.DataLoss} {
		if err := os.WriteFile(f.Path(EndFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read[End](f, EndFile); sdk.CodeOf(err) != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	list, err := os.ReadDir(string(f))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if st, err := e.Info(); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), st.Mode(), err)
		}
	}
}

// TestWriteTogether: readers see one record or another, never a mixture.
func TestWriteTogether(t *testing.T) {
	f := folder(t)
	var wg sync.WaitGroup
	for _, c := range "ab" {
		wg.Go(func() {
			for range 100 {
				if err := Write(f, CancelFile, Cancel{V: Version, Why: strings.Repeat(string(c), 20000)}, Visible); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 200 {
		c, err := Read[Cancel](f, CancelFile)
		if err != nil && !errors.Is(err, ErrNone) {
			t.Fatal(err)
		}
		if n := strings.Count(c.Why, "a"); n != 0 && n != 20000 {
			t.Fatalf("a mixture: %d", n)
		}
	}
	wg.Wait()
	if list, err := os.ReadDir(string(f)); err != nil || len(list) != 1 {
		t.Errorf("left: %v, %v", list, err)
	}
}

func TestLock(t *testing.T) {
	f := folder(t)
	if held, err := f.Held(); err != nil || held {
		t.Errorf("before the first lock: %t, %v", held, err)
	}
	lock, err := f.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Lock(); !errors.Is(err, ErrLocked) {
		t.Errorf("twice: %v", err)
	}
	if held, err := f.Held(); err != nil || !held {
		t.Errorf("held: %t, %v", held, err)
	}
	// A folder that was made anew has another lock.
	if err := f.Discard(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Lock(); !errors.Is(err, ErrNone) {
		t.Errorf("without a folder: %v", err)
	}
	if err := os.Mkdir(string(f), 0o700); err != nil {
		t.Fatal(err)
	}
	again, err := f.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lock.Close(), again.Close()); err != nil {
		t.Fatal(err)
	}
	if held, err := f.Held(); err != nil || held {
		t.Errorf("after the last: %t, %v", held, err)
	}
}

func TestDiscard(t *testing.T) {
	f := folder(t)
	state := filepath.Dir(string(f))
	if err := os.WriteFile(f.Path(OutputFile), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.Discard(); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := os.ReadDir(state); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	id, err := sdk.ParseID(filepath.Base(string(f)))
	if err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(state, gonePrefix+id.String()+"-1-0")
	if err := os.Mkdir(half, 0o700); err != nil {
		t.Fatal(err)
	}
	list, err := Leftovers(state, id)
	if err != nil || len(list) != 1 || list[0] != half || LeftoverOf(half) != id {
		t.Errorf("got %v, %v, %s", list, err, LeftoverOf(half))
	}
	if ids, err := List(state); err != nil || len(ids) != 0 {
		t.Errorf("listed: %v, %v", ids, err)
	}
	for _, p := range []string{"", "x", gonePrefix, gonePrefix + "short", gonePrefix + strings.Repeat("!", sdk.IDLen)} {
		if !LeftoverOf(p).IsZero() {
			t.Errorf("%q is taken for a leftover", p)
		}
	}
}
