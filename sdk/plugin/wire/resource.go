package wire

import (
	"encoding/json"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
)

func resourceSpec(s sdk.ResourceSpec) *pb.ResourceSpec {
	m := &pb.ResourceSpec{Name: s.Name, Type: s.Type, ConfigJson: s.Config, Size: s.Size, DependsOn: s.DependsOn}
	if h := s.Hints; h != (sdk.ResourceHints{}) {
		m.Hints = &pb.ResourceHints{Cpu: h.CPU, Memory: h.Memory, Storage: h.Storage}
	}
	return m
}

func (c *coder) unresourceSpec(field string, m *pb.ResourceSpec) sdk.ResourceSpec {
	if !c.given(field, m) {
		return sdk.ResourceSpec{}
	}
	h := m.GetHints()
	return sdk.ResourceSpec{Name: m.GetName(), Type: m.GetType(), Config: m.GetConfigJson(), Size: m.GetSize(), DependsOn: each(m.GetDependsOn(), same),
		Hints: sdk.ResourceHints{CPU: h.GetCpu(), Memory: h.GetMemory(), Storage: h.GetStorage()}}
}

func resourceRef(r sdk.ResourceRef) *pb.ResourceRef {
	return &pb.ResourceRef{Name: r.Name, Type: r.Type, ProviderId: r.ProviderID}
}

func (c *coder) unresourceRef(m *pb.ResourceRef) sdk.ResourceRef {
	c.given("ref", m)
	return sdk.ResourceRef{Name: m.GetName(), Type: m.GetType(), ProviderID: m.GetProviderId()}
}

func resourceOutput(o sdk.ResourceOutput) *pb.ResourceOutput {
	return &pb.ResourceOutput{Name: o.Name, Type: o.Type, ProviderId: o.ProviderID, OutputsJson: o.Outputs, Sensitive: o.Sensitive, Status: plain(o.Status)}
}

// unresourceOutput refuses a field that it doesn't know: a new one may be what keeps
// a value from being seen.
func (c *coder) unresourceOutput(field string, m *pb.ResourceOutput) sdk.ResourceOutput {
	if !c.given(field, m) {
		return sdk.ResourceOutput{}
	}
	c.known(field, m)
	return sdk.ResourceOutput{Name: m.GetName(), Type: m.GetType(), ProviderID: m.GetProviderId(), Outputs: m.GetOutputsJson(),
		Sensitive: mapOf(m.GetSensitive(), same), Status: m.GetStatus()}
}

// change reads the ID of a change, which every change has.
func (c *coder) change(b []byte) sdk.ID {
	if len(b) == 0 {
		c.fail("op_id", "is missing")
	}
	return c.id("op_id", b)
}

func (c *coder) changeBytes(id sdk.ID) []byte {
	if id.IsZero() {
		c.fail("op_id", "is missing")
	}
	return idBytes(id)
}

// EncodeCreateResourceRequest returns r as a message.
func EncodeCreateResourceRequest(r sdk.CreateResourceRequest) (*pb.CreateResourceRequest, error) {
	c := request("encode CreateResource")
	return encoded(c, &pb.CreateResourceRequest{OpId: c.changeBytes(r.OpID), Spec: resourceSpec(r.Spec)})
}

// DecodeCreateResourceRequest reads what EncodeCreateResourceRequest wrote.
func DecodeCreateResourceRequest(m *pb.CreateResourceRequest) (sdk.CreateResourceRequest, error) {
	c := request("decode CreateResource")
	c.known("", m)
	return decoded(c, sdk.CreateResourceRequest{OpID: c.change(m.GetOpId()), Spec: c.unresourceSpec("spec", m.GetSpec())})
}

// EncodeCreateResourceResponse returns r as a message.
func EncodeCreateResourceResponse(r sdk.CreateResourceResult) (*pb.CreateResourceResponse, error) {
	return encoded(reply("encode CreateResource's result"), &pb.CreateResourceResponse{Output: resourceOutput(r.Output)})
}

// DecodeCreateResourceResponse reads what EncodeCreateResourceResponse wrote.
func DecodeCreateResourceResponse(m *pb.CreateResourceResponse) (sdk.CreateResourceResult, error) {
	c := reply("decode CreateResource's result")
	return decoded(c, sdk.CreateResourceResult{Output: c.unresourceOutput("output", m.GetOutput())})
}

