package docker

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/resourcetest"

	"github.com/moby/moby/api/types/container"
)

func (w *world) openResources(t testing.TB) sdk.Provider {
	p, err := open(sdk.OpenRequest{Name: "docker", Config: json.RawMessage(w.config), Owner: w.owner, LedgerID: w.ledger, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// forge makes a network or volume behind the provider's back, and removes it at the end.
func (w *world) forge(t testing.TB, typ, name string) {
	err := w.call(func(ctx context.Context, api *client.Client) error {
		if typ == typeResVolume {
			_, err := api.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name})
			return err
		}
		_, err := api.NetworkCreate(ctx, name, client.NetworkCreateOptions{})
		return err
	})
	if err != nil {
		t.Fatalf("forge: %v", err)
	}
	t.Cleanup(func() {
		err := w.call(func(ctx context.Context, api *client.Client) error {
			if typ == typeResVolume {
				_, err := api.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
				return err
			}
			_, err := api.NetworkRemove(ctx, name, client.NetworkRemoveOptions{})
			return err
		})
		if err != nil {
			t.Errorf("remove what was forged: %v", err)
		}
	})
}

// TestResources runs the suite of resources on the engine.
func TestResources(t *testing.T) {
	w := newWorld(t, nil)
	ids := sdk.NewIDSource(sdk.SystemClock())
	name := func() string { return "wl-test-" + ids.NewID().Short() }
	for typ, h := range map[string]resourcetest.Harness{
		typeResNetwork: {
			Config:   json.RawMessage(`{"internal":true,"labels":{"team":"a"}}`),
			Replaced: json.RawMessage(`{"labels":{"team":"b"}}`), Foreign: json.RawMessage(`{}`),
		},
		typeResVolume: {
			Config:   json.RawMessage(`{"options":{"type":"tmpfs","device":"tmpfs","o":"size=1m"},"labels":{"team":"a"}}`),
			Replaced: json.RawMessage(`{"labels":{"team":"b"}}`), Foreign: json.RawMessage(`{}`),
		},
	} {
		path := map[string]string{typeResNetwork: "/networks/", typeResVolume: "/volumes/"}[typ]
		h.Driver, h.Type, h.Name, h.Open = Driver(), typ, name, w.openResources
		h.Forge = func(t testing.TB, name string) { w.forge(t, typ, name) }
		h.LoseReply = func(_ testing.TB, v sdk.ResourceVerb) {
			match := to(http.MethodPost, path+"create")
			if v == sdk.VerbDelete {
				match = to(http.MethodDelete, path)
			}
			w.proxy.add(rule{match: match, left: 1, lose: true})
		}
		t.Run(typ, func(t *testing.T) { resourcetest.Run(t, h) })
	}
}

// TestResourceInUse: what a container uses is refused with what to do, and stays.
func TestResourceInUse(t *testing.T) {
	w := newWorld(t, nil)
	p := w.openResources(t)
	defer func() { _ = p.Close() }()
	d, _ := sdk.Of(p, sdk.Resources())
	ids := sdk.NewIDSource(sdk.SystemClock())
	for _, typ := range []string{typeResNetwork, typeResVolume} {
		name := "wl-test-" + ids.NewID().Short()
		if _, err := d.CreateResource(t.Context(), sdk.CreateResourceRequest{OpID: ids.NewID(), Spec: sdk.ResourceSpec{Name: name, Type: typ}}); err != nil {
			t.Fatal(err)
		}
		var id string
		err := w.call(func(ctx context.Context, api *client.Client) error {
			o := client.ContainerCreateOptions{Config: &container.Config{Image: testneed.Image, Cmd: []string{"sleep", "600"}}, HostConfig: &container.HostConfig{}}
			if typ == typeResNetwork {
				o.HostConfig.NetworkMode = container.NetworkMode(name)
			} else {
				o.HostConfig.Binds = []string{name + ":/data"}
			}
			res, err := api.ContainerCreate(ctx, o)
			if id = res.ID; err != nil {
				return err
			}
			_, err = api.ContainerStart(ctx, id, client.ContainerStartOptions{})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.DeleteResource(t.Context(), sdk.DeleteResourceRequest{OpID: ids.NewID(), Ref: sdk.ResourceRef{Name: name, Type: typ}})
		if !errors.Is(err, sdk.FailedPrecondition) || !strings.Contains(err.Error(), "remove the containers") || strings.Count(err.Error(), "delete resource") != 1 {
			t.Errorf("%s: %v", typ, err)
		}
		w.remove(id)
		if _, err := d.DeleteResource(t.Context(), sdk.DeleteResourceRequest{OpID: ids.NewID(), Ref: sdk.ResourceRef{Name: name, Type: typ}}); err != nil {
			t.Errorf("%s afterwards: %v", typ, err)
		}
	}
}

// TestNetworkOverlap: addresses that another network has are no question of rights.
func TestNetworkOverlap(t *testing.T) {
	w := newWorld(t, nil)
	p := w.openResources(t)
	defer func() { _ = p.Close() }()
	d, _ := sdk.Of(p, sdk.Resources())
	ids := sdk.NewIDSource(sdk.SystemClock())
	now, err := d.ReadResource(t.Context(), sdk.ReadResourceRequest{Ref: sdk.ResourceRef{Name: "bridge", Type: typeResNetwork}})
	var bridge networkOutputs
	if err := errors.Join(err, json.Unmarshal(now.Output.Outputs, &bridge)); err != nil || bridge.Subnet == "" {
		t.Fatal(err, bridge)
	}
	config := json.RawMessage(`{"subnet":"` + bridge.Subnet + `"}`)
	_, err = d.CreateResource(t.Context(), sdk.CreateResourceRequest{OpID: ids.NewID(), Spec: sdk.ResourceSpec{Name: "wl-test-" + ids.NewID().Short(), Type: typeResNetwork, Config: config}})
	if !errors.Is(err, sdk.FailedPrecondition) || !strings.Contains(err.Error(), "overlaps") || !strings.Contains(err.Error(), "the subnet") {
		t.Errorf("%v", err)
	}
}

// TestConflictsAndRights: what the engine forbids is in the way; what its guard forbids is a
// right that lacks.
func TestConflictsAndRights(t *testing.T) {
	p := &provider{name: "docker"}
	for words, want := range map[string]sdk.Code{
		"Pool overlaps with other one on this address space":             sdk.FailedPrecondition,
		"authorization denied by plugin guard: networks are not allowed": sdk.PermissionDenied,
	} {
		if err := inTheWay(p.fail(sdk.PermissionDenied, "create resource", errors.New(words)), "", sdk.PermissionDenied); sdk.CodeOf(err) != want {
			t.Errorf("%s: %v", words, err)
		}
	}
}

// TestResourceRace: of many who make one name at once exactly one resource is there
// afterwards, and every other is told so.
func TestResourceRace(t *testing.T) {
	w := newWorld(t, nil)
	p := w.openResources(t)
	defer func() { _ = p.Close() }()
	d, _ := sdk.Of(p, sdk.Resources())
	ids := sdk.NewIDSource(sdk.SystemClock())
	for _, typ := range []string{typeResNetwork, typeResVolume} {
		name := "wl-test-" + ids.NewID().Short()
		const n = 4
		errs := make([]error, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				_, errs[i] = d.CreateResource(t.Context(), sdk.CreateResourceRequest{OpID: ids.NewID(), Spec: sdk.ResourceSpec{Name: name, Type: typ}})
			})
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, sdk.AlreadyExists) && !errors.Is(err, sdk.FailedPrecondition):
				t.Errorf("%s: %v", typ, err)
			}
		}
		if _, err := d.ReadResource(t.Context(), sdk.ReadResourceRequest{Ref: sdk.ResourceRef{Name: name, Type: typ}}); err != nil || won != 1 {
			t.Errorf("%s: %d made it; read: %v", typ, won, err)
		}
		if _, err := d.DeleteResource(t.Context(), sdk.DeleteResourceRequest{OpID: ids.NewID(), Ref: sdk.ResourceRef{Name: name, Type: typ}}); err != nil {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

// TestResourceConfigs: what the engine can't do is refused before it is asked.
func TestResourceConfigs(t *testing.T) {
	w := newWorld(t, nil)
	p := w.openResources(t)
	defer func() { _ = p.Close() }()
	d, _ := sdk.Of(p, sdk.Resources())
	ids := sdk.NewIDSource(sdk.SystemClock())
	for config, field := range map[string]string{
		`{"subnet":"10.0.0.1/8"}`:            "config.subnet",
		`{"gateway":"10.0.0.1"}`:             "config.gateway",
		`{"labels":{"windlass-owner":"me"}}`: "config.labels.windlass-owner",
		`{"driver":7}`:                       "config.driver",
	} {
		_, err := d.CreateResource(t.Context(), sdk.CreateResourceRequest{OpID: ids.NewID(), Spec: sdk.ResourceSpec{Name: "wl-never", Type: typeResNetwork, Config: json.RawMessage(config)}})
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != sdk.InvalidArgument || e.Field != field {
			t.Errorf("%s: %v", config, err)
		}
	}
	_, err := d.DiffResource(t.Context(), sdk.DiffResourceRequest{Current: sdk.ResourceOutput{Type: typeResNetwork, Outputs: json.RawMessage("{}")},
		Desired: sdk.ResourceSpec{Name: "wl-never", Type: typeResNetwork, Size: "large", Config: json.RawMessage(`{"subnet":"x","gateway":"y","labels":{"windlass-owner":"me"}}`)}})
	var ps sdk.Problems
	if !errors.As(err, &ps) || len(ps) != 4 || sdk.CodeOf(err) != sdk.InvalidArgument {
		t.Errorf("all at once: %v", err)
	}
	name := "wl-test-" + ids.NewID().Short()
	spec := sdk.ResourceSpec{Name: name, Type: typeResNetwork, Config: json.RawMessage(`{"subnet":"10.213.77.0/24","gateway":"10.213.77.9"}`)}
	res, err := d.CreateResource(t.Context(), sdk.CreateResourceRequest{OpID: ids.NewID(), Spec: spec})
	if err != nil || !strings.Contains(string(res.Output.Outputs), `"subnet":"10.213.77.0/24","gateway":"10.213.77.9"`) {
		t.Errorf("%s, %v", res.Output.Outputs, err)
	}
	if diff, err := d.DiffResource(t.Context(), sdk.DiffResourceRequest{Desired: spec, Current: res.Output}); err != nil || len(diff.Changes) > 0 {
		t.Errorf("diff %+v, %v", diff, err)
	}
	if _, err := d.DeleteResource(t.Context(), sdk.DeleteResourceRequest{OpID: ids.NewID(), Ref: sdk.ResourceRef{Name: name, Type: typeResNetwork}}); err != nil {
		t.Error(err)
	}
}

// TestNetworkNames holds our rule of names against the engine's own, for names that no
// network of the engine's has.
func TestNetworkNames(t *testing.T) {
	w := newWorld(t, nil)
	prefix := "wl-test-" + sdk.NewIDSource(sdk.SystemClock()).NewID().Short()
	for _, name := range []string{prefix + "_.-Z", prefix + " b", prefix + "ü", prefix + "/b", prefix + ":b", "-" + prefix, " ", "\t ", "default"} {
		took := w.call(func(ctx context.Context, api *client.Client) error {
			res, err := api.NetworkCreate(ctx, name, client.NetworkCreateOptions{Internal: true})
			if err != nil {
				return err
			}
			_, err = api.NetworkRemove(ctx, res.ID, client.NetworkRemoveOptions{})
			return err
		}) == nil
		if got := isNetworkName(name); got != took {
			t.Errorf("%q: the engine takes it: %t, the rule: %t", name, took, got)
		}
	}
}

// TestResourceProblems: what is wrong with a spec is told without a provider, all at once.
func TestResourceProblems(t *testing.T) {
	table := map[string]sdk.ResourceType{}
	for _, row := range resourceTypes() {
		table[row.Type] = row
	}
	for _, c := range []struct{ typ, name, config, want string }{
		{typeResNetwork, "a b", `{}`, ""},
		{typeResNetwork, " ", `{"subnet":"x","internal":"yes"}`, "config.internal name config.subnet"},
		{typeResNetwork, "a", `{"subnet":7,"gateway":"172.28.0.1"}`, "config.subnet"},
		{typeResNetwork, "a", `{"gateway":"172.28.0.1"}`, "config.gateway"},
		{typeResVolume, "a", `{"drivr":"local","labels":{"windlass-x":"1"}}`, "config.drivr name config.labels.windlass-x"},
		{typeResVolume, "data", `{}`, ""},
	} {
		var got []string
		for _, p := range table[c.typ].Problems(sdk.ResourceSpec{Name: c.name, Type: c.typ, Config: json.RawMessage(c.config)}) {
			got = append(got, p.Field)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s %q %s: %v, want %s", c.typ, c.name, c.config, got, c.want)
		}
	}
}

// TestVolumeNames holds our rule of names against the engine's own.
func TestVolumeNames(t *testing.T) {
	w := newWorld(t, nil)
	prefix := "wl-test-" + sdk.NewIDSource(sdk.SystemClock()).NewID().Short()
	for _, name := range []string{prefix + "_.-Z", prefix + " b", prefix + "ü", prefix + "/b", prefix + ":b", "." + prefix, "-" + prefix, "_" + prefix, "é" + prefix, "q"} {
		took := w.call(func(ctx context.Context, api *client.Client) error {
			if _, err := api.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name}); err != nil {
				return err
			}
			_, err := api.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
			return err
		}) == nil
		if got := isVolumeName(name); got != took {
			t.Errorf("%q: the engine takes it: %t, the rule: %t", name, took, got)
		}
	}
}
