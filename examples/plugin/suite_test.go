//go:build linux

package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin"
	"github.com/windlass-run/windlass/sdk/plugin/client"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/workflowpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// TestSuite runs the contract's suite on the plugin as a host has it: in a process of
// its own, and each second look through another.
func TestSuite(t *testing.T) {
	w := newWorld(t)
	providertest.Run(t, w.harness(t, start(t, w.install(t)), start(t, w.install(t))))
}

// TestRegistration holds what the provider can do, what the process serves and what the
// manifest says together.
func TestRegistration(t *testing.T) {
	registry, err := workflowpb.NewPluginServiceClient(start(t, newWorld(t).install(t))).GetContractRegistry(t.Context(), &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	var services []string
	for _, c := range registry.GetContracts() {
		services = append(services, c.GetServiceName())
	}
	providertest.AssertRegistration(t, &provider{}, services)
	raw, err := os.ReadFile(plugin.ManifestFile)
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Services []string `json:"iacServices"`
	}
	if err := json.Unmarshal(raw, &manifest); err != nil || !slices.Equal(manifest.Services, services) {
		t.Errorf("the manifest has %v, %v, the process %v", manifest.Services, err, services)
	}
}

// world is the machine as jobs see it.
type world struct{ dir, jobs, marks string }

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{dir: dir, jobs: filepath.Join(dir, "jobs"), marks: filepath.Join(dir, "marks")}
	if err := os.MkdirAll(w.marks, 0o700); err != nil {
		t.Fatal(err)
	}
	return w
}

// install builds the plugin into a folder of its name, as a host wants it.
func (w *world) install(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(w.dir, "plugins", "folder", "folder")
	if _, err := os.Stat(program); err == nil {
		return program
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	manifest, err := os.ReadFile("plugin.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(program), "plugin.json"), manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	return program
}

// host is go-plugin's own client, which wants nothing but the connection.
type host struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (host) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error { return nil }

func (host) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// start starts a plugin until the test is over, and returns the connection to it.
func start(t *testing.T, program string) *grpc.ClientConn {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Dir = filepath.Dir(program)
	c := goplugin.NewClient(&goplugin.ClientConfig{HandshakeConfig: plugin.Handshake(), Plugins: goplugin.PluginSet{plugin.SetKey: host{}}, Cmd: cmd,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC}, Logger: hclog.NewNullLogger(), GRPCDialOptions: wire.DialOptions()})
	t.Cleanup(c.Kill)
	session, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := session.Dispense(plugin.SetKey)
	if err != nil {
		t.Fatal(err)
	}
	return conn.(*grpc.ClientConn)
}

func (w *world) harness(t *testing.T, conns ...*grpc.ClientConn) providertest.Harness {
	t.Helper()
	ids := sdk.NewIDSource(sdk.SystemClock())
	d, err := client.Driver(t.Context(), conns[0], ids)
	if err != nil {
		t.Fatal(err)
	}
	other, err := client.Driver(t.Context(), conns[len(conns)-1], ids)
	if err != nil {
		t.Fatal(err)
	}
	open := func(d sdk.Driver) func(t providertest.T) sdk.Provider {
		return func(t providertest.T) sdk.Provider {
			p, err := d.Open(context.WithoutCancel(t.Context()), sdk.OpenRequest{Name: "here", Owner: "suite", LedgerID: "ledger", StateDir: w.dir})
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			return p
		}
	}
	return providertest.Harness{
		Driver: d, Open: open(d), Reopen: open(other),
		Behave: func(_ providertest.T, b providertest.Behaviour) (sdk.JobSpec, error) {
			return sdk.JobSpec{Args: append(sdk.Argv{"sh", "-c", b.Shell(w.mark), "sh"}, b.Args...)}, nil
		},
		Marks: w.marked,
		Leftovers: func(t providertest.T, run sdk.ID) (out []string) {
			launches, err := filepath.Glob(filepath.Join(w.jobs, "*", "launch"))
			if err != nil {
				t.Fatalf("%v", err)
			}
			for _, f := range launches {
				if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), run.String()) {
					out = append(out, f)
				}
			}
			return out
		},
		Workdir: w.marks,
		Waivers: []providertest.Waiver{{Check: "log-apart", Guarantee: "Logs.Apart", Why: "both streams are one file"}},
	}
}

// mark is a command that counts a side effect.
func (w *world) mark(key string) string {
	return "echo x >>'" + filepath.Join(w.marks, key) + "'"
}

func (w *world) marked(t providertest.T, key string) int {
	b, err := os.ReadFile(filepath.Join(w.marks, key))
	if err != nil && !os.IsNotExist(err) {
		t.Fatalf("%v", err)
	}
	return strings.Count(string(b), "x\n")
}
