package podlog

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// written is the log of a container that has ended.
type written struct{ text string }

func (written) Look(context.Context) (Sight, error) {
	return Sight{Containers: []Container{{UID: "u", Pod: "p", Started: true, Ended: true}}, Over: true}, nil
}

func (w written) Open(context.Context, Container, time.Time, bool) (io.ReadCloser, error) {
	return &body{r: strings.NewReader(w.text)}, nil
}

// body is a reply's: once it is closed it gives nothing more.
type body struct {
	r      io.Reader
	closed atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, io.ErrClosedPipe
	}
	return b.r.Read(p)
}

func (b *body) Close() error {
	b.closed.Store(true)
	return nil
}

// TestSlowCaller: a caller that takes longer over what it is given than a stream may
// be silent gets the whole log, with its proof, by one look.
func TestSlowCaller(t *testing.T) {
	const lines = 2000 // more than one read's worth
	var text strings.Builder
	at := time.Unix(1e9, 0).UTC()
	for i := range lines {
		fmt.Fprintf(&text, "%s line %d, as long as lines are\n", at.Add(time.Duration(i)*time.Microsecond).Format(time.RFC3339Nano), i)
	}
	synctest.Test(t, func(t *testing.T) {
		got, looks, verdict := 0, 0, sdk.Verdict("")
		for it, err := range (Reader{Kind: "k", Op: "read", Source: written{text.String()}, Stall: time.Second}).Read(t.Context(), nil, false) {
			switch {
			case err != nil:
				t.Fatal(err)
			case it.Entry != nil:
				if want := fmt.Sprintf("line %d, as long as lines are", got); string(it.Entry.Data) != want {
					t.Fatalf("got %q, want %q", it.Entry.Data, want)
				}
				got++
				time.Sleep(3 * time.Second) //sleep: virtual, and what is slow
			case it.End != nil:
				verdict = it.End.Verdict
			default:
				looks++
			}
		}
		if got != lines || verdict != sdk.VerdictComplete || looks > 0 {
			t.Errorf("%d lines of %d, verdict %q, %d looks", got, lines, verdict, looks)
		}
	})
}