// EncodeReadResourceRequest returns r as a message.
func EncodeReadResourceRequest(r sdk.ReadResourceRequest) (*pb.ReadResourceRequest, error) {
	return encoded(request("encode ReadResource"), &pb.ReadResourceRequest{Ref: resourceRef(r.Ref)})
}

// DecodeReadResourceRequest reads what EncodeReadResourceRequest wrote.
func DecodeReadResourceRequest(m *pb.ReadResourceRequest) (sdk.ReadResourceRequest, error) {
	c := request("decode ReadResource")
	c.known("", m)
	return decoded(c, sdk.ReadResourceRequest{Ref: c.unresourceRef(m.GetRef())})
}

// EncodeReadResourceResponse returns r as a message.
func EncodeReadResourceResponse(r sdk.ReadResourceResult) (*pb.ReadResourceResponse, error) {
	return encoded(reply("encode ReadResource's result"), &pb.ReadResourceResponse{Output: resourceOutput(r.Output), OpId: idBytes(r.OpID),
		Owner: r.Owner, LedgerId: r.LedgerID})
}

// DecodeReadResourceResponse reads what EncodeReadResourceResponse wrote.
func DecodeReadResourceResponse(m *pb.ReadResourceResponse) (sdk.ReadResourceResult, error) {
	c := reply("decode ReadResource's result")
	return decoded(c, sdk.ReadResourceResult{Output: c.unresourceOutput("output", m.GetOutput()), OpID: c.id("op_id", m.GetOpId()),
		Owner: m.GetOwner(), LedgerID: m.GetLedgerId()})
}

// EncodeUpdateResourceRequest returns r as a message.
func EncodeUpdateResourceRequest(r sdk.UpdateResourceRequest) (*pb.UpdateResourceRequest, error) {
	c := request("encode UpdateResource")
	return encoded(c, &pb.UpdateResourceRequest{OpId: c.changeBytes(r.OpID), Ref: resourceRef(r.Ref), Spec: resourceSpec(r.Spec)})
}

// DecodeUpdateResourceRequest reads what EncodeUpdateResourceRequest wrote.
func DecodeUpdateResourceRequest(m *pb.UpdateResourceRequest) (sdk.UpdateResourceRequest, error) {
	c := request("decode UpdateResource")
	c.known("", m)
	return decoded(c, sdk.UpdateResourceRequest{OpID: c.change(m.GetOpId()), Ref: c.unresourceRef(m.GetRef()), Spec: c.unresourceSpec("spec", m.GetSpec())})
}

// EncodeUpdateResourceResponse returns r as a message.
func EncodeUpdateResourceResponse(r sdk.UpdateResourceResult) (*pb.UpdateResourceResponse, error) {
	return encoded(reply("encode UpdateResource's result"), &pb.UpdateResourceResponse{Output: resourceOutput(r.Output)})
}

// DecodeUpdateResourceResponse reads what EncodeUpdateResourceResponse wrote.
func DecodeUpdateResourceResponse(m *pb.UpdateResourceResponse) (sdk.UpdateResourceResult, error) {
	c := reply("decode UpdateResource's result")
	return decoded(c, sdk.UpdateResourceResult{Output: c.unresourceOutput("output", m.GetOutput())})
}

// EncodeDeleteResourceRequest returns r as a message.
func EncodeDeleteResourceRequest(r sdk.DeleteResourceRequest) (*pb.DeleteResourceRequest, error) {
	c := request("encode DeleteResource")
	return encoded(c, &pb.DeleteResourceRequest{OpId: c.changeBytes(r.OpID), Ref: resourceRef(r.Ref)})
}

// DecodeDeleteResourceRequest reads what EncodeDeleteResourceRequest wrote.
func DecodeDeleteResourceRequest(m *pb.DeleteResourceRequest) (sdk.DeleteResourceRequest, error) {
	c := request("decode DeleteResource")
	c.known("", m)
	return decoded(c, sdk.DeleteResourceRequest{OpID: c.change(m.GetOpId()), Ref: c.unresourceRef(m.GetRef())})
}

// EncodeDiffResourceRequest returns r as a message.
func EncodeDiffResourceRequest(r sdk.DiffResourceRequest) (*pb.DiffResourceRequest, error) {
	return encoded(request("encode DiffResource"), &pb.DiffResourceRequest{Desired: resourceSpec(r.Desired), Current: resourceOutput(r.Current)})
}

