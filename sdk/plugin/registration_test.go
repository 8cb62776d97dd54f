package plugin_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/workflowpb"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/providertest"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// publishedOf are the published services by the capability that brings them.
func publishedOf() map[string]string {
	return map[string]string{"JobRunner": iacpb.IaCProviderRunner_ServiceDesc.ServiceName, "JobCanceler": iacpb.IaCProviderJobCanceler_ServiceDesc.ServiceName,
		"ResourceDriver": iacpb.ResourceDriver_ServiceDesc.ServiceName, "LogTailer": iacpb.IaCProviderLogCapture_ServiceDesc.ServiceName}
}

func servicesOf(capabilities []string) []string {
	out := []string{"windlass.provider.v1.ProviderService", iacpb.IaCProviderRequired_ServiceDesc.ServiceName}
	for _, name := range capabilities {
		out = append(out, "windlass.provider.v1."+name+"Service")
		if p := publishedOf()[name]; p != "" {
			out = append(out, p)
		}
	}
	return slices.Sorted(slices.Values(out))
}

// TestRegistersWhatIsDeclared registers each capability alone, and all of them: its
// services are there, advertised in order, and no other.
func TestRegistersWhatIsDeclared(t *testing.T) {
	sets := [][]string{{}}
	for _, row := range sdk.Capabilities() {
		sets = append(sets, []string{row.Name})
		sets[0] = append(sets[0], row.Name)
	}
	for _, set := range sets {
		var services map[string]grpc.ServiceInfo
		var server *plugin.Server
		d := fake.NewDriver(fake.NewCloud(fake.Options{}), fake.Settings{Capabilities: set})
		conn := plugintest.Serve(t, func(r grpc.ServiceRegistrar) {
			server = must(plugin.Register(r, d))(t)
			services = r.(*grpc.Server).GetServiceInfo()
		})
		want := servicesOf(set)
		got := slices.Sorted(maps.Keys(services))
		if all := slices.Sorted(slices.Values(append(slices.Clone(want), workflowpb.PluginService_ServiceDesc.ServiceName))); !slices.Equal(got, all) {
			t.Errorf("%v: registered %v, want %v", set, got, all)
		}
		h := &host{t: t, conn: conn}
		if _, _, err := h.open("s"); err != nil {
			t.Fatal(err)
		}
		p := must(d.Open(t.Context(), sdk.OpenRequest{Name: "x"}))(t)
		providertest.AssertRegistration(t, p, got)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		registry := must(workflowpb.NewPluginServiceClient(conn).GetContractRegistry(t.Context(), &emptypb.Empty{}))(t)
		var advertised []string
		for _, c := range registry.GetContracts() {
			advertised = append(advertised, c.GetServiceName())
			if c.GetKind() != workflowpb.ContractKind_CONTRACT_KIND_SERVICE || c.GetMode() != workflowpb.ContractMode_CONTRACT_MODE_STRICT_PROTO {
				t.Errorf("%s is advertised as %v, %v", c.GetServiceName(), c.GetKind(), c.GetMode())
			}
		}
		if !slices.Equal(advertised, want) {
			t.Errorf("%v: advertised %v, want %v", set, advertised, want)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNoServiceForgotten walks the descriptors of both wires: every service is one that
// every plugin has, or one of a capability.
func TestNoServiceForgotten(t *testing.T) {
	var all []string
	for _, row := range sdk.Capabilities() {
		all = append(all, row.Name)
	}
	known := append(servicesOf(all), workflowpb.PluginService_ServiceDesc.ServiceName)
	found := 0
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		switch f.Package() {
		case "windlass.provider.v1", "workflow.plugin.v1", "workflow.plugin.external.iac":
		default:
			return true
		}
		for i := range f.Services().Len() {
			found++
			if name := string(f.Services().Get(i).FullName()); !slices.Contains(known, name) {
				t.Errorf("service %s of %s is served by no capability", name, f.Path())
			}
		}
		return true
	})
	if found != len(known) {
		t.Errorf("the descriptors have %d services, %d are known: %v", found, len(known), known)
	}
}

// TestDeclaredIsOpened opens providers that can do less, more and other things than
// their drivers declare.
func TestDeclaredIsOpened(t *testing.T) {
	for _, c := range []struct{ declared, can []string }{
		{[]string{"JobRunner", "JobCanceler"}, []string{"JobRunner"}},
		{[]string{"JobRunner"}, []string{"JobRunner", "JobCanceler"}},
		{[]string{"JobRunner"}, []string{"JobCanceler"}},
	} {
		d := fake.NewDriver(fake.NewCloud(fake.Options{}), fake.Settings{Capabilities: c.can})
		d.Capabilities = c.declared
		closed := 0
		open := d.Open
		d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
			p, err := open(ctx, r)
			return counted{p, p.(sdk.Asker), &closed}, err
		}
		h := serve(t, d)
		_, _, err := h.open("s")
		if !errors.Is(err, sdk.Internal) || !strings.Contains(err.Error(), "JobCanceler") || closed != 1 {
			t.Errorf("declared %v, can %v: %v, closed %d times", c.declared, c.can, err, closed)
		}
		if _, err := iacpb.NewIaCProviderRequiredClient(h.conn).Initialize(t.Context(), &iacpb.InitializeRequest{}); err == nil || closed != 2 {
			t.Errorf("declared %v, can %v, initialized: %v, closed %d times", c.declared, c.can, err, closed)
		}
	}
}

