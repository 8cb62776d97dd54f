package wire

import (
	"math"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
)

// SessionKey is the metadata that says for which of a plugin's open providers a call is.
const SessionKey = "windlass-session"

// maxDepth bounds how deep schemas nest.
const maxDepth = 100

func (c *coder) field(f sdk.SchemaField, depth int) *pb.SchemaField {
	if depth > maxDepth {
		c.fail("fields", "nest more than %d deep", maxDepth)
		return nil
	}
	m := &pb.SchemaField{Name: f.Name, Type: string(f.Type), Doc: f.Doc, Default: f.Default, Required: f.Required, Sensitive: f.Sensitive,
		Enum: f.Enum, Min: f.Min, Max: f.Max, Fields: each(f.Fields, func(f sdk.SchemaField) *pb.SchemaField { return c.field(f, depth+1) })}
	if f.Elem != nil {
		m.Elem = c.field(*f.Elem, depth+1)
	}
	return m
}

// unfield reads a type that it doesn't know as any, which the plugin checks alone.
func (c *coder) unfield(m *pb.SchemaField, depth int) sdk.SchemaField {
	if depth > maxDepth {
		c.fail("fields", "nest more than %d deep", maxDepth)
		return sdk.SchemaField{}
	}
	f := sdk.SchemaField{Name: m.GetName(), Doc: m.GetDoc(), Default: m.GetDefault(), Required: m.GetRequired(), Sensitive: m.GetSensitive(),
		Type: word(m.GetType(), sdk.TypeAny, sdk.TypeString, sdk.TypeInt, sdk.TypeBool, sdk.TypeDuration, sdk.TypeList, sdk.TypeMap, sdk.TypeObject),
		Enum: each(m.GetEnum(), same), Min: m.GetMin(), Max: m.GetMax(),
		Fields: each(m.GetFields(), func(m *pb.SchemaField) sdk.SchemaField { return c.unfield(m, depth+1) })}
	if m.GetElem() != nil {
		e := c.unfield(m.GetElem(), depth+1)
		f.Elem = &e
	}
	return f
}

func (c *coder) schema(s sdk.Schema) *pb.Schema {
	return &pb.Schema{Doc: s.Doc, Fields: each(s.Fields, func(f sdk.SchemaField) *pb.SchemaField { return c.field(f, 1) })}
}

func (c *coder) unschema(m *pb.Schema) sdk.Schema {
	return sdk.Schema{Doc: m.GetDoc(), Fields: each(m.GetFields(), func(m *pb.SchemaField) sdk.SchemaField { return c.unfield(m, 1) })}
}

// EncodeDescribeResponse returns a driver, but for Open, as a message.
func EncodeDescribeResponse(d sdk.Driver) (*pb.DescribeResponse, error) {
	c := reply("encode the driver")
	return encoded(c, &pb.DescribeResponse{
		Kind: d.Kind, Doc: d.Doc, Config: c.schema(d.Config), Options: c.schema(d.Options), Guarantees: guarantees(d.Guarantees),
		Support: each(d.Support, func(f sdk.FieldSupport) *pb.FieldSupport {
			return &pb.FieldSupport{Field: f.Field, Values: f.Values, Refused: f.Refused}
		}),
		Schemes: d.Schemes, VisibleSchemes: d.VisibleSchemes, Capabilities: d.Capabilities,
		Resources: each(d.Resources, func(t sdk.ResourceType) *pb.ResourceType {
			return &pb.ResourceType{Type: t.Type, Doc: t.Doc, Config: c.schema(t.Config), Refused: t.Refused,
				Verbs: each(t.Verbs, func(v sdk.ResourceVerb) string { return string(v) })}
		}),
	})
}

// DecodeDescribeResponse reads what EncodeDescribeResponse wrote; Open is nil. Names of
// capabilities come as they are.
func DecodeDescribeResponse(m *pb.DescribeResponse) (sdk.Driver, error) {
	c := reply("decode the driver")
	if m.GetKind() == "" {
		c.fail("kind", "is missing")
	}
	return decoded(c, sdk.Driver{
		Kind: m.GetKind(), Doc: m.GetDoc(), Config: c.unschema(m.GetConfig()), Options: c.unschema(m.GetOptions()), Guarantees: c.unguarantees(m.GetGuarantees()),
		Support: each(m.GetSupport(), func(f *pb.FieldSupport) sdk.FieldSupport {
			return sdk.FieldSupport{Field: f.GetField(), Values: f.GetValues(), Refused: f.GetRefused()}
		}),
		Schemes: each(m.GetSchemes(), same), VisibleSchemes: each(m.GetVisibleSchemes(), same), Capabilities: each(m.GetCapabilities(), same),
		// A verb that this program doesn't know can't be asked for, and stays as it is.
		Resources: each(m.GetResources(), func(t *pb.ResourceType) sdk.ResourceType {
			return sdk.ResourceType{Type: t.GetType(), Doc: t.GetDoc(), Config: c.unschema(t.GetConfig()), Refused: t.GetRefused(),
				Verbs: each(t.GetVerbs(), func(v string) sdk.ResourceVerb { return sdk.ResourceVerb(v) })}
		}),
	})
}

