package wire

import (
	"encoding/json"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
)

// The published ResourceDriver has neither IDs of changes nor owners: whoever decodes a
// request brings an ID, and a reply that is decoded has none. JSON passes unchanged; nil
// and empty are one there.

func iacSpec(s sdk.ResourceSpec) *iacpb.ResourceSpec {
	m := &iacpb.ResourceSpec{Name: s.Name, Type: s.Type, ConfigJson: s.Config, Size: s.Size, DependsOn: s.DependsOn}
	if h := s.Hints; h != (sdk.ResourceHints{}) {
		m.Hints = &iacpb.ResourceHints{Cpu: h.CPU, Memory: h.Memory, Storage: h.Storage}
	}
	return m
}

// typed refuses a request whose two types differ: it isn't known which is meant.
func (c *coder) typed(field, typ, resourceType string) string {
	switch {
	case typ == "":
		return resourceType
	case resourceType != "" && typ != resourceType:
		c.fail(field, "is %q, and resource_type is %q", typ, resourceType)
	}
	return typ
}

func (c *coder) uniacSpec(field, typ string, m *iacpb.ResourceSpec) sdk.ResourceSpec {
	if !c.given(field, m) {
		return sdk.ResourceSpec{}
	}
	h := m.GetHints()
	return sdk.ResourceSpec{Name: m.GetName(), Type: c.typed(field+".type", m.GetType(), typ), Config: jsonOrNil(m.GetConfigJson()), Size: m.GetSize(),
		DependsOn: each(m.GetDependsOn(), same), Hints: sdk.ResourceHints{CPU: h.GetCpu(), Memory: h.GetMemory(), Storage: h.GetStorage()}}
}

func iacRef(r sdk.ResourceRef) *iacpb.ResourceRef {
	return &iacpb.ResourceRef{Name: r.Name, Type: r.Type, ProviderId: r.ProviderID}
}

func (c *coder) uniacRef(typ string, m *iacpb.ResourceRef) sdk.ResourceRef {
	c.given("ref", m)
	return sdk.ResourceRef{Name: m.GetName(), Type: c.typed("ref.type", m.GetType(), typ), ProviderID: m.GetProviderId()}
}

func iacOutput(o sdk.ResourceOutput) *iacpb.ResourceOutput {
	return &iacpb.ResourceOutput{Name: o.Name, Type: o.Type, ProviderId: o.ProviderID, OutputsJson: o.Outputs, Sensitive: o.Sensitive, Status: plain(o.Status)}
}

func (c *coder) uniacOutput(field string, m *iacpb.ResourceOutput) sdk.ResourceOutput {
	if !c.given(field, m) {
		return sdk.ResourceOutput{}
	}
	c.known(field, m)
	return sdk.ResourceOutput{Name: m.GetName(), Type: m.GetType(), ProviderID: m.GetProviderId(), Outputs: jsonOrNil(m.GetOutputsJson()),
		Sensitive: mapOf(m.GetSensitive(), same), Status: m.GetStatus()}
}

func jsonOrNil(b []byte) json.RawMessage {
	if len(b) == 0 {
		return nil
	}
	return b
}

// EncodeIaCCreate returns r as the published message.
func EncodeIaCCreate(r sdk.CreateResourceRequest) (*iacpb.ResourceCreateRequest, error) {
	return encoded(request("encode Create"), &iacpb.ResourceCreateRequest{ResourceType: r.Spec.Type, Spec: iacSpec(r.Spec)})
}

// DecodeIaCCreate reads the published message under the ID of a change.
func DecodeIaCCreate(m *iacpb.ResourceCreateRequest, op sdk.ID) (sdk.CreateResourceRequest, error) {
	c := request("decode Create")
	c.known("", m)
	return decoded(c, sdk.CreateResourceRequest{OpID: op, Spec: c.uniacSpec("spec", m.GetResourceType(), m.GetSpec())})
}

// EncodeIaCRead returns r as the published message.
func EncodeIaCRead(r sdk.ReadResourceRequest) (*iacpb.ResourceReadRequest, error) {
	return encoded(request("encode Read"), &iacpb.ResourceReadRequest{ResourceType: r.Ref.Type, Ref: iacRef(r.Ref)})
}

// DecodeIaCRead reads the published message.
func DecodeIaCRead(m *iacpb.ResourceReadRequest) (sdk.ReadResourceRequest, error) {
	c := request("decode Read")
	c.known("", m)
	return decoded(c, sdk.ReadResourceRequest{Ref: c.uniacRef(m.GetResourceType(), m.GetRef())})
}

