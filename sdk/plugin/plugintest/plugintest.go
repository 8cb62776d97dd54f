// Package plugintest shows a test its driver, or its services, as a host sees them: from
// the other end of a plugin's wire.
package plugintest

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin"
	"github.com/windlass-run/windlass/sdk/plugin/client"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// Through serves d on a unix socket of its own until the test is over, and returns it as
// it comes through a plugin's wire. Providers that are still open then are closed.
func Through(t testing.TB, d sdk.Driver) sdk.Driver {
	t.Helper()
	return through(t, d, Serve)
}

// ThroughPipe is Through over a pipe in memory, for a bubble of testing/synctest, where
// nobody may wait for a socket.
func ThroughPipe(t testing.TB, d sdk.Driver) sdk.Driver {
	t.Helper()
	return through(t, d, ServePipe)
}

func through(t testing.TB, d sdk.Driver, serve func(testing.TB, func(grpc.ServiceRegistrar)) *grpc.ClientConn) sdk.Driver {
	t.Helper()
	var s *plugin.Server
	conn := serve(t, func(r grpc.ServiceRegistrar) {
		var err error
		if s, err = plugin.Register(r, d); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the plugin: %v", err)
		}
	})
	out, err := client.Driver(t.Context(), conn, sdk.NewIDSource(sdk.SystemClock()))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Serve serves what register registers on a unix socket that nobody else can reach,
// until the test is over, and returns a connection to it.
func Serve(t testing.TB, register func(grpc.ServiceRegistrar)) *grpc.ClientConn {
	t.Helper()
	dir, err := os.MkdirTemp("", "plug") // short: a socket's path is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	sock := filepath.Join(dir, "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, l, "unix:"+sock, register)
}

// ServePipe is Serve over a pipe in memory.
func ServePipe(t testing.TB, register func(grpc.ServiceRegistrar)) *grpc.ClientConn {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	return serve(t, l, "passthrough:pipe", register,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
}

func serve(t testing.TB, l net.Listener, target string, register func(grpc.ServiceRegistrar), more ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	g := grpc.NewServer(wire.ServerOptions()...)
	register(g)
	conn, err := grpc.NewClient(target, append(append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials())), more...)...)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		g.Stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return conn
}
