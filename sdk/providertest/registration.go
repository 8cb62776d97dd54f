package providertest

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

const (
	ourServices       = "windlass.provider.v1."
	publishedServices = "workflow.plugin.external.iac."
)

// publishedService returns the published service that a capability brings besides ours,
// or nothing.
func publishedService(capability string) string {
	switch capability {
	case sdk.Runner().String():
		return publishedServices + "IaCProviderRunner"
	case sdk.Canceler().String():
		return publishedServices + "IaCProviderJobCanceler"
	case sdk.Resources().String():
		return publishedServices + "ResourceDriver"
	case sdk.WorkloadLogs().String():
		return publishedServices + "IaCProviderLogCapture"
	}
	return ""
}

// AssertRegistration fails t unless a plugin serves exactly what its provider can do:
// services are the names of the gRPC services that the plugin's process has, as the live
// contract registry or grpc.Server.GetServiceInfo names them, and p is a provider of its
// driver. Each capability must have its services, and nothing else may be served of the
// two packages of providers; names of other packages are ignored. A provider that is nil,
// or a nil pointer, is fatal: it would satisfy everything and prove nothing.
func AssertRegistration(t *testing.T, p sdk.Provider, services []string) {
	t.Helper()
	assertRegistration(testingT{t}, p, services)
}

func assertRegistration(t T, p sdk.Provider, services []string) {
	t.Helper()
	if v := reflect.ValueOf(p); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		t.Fatalf("the provider is nil")
	}
	wanted := map[string]string{ourServices + "ProviderService": "every plugin", publishedServices + "IaCProviderRequired": "every plugin"}
	for _, name := range sdk.CapabilityNames(p) {
		wanted[ourServices+name+"Service"] = name
		if s := publishedService(name); s != "" {
			wanted[s] = name
		}
	}
	if len(wanted) == 2 {
		t.Fatalf("the provider can do nothing")
	}
	for _, s := range slices.Sorted(maps.Keys(wanted)) {
		if !slices.Contains(services, s) {
			t.Errorf("service %s of %s isn't registered", s, wanted[s])
		}
	}
	seen := map[string]bool{}
	for _, s := range services {
		switch {
		case seen[s]:
			t.Errorf("service %s is registered twice", s)
		case wanted[s] == "" && (strings.HasPrefix(s, ourServices) || strings.HasPrefix(s, publishedServices)):
			t.Errorf("service %s is registered, and the provider has nothing that it serves", s)
		}
		seen[s] = true
	}
}
