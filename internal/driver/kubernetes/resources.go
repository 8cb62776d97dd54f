package kubernetes

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/driver/resource"
	"github.com/windlass-run/windlass/sdk"
)

// typeNamespace is the type of resources. It is provisioning: to delete a namespace
// deletes all that is in it.
const typeNamespace = "kubernetes.namespace"

const (
	namespaceActive      = "Active"
	namespaceTerminating = "Terminating"
)

func resourceTypes() []sdk.ResourceType {
	return []sdk.ResourceType{{Type: typeNamespace, Doc: "A namespace of the cluster.",
		Verbs:   []sdk.ResourceVerb{sdk.VerbRead, sdk.VerbDiff, sdk.VerbHealth},
		Refused: "a namespace is provisioned: deleting one deletes all that is in it; use kubectl or your infrastructure tool",
		Problems: func(s sdk.ResourceSpec) []sdk.Problem {
			_, spec := wantedNamespace(tableOf(""), s)
			return spec.Problems()
		},
		Config: sdk.Schema{Fields: []sdk.SchemaField{
			{Name: "labels", Type: sdk.TypeMap, Doc: "Labels that it has; others aren't compared."},
		}}}}
}

// namespaceConfig is what a namespace can be compared by, and with its UID its outputs.
type namespaceConfig struct {
	Labels map[string]string `json:"labels,omitempty"`
}

type namespaceOutputs struct {
	UID string `json:"uid"`
	namespaceConfig
}

var _ sdk.ResourceDriver = (*provider)(nil)

func tableOf(provider string) resource.Table {
	return resource.Table{Provider: provider, Types: resourceTypes()}
}

func (p *provider) table() resource.Table { return tableOf(p.name) }

// namespace reads a namespace's metadata. It is being deleted where that has a time:
// https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
func (p *provider) namespace(ctx context.Context, op string, v sdk.ResourceVerb, ref sdk.ResourceRef) (sdk.ResourceOutput, error) {
	t := p.table()
	if err := t.Verb(op, ref.Type, v); err != nil {
		return sdk.ResourceOutput{}, err
	}
	absent := p.fail(sdk.NotFound, op, fmt.Errorf("the cluster has no namespace %q", ref.Name))
	if err := t.CheckRef(op, ref); err != nil {
		return sdk.ResourceOutput{}, err
	}
	if ref.Name == "" {
		return sdk.ResourceOutput{}, absent // there is no look-up by UID
	}
	var meta metav1.PartialObjectMetadata
	err := p.spend(ctx, op, func() error {
		return p.session.Get(ctx, op, kube.Namespaces(ref.Name).Metadata(), nil, &meta)
	})
	switch {
	case sdk.CodeOf(err) == sdk.NotFound, err == nil && ref.ProviderID != "" && ref.ProviderID != string(meta.UID):
		return sdk.ResourceOutput{}, absent
	case err != nil:
		return sdk.ResourceOutput{}, err
	}
	out := sdk.ResourceOutput{Name: meta.Name, Type: typeNamespace, ProviderID: string(meta.UID), Status: namespaceActive,
		Outputs: resource.Outputs(namespaceOutputs{UID: string(meta.UID), namespaceConfig: namespaceConfig{Labels: meta.Labels}})}
	if meta.DeletionTimestamp != nil {
		out.Status = namespaceTerminating
	}
	return out, nil
}

// ReadResource implements sdk.ResourceDriver.
func (p *provider) ReadResource(ctx context.Context, r sdk.ReadResourceRequest) (sdk.ReadResourceResult, error) {
	out, err := p.namespace(ctx, resource.OpRead, sdk.VerbRead, r.Ref)
	return sdk.ReadResourceResult{Output: out}, err
}