// counted counts how often it is closed.
type counted struct {
	sdk.Provider
	sdk.Asker
	closed *int
}

func (c counted) Close() error { *c.closed++; return c.Provider.Close() }

// TestManifest reads what a plugin says of itself.
func TestManifest(t *testing.T) {
	dir := t.TempDir()
	if m, err := plugin.ReadManifest(dir, "shell"); err != nil || m.Name != "shell" {
		t.Errorf("no file: %+v, %v", m, err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, plugin.ManifestFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"name":"mine","version":"1.2.3","author":"me","description":"Does it.","iacServices":["x"],"services":7,"capabilities":{"y":[],"iacServices":["z","x"]}}`)
	want := plugin.Manifest{Name: "mine", Version: "1.2.3", Author: "me", Description: "Does it.", Services: []string{"x", "z"}}
	m := must(plugin.ReadManifest(dir, "shell"))(t)
	if !reflect.DeepEqual(m, want) {
		t.Errorf("read %+v, want %+v", m, want)
	}
	conn := plugintest.Serve(t, func(r grpc.ServiceRegistrar) {
		must(plugin.Register(r, fake.Driver(), plugin.WithManifest(m)))(t)
	})
	got := must(workflowpb.NewPluginServiceClient(conn).GetManifest(t.Context(), &emptypb.Empty{}))(t)
	want.Services = nil // the registry has them
	if sent := (plugin.Manifest{Name: got.GetName(), Version: got.GetVersion(), Author: got.GetAuthor(), Description: got.GetDescription()}); !reflect.DeepEqual(sent, want) {
		t.Errorf("sent %+v, want %+v", sent, want)
	}
	for _, text := range []string{`{"name":7}`, `{`, strings.Repeat(" ", 2<<20)} {
		write(text)
		if _, err := plugin.ReadManifest(dir, "shell"); !errors.Is(err, sdk.InvalidArgument) || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), plugin.ManifestFile) {
			t.Errorf("%.10q: %v", text, err)
		}
	}
}

// FuzzParseManifest: services are in order, each once.
func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(`{"name": "a", "version": "1", "iacServices": ["b", "a"], "capabilities": {"iacServices": ["b"]}, "other": {}}`))
	f.Add([]byte(`{"capabilities": []}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := plugin.ParseManifest(data)
		for i, s := range m.Services {
			if err != nil || i > 0 && m.Services[i-1] >= s {
				t.Errorf("%q, %v", m.Services, err)
			}
		}
	})
}
