package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/cookie"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// Serve serves a driver to the host that has started this process, until the host ends
// it. It is all that a plugin's main does:
//
//	func main() { plugin.Serve(shell.Driver()) }
//
// Who the plugin is stands in plugin.json beside the program, else in the build. What
// can't be served, and a process that no host has started, ends with a message and exit
// code 1. Standard output belongs to the host from the start: main prints nothing before
// Serve; what is printed later does no harm, and logs go to the standard error.
func Serve(d sdk.Driver, options ...Option) {
	if err := serve(d, options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(d sdk.Driver, options []Option) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("serve plugin: %w", err)
	}
	m, err := readManifest(filepath.Dir(self), d.Kind)
	if err != nil {
		return err
	}
	// The standard error of now, which the host reads whatever becomes of os.Stderr.
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	s, err := newServer(d, append([]Option{WithManifest(m), WithLog(log)}, options...))
	if err != nil {
		return err
	}
	if !cookie.Is(CookieKey, CookieValue) {
		return errors.New(s.introduction(filepath.Base(self)))
	}
	s.endWithHost()
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: Handshake(),
		Plugins:         goplugin.PluginSet{SetKey: &served{s: s}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(append(wire.ServerOptions(), grpc.UnknownServiceHandler(s.unknown)), opts...)...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
	})
	return s.Close()
}

// endWithHost ends the process when the host has gone, however that came: a host that holds
// a pipe to the standard input never writes to it, so that the end of it is the host's.
// Other hosts give none, and end the plugin themselves. Jobs go on.
func (s *Server) endWithHost() {
	info, err := os.Stdin.Stat()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = s.Close() // nobody is there to be told
		os.Exit(0)
	}()
}

// introduction says what the program is, for people who start it by hand.
func (s *Server) introduction(program string) string {
	name := s.manifest.Name
	if s.manifest.Version != "" {
		name += " " + s.manifest.Version
	}
	return fmt.Sprintf("%s is a provider plugin of kind %s, for windlass and for hosts of the workflow ecosystem. A host starts it, not a person: "+
		"put %s and its %s into a folder called %s, and name the program in `plugins:` of windlass.yaml.", name, s.driver.Kind, program, ManifestFile, program)
}

// unknown answers what isn't registered, with the name of the plugin and, where it is
// one, of the capability.
func (s *Server) unknown(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	for _, row := range sdk.Capabilities() {
		if service == "windlass.provider.v1."+row.Name+"Service" {
			return wire.Status(stream.Context(), &sdk.Error{Code: sdk.Unimplemented, Op: "use " + row.Name, Err: fmt.Errorf("plugin %s has no %s", s.manifest.Name, row.Name)})
		}
	}
	return wire.Status(stream.Context(), &sdk.Error{Code: sdk.Unimplemented, Op: "serve " + method, Provider: s.manifest.Name, Err: errors.New("the plugin has no such service or method")})
}

// served is the plugin as go-plugin wants it.
type served struct {
	goplugin.NetRPCUnsupportedPlugin
	s *Server
}

var _ goplugin.GRPCPlugin = (*served)(nil)

// GRPCServer implements goplugin.GRPCPlugin.
func (p *served) GRPCServer(_ *goplugin.GRPCBroker, g *grpc.Server) error {
	p.s.registerOn(g)
	return nil
}

// GRPCClient implements goplugin.GRPCPlugin; a plugin is no host.
func (*served) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, sdk.Errorf(sdk.Unimplemented, "serve plugin", "this is the plugin's side")
}
