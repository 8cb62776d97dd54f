package docker

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/internal/driver/resource"
	"github.com/windlass-run/windlass/sdk"
)

const defaultNetworkDriver = "bridge"

// networkConfig is the config of a network, and with ID its outputs.
type networkConfig struct {
	Driver   string            `json:"driver"`
	Internal bool              `json:"internal"`
	Subnet   string            `json:"subnet,omitzero"`
	Gateway  string            `json:"gateway,omitzero"`
	Options  map[string]string `json:"options,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
}

type networkOutputs struct {
	ID string `json:"id"`
	networkConfig
}

func readNetwork(t resource.Table, op string, s sdk.ResourceSpec) (networkConfig, *resource.Spec) {
	var c networkConfig
	spec := t.Decode(op, s, &c)
	c.Driver = cmp.Or(c.Driver, defaultNetworkDriver)
	if s.Name != "" && !isNetworkName(s.Name) {
		spec.Bad("name", s.Name, "is no name of a network: blanks alone are none, and default is the engine's own word")
	}
	if c.Subnet != "" && !isPrefix(c.Subnet) {
		spec.Bad("config.subnet", c.Subnet, "is no range of addresses such as 172.28.0.0/16")
	}
	switch {
	case c.Gateway != "" && !isAddr(c.Gateway):
		spec.Bad("config.gateway", c.Gateway, "is no address such as 172.28.0.1")
	case c.Gateway != "" && c.Subnet == "" && !spec.Wrong("config.subnet"):
		spec.Bad("config.gateway", c.Gateway, "needs the subnet that it is in")
	}
	spec.Labels("config.labels", c.Labels)
	return c, spec
}

func (p *provider) networkConfig(op string, s sdk.ResourceSpec) (networkConfig, error) {
	c, spec := readNetwork(p.table(), op, s)
	return c, spec.Err()
}

// isNetworkName is the engine's rule for names that it may give, as engines up to 20.10
// have it; those that are the engine's own networks can be read. A test holds it against a
// real engine.
func isNetworkName(s string) bool { return strings.TrimSpace(s) != "" && s != "default" }

func isPrefix(s string) bool {
	p, err := netip.ParsePrefix(s)
	return err == nil && p == p.Masked()
}

func isAddr(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

func (p *provider) foundNetwork(n network.Network) *standing {
	mark, labels := resource.Split(n.Labels)
	o := networkOutputs{ID: n.ID, networkConfig: networkConfig{Driver: n.Driver, Internal: n.Internal, Options: n.Options, Labels: labels}}
	if len(n.IPAM.Config) > 0 {
		if c := n.IPAM.Config[0]; c.Subnet.IsValid() {
			o.Subnet = c.Subnet.String()
		}
		if c := n.IPAM.Config[0]; c.Gateway.IsValid() {
			o.Gateway = c.Gateway.String()
		}
	}
	return &standing{mark: mark, output: sdk.ResourceOutput{Name: n.Name, Type: typeResNetwork, ProviderID: n.ID, Outputs: resource.Outputs(o), Status: "scope " + cmp.Or(n.Scope, "local")}}
}

// networks lists those of exactly that name, or of that ID.
func (p *provider) networks(ctx context.Context, op, name, id string) ([]network.Summary, error) {
	filters := make(client.Filters)
	if id != "" {
		filters.Add("id", id)
	} else {
		filters.Add("name", name)
	}
	var out []network.Summary
	err := p.client.Call(ctx, op, func(ctx context.Context, api *client.Client) error {
		res, err := api.NetworkList(ctx, client.NetworkListOptions{Filters: filters})
		out = slices.DeleteFunc(res.Items, func(n network.Summary) bool { return id == "" && n.Name != name || id != "" && n.ID != id }) // the filters match parts
		return err
	})
	return out, err
}

func (p *provider) findNetwork(ctx context.Context, op string, ref sdk.ResourceRef) (*standing, error) {
	list, err := p.networks(ctx, op, ref.Name, ref.ProviderID)
	switch {
	case err != nil || len(list) == 0:
		return nil, err
	case len(list) > 1:
		e := p.fail(sdk.FailedPrecondition, op, fmt.Errorf("the engine has %d networks called %s: %s and %s", len(list), ref.Name, list[0].ID, list[1].ID))
		e.Remedy = "remove one by its ID"
		return nil, e
	}
	return p.foundNetwork(list[0].Network), nil
}

func (p *provider) createNetwork(ctx context.Context, s sdk.ResourceSpec, mark resource.Mark) (*standing, error) {
	c, err := p.networkConfig(resource.OpCreate, s)
	if err != nil {
		return nil, err
	}
	o := client.NetworkCreateOptions{Driver: c.Driver, Internal: c.Internal, Options: c.Options, Labels: mark.Onto(c.Labels)}
	if c.Subnet != "" {
		pool := network.IPAMConfig{Subnet: netip.MustParsePrefix(c.Subnet)}
		if c.Gateway != "" {
			pool.Gateway = netip.MustParseAddr(c.Gateway)
		}
		o.IPAM = &network.IPAM{Config: []network.IPAMConfig{pool}}
	}
	var id string
	err = p.client.Call(ctx, resource.OpCreate, func(ctx context.Context, api *client.Client) error {
		res, err := api.NetworkCreate(ctx, s.Name, o)
		id = res.ID
		return err
	})
	if err != nil {
		return nil, err
	}
	list, err := p.networks(ctx, resource.OpCreate, s.Name, "")
	if err != nil {
		return nil, sdk.Unclear(err)
	}
	// Of two that were made at once the older stays.
	slices.SortFunc(list, func(a, b network.Summary) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	i := slices.IndexFunc(list, func(n network.Summary) bool { return n.ID == id })
	switch {
	case i == 0:
		return p.foundNetwork(list[0].Network), nil
	case i < 0:
		return nil, p.fail(sdk.Unavailable, resource.OpCreate, fmt.Errorf("network %s was made as %s and isn't there any more", s.Name, id))
	}
	if err := p.removeNetwork(ctx, p.foundNetwork(list[i].Network)); err != nil {
		return nil, sdk.Unclear(err)
	}
	return p.foundNetwork(list[0].Network), nil
}

func (p *provider) removeNetwork(ctx context.Context, f *standing) error {
	return p.client.Call(ctx, resource.OpDelete, func(ctx context.Context, api *client.Client) error {
		_, err := api.NetworkRemove(ctx, f.output.ProviderID, client.NetworkRemoveOptions{})
		return err
	})
}

// diffNetwork leaves out what wasn't asked for: the engine chose it.
func (p *provider) diffNetwork(s sdk.ResourceSpec, now sdk.ResourceOutput) (sdk.DiffResourceResult, error) {
	want, err := p.networkConfig(resource.OpDiff, s)
	if err != nil {
		return sdk.DiffResourceResult{}, err
	}
	var have networkOutputs
	if err := p.table().Current(resource.OpDiff, now, &have); err != nil {
		return sdk.DiffResourceResult{}, err
	}
	var d resource.Diff
	d.Value("driver", have.Driver, want.Driver, true)
	d.Value("internal", have.Internal, want.Internal, true)
	if want.Subnet != "" {
		d.Value("subnet", have.Subnet, want.Subnet, true)
	}
	if want.Gateway != "" {
		d.Value("gateway", have.Gateway, want.Gateway, true)
	}
	d.Map("options", have.Options, want.Options, true)
	d.Map("labels", have.Labels, want.Labels, true)
	return d.DiffResourceResult, nil
}