// DecodeDiffResourceRequest reads what EncodeDiffResourceRequest wrote.
func DecodeDiffResourceRequest(m *pb.DiffResourceRequest) (sdk.DiffResourceRequest, error) {
	c := request("decode DiffResource")
	c.known("", m)
	return decoded(c, sdk.DiffResourceRequest{Desired: c.unresourceSpec("desired", m.GetDesired()), Current: c.unresourceOutput("current", m.GetCurrent())})
}

// EncodeDiffResourceResponse returns r as a message.
func EncodeDiffResourceResponse(r sdk.DiffResourceResult) (*pb.DiffResourceResponse, error) {
	return encoded(reply("encode DiffResource's result"), &pb.DiffResourceResponse{NeedsUpdate: r.NeedsUpdate, NeedsReplace: r.NeedsReplace,
		Changes: each(r.Changes, func(f sdk.FieldChange) *pb.FieldChange {
			return &pb.FieldChange{Path: f.Path, OldJson: f.Old, NewJson: f.New, ForceNew: f.ForceNew}
		})})
}

// DecodeDiffResourceResponse reads what EncodeDiffResourceResponse wrote. It takes no
// field that it doesn't know: what a change costs may stand in it.
func DecodeDiffResourceResponse(m *pb.DiffResourceResponse) (sdk.DiffResourceResult, error) {
	c := reply("decode DiffResource's result")
	c.known("", m)
	return decoded(c, sdk.DiffResourceResult{NeedsUpdate: m.GetNeedsUpdate(), NeedsReplace: m.GetNeedsReplace(),
		Changes: each(m.GetChanges(), func(f *pb.FieldChange) sdk.FieldChange {
			return sdk.FieldChange{Path: f.GetPath(), Old: json.RawMessage(f.GetOldJson()), New: json.RawMessage(f.GetNewJson()), ForceNew: f.GetForceNew()}
		})})
}

// EncodeScaleResourceRequest returns r as a message. A number that 32 bits don't hold
// is refused.
func EncodeScaleResourceRequest(r sdk.ScaleResourceRequest) (*pb.ScaleResourceRequest, error) {
	c := request("encode ScaleResource")
	n := c.int32("replicas", r.Replicas)
	c.count("replicas", n)
	return encoded(c, &pb.ScaleResourceRequest{OpId: c.changeBytes(r.OpID), Ref: resourceRef(r.Ref), Replicas: n})
}

// DecodeScaleResourceRequest reads what EncodeScaleResourceRequest wrote.
func DecodeScaleResourceRequest(m *pb.ScaleResourceRequest) (sdk.ScaleResourceRequest, error) {
	c := request("decode ScaleResource")
	c.known("", m)
	return decoded(c, sdk.ScaleResourceRequest{OpID: c.change(m.GetOpId()), Ref: c.unresourceRef(m.GetRef()), Replicas: c.count("replicas", m.GetReplicas())})
}

// EncodeScaleResourceResponse returns r as a message.
func EncodeScaleResourceResponse(r sdk.ScaleResourceResult) (*pb.ScaleResourceResponse, error) {
	return encoded(reply("encode ScaleResource's result"), &pb.ScaleResourceResponse{Output: resourceOutput(r.Output)})
}

// DecodeScaleResourceResponse reads what EncodeScaleResourceResponse wrote.
func DecodeScaleResourceResponse(m *pb.ScaleResourceResponse) (sdk.ScaleResourceResult, error) {
	c := reply("decode ScaleResource's result")
	return decoded(c, sdk.ScaleResourceResult{Output: c.unresourceOutput("output", m.GetOutput())})
}

// EncodeHealthCheckResourceRequest returns r as a message.
func EncodeHealthCheckResourceRequest(r sdk.HealthCheckResourceRequest) (*pb.HealthCheckResourceRequest, error) {
	return encoded(request("encode HealthCheckResource"), &pb.HealthCheckResourceRequest{Ref: resourceRef(r.Ref)})
}

// DecodeHealthCheckResourceRequest reads what EncodeHealthCheckResourceRequest wrote.
func DecodeHealthCheckResourceRequest(m *pb.HealthCheckResourceRequest) (sdk.HealthCheckResourceRequest, error) {
	c := request("decode HealthCheckResource")
	c.known("", m)
	return decoded(c, sdk.HealthCheckResourceRequest{Ref: c.unresourceRef(m.GetRef())})
}