// EncodeIaCUpdate returns r as the published message.
func EncodeIaCUpdate(r sdk.UpdateResourceRequest) (*iacpb.ResourceUpdateRequest, error) {
	return encoded(request("encode Update"), &iacpb.ResourceUpdateRequest{ResourceType: r.Spec.Type, Ref: iacRef(r.Ref), Spec: iacSpec(r.Spec)})
}

// DecodeIaCUpdate reads the published message under the ID of a change.
func DecodeIaCUpdate(m *iacpb.ResourceUpdateRequest, op sdk.ID) (sdk.UpdateResourceRequest, error) {
	c := request("decode Update")
	c.known("", m)
	return decoded(c, sdk.UpdateResourceRequest{OpID: op, Ref: c.uniacRef(m.GetResourceType(), m.GetRef()), Spec: c.uniacSpec("spec", m.GetResourceType(), m.GetSpec())})
}

// EncodeIaCDelete returns r as the published message.
func EncodeIaCDelete(r sdk.DeleteResourceRequest) (*iacpb.ResourceDeleteRequest, error) {
	return encoded(request("encode Delete"), &iacpb.ResourceDeleteRequest{ResourceType: r.Ref.Type, Ref: iacRef(r.Ref)})
}

// DecodeIaCDelete reads the published message under the ID of a change.
func DecodeIaCDelete(m *iacpb.ResourceDeleteRequest, op sdk.ID) (sdk.DeleteResourceRequest, error) {
	c := request("decode Delete")
	c.known("", m)
	return decoded(c, sdk.DeleteResourceRequest{OpID: op, Ref: c.uniacRef(m.GetResourceType(), m.GetRef())})
}

// EncodeIaCDiff returns r as the published message.
func EncodeIaCDiff(r sdk.DiffResourceRequest) (*iacpb.ResourceDiffRequest, error) {
	return encoded(request("encode Diff"), &iacpb.ResourceDiffRequest{ResourceType: r.Desired.Type, Desired: iacSpec(r.Desired), Current: iacOutput(r.Current)})
}

// DecodeIaCDiff reads the published message.
func DecodeIaCDiff(m *iacpb.ResourceDiffRequest) (sdk.DiffResourceRequest, error) {
	c := request("decode Diff")
	c.known("", m)
	return decoded(c, sdk.DiffResourceRequest{Desired: c.uniacSpec("desired", m.GetResourceType(), m.GetDesired()), Current: c.uniacOutput("current", m.GetCurrent())})
}

// EncodeIaCScale returns r as the published message. A number that 32 bits don't hold is
// refused.
func EncodeIaCScale(r sdk.ScaleResourceRequest) (*iacpb.ResourceScaleRequest, error) {
	c := request("encode Scale")
	n := c.int32("replicas", r.Replicas)
	c.count("replicas", n)
	return encoded(c, &iacpb.ResourceScaleRequest{ResourceType: r.Ref.Type, Ref: iacRef(r.Ref), Replicas: n})
}

// DecodeIaCScale reads the published message under the ID of a change.
func DecodeIaCScale(m *iacpb.ResourceScaleRequest, op sdk.ID) (sdk.ScaleResourceRequest, error) {
	c := request("decode Scale")
	c.known("", m)
	return decoded(c, sdk.ScaleResourceRequest{OpID: op, Ref: c.uniacRef(m.GetResourceType(), m.GetRef()), Replicas: c.count("replicas", m.GetReplicas())})
}

// EncodeIaCHealthCheck returns r as the published message.
func EncodeIaCHealthCheck(r sdk.HealthCheckResourceRequest) (*iacpb.ResourceHealthCheckRequest, error) {
	return encoded(request("encode HealthCheck"), &iacpb.ResourceHealthCheckRequest{ResourceType: r.Ref.Type, Ref: iacRef(r.Ref)})
}

// DecodeIaCHealthCheck reads the published message.
func DecodeIaCHealthCheck(m *iacpb.ResourceHealthCheckRequest) (sdk.HealthCheckResourceRequest, error) {
	c := request("decode HealthCheck")
	c.known("", m)
	return decoded(c, sdk.HealthCheckResourceRequest{Ref: c.uniacRef(m.GetResourceType(), m.GetRef())})
}

