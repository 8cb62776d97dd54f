//go:build unix

package keeper

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// bounded is a configuration that bounds its provider.
type bounded struct {
	Opened
	most int
}

func (b bounded) Find(ctx context.Context, name string, id sdk.Identity) (control.Backend, error) {
	back, err := b.Opened.Find(ctx, name, id)
	back.MaxInFlight, back.SubmitRate = b.most, float64(b.most)
	return back, err
}

// TestBoundsOfTheOwnConfig: a configuration that was changed while the keeper
// lives bounds the runs that are asked for under it.
func TestBoundsOfTheOwnConfig(t *testing.T) {
	w := newWorld(t)
	p := newPool(func(ctx context.Context, o Origin) (Opened, error) {
		most := 0
		for _, v := range o.Env {
			if text, ok := strings.CutPrefix(string(v), "MOST="); ok {
				most, _ = strconv.Atoi(text)
			}
		}
		opened, err := w.open(ctx, o)
		return bounded{opened, most}, err
	}, slog.New(slog.DiscardHandler))
	defer func() { _ = p.close(w.ctx()) }()
	for i, most := range []int{0, 1, 7, 0} {
		run := ledger.Run{ID: sdk.ID{15: byte(i + 1)}, Provider: "fake", Identity: w.identity("fake")}
		if _, err := p.offer(w.ctx(), w.origin("CRED=mine", "MOST="+strconv.Itoa(most)), false, run.ID); err != nil {
			t.Fatal(err)
		}
		back, err := p.BackendFor(w.ctx(), run)
		if err != nil {
			t.Fatal(err)
		}
		if back.MaxInFlight != most || back.SubmitRate != float64(most) {
			t.Errorf("run %d: %d at a time and %g a second, want %d", i, back.MaxInFlight, back.SubmitRate, most)
		}
	}
}
