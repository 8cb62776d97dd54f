package plugin

import "github.com/windlass-run/windlass/sdk"

// WithClock gives the clock.
func WithClock(c sdk.Clock) Option { return func(s *Server) { s.clock = c } }

// ReadManifest is readManifest.
func ReadManifest(dir, kind string) (Manifest, error) { return readManifest(dir, kind) }
