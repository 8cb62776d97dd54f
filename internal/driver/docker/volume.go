package docker

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/internal/driver/resource"
	"github.com/windlass-run/windlass/sdk"
)

const defaultVolumeDriver = "local"

// volumeConfig is the config of a volume, and with its place its outputs.
type volumeConfig struct {
	Driver  string            `json:"driver"`
	Options map[string]string `json:"options,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
}

type volumeOutputs struct {
	volumeConfig
	Mountpoint string `json:"mountpoint"`
	Scope      string `json:"scope"`
}

func readVolume(t resource.Table, op string, s sdk.ResourceSpec) (volumeConfig, *resource.Spec) {
	var c volumeConfig
	spec := t.Decode(op, s, &c)
	c.Driver = cmp.Or(c.Driver, defaultVolumeDriver)
	if c.Driver == defaultVolumeDriver && s.Name != "" && !isVolumeName(s.Name) {
		spec.Bad("name", s.Name, "is no name of a volume: two or more letters, digits, _, . and -, the first a letter or digit")
	}
	spec.Labels("config.labels", c.Labels)
	return c, spec
}

func (p *provider) volumeConfig(op string, s sdk.ResourceSpec) (volumeConfig, error) {
	c, spec := readVolume(p.table(), op, s)
	return c, spec.Err()
}

// isVolumeName is the engine's rule for its local driver; a test holds it against a real
// engine.
func isVolumeName(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || !strings.ContainsRune("_.-", rune(c))) {
			return false
		}
	}
	return len(s) > 1
}

// foundVolume reads a volume. The engine knows it by its name alone, so the ID has the
// time of its making, too: another of the same name is another volume.
func foundVolume(v volume.Volume) *standing {
	mark, labels := resource.Split(v.Labels)
	o := volumeOutputs{volumeConfig: volumeConfig{Driver: v.Driver, Options: v.Options, Labels: labels}, Mountpoint: v.Mountpoint, Scope: v.Scope}
	return &standing{mark: mark, output: sdk.ResourceOutput{Name: v.Name, Type: typeResVolume, ProviderID: v.Name + "@" + v.CreatedAt, Outputs: resource.Outputs(o), Status: "scope " + cmp.Or(v.Scope, "local")}}
}

func (p *provider) findVolume(ctx context.Context, op string, ref sdk.ResourceRef) (*standing, error) {
	name := ref.Name
	if name == "" {
		name, _, _ = strings.Cut(ref.ProviderID, "@")
	}
	var v volume.Volume
	err := p.client.Call(ctx, op, func(ctx context.Context, api *client.Client) error {
		res, err := api.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
		v = res.Volume
		return err
	})
	if sdk.CodeOf(err) == sdk.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := foundVolume(v)
	if ref.ProviderID != "" && ref.ProviderID != f.output.ProviderID {
		return nil, nil
	}
	return f, nil
}

// createVolume returns the volume that is there: the engine gives another's where the
// name was taken meanwhile.
func (p *provider) createVolume(ctx context.Context, s sdk.ResourceSpec, mark resource.Mark) (*standing, error) {
	c, err := p.volumeConfig(resource.OpCreate, s)
	if err != nil {
		return nil, err
	}
	err = p.client.Call(ctx, resource.OpCreate, func(ctx context.Context, api *client.Client) error {
		_, err := api.VolumeCreate(ctx, client.VolumeCreateOptions{Name: s.Name, Driver: c.Driver, DriverOpts: c.Options, Labels: mark.Onto(c.Labels)})
		return err
	})
	if err != nil {
		return nil, err
	}
	f, err := p.findVolume(ctx, resource.OpCreate, sdk.ResourceRef{Name: s.Name})
	if err == nil && f == nil {
		err = p.fail(sdk.Unavailable, resource.OpCreate, fmt.Errorf("volume %s was made and isn't there any more", s.Name))
	}
	if err != nil {
		return nil, sdk.Unclear(err)
	}
	return f, nil
}

func (p *provider) removeVolume(ctx context.Context, f *standing) error {
	return p.client.Call(ctx, resource.OpDelete, func(ctx context.Context, api *client.Client) error {
		_, err := api.VolumeRemove(ctx, f.output.Name, client.VolumeRemoveOptions{})
		return err
	})
}

func (p *provider) diffVolume(s sdk.ResourceSpec, now sdk.ResourceOutput) (sdk.DiffResourceResult, error) {
	want, err := p.volumeConfig(resource.OpDiff, s)
	if err != nil {
		return sdk.DiffResourceResult{}, err
	}
	var have volumeOutputs
	if err := p.table().Current(resource.OpDiff, now, &have); err != nil {
		return sdk.DiffResourceResult{}, err
	}
	var d resource.Diff
	d.Value("driver", have.Driver, want.Driver, true)
	d.Map("options", have.Options, want.Options, true)
	d.Map("labels", have.Labels, want.Labels, true)
	return d.DiffResourceResult, nil
}
