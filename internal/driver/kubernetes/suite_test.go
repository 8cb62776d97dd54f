package kubernetes

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	pocket "github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

func TestSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute: left out by -short")
	}
	providertest.Run(t, newWorld(t, nil).suite(nil))
}

// suite is the suite's harness.
func (w *world) suite(through func(sdk.Driver) sdk.Driver) providertest.Harness {
	h := w.Harness(drivertest.Hooks{Action: actionOf, PutSecret: w.putSecret, Left: w.left, Vanish: w.vanish, Relabel: relabel, Through: through})
	h.Exposed = func(providertest.T, sdk.JobHandle) map[string][]byte { return w.exposed() }
	// Processes have no memory limit; the kubelet's word on it is all that counts here.
	w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.OOMImage = "oom:local" })
	behave := h.Behave
	h.Behave = func(t providertest.T, b providertest.Behaviour) (sdk.JobSpec, error) {
		killed := false
		b.Steps = slices.Clone(b.Steps)
		for i, step := range b.Steps {
			switch step.Do {
			case providertest.ActMemory:
				killed, b.Steps[i] = true, providertest.Exit(137)
			case providertest.ActChildMemory:
				killed, b.Steps[i] = true, providertest.Print("a child is gone\n")
			}
		}
		spec, err := behave(t, b)
		if killed {
			spec.Image = "oom:local"
		}
		return spec, err
	}
	h.Waivers = waivers()
	return h
}

// waivers follow from what the API and the nodes keep.
func waivers() []providertest.Waiver {
	return []providertest.Waiver{
		{Check: "log-apart", Guarantee: "Logs.Apart", Why: "the API gives stdout and stderr as one stream"},
		{Check: "log-bytes", Guarantee: "Logs.Fidelity", Why: "containerd drops a carriage return before a newline"},
	}
}

// actionOf is the first call that an operation makes.
func actionOf(op providertest.Op) string {
	switch op {
	case providertest.OpCheck:
		return "selfsubjectaccessreviews.create"
	case providertest.OpRunJob:
		return "jobs.create"
	case providertest.OpJobStatus, providertest.OpCancelJob, providertest.OpCleanupJob, providertest.OpFindJobs:
		return "jobs.get"
	case providertest.OpJobStatuses, providertest.OpListOwned:
		return "jobs.list"
	case providertest.OpJobLogs:
		return "pods.log"
	case providertest.OpWatchJobs:
		return "pods.watch"
	case providertest.OpRenewExpiry:
		return "jobs.patch"
	}
	return ""
}

// exposed is what those can see who may not read Secrets.
func (w *world) exposed() map[string][]byte {
	out := map[string][]byte{"log": w.Logged()}
	for i, c := range w.calls.Calls("") {
		if !strings.HasPrefix(c.Action, "secrets.") {
			out[fmt.Sprintf("%d %s", i, c.Action)] = append(append([]byte{}, c.Request...), c.Reply...)
		}
	}
	return out
}

func (w *world) putSecret(t providertest.T, name string, value []byte) sdk.SecretRef {
	t.Helper()
	p := w.Another(t)
	object := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: object}, Data: map[string][]byte{"key": value}}
	if err := p.session.Create(t.Context(), "put secret", kube.Secrets(p.session.Namespace, ""), s, nil); err != nil {
		t.Fatalf("put secret: %v", err)
	}
	return sdk.SecretRef("secret://k8s/" + object + "/key")
}

// left lists what there is of a run, by the API alone.
func (w *world) left(t providertest.T, run sdk.ID) []string {
	t.Helper()
	p := w.Another(t)
	var out []string
	for _, at := range []kube.Place{kube.Jobs(p.session.Namespace, ""), kube.Pods(p.session.Namespace, ""), kube.Secrets(p.session.Namespace, ""), kube.Policies(p.session.Namespace, "")} {
		objects, err := list(context.WithoutCancel(t.Context()), p, "list", at.Metadata(), sdk.LabelRun+"="+run.String(),
			func(l *metav1.PartialObjectMetadataList) ([]metav1.PartialObjectMetadata, string) {
				return l.Items, l.Continue
			})
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		for _, o := range objects {
			out = append(out, at.Resource+" "+o.Name)
		}
	}
	return out
}

// vanish deletes a Job as anybody could.
func (w *world) vanish(t providertest.T, h sdk.JobHandle) {
	t.Helper()
	p := w.Another(t)
	if err := p.session.Delete(t.Context(), "delete", kube.Jobs(p.session.Namespace, h.ID), h.Metadata[keyUID]); err != nil {
		t.Fatalf("delete: %v", err)
	}
	w.Eventually("end of the pods", func() bool {
		s, err := p.look(t.Context(), "look", h)
		return err == nil && len(s.pods) == 0
	})
}

