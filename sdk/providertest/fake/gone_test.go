package fake

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// still is a clock that stands.
type still struct{}

func (still) Now() time.Time { return time.Unix(1e9, 0) }

func (still) Sleep(context.Context, time.Duration) error { return nil }

// TestNothingIsWrittenOfAGoneJob: what comes when a job was just removed leaves no
// file behind.
func TestNothingIsWrittenOfAGoneJob(t *testing.T) {
	f, err := newFolder(t.TempDir(), still{})
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func() error{
		"cancel": func() error { return f.cancel("wl-x", cancelFact{}) },
		"stdin":  func() error { return f.endStdin("wl-x", stdinFact{}) },
		"expire": func() error { return f.expire("wl-x", time.Unix(2e9, 0)) },
	} {
		if err := write(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		left, err := os.ReadDir(filepath.Join(f.dir, "jobs"))
		if err != nil || len(left) > 0 {
			t.Errorf("%s left %v, %v", name, left, err)
		}
	}
}
