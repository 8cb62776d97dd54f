package appplatform

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/internal/cloud/do"
	"github.com/windlass-run/windlass/sdk"
)

// An app has no labels. What it carries instead are variables of its own for
// builds, which come back with every list and which an image, that isn't built,
// never sees.
// https://docs.digitalocean.com/products/app-platform/how-to/use-environment-variables/
const (
	varRun     = "WINDLASS_RUN"
	varAttempt = "WINDLASS_ATTEMPT"
	varNumber  = "WINDLASS_NUMBER"
	varOwner   = "WINDLASS_OWNER"
	varLedger  = "WINDLASS_LEDGER"
	varExpires = "WINDLASS_EXPIRES"
	varName    = "WINDLASS_NAME"
	varLabels  = "WINDLASS_LABELS"
)

// reserved are the names that a job's own variables can't have.
func reserved() []string {
	return []string{varRun, varAttempt, varNumber, varOwner, varLedger, varExpires, varName, varLabels}
}

// labels are the app's variables of an attempt.
func (l *plan) labels(r sdk.PrepareJobRequest) []*godo.AppVariableDefinition {
	var out []*godo.AppVariableDefinition
	put := func(field, key, value string) {
		if value == "" {
			return
		}
		l.bindable(field, value)
		out = append(out, &godo.AppVariableDefinition{Key: key, Value: value, Scope: godo.AppVariableScope_BuildTime, Type: godo.AppVariableType_General})
	}
	put("run", varRun, r.RunID.String())
	put("attempt", varAttempt, r.AttemptID.String())
	put("attempt", varNumber, strconv.Itoa(r.Attempt))
	put("owner", varOwner, l.p.owner)
	put("ledger", varLedger, l.p.ledgerID)
	put("ttl", varExpires, itoa(r.Expires.Unix()))
	put("name", varName, l.Spec.Name)
	if len(l.Spec.Labels) > 0 {
		text, err := json.Marshal(l.Spec.Labels)
		if err != nil {
			l.Bad(sdk.InvalidArgument, "labels", "", "%v", err)
		}
		put("labels", varLabels, string(text))
	}
	return out
}

// bindable refuses a value into which the platform would put something.
func (l *plan) bindable(field, value string) {
	if strings.Contains(value, "${") {
		l.Bad(sdk.Unimplemented, field, value, "has ${, for which App Platform puts in variables of its own, and there is no escape")
	}
}

// mark is whose an app is.
type mark struct {
	run, attempt  sdk.ID
	number        int
	owner, ledger string
	expires       time.Time
}

// markOf reads whose an app is. ok is false for one that isn't ours.
func markOf(a *godo.App) (m mark, ok bool) {
	if a == nil || a.Spec == nil {
		return m, false
	}
	vars := map[string]string{}
	for _, v := range a.Spec.Envs {
		if v != nil {
			vars[v.Key] = v.Value
		}
	}
	var err error
	if m.run, err = sdk.ParseID(vars[varRun]); err != nil {
		return m, false
	}
	if m.attempt, err = sdk.ParseID(vars[varAttempt]); err != nil || a.Spec.Name != do.AppName(m.attempt) {
		return m, false
	}
	if m.number, err = strconv.Atoi(vars[varNumber]); err != nil || m.number < 1 {
		return m, false
	}
	m.owner, m.ledger = vars[varOwner], vars[varLedger]
	if n, err := strconv.ParseInt(vars[varExpires], 10, 64); err == nil {
		m.expires = time.Unix(n, 0).UTC()
	}
	return m, m.owner != ""
}

// of reports whether an app is the one that a launch makes.
func (m mark) of(l sdk.Launch) bool {
	return m.run == l.RunID && m.attempt == l.AttemptID && m.number == l.Attempt && m.owner == l.Owner && m.ledger == l.LedgerID
}

// component returns the app's job, nil for an app that has something else, too.
func component(spec *godo.AppSpec) *godo.AppJobSpec {
	if spec == nil || len(spec.Jobs) != 1 || spec.Jobs[0] == nil || spec.Jobs[0].Name != jobName ||
		!slices.Equal([]int{len(spec.Services), len(spec.Workers), len(spec.StaticSites), len(spec.Functions)}, []int{0, 0, 0, 0}) {
		return nil
	}
	return spec.Jobs[0]
}