// EncodeOpenRequest returns r as a message that opens a session. Secrets are asked for
// by callbacks; Clock, IDs, Log and Executable are the plugin's own.
func EncodeOpenRequest(session string, r sdk.OpenRequest) (*pb.OpenRequest, error) {
	return encoded(request("encode Open"), &pb.OpenRequest{
		Session: session, Name: r.Name, ConfigJson: r.Config,
		Credentials:        mapOf(r.Credentials, func(s string) []byte { return []byte(s) }),
		AmbientCredentials: r.AmbientCredentials, Owner: r.Owner, LedgerId: r.LedgerID, StateDir: r.StateDir, CallTimeout: span(r.CallTimeout),
	})
}

// DecodeOpenRequest reads what EncodeOpenRequest wrote.
func DecodeOpenRequest(m *pb.OpenRequest) (session string, r sdk.OpenRequest, err error) {
	c := request("decode Open")
	c.known("", m)
	if m.GetSession() == "" {
		c.fail("session", "is missing")
	}
	r.Config = m.GetConfigJson()
	r.Name, r.Owner, r.LedgerID, r.StateDir = m.GetName(), m.GetOwner(), m.GetLedgerId(), m.GetStateDir()
	r.Credentials = mapOf(m.GetCredentials(), func(b []byte) string { return string(b) })
	r.AmbientCredentials = m.GetAmbientCredentials()
	r.CallTimeout = c.duration("call_timeout", m.GetCallTimeout())
	if c.err != nil {
		return "", sdk.OpenRequest{}, c.err
	}
	return m.GetSession(), r, nil
}

func (c *coder) info(i sdk.Info) *pb.Info {
	return &pb.Info{Name: i.Name, Kind: i.Kind, Identity: identity(i.Identity), Guarantees: guarantees(i.Guarantees),
		BatchMax: c.int32("info.batch_max", i.BatchMax), Rate: i.Rate, Burst: c.int32("info.burst", i.Burst), MaxInFlight: c.int32("info.max_in_flight", i.MaxInFlight)}
}

func (c *coder) uninfo(m *pb.Info) sdk.Info {
	if !c.given("info", m) {
		return sdk.Info{}
	}
	if r := m.GetRate(); math.IsNaN(r) || math.IsInf(r, 0) || r < 0 {
		c.fail("info.rate", "%v is no number of calls", r)
	}
	// Part of every handle: what it leaves out would make two backends one.
	c.known("info.identity", m.GetIdentity())
	return sdk.Info{Name: m.GetName(), Kind: m.GetKind(), Identity: unidentity(m.GetIdentity()), Guarantees: c.unguarantees(m.GetGuarantees()),
		BatchMax: c.count("info.batch_max", m.GetBatchMax()), Rate: m.GetRate(), Burst: c.count("info.burst", m.GetBurst()),
		MaxInFlight: c.count("info.max_in_flight", m.GetMaxInFlight())}
}

// EncodeOpenResponse returns a provider that was opened as a message.
func EncodeOpenResponse(o Opened) (*pb.OpenResponse, error) {
	c := reply("encode Open's result")
	return encoded(c, &pb.OpenResponse{Info: c.info(o.Info), Capabilities: o.Capabilities, Hints: o.Hints})
}

// DecodeOpenResponse reads what EncodeOpenResponse wrote. Names of capabilities and
// hints come as they are, those that this program doesn't know among them.
func DecodeOpenResponse(m *pb.OpenResponse) (Opened, error) {
	c := reply("decode Open's result")
	return decoded(c, Opened{Info: c.uninfo(m.GetInfo()), Capabilities: each(m.GetCapabilities(), same), Hints: each(m.GetHints(), same)})
}

// Opened is a provider that was opened, as its plugin tells of it.
type Opened struct {
	Info sdk.Info
	// Capabilities are names of sdk.Capabilities.
	Capabilities []string
	// Hints are those that the plugin reads; see HintBrief.
	Hints []string
}

// HintBrief is WorkloadStatusRequest.Brief. A hint is a field of a request that came
// after the first release and may be left out without asking for something else. A
// plugin refuses fields that it doesn't know, so a host sends only the hints that the
// plugin names when a provider is opened.
const HintBrief = "WorkloadStatusRequest.brief"

// Hints are the hints that this version reads.
func Hints() []string { return []string{HintBrief} }

// EncodeInfoResponse returns i as a message.
func EncodeInfoResponse(i sdk.Info) (*pb.InfoResponse, error) {
	c := reply("encode Info's result")
	return encoded(c, &pb.InfoResponse{Info: c.info(i)})
}

// DecodeInfoResponse reads what EncodeInfoResponse wrote.
func DecodeInfoResponse(m *pb.InfoResponse) (sdk.Info, error) {
	c := reply("decode Info's result")
	return decoded(c, c.uninfo(m.GetInfo()))
}

// EncodeCheckResponse returns r as a message.
func EncodeCheckResponse(r sdk.CheckResult) (*pb.CheckResponse, error) {
	return encoded(reply("encode Check's result"), &pb.CheckResponse{Items: each(r.Items, func(i sdk.CheckItem) *pb.CheckItem {
		return &pb.CheckItem{Name: plain(i.Name), Ok: i.OK, Detail: plain(i.Detail), Remedy: plain(i.Remedy)}
	})})
}

// DecodeCheckResponse reads what EncodeCheckResponse wrote.
func DecodeCheckResponse(m *pb.CheckResponse) (sdk.CheckResult, error) {
	c := reply("decode Check's result")
	c.given("result", m)
	return decoded(c, sdk.CheckResult{Items: each(m.GetItems(), func(i *pb.CheckItem) sdk.CheckItem {
		return sdk.CheckItem{Name: i.GetName(), OK: i.GetOk(), Detail: i.GetDetail(), Remedy: i.GetRemedy()}
	})})
}
