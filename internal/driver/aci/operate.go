package aci

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/internal/driver/aci/workload"
	"github.com/windlass-run/windlass/sdk"
)

// operator makes what operates live workloads.
func (p *provider) operator() (*workload.Operator, error) {
	return workload.New(workload.Settings{Provider: p.name, Session: p.session, ResourceGroup: p.cfg.ResourceGroup, Location: p.cfg.Location, Reads: p.reads, Writes: p.writes, Clock: p.clock,
		VisibleWithin: time.Duration(p.cfg.VisibleWithin), LogPoll: time.Duration(p.cfg.LogPoll), ExecShell: p.cfg.ExecShell, AppConfiguration: p.cfg.AppConfig,
		Resolve: p.resolve, CheckSecret: checkRef, Password: p.password, Place: p.place, Reason: reasonOf, Refused: refused,
		Size: func(r sdk.Limits, bad func(field, message string)) (cores, gigabytes float64) {
			if r.CPU < 0 || r.Memory < 0 {
				r = sdk.Limits{} // sdk.ValidateDeployment has said so
			}
			return fitSize(r.CPU, r.Memory, bad)
		},
		ParseLog: func(text string) []workload.Line {
			lines, _ := parseLog(text)
			out := make([]workload.Line, len(lines))
			for i, l := range lines {
				out[i] = workload.Line{At: l.at, Raw: l.raw, Data: l.data}
			}
			return out
		}})
}

// password is the reference to that of a registry's user in the config.
func (p *provider) password(server string) sdk.SecretRef {
	for _, r := range p.cfg.Registries {
		if strings.EqualFold(r.Server, server) {
			return r.Password
		}
	}
	return ""
}

// workloadOptions are what stands in DeploymentSpec.Options.
type workloadOptions struct {
	placement
	Public bool `json:"public_address"`
}

func workloadSchema() sdk.Schema {
	return sdk.Schema{Doc: "What stands under config: too, and what goes for a workload alone.", Fields: append(placementFields(),
		sdk.SchemaField{Name: "public_address", Type: sdk.TypeBool, Default: "false", Doc: "Whether ports are reached from the internet, where there is no subnet."})}
}

// place makes a group of a workload's options.
func (p *provider) place(raw json.RawMessage) (workload.Place, []sdk.Problem) {
	var o workloadOptions
	if len(raw) > 0 {
		if ps := workloadSchema().Validate("options", raw); len(ps) > 0 {
			return workload.Place{}, ps
		}
		if err := workloadSchema().Decode("options", raw, &o); err != nil {
			return workload.Place{}, []sdk.Problem{{Field: "options", Message: err.Error(), Code: sdk.InvalidArgument}}
		}
	}
	place := p.cfg.with(o.placement)
	var ps []sdk.Problem
	for _, b := range place.problems() {
		b.Field = "options." + b.Field
		ps = append(ps, b)
	}
	g := place.group(p.cfg.Location)
	g.Tags = map[string]*string{sdk.LabelOwner: to.Ptr(azure.TagValue(p.owner)), sdk.LabelLedger: to.Ptr(azure.TagValue(p.ledgerID))}
	for k, v := range place.Tags {
		g.Tags[k] = to.Ptr(v)
	}
	out := workload.Place{Group: g, Passwords: map[string]sdk.SecretRef{}, Public: o.Public}
	for _, r := range place.Registries {
		out.Passwords[r.Server] = r.Password
	}
	return out, ps
}
