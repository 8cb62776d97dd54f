package docker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

// factsAge is how long what the engine said of itself is believed.
const factsAge = time.Minute

// facts keeps what the engine said of itself.
type facts struct {
	mu   sync.Mutex
	info *system.Info
	at   time.Time
}

// engineInfo asks the engine what it is and can, at most once a minute.
func (p *provider) engineInfo(ctx context.Context, op string) (*system.Info, error) {
	p.facts.mu.Lock()
	info, at := p.facts.info, p.facts.at
	p.facts.mu.Unlock()
	if age := p.clock.Now().Sub(at); info != nil && age >= 0 && age < factsAge {
		return info, nil
	}
	return p.askEngine(ctx, op)
}

func (p *provider) askEngine(ctx context.Context, op string) (*system.Info, error) {
	var info *system.Info
	err := p.client.Call(ctx, op, func(ctx context.Context, api *client.Client) error {
		res, err := api.Info(ctx, client.InfoOptions{})
		info = &res.Info
		if isPodman(info) {
			info.ID = "" // a new one with each answer, which tells nothing
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	p.facts.mu.Lock()
	p.facts.info, p.facts.at = info, p.clock.Now()
	p.facts.mu.Unlock()
	return info, nil
}

// sameEngine refuses to go on when another engine answers than the one that
// was meant. An empty ID was never known and matches.
func (p *provider) sameEngine(ctx context.Context, op, id string) error {
	if id == "" {
		return nil
	}
	info, err := p.engineInfo(ctx, op)
	if err != nil {
		return err
	}
	return p.compareEngine(op, id, info.ID)
}

func (p *provider) compareEngine(op, want, have string) error {
	if want == have || want == "" {
		return nil
	}
	e := p.fail(sdk.FailedPrecondition, op, fmt.Errorf("another engine answers at %s: its ID is %s, the job's is %s", p.identity.Endpoint, have, want))
	e.Remedy = "bring the job's engine back to that address"
	return e
}

// absent turns "no such container" into an answer that can be relied on: an
// engine that is not the job's knows nothing of the job.
func (p *provider) absent(ctx context.Context, op, engineID string, cause error) error {
	if engineID == "" {
		return cause
	}
	info, err := p.askEngine(ctx, op)
	if err != nil {
		return err
	}
	if err := p.compareEngine(op, engineID, info.ID); err != nil {
		return err
	}
	return cause
}

// isPodman reports whether it is Podman that serves Docker's API: only Podman keeps
// output in Kubernetes' format.
func isPodman(info *system.Info) bool { return slices.Contains(info.Plugins.Log, logFile) }

// logDriver picks how the engine keeps the output: as Docker does, or as Podman, which
// has neither of Docker's drivers.
func logDriver(info *system.Info, wanted string) string {
	have := info.Plugins.Log
	switch {
	case wanted != "":
		return wanted
	case len(have) == 0 || slices.Contains(have, logLocal):
		return logLocal
	case isPodman(info) && !slices.Contains(have, logJSON):
		return logFile
	}
	return logJSON
}
