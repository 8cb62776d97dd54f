package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
)

// ResourceView is a resource as it is.
type ResourceView struct {
	Name       string          `json:"name" doc:"Name in the file."`
	Type       string          `json:"type" doc:"Its type."`
	Provider   string          `json:"provider" doc:"Where it is."`
	Found      bool            `json:"found" doc:"It is there."`
	ProviderID string          `json:"provider_id,omitzero" doc:"The provider's own name of it."`
	Status     string          `json:"status,omitzero" doc:"The provider's word for its state."`
	Outputs    json.RawMessage `json:"outputs,omitzero" doc:"What it is like; what is sensitive is masked."`
	Owner      string          `json:"owner,omitzero" doc:"Installation that made it; absent is somebody else."`
	Ledger     string          `json:"ledger,omitzero" doc:"ID of the ledger that made it."`
	Change     string          `json:"change,omitzero" doc:"ID of the ledger's row of its latest change, as the provider has it on record."`
}

func (v *ResourceView) set(s control.ResourceState) {
	v.Found, v.ProviderID, v.Status, v.Outputs, v.Owner, v.Ledger = true, s.Output.ProviderID, s.Output.Status, s.Output.Outputs, s.Owner, s.LedgerID
	if !s.OpID.IsZero() {
		v.Change = s.OpID.String()
	}
}

// ResourcePlanView is what apply would do.
type ResourcePlanView struct {
	Name     string               `json:"name" doc:"Name in the file."`
	Type     string               `json:"type" doc:"Its type."`
	Provider string               `json:"provider" doc:"Where it is."`
	Action   string               `json:"action" doc:"nothing, create, update or replace."`
	Changes  []ResourceMemberView `json:"changes" doc:"What differs; empty where nothing is there yet."`
	Refused  []string             `json:"refused,omitzero" doc:"Why apply would refuse that; absent is that nothing is known against it."`
}

// ResourceMemberView is one member that differs.
type ResourceMemberView struct {
	Path     string          `json:"path" doc:"The member of the config."`
	Old      json.RawMessage `json:"old,omitzero" doc:"What it is; absent is not there. What is sensitive is masked."`
	New      json.RawMessage `json:"new,omitzero" doc:"What it is to be; absent is not there."`
	ForceNew bool            `json:"force_new" doc:"This alone needs another resource in its place."`
}

func viewPlan(p resourcePlan) ResourcePlanView {
	e := p.entry
	v := ResourcePlanView{Name: e.Spec.Name, Type: e.Spec.Type, Provider: e.Provider, Action: string(p.Action), Changes: []ResourceMemberView{}}
	for _, c := range p.Changes {
		v.Changes = append(v.Changes, ResourceMemberView{Path: c.Path, Old: c.Old, New: c.New, ForceNew: c.ForceNew})
	}
	for _, problem := range p.Problems {
		v.Refused = append(v.Refused, problem.Message)
	}
	return v
}

// ResourceChangeView is a change that was made.
type ResourceChangeView struct {
	Name       string          `json:"name" doc:"Name in the file."`
	Type       string          `json:"type" doc:"Its type."`
	Provider   string          `json:"provider" doc:"Where it is."`
	Action     string          `json:"action" doc:"nothing, create, update, replace, delete or scale; nothing is that it was as wanted, or not there to be deleted."`
	Rows       []string        `json:"rows" doc:"IDs of the ledger's rows of the calls that were made."`
	ProviderID string          `json:"provider_id,omitzero" doc:"The provider's own name of it."`
	Status     string          `json:"status,omitzero" doc:"The provider's word for its state."`
	Outputs    json.RawMessage `json:"outputs,omitzero" doc:"What it is like now; what is sensitive is masked."`
	ReadBack   bool            `json:"read_back" doc:"The reply was lost, and reading back proved the change."`
}

func viewChange(r control.ResourceRequest, out control.ResourceOutcome) ResourceChangeView {
	v := ResourceChangeView{Name: r.Spec.Name, Type: r.Spec.Type, Provider: r.Provider, Action: string(out.Action), Rows: []string{}, ReadBack: out.ReadBack}
	for _, id := range out.Rows {
		v.Rows = append(v.Rows, id.String())
	}
	if o := out.Output; o != nil {
		v.ProviderID, v.Status, v.Outputs = o.ProviderID, o.Status, o.Outputs
	}
	return v
}

// ResourceHealthView is a resource's health.
type ResourceHealthView struct {
	Name     string `json:"name" doc:"Name in the file."`
	Type     string `json:"type" doc:"Its type."`
	Provider string `json:"provider" doc:"Where it is."`
	Healthy  bool   `json:"healthy" doc:"It is fit for use."`
	Message  string `json:"message,omitzero" doc:"Why, or why not."`
}

