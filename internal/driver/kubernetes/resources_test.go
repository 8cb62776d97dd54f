package kubernetes

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	pocket "github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/resourcetest"
)

// TestResources runs the suite of resources on the pocket cluster.
func TestResources(t *testing.T) {
	w := newWorld(t, nil)
	resourcetest.Run(t, resourcetest.Harness{
		Driver: Driver(), Type: typeNamespace,
		Open: func(t testing.TB) sdk.Provider {
			p, err := Driver().Open(t.Context(), w.Request())
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
		Existing: sdk.ResourceRef{Name: pocket.Namespace, Type: typeNamespace},
		Config:   json.RawMessage(`{"labels":{"kubernetes.io/metadata.name":"` + pocket.Namespace + `"}}`),
	})
}

// TestNamespace: labels that are named are compared, a namespace that is being deleted
// isn't healthy, and what may not be looked at is a refusal, not an absence.
func TestNamespace(t *testing.T) {
	w := newWorld(t, nil)
	p := w.Open()
	ref := sdk.ResourceRef{Name: pocket.Namespace, Type: typeNamespace}
	got, err := p.ReadResource(t.Context(), sdk.ReadResourceRequest{Ref: ref})
	if err != nil || got.Output.ProviderID == "" {
		t.Fatalf("read %+v, %v", got, err)
	}
	d, err := p.DiffResource(t.Context(), sdk.DiffResourceRequest{Current: got.Output,
		Desired: sdk.ResourceSpec{Name: ref.Name, Type: typeNamespace, Config: json.RawMessage(`{"labels":{"team":"a"}}`)}})
	if err != nil || !d.NeedsUpdate || len(d.Changes) != 1 || d.Changes[0].Path != "labels.team" {
		t.Errorf("diff %+v, %v", d, err)
	}
	w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.Terminating = true })
	if h, err := p.HealthCheckResource(t.Context(), sdk.HealthCheckResourceRequest{Ref: ref}); err != nil || h.Healthy || !strings.Contains(h.Message, "Terminating") {
		t.Errorf("health %+v, %v", h, err)
	}
	defer w.deny("get namespaces")()
	if _, err := p.ReadResource(t.Context(), sdk.ReadResourceRequest{Ref: ref}); !errors.Is(err, sdk.PermissionDenied) {
		t.Errorf("read without the right: %v", err)
	}
}