// relabel makes a launch another owner's.
func relabel(raw json.RawMessage, owner string) (json.RawMessage, error) {
	req, err := decodeRequest(raw)
	if err != nil {
		return nil, err
	}
	for _, m := range []*metav1.ObjectMeta{&req.Job.ObjectMeta, &req.Job.Spec.Template.ObjectMeta} {
		m.Labels[sdk.LabelOwner], m.Annotations[sdk.LabelOwner] = kube.LabelValue(owner), owner
	}
	return sdk.EncodeCanonical(req)
}

// mutations are all calls by which the driver changes things.
func mutations() []drivertest.Mutation {
	sealed := func(s *sdk.JobSpec) { s.Secrets = map[string]sdk.SecretRef{"S": "secret://env/S"} }
	strict := func(s *sdk.JobSpec) { s.Profile = sdk.ProfileStrict }
	return []drivertest.Mutation{
		{Action: "jobs.create", Op: providertest.OpRunJob},
		{Action: "secrets.create", Op: providertest.OpRunJob, Before: true, With: sealed},
		{Action: "networkpolicies.create", Op: providertest.OpRunJob, Before: true, With: strict},
		{Action: "pods.patch", Op: providertest.OpCancelJob},
		{Action: "jobs.delete", Op: providertest.OpCleanupJob},
		{Action: "jobs.patch", Op: providertest.OpRenewExpiry},
	}
}

func sealedWorld(t testing.TB) *drivertest.World[*provider] {
	w := newWorld(t, nil)
	w.Secrets.Set("S", []byte("value"))
	return w.World
}

func TestSendsOnce(t *testing.T) {
	drivertest.SendsOnce(t, sealedWorld, mutations(), map[string]*fault.Refusal{"throttled": {Status: 429, Code: "TooManyRequests"}, "server error": {Status: 500, Code: "InternalError"},
		"unavailable": {Status: 503, Code: "ServiceUnavailable"}})
}

func TestOutlivesLostReplies(t *testing.T) {
	drivertest.OutlivesLostReplies(t, sealedWorld, mutations())
}

func TestEndsWithItsContext(t *testing.T) {
	drivertest.EndsWithItsContext(t, sealedWorld, mutations())
}

func TestF24OneJobPerLaunch(t *testing.T) { newWorld(t, nil).OneJobPerLaunch("jobs.create") }

func TestNamesMissingRights(t *testing.T) {
	w := newWorld(t, nil)
	var names []string
	for _, r := range rights() {
		for _, verb := range r.Verbs {
			names = append(names, r.Name(verb))
		}
	}
	w.NamesMissingRights(w.Open(), names, func(right string) func() { return w.deny(right) })
}

// TestF85SecretsStayInSecrets: neither the Job, nor a pod, nor what is kept has a
// value; the Secret that has it belongs to the Job.
func TestF85SecretsStayInSecrets(t *testing.T) {
	w := newWorld(t, nil)
	const canary = "canary-value-77e0a1"
	p := w.Open()
	ref := w.Secrets.Set("S", []byte(canary))
	spec := shell(`printf %s "$S" | wc -c`)
	spec.Secrets = map[string]sdk.SecretRef{"S": ref}
	l := w.Plan(p, spec)
	h := w.Run(p, l)
	var secret corev1.Secret
	if err := p.session.Get(t.Context(), "get", kube.Secrets(p.session.Namespace, h.ID), nil, &secret); err != nil {
		t.Fatal(err)
	}
	if len(secret.OwnerReferences) != 1 || string(secret.OwnerReferences[0].UID) != h.Metadata[keyUID] {
		t.Errorf("the Secret belongs to %+v", secret.OwnerReferences)
	}
	if st := w.Ended(p, h); st.State != sdk.StateSucceeded {
		t.Errorf("the job is %s: %s", st.State, st.Message)
	}
	if text, _ := w.Text(p, h, nil); strings.TrimSpace(text) != fmt.Sprint(len(canary)) {
		t.Errorf("the job saw %q", text)
	}
	w.NotKept(canary, l, h)
	for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))} {
		w.Unseen(form, "secrets.create", "secrets.get", "secrets.patch")
	}
	w.Unseen(canaryToken)
	if _, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
		t.Error(err)
	}
	for o, err := range p.ListOwned(t.Context(), sdk.ListOwnedRequest{}) {
		t.Errorf("left: %+v, %v", o, err)
	}
}