// EncodeHealthCheckResourceResponse returns r as a message.
func EncodeHealthCheckResourceResponse(r sdk.HealthCheckResourceResult) (*pb.HealthCheckResourceResponse, error) {
	return encoded(reply("encode HealthCheckResource's result"), &pb.HealthCheckResourceResponse{Healthy: r.Healthy, Message: plain(r.Message)})
}

// DecodeHealthCheckResourceResponse reads what EncodeHealthCheckResourceResponse wrote.
func DecodeHealthCheckResourceResponse(m *pb.HealthCheckResourceResponse) (sdk.HealthCheckResourceResult, error) {
	return decoded(reply("decode HealthCheckResource's result"), sdk.HealthCheckResourceResult{Healthy: m.GetHealthy(), Message: m.GetMessage()})
}

// EncodeSensitiveKeysRequest returns r as a message.
func EncodeSensitiveKeysRequest(r sdk.SensitiveKeysRequest) (*pb.SensitiveKeysRequest, error) {
	return encoded(request("encode SensitiveKeys"), &pb.SensitiveKeysRequest{Type: r.Type})
}

// DecodeSensitiveKeysRequest reads what EncodeSensitiveKeysRequest wrote.
func DecodeSensitiveKeysRequest(m *pb.SensitiveKeysRequest) (sdk.SensitiveKeysRequest, error) {
	c := request("decode SensitiveKeys")
	c.known("", m)
	return decoded(c, sdk.SensitiveKeysRequest{Type: m.GetType()})
}

// EncodeSensitiveKeysResponse returns r as a message.
func EncodeSensitiveKeysResponse(r sdk.SensitiveKeysResult) (*pb.SensitiveKeysResponse, error) {
	return encoded(reply("encode SensitiveKeys's result"), &pb.SensitiveKeysResponse{Keys: r.Keys})
}

// DecodeSensitiveKeysResponse reads what EncodeSensitiveKeysResponse wrote. It takes
// no field that it doesn't know, so that whoever asked shows nothing.
func DecodeSensitiveKeysResponse(m *pb.SensitiveKeysResponse) (sdk.SensitiveKeysResult, error) {
	c := reply("decode SensitiveKeys's result")
	c.known("", m)
	return decoded(c, sdk.SensitiveKeysResult{Keys: each(m.GetKeys(), same)})
}

// EncodeTroubleshootResourceRequest returns r as a message.
func EncodeTroubleshootResourceRequest(r sdk.TroubleshootResourceRequest) (*pb.TroubleshootResourceRequest, error) {
	return encoded(request("encode TroubleshootResource"), &pb.TroubleshootResourceRequest{Ref: resourceRef(r.Ref), FailureMessage: plain(r.FailureMessage)})
}

// DecodeTroubleshootResourceRequest reads what EncodeTroubleshootResourceRequest wrote.
func DecodeTroubleshootResourceRequest(m *pb.TroubleshootResourceRequest) (sdk.TroubleshootResourceRequest, error) {
	c := request("decode TroubleshootResource")
	c.known("", m)
	return decoded(c, sdk.TroubleshootResourceRequest{Ref: c.unresourceRef(m.GetRef()), FailureMessage: m.GetFailureMessage()})
}

// EncodeTroubleshootResourceResponse returns r as a message.
func EncodeTroubleshootResourceResponse(r sdk.TroubleshootResourceResult) (*pb.TroubleshootResourceResponse, error) {
	c := reply("encode TroubleshootResource's result")
	return encoded(c, &pb.TroubleshootResourceResponse{Diagnostics: each(r.Diagnostics, func(d sdk.Diagnostic) *pb.Diagnostic {
		return &pb.Diagnostic{Id: plain(d.ID), Phase: plain(d.Phase), Cause: plain(d.Cause), At: c.stamp("diagnostics.at", d.At), Detail: plain(d.Detail)}
	})})
}

// DecodeTroubleshootResourceResponse reads what EncodeTroubleshootResourceResponse wrote.
func DecodeTroubleshootResourceResponse(m *pb.TroubleshootResourceResponse) (sdk.TroubleshootResourceResult, error) {
	c := reply("decode TroubleshootResource's result")
	return decoded(c, sdk.TroubleshootResourceResult{Diagnostics: each(m.GetDiagnostics(), func(d *pb.Diagnostic) sdk.Diagnostic {
		return sdk.Diagnostic{ID: d.GetId(), Phase: d.GetPhase(), Cause: d.GetCause(), At: c.time("diagnostics.at", d.GetAt()), Detail: d.GetDetail()}
	})})
}
