package plugin_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin"
	"github.com/windlass-run/windlass/sdk/plugin/client"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/workflowpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// asPlugin lets the test's own program be a plugin, of the kind that it names.
const asPlugin = "WINDLASS_TEST_AS_PLUGIN"

// servedByTest serves a plugin where the process was started as one.
func servedByTest() bool {
	switch os.Getenv(asPlugin) {
	case "":
		return false
	case "good":
		d := fake.NewDriver(fake.NewCloud(fake.Options{}), fake.Settings{Capabilities: []string{"JobRunner"}})
		early, open := os.Stdout, d.Open
		d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
			// More than any pipe holds, on the descriptor and on what os.Stdout has become.
			for _, out := range []io.Writer{early, os.Stdout} {
				if _, err := fmt.Fprintln(out, strings.Repeat("1|1|tcp|x|grpc\n", 10_000)); err != nil {
					return nil, err
				}
			}
			r.Log.Info("opened", "dir", r.StateDir, "executable", r.Executable != "")
			return open(ctx, r)
		}
		plugin.Serve(d)
	case "undeclared":
		d := fake.Driver()
		d.Capabilities = nil
		plugin.Serve(d)
	}
	return true
}

// copied puts the test's program into a folder of its own, with a manifest.
func copied(t *testing.T, manifest string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "good")
	if err := os.Link(self, program); err != nil {
		b := must(os.ReadFile(self))(t)
		if err := os.WriteFile(program, b, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if manifest != "" {
		if err := os.WriteFile(filepath.Join(filepath.Dir(program), plugin.ManifestFile), []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program)
	cmd.Dir = filepath.Dir(program)
	return cmd
}

// log is what a plugin says on its standard error.
type log struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// connection is go-plugin's own client, which wants nothing else.
type connection struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (connection) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error { return nil }

func (connection) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// TestServeEndsWithItsHost: the end of the pipe that a host holds is the host's, which may
// have been killed.
func TestServeEndsWithItsHost(t *testing.T) {
	cmd := copied(t, "")
	cmd.Env = append(cmd.Environ(), asPlugin+"=good", plugin.CookieKey+"="+plugin.CookieValue)
	host := must(cmd.StdinPipe())(t)
	out := must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, "grpc") {
		t.Errorf("the handshake is %q, %v", line, err)
	}
	if err := host.Close(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := testwait.Receive(t, time.Minute, "the plugin's end", ended); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestServe serves a plugin to go-plugin's own client, as a process of its own whose
// driver prints a lot.
func TestServe(t *testing.T) {
	cmd := copied(t, `{"name":"good","version":"1.2.3"}`)
	cmd.Env = append(cmd.Environ(), asPlugin+"=good")
	said := &log{}
	c := goplugin.NewClient(&goplugin.ClientConfig{HandshakeConfig: plugin.Handshake(), Plugins: goplugin.PluginSet{plugin.SetKey: connection{}}, Cmd: cmd,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC}, Logger: hclog.NewNullLogger(), Stderr: said, GRPCDialOptions: wire.DialOptions()})
	defer c.Kill()
	session := must(c.Client())(t)
	raw := must(session.Dispense(plugin.SetKey))(t)
	conn := raw.(*grpc.ClientConn)

	m := must(workflowpb.NewPluginServiceClient(conn).GetManifest(t.Context(), &emptypb.Empty{}))(t)
	if m.GetName() != "good" || m.GetVersion() != "1.2.3" {
		t.Errorf("manifest %v", m)
	}
	d := must(client.Driver(t.Context(), conn, sdk.NewIDSource(sdk.SystemClock())))(t)
	if !slices.Equal(d.Capabilities, []string{"JobRunner"}) {
		t.Errorf("declares %v", d.Capabilities)
	}
	p := must(d.Open(context.WithoutCancel(t.Context()), sdk.OpenRequest{Name: "prod", StateDir: "/there"}))(t)
	if got := sdk.CapabilityNames(p); !slices.Equal(got, d.Capabilities) {
		t.Errorf("can do %v", got)
	}
	if must(p.Check(t.Context(), sdk.CheckRequest{}))(t).Items == nil {
		t.Error("a check found nothing")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if s := said.String(); !strings.Contains(s, "dir=/there") || !strings.Contains(s, "executable=true") {
		t.Errorf("the log is %q", s)
	}

	// What isn't there is absent, with the names of plugin and capability.
	_, err := pb.NewJobCancelerServiceClient(conn).CancelJob(t.Context(), &pb.CancelJobRequest{})
	if got := wire.FromStatus(t.Context(), "cancel", err); !errors.Is(got, sdk.Unimplemented) || !strings.Contains(got.Error(), "plugin good has no JobCanceler") {
		t.Errorf("a capability that isn't there: %v", got)
	}
	err = conn.Invoke(t.Context(), "/workflow.plugin.v1.PluginService/GetTriggerTypes", &emptypb.Empty{}, &emptypb.Empty{})
	if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "GetTriggerTypes") {
		t.Errorf("a method that isn't there: %v", err)
	}
	c.Kill()
	if !c.Exited() {
		t.Error("goes on")
	}
}

// TestServeRefuses starts what isn't served: by hand, with a driver that declares
// nothing, with a manifest that can't be read.
func TestServeRefuses(t *testing.T) {
	cookie := plugin.CookieKey + "=" + plugin.CookieValue
	for name, c := range map[string]struct {
		manifest string
		env      []string
		words    []string
	}{
		"by hand":      {`{"name":"good","version":"1.2.3"}`, []string{asPlugin + "=good"}, []string{"good 1.2.3", "kind fake", "windlass.yaml", "plugin.json"}},
		"other cookie": {"", []string{asPlugin + "=good", plugin.CookieKey + "=x"}, []string{"fake is a provider plugin"}},
		"undeclared":   {"", []string{asPlugin + "=undeclared", cookie}, []string{"CapabilitiesOf"}},
		"manifest":     {"{", []string{asPlugin + "=good", cookie}, []string{"plugin.json", "read manifest"}},
	} {
		cmd := copied(t, c.manifest)
		cmd.Env = append(cmd.Environ(), c.env...)
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 || out.Len() > 0 {
			t.Errorf("%s: %v, printed %q", name, err, out.String())
		}
		for _, w := range c.words {
			if !strings.Contains(errs.String(), w) {
				t.Errorf("%s: %q isn't said in %q", name, w, errs.String())
			}
		}
	}
}