// EncodeIaCTroubleshoot returns r as the published message.
func EncodeIaCTroubleshoot(r sdk.TroubleshootResourceRequest) (*iacpb.TroubleshootRequest, error) {
	return encoded(request("encode Troubleshoot"), &iacpb.TroubleshootRequest{ResourceType: r.Ref.Type, Ref: iacRef(r.Ref), FailureMsg: plain(r.FailureMessage)})
}

// DecodeIaCTroubleshoot reads the published message.
func DecodeIaCTroubleshoot(m *iacpb.TroubleshootRequest) (sdk.TroubleshootResourceRequest, error) {
	c := request("decode Troubleshoot")
	c.known("", m)
	return decoded(c, sdk.TroubleshootResourceRequest{Ref: c.uniacRef(m.GetResourceType(), m.GetRef()), FailureMessage: m.GetFailureMsg()})
}

// EncodeIaCOutput returns a resource as the published message.
func EncodeIaCOutput(o sdk.ResourceOutput) (*iacpb.ResourceOutput, error) {
	return encoded(reply("encode the resource"), iacOutput(o))
}

// DecodeIaCOutput reads a resource. It takes no field that it doesn't know: a new one may
// be what keeps a value from being seen.
func DecodeIaCOutput(m *iacpb.ResourceOutput) (sdk.ResourceOutput, error) {
	c := reply("decode the resource")
	return decoded(c, c.uniacOutput("output", m))
}

// EncodeIaCDiffResult returns r as the published message.
func EncodeIaCDiffResult(r sdk.DiffResourceResult) (*iacpb.DiffResult, error) {
	return encoded(reply("encode Diff's result"), &iacpb.DiffResult{NeedsUpdate: r.NeedsUpdate, NeedsReplace: r.NeedsReplace,
		Changes: each(r.Changes, func(f sdk.FieldChange) *iacpb.FieldChange {
			return &iacpb.FieldChange{Path: f.Path, OldJson: f.Old, NewJson: f.New, ForceNew: f.ForceNew}
		})})
}

// DecodeIaCDiffResult reads what differs, and takes no field that it doesn't know.
func DecodeIaCDiffResult(m *iacpb.DiffResult) (sdk.DiffResourceResult, error) {
	c := reply("decode Diff's result")
	if !c.given("result", m) {
		return decoded(c, sdk.DiffResourceResult{})
	}
	c.known("", m)
	return decoded(c, sdk.DiffResourceResult{NeedsUpdate: m.GetNeedsUpdate(), NeedsReplace: m.GetNeedsReplace(),
		Changes: each(m.GetChanges(), func(f *iacpb.FieldChange) sdk.FieldChange {
			return sdk.FieldChange{Path: f.GetPath(), Old: jsonOrNil(f.GetOldJson()), New: jsonOrNil(f.GetNewJson()), ForceNew: f.GetForceNew()}
		})})
}

// EncodeIaCHealth returns r as the published message.
func EncodeIaCHealth(r sdk.HealthCheckResourceResult) (*iacpb.HealthResult, error) {
	return encoded(reply("encode HealthCheck's result"), &iacpb.HealthResult{Healthy: r.Healthy, Message: plain(r.Message)})
}

// DecodeIaCHealth reads a resource's health.
func DecodeIaCHealth(m *iacpb.HealthResult) (sdk.HealthCheckResourceResult, error) {
	c := reply("decode HealthCheck's result")
	c.given("result", m)
	return decoded(c, sdk.HealthCheckResourceResult{Healthy: m.GetHealthy(), Message: m.GetMessage()})
}

// EncodeIaCDiagnostics returns findings as the published messages.
func EncodeIaCDiagnostics(list []sdk.Diagnostic) ([]*iacpb.Diagnostic, error) {
	c := reply("encode Troubleshoot's result")
	out := each(list, func(d sdk.Diagnostic) *iacpb.Diagnostic {
		return &iacpb.Diagnostic{Id: plain(d.ID), Phase: plain(d.Phase), Cause: plain(d.Cause), At: c.stamp("diagnostics.at", d.At), Detail: plain(d.Detail)}
	})
	return decoded(c, out)
}

// DecodeIaCDiagnostics reads findings.
func DecodeIaCDiagnostics(list []*iacpb.Diagnostic) ([]sdk.Diagnostic, error) {
	c := reply("decode Troubleshoot's result")
	return decoded(c, each(list, func(d *iacpb.Diagnostic) sdk.Diagnostic {
		return sdk.Diagnostic{ID: d.GetId(), Phase: d.GetPhase(), Cause: d.GetCause(), At: c.time("diagnostics.at", d.GetAt()), Detail: d.GetDetail()}
	}))
}
