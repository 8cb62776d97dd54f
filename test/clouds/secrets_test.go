package clouds

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/driver/aci"
	"github.com/windlass-run/windlass/internal/driver/all"
	"github.com/windlass-run/windlass/internal/driver/appplatform"
	"github.com/windlass-run/windlass/internal/driver/argo"
	"github.com/windlass-run/windlass/internal/driver/batch"
	"github.com/windlass-run/windlass/internal/driver/cloudrun"
	"github.com/windlass-run/windlass/internal/driver/ecs"
	"github.com/windlass-run/windlass/internal/driver/kubernetes"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/sdk"
)

// What may become of a reference.
const (
	refused = "refused"
	visible = "a visible variable, when permitted"
	hidden  = "resolved, and hidden"
	passed  = "passed on, unread"
)

// cells is docs/secrets.md, written a second time: a kind that isn't here, or a
// scheme that a row leaves out, is refused everywhere.
var cells = map[string]map[string]string{
	"local":          {"env": hidden, "file": hidden},
	"docker":         {"env": hidden, "file": hidden},
	ecs.Kind:         {"env": visible, "file": visible, "aws-sm": passed, "aws-ssm": passed},
	batch.Kind:       {"env": visible, "file": visible, "aws-sm": passed, "aws-ssm": passed},
	cloudrun.Kind:    {"env": visible, "file": visible, "gcp-sm": passed},
	aci.Kind:         {"env": hidden, "file": hidden, "azure-kv": hidden},
	appplatform.Kind: {"env": hidden, "file": hidden},
	argo.Kind:        {"env": hidden, "file": hidden, "k8s": passed},
	kubernetes.Kind:  {"env": hidden, "file": hidden, "k8s": passed},
	"fake":           {"env": hidden, "file": hidden},
}

// counted resolves everything, and counts.
type counted struct{ asked atomic.Int32 }

func (c *counted) ResolveSecret(context.Context, sdk.SecretRef) (sdk.SecretValue, error) {
	c.asked.Add(1)
	return sdk.NewSecretValue([]byte(canary)), nil
}

// here are the kinds that need no cloud.
func here(t *testing.T, d sdk.Driver) yard {
	y := yard{driver: d, config: map[string]any{}}
	if d.Kind == "docker" {
		y.credentials = map[string]string{"DOCKER_HOST": testneed.Docker(t)}
	}
	return y
}

// TestEveryCellOfTheSecretsTable plans a job with a secret of each scheme on each
// kind. What is refused is refused before anything is prepared, by field, value and
// kind, with what to do instead; what would be visible needs the permission; and no
// plan holds a value. That a value arrives where the table says is each driver's own
// suite to prove.
func TestEveryCellOfTheSecretsTable(t *testing.T) {
	local := []string{secret.SchemeEnv, secret.SchemeFile}
	for _, d := range all.Drivers() {
		if !slices.Contains(d.Capabilities, sdk.Runner().String()) {
			continue // it runs no jobs
		}
		t.Run(d.Kind, func(t *testing.T) {
			y := here(t, d)
			if build, ok := yards[d.Kind]; ok {
				y = build(t, run.NewScripted(func(run.Spec) run.Play { return run.Play{} }))
			}
			s, asked := newSite(t, y), &counted{}
			s.secrets = asked
			e, _, _ := s.open()
			for _, scheme := range secret.Known() {
				want, ok := cells[d.Kind][scheme]
				if !ok {
					want = refused
				}
				how := secret.Deliver(scheme, local, d)
				if how.Refused != (want == refused) || how.NeedsVisible != (want == visible) || strings.HasPrefix(how.How, "passed on") != (want == passed) {
					t.Errorf("%s: the table says %q, want %s", scheme, how.How, want)
				}
				ref, ok := y.stored[scheme]
				if !ok {
					ref = sdk.SecretRef("secret://" + scheme + "/db")
				}
				checkCell(t, e, y, ref, want)
			}
			if n := asked.asked.Load(); n != 0 {
				t.Errorf("%d values were read to plan", n)
			}
		})
	}
}

// checkCell plans with and without the permission.
func checkCell(t *testing.T, e *control.Engine, y yard, ref sdk.SecretRef, want string) {
	t.Helper()
	spec := y.spec(sdk.JobSpec{Args: sdk.Argv{"true"}, Secrets: map[string]sdk.SecretRef{"PASSWORD": ref}})
	if y.driver.Kind != "local" {
		spec.Image = "busybox:local"
	}
	for _, allowed := range []bool{false, true} {
		spec.AllowVisibleSecret = allowed
		plan, err := e.Plan(t.Context(), control.SubmitRequest{Provider: y.driver.Kind, Spec: spec, Actor: "tester"})
		if plans := want == hidden || want == passed || want == visible && allowed; plans {
			raw, merr := json.Marshal(plan)
			if err != nil || merr != nil {
				t.Errorf("%s, allowed %t: %v, %v", ref, allowed, err, merr)
			}
			if strings.Contains(string(raw), canary) {
				t.Errorf("%s: the plan holds the value", ref)
			}
			continue
		}
		var ps *control.ProblemsError
		if !errors.As(err, &ps) || len(ps.Problems) != 1 || ps.Provider != y.driver.Kind {
			t.Errorf("%s, allowed %t: %v", ref, allowed, err)
			continue
		}
		p := ps.Problems[0]
		if p.Field != "secrets.PASSWORD" || p.Value != string(ref) || p.Code != sdk.Unimplemented {
			t.Errorf("%s: %+v", ref, p)
		}
		words := []string{"--allow-visible-secret"}
		if want == refused {
			words = []string{"the kind " + y.driver.Kind + " takes no secret of the scheme", "it takes ", "secret://"}
		}
		for _, w := range words {
			if !strings.Contains(p.Message, w) {
				t.Errorf("%s: %q isn't in %s", ref, w, p.Message)
			}
		}
	}
}
