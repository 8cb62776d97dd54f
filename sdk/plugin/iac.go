package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// iacOwner is the owner of what hosts of the published wire have made: that wire knows
// neither owners nor ledgers. `windlass reap --owner workflow` finds it too.
const iacOwner = "workflow"

// iacExpiry is when others may remove what a job of such a host made.
const iacExpiry = 24 * time.Hour

// computePlanVersion is what the ecosystem's host accepts.
const computePlanVersion = "v2"

// iacProvider serves a driver to a host of the published wire, as one provider, which
// Initialize opens. What such a host doesn't ask of a provider of jobs is Unimplemented.
type iacProvider struct {
	iacpb.UnimplementedIaCProviderRequiredServer
	s *Server

	mu       sync.Mutex // held while the provider is opened
	provider sdk.Provider
	config   []byte
	ids      sdk.IDSource
	ended    bool
	gone     chan struct{} // closed by close
	tasks    sync.WaitGroup
}

var _ iacpb.IaCProviderRequiredServer = (*iacProvider)(nil)

func (p *iacProvider) Name(context.Context, *iacpb.NameRequest) (*iacpb.NameResponse, error) {
	return &iacpb.NameResponse{Name: p.s.manifest.Name}, nil
}

func (p *iacProvider) Version(context.Context, *iacpb.VersionRequest) (*iacpb.VersionResponse, error) {
	return &iacpb.VersionResponse{Version: p.s.manifest.Version}, nil
}

func (p *iacProvider) Capabilities(context.Context, *iacpb.CapabilitiesRequest) (*iacpb.CapabilitiesResponse, error) {
	return &iacpb.CapabilitiesResponse{ComputePlanVersion: computePlanVersion}, nil
}

// Initialize opens the provider. The same configuration again is success, another one
// FailedPrecondition: jobs of the first may be running.
func (p *iacProvider) Initialize(ctx context.Context, m *iacpb.InitializeRequest) (*iacpb.InitializeResponse, error) {
	if err := p.open(ctx, m.GetConfigJson()); err != nil {
		return nil, wire.Status(ctx, err)
	}
	return &iacpb.InitializeResponse{}, nil
}

func (p *iacProvider) open(ctx context.Context, config []byte) error {
	if c := bytes.TrimSpace(config); len(c) == 0 || string(c) == "null" {
		config = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended:
		return sdk.Errorf(sdk.Unavailable, "initialize provider", "the plugin is ending")
	case p.provider != nil && bytes.Equal(p.config, config):
		return nil
	case p.provider != nil:
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "initialize provider", Remedy: "start another process for it",
			Err: errors.New("it was initialized with another configuration")}
	}
	dir, err := filepath.Abs(p.s.stateDir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "initialize provider", Remedy: "let the plugin write to its folder", Err: fmt.Errorf("make the state folder: %w", err)}
	}
	ids := sdk.NewIDSource(p.s.clock)
	opened, err := p.s.openDriver(ctx, sdk.OpenRequest{Name: p.s.manifest.Name, Config: config, AmbientCredentials: true, Secrets: p.s.secrets,
		Owner: iacOwner, LedgerID: ids.NewID().String(), StateDir: dir})
	if err != nil {
		return err
	}
	p.provider, p.config, p.ids = opened, bytes.Clone(config), ids
	if l, ok := sdk.Of(opened, sdk.Lister()); ok {
		p.tasks.Go(func() { p.sweep(l) })
	}
	return nil
}

// sweepTime bounds a sweep.
const sweepTime = 5 * time.Minute

// sweep removes what such hosts' jobs left behind, once it has ended and expired: the
// published wire has no call for it.
func (p *iacProvider) sweep(l sdk.OwnedLister) {
	ctx, cancel := p.until(context.Background(), sweepTime)
	defer cancel()
	now := p.s.clock.Now()
	for o, err := range l.ListOwned(ctx, sdk.ListOwnedRequest{Owner: iacOwner}) {
		if err == nil && !o.Live && !o.Shared && o.Owner == iacOwner && !o.Expires.IsZero() && o.Expires.Before(now) {
			_, err = l.RemoveOwned(ctx, sdk.RemoveOwnedRequest{Object: o})
		}
		if err != nil && ctx.Err() == nil {
			p.s.log.Warn("remove what has expired", "object", o.ID, "error", err)
		}
	}
}

// alive returns a context that ends when the plugin does.
func (p *iacProvider) alive(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-p.gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// until returns a context that ends after d, and when the plugin ends.
func (p *iacProvider) until(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := p.alive(ctx)
	ctx, cancel := context.WithTimeout(ctx, d)
	return ctx, func() { cancel(); stop() }
}

func (p *iacProvider) close() error {
	p.mu.Lock()
	opened := p.provider
	p.provider = nil
	if !p.ended {
		p.ended = true
		close(p.gone)
	}
	p.mu.Unlock()
	p.tasks.Wait()
	if opened == nil {
		return nil
	}
	return opened.Close()
}

// opened returns a capability of the provider that Initialize opened.
func opened[C any](p *iacProvider, c sdk.Capability[C]) (C, sdk.Provider, error) {
	var none C
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.provider == nil {
		return none, nil, sdk.Errorf(sdk.FailedPrecondition, "use "+c.String(), "Initialize comes first")
	}
	v, ok := sdk.Of(p.provider, c)
	if !ok {
		return none, nil, absent(p.provider, c)
	}
	return v, p.provider, nil
}