func wantedNamespace(t resource.Table, s sdk.ResourceSpec) (namespaceConfig, *resource.Spec) {
	var want namespaceConfig
	spec := t.Decode(resource.OpDiff, s, &want)
	if s.Name != "" && !isNamespaceName(s.Name) {
		spec.Bad("name", s.Name, "is no name of a namespace: at most 63 small letters, digits and -, the first and the last a letter or digit")
	}
	return want, spec
}

// isNamespaceName goes by
// https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-label-names
func isNamespaceName(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !alnum && (c != '-' || i == 0 || i == len(s)-1) {
			return false
		}
	}
	return len(s) <= 63
}

// DiffResource implements sdk.ResourceDriver. It asks nobody.
func (p *provider) DiffResource(ctx context.Context, r sdk.DiffResourceRequest) (sdk.DiffResourceResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.DiffResourceResult{}, p.fail(sdk.CodeOf(err), resource.OpDiff, err)
	}
	t := p.table()
	want, spec := wantedNamespace(t, r.Desired)
	if err := spec.Err(); err != nil {
		return sdk.DiffResourceResult{}, err
	}
	var have namespaceOutputs
	if err := t.Current(resource.OpDiff, r.Current, &have); err != nil {
		return sdk.DiffResourceResult{}, err
	}
	named := map[string]string{}
	for k := range want.Labels {
		if v, ok := have.Labels[k]; ok {
			named[k] = v
		}
	}
	var d resource.Diff
	d.Map("labels", named, want.Labels, false)
	return d.DiffResourceResult, nil
}

// HealthCheckResource implements sdk.ResourceDriver.
func (p *provider) HealthCheckResource(ctx context.Context, r sdk.HealthCheckResourceRequest) (sdk.HealthCheckResourceResult, error) {
	out, err := p.namespace(ctx, resource.OpHealth, sdk.VerbHealth, r.Ref)
	if err != nil {
		return sdk.HealthCheckResourceResult{}, err
	}
	return sdk.HealthCheckResourceResult{Healthy: out.Status == namespaceActive, Message: "the namespace is " + out.Status}, nil
}

// SensitiveKeys implements sdk.ResourceDriver: nothing of a namespace is secret.
func (p *provider) SensitiveKeys(ctx context.Context, r sdk.SensitiveKeysRequest) (sdk.SensitiveKeysResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.SensitiveKeysResult{}, p.fail(sdk.CodeOf(err), resource.OpKeys, err)
	}
	return sdk.SensitiveKeysResult{}, p.table().Verb(resource.OpKeys, r.Type, "")
}

// CreateResource implements sdk.ResourceDriver: it is refused.
func (p *provider) CreateResource(_ context.Context, r sdk.CreateResourceRequest) (sdk.CreateResourceResult, error) {
	return sdk.CreateResourceResult{}, p.table().Change(resource.OpCreate, r.Spec.Type, sdk.VerbCreate, r.OpID)
}

// UpdateResource implements sdk.ResourceDriver: it is refused.
func (p *provider) UpdateResource(_ context.Context, r sdk.UpdateResourceRequest) (sdk.UpdateResourceResult, error) {
	return sdk.UpdateResourceResult{}, p.table().Change(resource.OpUpdate, r.Ref.Type, sdk.VerbUpdate, r.OpID)
}

// DeleteResource implements sdk.ResourceDriver: it is refused.
func (p *provider) DeleteResource(_ context.Context, r sdk.DeleteResourceRequest) (sdk.DeleteResourceResult, error) {
	return sdk.DeleteResourceResult{}, p.table().Change(resource.OpDelete, r.Ref.Type, sdk.VerbDelete, r.OpID)
}

// ScaleResource implements sdk.ResourceDriver: it is refused.
func (p *provider) ScaleResource(_ context.Context, r sdk.ScaleResourceRequest) (sdk.ScaleResourceResult, error) {
	return sdk.ScaleResourceResult{}, p.table().Change(resource.OpScale, r.Ref.Type, sdk.VerbScale, r.OpID)
}
