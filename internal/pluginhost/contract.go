package pluginhost

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/workflowpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// ownPackage begins the names of our own wire's services.
const ownPackage = "windlass.provider.v1."

// ownService is the service of a capability of ours.
func ownService(capability string) string { return ownPackage + capability + "Service" }

// Contract is what a running plugin says of itself.
type Contract struct {
	// Manifest is the live one, with what that lacks from plugin.json; its Services are
	// the file's.
	Manifest Manifest
	// Services are those of the live registry, sorted. One that isn't here isn't there.
	Services []string
	// NoManifest and NoRegistry: the plugin answered Unimplemented.
	NoManifest, NoRegistry bool
}

// ask reads what the plugin at the other end of conn says of itself.
func ask(ctx context.Context, conn grpc.ClientConnInterface, file Manifest) (Contract, error) {
	c := Contract{Manifest: file}
	client := workflowpb.NewPluginServiceClient(conn)
	m, err := client.GetManifest(ctx, &emptypb.Empty{}, wire.CallOptions()...)
	switch {
	case status.Code(err) == codes.Unimplemented:
		c.NoManifest = true
	case err != nil:
		return c, wire.FromStatus(ctx, "ask plugin for its manifest", err)
	default:
		take := func(to *string, live string) {
			if live != "" {
				*to = live
			}
		}
		take(&c.Manifest.Name, m.GetName())
		take(&c.Manifest.Version, m.GetVersion())
		take(&c.Manifest.Author, m.GetAuthor())
		take(&c.Manifest.Description, m.GetDescription())
	}
	reg, err := client.GetContractRegistry(ctx, &emptypb.Empty{}, wire.CallOptions()...)
	switch {
	case status.Code(err) == codes.Unimplemented:
		c.NoRegistry = true
	case err != nil:
		return c, wire.FromStatus(ctx, "ask plugin for its services", err)
	}
	for _, d := range reg.GetContracts() {
		if d.GetKind() == workflowpb.ContractKind_CONTRACT_KIND_SERVICE && d.GetServiceName() != "" {
			c.Services = append(c.Services, d.GetServiceName())
		}
	}
	slices.Sort(c.Services)
	c.Services = slices.Compact(c.Services)
	return c, nil
}

// own reports whether the registry names any service of our own wire.
func (c Contract) own() bool {
	return slices.ContainsFunc(c.Services, func(s string) bool { return strings.HasPrefix(s, ownPackage) })
}

// Serves reports whether a plugin's registry has the service of a capability of our
// own wire.
func (c Contract) Serves(capability string) bool {
	return slices.Contains(c.Services, ownService(capability))
}

// known are the services that this program can use: of our own wire those of the table,
// and of the published one those that published hosts know.
func known() []string {
	out := []string{ownPackage + "ProviderService"}
	for _, row := range sdk.Capabilities() {
		out = append(out, ownService(row.Name))
	}
	for _, name := range []string{"IaCProviderRequired", "IaCProviderRunner", "IaCProviderJobCanceler", "IaCProviderLogCapture", "ResourceDriver"} {
		out = append(out, publishedPackage+name)
	}
	return out
}

// publishedPackage begins the names of the published wire's services.
const publishedPackage = "workflow.plugin.external.iac."

// offered are the services of the registry but for those that every plugin has of gRPC,
// go-plugin and the registry itself, which aren't worth a word.
func (c Contract) offered() []string {
	return slices.DeleteFunc(slices.Clone(c.Services), func(s string) bool {
		return s == workflowpb.PluginService_ServiceDesc.ServiceName || strings.HasPrefix(s, "grpc.") || strings.HasPrefix(s, "plugin.")
	})
}

// Unknown are the services of the registry that this program doesn't know, and ignores.
func (c Contract) Unknown() []string {
	return slices.DeleteFunc(c.offered(), func(s string) bool { return slices.Contains(known(), s) })
}