// ResourceTroubleView is what a provider says of a resource.
type ResourceTroubleView struct {
	Name        string           `json:"name" doc:"Name in the file."`
	Type        string           `json:"type" doc:"Its type."`
	Provider    string           `json:"provider" doc:"Where it is."`
	Diagnostics []DiagnosticView `json:"diagnostics" doc:"What was found; empty is nothing."`
}

// DiagnosticView is one finding.
type DiagnosticView struct {
	ID     string     `json:"id,omitzero" doc:"The provider's own name of it."`
	Phase  string     `json:"phase,omitzero" doc:"Where it happened."`
	Cause  string     `json:"cause" doc:"Why."`
	At     *time.Time `json:"at,omitzero" doc:"When; absent is unknown."`
	Detail string     `json:"detail,omitzero" doc:"The rest."`
}

func viewTrouble(r control.ResourceRequest, ds []sdk.Diagnostic) ResourceTroubleView {
	v := ResourceTroubleView{Name: r.Spec.Name, Type: r.Spec.Type, Provider: r.Provider, Diagnostics: []DiagnosticView{}}
	for _, d := range ds {
		v.Diagnostics = append(v.Diagnostics, DiagnosticView{ID: d.ID, Phase: d.Phase, Cause: d.Cause, At: timeOrNil(d.At), Detail: d.Detail})
	}
	return v
}

func printResources(s *Streams, views []ResourceView) error {
	t := &table{head: []string{"NAME", "TYPE", "PROVIDER", "STATUS", "MADE BY", "ID", "OUTPUTS"}, flex: 5, below: true}
	for _, v := range views {
		status, by := plain(v.Status), plain(v.Owner)
		switch {
		case !v.Found:
			status = cell{"not there", styleBold}
		case v.Owner == "":
			by = plain("somebody else")
		}
		t.add(plain(v.Name), plain(v.Type), plain(v.Provider), status, by, plain(v.ProviderID), plain(string(v.Outputs)))
	}
	return t.print(s)
}

func printPlans(s *Streams, plans []ResourcePlanView) error {
	for _, p := range plans {
		if _, err := fmt.Fprintf(s.Out, "%s %s on %s: %s\n", clean(p.Type), clean(p.Name), clean(p.Provider), p.Action); err != nil {
			return err
		}
		for _, c := range p.Changes {
			why := ""
			if c.ForceNew {
				why = " (needs another)"
			}
			if _, err := fmt.Fprintf(s.Out, "  %s: %s -> %s%s\n", clean(c.Path), memberWords(c.Old), memberWords(c.New), why); err != nil {
				return err
			}
		}
		for _, why := range p.Refused {
			if _, err := fmt.Fprintf(s.Out, "  apply would refuse it: %s\n", clean(why)); err != nil {
				return err
			}
		}
	}
	return nil
}

func memberWords(raw json.RawMessage) string {
	if raw == nil {
		return "none"
	}
	return clean(string(raw))
}

func printChange(s *Streams, v ResourceChangeView) error {
	words := []string{v.Action}
	if v.ProviderID != "" {
		words = append(words, v.ProviderID)
	}
	if v.ReadBack {
		words = append(words, "proven by reading back")
	}
	_, err := fmt.Fprintf(s.Out, "%s %s on %s: %s\n", clean(v.Type), clean(v.Name), clean(v.Provider), clean(strings.Join(words, ", ")))
	return err
}

func printHealth(s *Streams, views []ResourceHealthView) error {
	t := &table{head: []string{"NAME", "TYPE", "PROVIDER", "HEALTHY", "WHY"}, flex: 4, wrap: true}
	for _, v := range views {
		healthy := cell{"yes", styleGreen}
		if !v.Healthy {
			healthy = cell{"no", styleRed}
		}
		t.add(plain(v.Name), plain(v.Type), plain(v.Provider), healthy, plain(v.Message))
	}
	return t.print(s)
}

func printTrouble(s *Streams, views []ResourceTroubleView) error {
	for _, v := range views {
		found := count(len(v.Diagnostics), "finding", "findings")
		if len(v.Diagnostics) == 0 {
			found = "nothing found"
		}
		if _, err := fmt.Fprintf(s.Out, "%s %s on %s: %s\n", clean(v.Type), clean(v.Name), clean(v.Provider), found); err != nil {
			return err
		}
		for _, d := range v.Diagnostics {
			line := d.Cause
			if d.Phase != "" {
				line = d.Phase + ": " + line
			}
			if d.At != nil {
				line = d.At.Local().Format("01-02 15:04:05") + " " + line
			}
			if d.Detail != "" {
				line += ": " + d.Detail
			}
			if _, err := fmt.Fprintf(s.Out, "  %s\n", clean(line)); err != nil {
				return err
			}
		}
	}
	return nil
}
