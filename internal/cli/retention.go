package cli

import (
	"context"
	"time"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
)

// sweepTime bounds how long a command applies retention at its end.
const sweepTime = 2 * time.Second

// retention is what the configuration keeps.
func retention(c *config.Config) control.Retention {
	return control.Retention{Logs: c.KeepLogs, LogBytes: c.KeepSize, Ledger: c.KeepRows}
}

// sweep applies retention, once a day, at the end of a run. What it has no time for
// is left to the keeper, or to the next day.
func (f *Factory) sweep(ctx context.Context, s *Session) error {
	c, err := f.cfg()
	if err != nil || s.ReadOnly {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, sweepTime)
	defer stop()
	if _, err = s.Engine.RetainDaily(ctx, retention(c), c.Actor, false); ctx.Err() != nil {
		return nil
	}
	return err
}

// listed reports whether a run is still shown in listings.
func listed(c *config.Config, r ledger.Run, now time.Time) bool {
	return c.KeepRuns <= 0 || r.Open() || now.Sub(r.EndedAt) < c.KeepRuns
}
