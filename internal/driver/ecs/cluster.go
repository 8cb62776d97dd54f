package ecs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/driver/resource"
	"github.com/windlass-run/windlass/sdk"
)

// clusterActive is the status of a cluster that takes tasks.
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_Cluster.html
const clusterActive = "ACTIVE"

// clusterConfig is what a cluster can be compared by. What isn't set isn't compared.
type clusterConfig struct {
	CapacityProviders []string          `json:"capacity_providers,omitempty"`
	Settings          map[string]string `json:"settings,omitempty"`
	Tags              map[string]string `json:"tags,omitempty"`
}

type clusterOutputs struct {
	ARN string `json:"arn"`
	clusterConfig
	Instances      int32 `json:"instances"`
	RunningTasks   int32 `json:"running_tasks"`
	PendingTasks   int32 `json:"pending_tasks"`
	ActiveServices int32 `json:"active_services"`
}

func clusterSchema() sdk.Schema {
	return sdk.Schema{Fields: []sdk.SchemaField{
		{Name: "capacity_providers", Type: sdk.TypeList, Elem: &sdk.SchemaField{Type: sdk.TypeString}, Doc: "Its capacity providers, in any order; unset isn't compared."},
		{Name: "settings", Type: sdk.TypeMap, Doc: "Its settings by name, such as containerInsights; those that aren't named aren't compared."},
		{Name: "tags", Type: sdk.TypeMap, Doc: "Tags that it has; others aren't compared."},
	}}
}

func (p *provider) readCluster(ctx context.Context, op string, ref sdk.ResourceRef) (sdk.ResourceOutput, error) {
	name := ref.Name
	if ref.ProviderID != "" {
		name = ref.ProviderID
	}
	var out *ecs.DescribeClustersOutput
	err := p.session.Call(ctx, op, func(ctx context.Context) (err error) {
		out, err = p.ecs.DescribeClusters(ctx, &ecs.DescribeClustersInput{Clusters: []string{name}, Include: []types.ClusterField{types.ClusterFieldSettings, types.ClusterFieldTags}})
		return err
	})
	if err != nil {
		return sdk.ResourceOutput{}, err
	}
	// A cluster that was deleted is described as INACTIVE for a while.
	if len(out.Clusters) == 0 || str(out.Clusters[0].Status) == "INACTIVE" {
		return sdk.ResourceOutput{}, p.fail(sdk.NotFound, op, fmt.Errorf("there is no cluster %s in the region %s", name, p.session.Region))
	}
	c := out.Clusters[0]
	o := clusterOutputs{ARN: str(c.ClusterArn), Instances: c.RegisteredContainerInstancesCount, RunningTasks: c.RunningTasksCount,
		PendingTasks: c.PendingTasksCount, ActiveServices: c.ActiveServicesCount}
	o.CapacityProviders = slices.Sorted(slices.Values(c.CapacityProviders))
	for _, s := range c.Settings {
		o.Settings = put(o.Settings, string(s.Name), str(s.Value))
	}
	for _, t := range c.Tags {
		o.Tags = put(o.Tags, str(t.Key), str(t.Value))
	}
	return sdk.ResourceOutput{Name: str(c.ClusterName), Type: typeCluster, ProviderID: o.ARN, Outputs: resource.Outputs(o), Status: str(c.Status)}, nil
}

func put(m map[string]string, k, v string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[k] = v
	return m
}

func wantedCluster(t resource.Table, s sdk.ResourceSpec) (clusterConfig, *resource.Spec) {
	var want clusterConfig
	spec := t.Decode(resource.OpDiff, s, &want)
	if s.Name != "" && !isClusterName(s.Name) {
		spec.Bad("name", s.Name, "is no name of a cluster: at most 255 letters, digits, _ and -")
	}
	for _, k := range slices.Sorted(maps.Keys(want.Tags)) {
		if strings.HasPrefix(strings.ToLower(k), "aws:") {
			spec.Bad("config.tags."+k, "", "tags that begin with aws: are AWS's own")
		}
	}
	return want, spec
}

// isClusterName goes by
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_CreateCluster.html
func isClusterName(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return len(s) <= 255
}

func (p *provider) diffCluster(r sdk.DiffResourceRequest) (sdk.DiffResourceResult, error) {
	want, spec := wantedCluster(p.table(), r.Desired)
	if err := spec.Err(); err != nil {
		return sdk.DiffResourceResult{}, err
	}
	var have clusterOutputs
	if err := p.table().Current(resource.OpDiff, r.Current, &have); err != nil {
		return sdk.DiffResourceResult{}, err
	}
	var d resource.Diff
	if want.CapacityProviders != nil {
		d.Value("capacity_providers", append([]string{}, have.CapacityProviders...), append([]string{}, slices.Sorted(slices.Values(want.CapacityProviders))...), false)
	}
	d.Map("settings", only(have.Settings, want.Settings), want.Settings, false)
	d.Map("tags", only(have.Tags, want.Tags), want.Tags, false)
	return d.DiffResourceResult, nil
}

// only leaves the members of m that named has too.
func only(m, named map[string]string) map[string]string {
	out := map[string]string{}
	for k := range named {
		if v, ok := m[k]; ok {
			out[k] = v
		}
	}
	return out
}
