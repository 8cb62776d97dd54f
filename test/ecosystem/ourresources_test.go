//go:build linux

package ecosystem

import (
	"context"
	"errors"
	"io"
	"log"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/GoCodeAlone/workflow/iac/providerclient"
	"github.com/GoCodeAlone/workflow/interfaces"
	"github.com/GoCodeAlone/workflow/plugin/external"
	theirs "github.com/GoCodeAlone/workflow/plugin/external/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// place puts a program under a plugin's name into its folder.
func place(t *testing.T, dir, program, name, manifest string) {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(bin, program))
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, name), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name, name), data, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name, "plugin.json"), []byte(manifest), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// hosted loads a plugin of ours into their host, with a folder for what it keeps.
func hosted(t *testing.T, name string, config map[string]any) (*providerclient.Adapter, theirs.ResourceDriverClient) {
	t.Helper()
	config["dir"] = filepath.Join(t.TempDir(), "kept")
	p, conn, _ := loaded(t, name, config)
	return p, theirs.NewResourceDriverClient(conn)
}

// loaded loads a plugin of ours into their host, and returns what it advertises beside.
func loaded(t *testing.T, name string, config map[string]any) (*providerclient.Adapter, grpc.ClientConnInterface, map[string]bool) {
	t.Helper()
	dir := t.TempDir()
	place(t, dir, name, name, `{"name": "`+name+`", "version": "0.1.0", "author": "Windlass", "description": "A plugin of ours."}`)
	m := external.NewExternalPluginManager(dir, log.New(io.Discard, "", 0))
	t.Cleanup(m.Shutdown)
	if _, err := m.DiscoverPlugins(); err != nil {
		t.Fatal(err)
	}
	a, err := m.LoadPlugin(name)
	if err != nil {
		t.Fatal(err)
	}
	advertised := map[string]bool{}
	for _, c := range a.ContractRegistry().GetContracts() {
		advertised[c.GetServiceName()] = true
	}
	p := providerclient.New(a.Conn(), advertised)
	if err := p.Initialize(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	return p, a.Conn(), advertised
}

// TestTheirHostResources: their host keeps resources through a plugin of ours, in a
// process of its own, with each verb of their contract.
func TestTheirHostResources(t *testing.T) {
	p, _ := hosted(t, "fake", map[string]any{})
	d, err := p.ResourceDriver("fake.box")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	spec := func(config map[string]any) interfaces.ResourceSpec {
		return interfaces.ResourceSpec{Name: "a", Type: "fake.box", Config: config, DependsOn: []string{"b"}}
	}
	made, err := d.Create(ctx, spec(map[string]any{"label": "é <&>", "items": 3, "wood": "oak", "key": "k"}))
	if err != nil || made.Name != "a" || made.Type != "fake.box" || made.ProviderID == "" || made.Status != "there" || !made.Sensitive["key"] ||
		made.Outputs["label"] != "é <&>" || made.Outputs["items"] != 3.0 {
		t.Fatalf("create: %+v, %v", made, err)
	}
	ref := interfaces.ResourceRef{Name: "a", Type: "fake.box", ProviderID: made.ProviderID}
	if read, err := d.Read(ctx, ref); err != nil || !reflect.DeepEqual(read, made) {
		t.Errorf("read %+v, %v, created %+v", read, err, made)
	}
	for config, want := range map[string]interfaces.DiffResult{"é <&>": {}, "x": {NeedsUpdate: true}} {
		diff, err := d.Diff(ctx, spec(map[string]any{"label": config, "items": 3, "wood": "oak", "key": "k"}), made)
		if err != nil || diff.NeedsUpdate != want.NeedsUpdate || diff.NeedsReplace || (len(diff.Changes) > 0) != want.NeedsUpdate {
			t.Errorf("diff with %q: %+v, %v", config, diff, err)
		}
	}
	if diff, err := d.Diff(ctx, spec(map[string]any{"wood": "elm"}), made); err != nil || !diff.NeedsReplace {
		t.Errorf("diff with another wood: %+v, %v", diff, err)
	}
	if got, err := d.Update(ctx, ref, spec(map[string]any{"label": "sick", "wood": "oak"})); err != nil || got.Outputs["label"] != "sick" {
		t.Errorf("update: %+v, %v", got, err)
	}
	if got, err := d.Scale(ctx, ref, 4); err != nil || got.Outputs["replicas"] != 4.0 {
		t.Errorf("scale: %+v, %v", got, err)
	}
	if h, err := d.HealthCheck(ctx, ref); err != nil || h.Message == "" {
		t.Errorf("health: %+v, %v", h, err)
	}
	if keys := d.SensitiveKeys(); !reflect.DeepEqual(keys, []string{"key"}) {
		t.Errorf("sensitive keys %q", keys)
	}
	if _, err := d.(interfaces.Troubleshooter).Troubleshoot(ctx, ref, "it jams"); err != nil {
		t.Errorf("troubleshoot: %v", err)
	}
	for range 2 { // gone is success
		if err := d.Delete(ctx, ref); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	if _, err := d.Read(ctx, ref); !errors.Is(err, interfaces.ErrResourceNotFound) {
		t.Errorf("read what is gone: %v", err)
	}
}

// TestTheirHostCodes: the ten codes are their sentinels at their host, with the gRPC
// status beside; other codes stay what they are.
func TestTheirHostCodes(t *testing.T) {
	var faults []any
	type answer struct {
		status int
		code   string
		want   codes.Code
		is     error
	}
	answers := []answer{
		{404, "", codes.NotFound, interfaces.ErrResourceNotFound},
		{409, "Exists", codes.AlreadyExists, interfaces.ErrResourceAlreadyExists},
		{429, "", codes.ResourceExhausted, interfaces.ErrRateLimited},
		{503, "", codes.Unavailable, interfaces.ErrTransient},
		{401, "", codes.Unauthenticated, interfaces.ErrUnauthorized},
		{403, "", codes.PermissionDenied, interfaces.ErrForbidden},
		{400, "", codes.InvalidArgument, interfaces.ErrValidation},
		{409, "", codes.Aborted, nil},
		{418, "", codes.Unknown, nil},
	}
	for i, a := range answers {
		faults = append(faults, map[string]any{"op": "ReadResource", "kind": "error", "nth": i + 1, "status": a.status, "code": a.code})
	}
	p, raw := hosted(t, "fake", map[string]any{"knobs": map[string]any{"faults": faults}})
	d, err := p.ResourceDriver("fake.box")
	if err != nil {
		t.Fatal(err)
	}
	judge := func(what string, err error, want codes.Code, is error) {
		t.Helper()
		if status.Code(err) != want || is != nil && !errors.Is(err, is) {
			t.Errorf("%s: %v, want %s and %v", what, err, want, is)
		}
		for _, s := range []error{interfaces.ErrResourceNotFound, interfaces.ErrResourceAlreadyExists, interfaces.ErrRateLimited, interfaces.ErrTransient, interfaces.ErrUnauthorized,
			interfaces.ErrForbidden, interfaces.ErrValidation, interfaces.ErrProviderMethodUnimplemented} {
			if s != is && errors.Is(err, s) {
				t.Errorf("%s is %v too", what, s)
			}
		}
	}
	ctx, ref := t.Context(), interfaces.ResourceRef{Name: "a", Type: "fake.box"}
	for _, a := range answers {
		_, err := d.Read(ctx, ref)
		judge(a.want.String(), err, a.want, a.is)
	}
	if _, err := d.Create(ctx, interfaces.ResourceSpec{Name: "a", Type: "fake.box", Config: map[string]any{"wood": "oak"}}); err != nil {
		t.Fatal(err)
	}
	_, err = d.Update(ctx, ref, interfaces.ResourceSpec{Name: "a", Type: "fake.box", Config: map[string]any{"wood": "elm"}})
	judge("what needs another", err, codes.FailedPrecondition, interfaces.ErrValidation)
	_, err = d.Create(ctx, interfaces.ResourceSpec{Name: "b", Type: "fake.box", Size: "xl"})
	judge("a size that there isn't", err, codes.InvalidArgument, interfaces.ErrValidation)
	spot, err := p.ResourceDriver("fake.place")
	if err != nil {
		t.Fatal(err)
	}
	_, err = spot.Create(ctx, interfaces.ResourceSpec{Name: "x", Type: "fake.place"})
	judge("a verb that the type lacks", err, codes.Unimplemented, interfaces.ErrProviderMethodUnimplemented)
	if _, err := d.Scale(ctx, ref, 1<<31); err == nil {
		t.Error("a scale out of 32 bits was sent")
	}
	_, err = raw.Scale(ctx, &theirs.ResourceScaleRequest{ResourceType: "fake.box", Ref: &theirs.ResourceRef{Name: "a", Type: "fake.box"}, Replicas: -1})
	judge("a negative scale", err, codes.InvalidArgument, nil)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, err = d.Read(gone, ref)
	judge("a caller who has left", err, codes.Canceled, nil)
}

// TestTheirHostAbsent: a plugin of ours that keeps no resources advertises none, and
// answers whoever asks anyway with Unimplemented.
func TestTheirHostAbsent(t *testing.T) {
	p, raw := hosted(t, "folder", map[string]any{})
	if d, err := p.ResourceDriver("any"); d != nil || !errors.Is(err, interfaces.ErrProviderMethodUnimplemented) {
		t.Errorf("it has %v, %v", d, err)
	}
	if _, err := raw.Read(t.Context(), &theirs.ResourceReadRequest{ResourceType: "any", Ref: &theirs.ResourceRef{Name: "a"}}); status.Code(err) != codes.Unimplemented {
		t.Errorf("asked anyway: %v", err)
	}
}
