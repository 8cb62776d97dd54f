package plugin

import (
	"context"
	"errors"
	"log/slog"

	"github.com/windlass-run/windlass/sdk"
)

// Option changes how a driver is served.
type Option func(*Server)

// WithManifest says who the plugin is; without it only its name is known, the driver's
// kind. Serve reads plugin.json.
func WithManifest(m Manifest) Option { return func(s *Server) { s.manifest = m } }

// WithSecrets gives what resolves references for hosts of the published wire, which has
// no call for it. Without it such a host can only send references that the driver passes
// on. A host of our wire resolves by itself.
func WithSecrets(r sdk.SecretResolver) Option { return func(s *Server) { s.secrets = r } }

// WithLog gives what drivers write their log to; without it they write none. Serve logs
// to the standard error.
func WithLog(l *slog.Logger) Option { return func(s *Server) { s.log = l } }

// WithStateDir names the folder that providers opened over the published wire keep state
// in, which is made on demand; without it that is "state" in the working folder, which
// is the plugin's own. A host of our wire names one itself.
func WithStateDir(dir string) Option { return func(s *Server) { s.stateDir = dir } }

// stateFolder is where state is kept, relative to the working folder.
const stateFolder = "state"

// noSecrets resolves nothing.
type noSecrets struct{}

var _ sdk.SecretResolver = noSecrets{}

func (noSecrets) ResolveSecret(context.Context, sdk.SecretRef) (sdk.SecretValue, error) {
	return sdk.SecretValue{}, &sdk.Error{Code: sdk.Unimplemented, Op: "resolve secret", Remedy: "use a reference that the backend fetches itself",
		Err: errors.New("this host has no call for it, and the plugin resolves none")}
}
