package argo

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/argo"
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
	t.Run("cluster", func(t *testing.T) { providertest.Run(t, newWorld(t, nil).suite(nil)) })
	t.Run("server", func(t *testing.T) {
		// A read that isn't followed ends with a stall, and nothing tells it from the
		// log's end: on a machine that is busy it must not come of that alone.
		change := throughServer()
		change["log_stall"] = "10s"
		providertest.Run(t, newWorld(t, change).suite(nil))
	})
}

// suite is the suite's harness. Through is for worlds without an Argo Server.
func (w *world) suite(through func(sdk.Driver) sdk.Driver) providertest.Harness {
	server := w.Config["endpoint"] != nil
	hooks := drivertest.Hooks{Action: actionOf, PutSecret: w.putSecret, Left: w.left, Vanish: w.vanish, Relabel: relabel, Through: through}
	if server {
		hooks.Action = func(op providertest.Op) string {
			if op == providertest.OpCheck {
				return "workflows.list"
			}
			return actionOf(op)
		}
	}
	h := w.Harness(hooks)
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
	if server {
		// A log whose end nothing proves has settled once it was quiet for as long as
		// that may take with a cluster; here nothing is late.
		open := h.Open
		h.Open = func(t providertest.T) sdk.Provider { return prompt{open(t).(*provider)} }
		// A Workflow tells nothing of a process that was killed beside the job's, and
		// Argo Server tells nothing of pods.
		for _, c := range providertest.Checks() {
			if c.Name != "oom-child" {
				h.Only = append(h.Only, c.Name)
			}
		}
	}
	return h
}

// prompt is a provider whose logs settle soon.
type prompt struct{ *provider }

func (p prompt) Info() sdk.Info {
	i := p.provider.Info()
	i.Guarantees.Logs.Settle.Quiet = 200 * time.Millisecond
	return i
}

// waivers are of what neither Kubernetes nor Argo can give.
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
		return "workflows.create"
	case providertest.OpJobStatus, providertest.OpCancelJob, providertest.OpCleanupJob, providertest.OpFindJobs:
		return "workflows.get"
	case providertest.OpJobStatuses, providertest.OpListOwned:
		return "workflows.list"
	case providertest.OpJobLogs:
		return "pods.log"
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

// api is a session with the Kubernetes API.
func (w *world) api(t providertest.T) *kube.Session {
	t.Helper()
	r := w.Request()
	x, err := kube.Open(kube.Settings{Credentials: r.Credentials})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = x.Close() }) // it holds connections alone
	return x
}

func (w *world) putSecret(t providertest.T, name string, value []byte) sdk.SecretRef {
	t.Helper()
	object := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: object}, Data: map[string][]byte{"key": value}}
	x := w.api(t)
	if err := x.Create(t.Context(), "put secret", kube.Secrets(x.Namespace, ""), s, nil); err != nil {
		t.Fatalf("put secret: %v", err)
	}
	return sdk.SecretRef("secret://k8s/" + object + "/key")
}

// left lists what there is of a run, by the API alone.
func (w *world) left(t providertest.T, run sdk.ID) []string {
	t.Helper()
	x := w.api(t)
	var out []string
	for _, at := range []kube.Place{argo.Place(x.Namespace, ""), kube.Pods(x.Namespace, ""), kube.Secrets(x.Namespace, "")} {
		var l metav1.PartialObjectMetadataList
		query := map[string][]string{"labelSelector": {sdk.LabelRun + "=" + run.String()}}
		if err := x.Get(context.WithoutCancel(t.Context()), "list", at.Metadata(), query, &l); err != nil {
			t.Fatalf("list: %v", err)
		}
		for _, o := range l.Items {
			out = append(out, at.Resource+" "+o.Name)
		}
	}
	return out
}

// vanish deletes a Workflow as anybody could.
func (w *world) vanish(t providertest.T, h sdk.JobHandle) {
	t.Helper()
	x := w.api(t)
	if err := x.Delete(t.Context(), "delete", argo.Place(x.Namespace, h.ID), h.Metadata[keyUID]); err != nil {
		t.Fatalf("delete: %v", err)
	}
	w.Eventually("end of the pods", func() bool {
		var l corev1.PodList
		err := x.Get(t.Context(), "list", kube.Pods(x.Namespace, ""), map[string][]string{"labelSelector": {argo.LabelWorkflow + "=" + h.ID}}, &l)
		return err == nil && len(l.Items) == 0
	})
}

// relabel makes a launch another owner's.
func relabel(raw json.RawMessage, owner string) (json.RawMessage, error) {
	req, err := decodeRequest(raw)
	if err != nil {
		return nil, err
	}
	m := &req.Workflow.ObjectMeta
	m.Labels[sdk.LabelOwner], m.Annotations[sdk.LabelOwner] = kube.LabelValue(owner), owner
	req.Workflow.Spec.PodMetadata.Labels[sdk.LabelOwner] = kube.LabelValue(owner)
	return sdk.EncodeCanonical(req)
}

// mutations are all calls by which the driver changes things.
func mutations() []drivertest.Mutation {
	return []drivertest.Mutation{
		{Action: "workflows.create", Op: providertest.OpRunJob},
		{Action: "workflows.patch", Op: providertest.OpCancelJob},
		{Action: "workflows.delete", Op: providertest.OpCleanupJob},
	}
}

// clusterMutations are those that Argo Server has no call for, too.
func clusterMutations() []drivertest.Mutation {
	sealed := func(s *sdk.JobSpec) { s.Secrets = map[string]sdk.SecretRef{"S": "secret://env/S"} }
	// The stop ends the pod by itself, unless its job ignores it.
	short := func(s *sdk.JobSpec) { s.Grace = new(2 * time.Second) }
	return append(mutations(), drivertest.Mutation{Action: "pods.patch", Op: providertest.OpCancelJob, Stubborn: true, With: short}, drivertest.Mutation{Action: "secrets.create", Op: providertest.OpRunJob, Before: true, With: sealed})
}

func sealedWorld(change map[string]any) func(t testing.TB) *drivertest.World[*provider] {
	return func(t testing.TB) *drivertest.World[*provider] {
		w := newWorld(t, change)
		w.Secrets.Set("S", []byte("value"))
		return w.World
	}
}

// eachWay gives a check both clients, with the calls that each makes.
func eachWay(t *testing.T, check func(t *testing.T, world func(t testing.TB) *drivertest.World[*provider], m []drivertest.Mutation)) {
	t.Run("cluster", func(t *testing.T) { check(t, sealedWorld(nil), clusterMutations()) })
	t.Run("server", func(t *testing.T) { check(t, sealedWorld(throughServer()), mutations()) })
}

func TestSendsOnce(t *testing.T) {
	eachWay(t, func(t *testing.T, world func(t testing.TB) *drivertest.World[*provider], m []drivertest.Mutation) {
		drivertest.SendsOnce(t, world, m, map[string]*fault.Refusal{"throttled": {Status: 429, Code: "TooManyRequests"}, "server error": {Status: 500, Code: "InternalError"},
			"unavailable": {Status: 503, Code: "ServiceUnavailable"}})
	})
}

func TestOutlivesLostReplies(t *testing.T) {
	eachWay(t, func(t *testing.T, world func(t testing.TB) *drivertest.World[*provider], m []drivertest.Mutation) {
		drivertest.OutlivesLostReplies(t, world, m)
	})
}

func TestEndsWithItsContext(t *testing.T) {
	eachWay(t, func(t *testing.T, world func(t testing.TB) *drivertest.World[*provider], m []drivertest.Mutation) {
		drivertest.EndsWithItsContext(t, world, m)
	})
}

func TestF24OneWorkflowPerLaunch(t *testing.T) {
	ways(t, func(_ *testing.T, w *world) { w.OneJobPerLaunch("workflows.create") })
}

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

func TestCredentialsStaySecret(t *testing.T) {
	ways(t, func(_ *testing.T, w *world) { w.CredentialsStaySecret("workflows.get") })
}

// TestF85SecretsStayInSecrets: neither the Workflow, nor a pod, nor what is kept has a
// value; the Secret that has it belongs to the Workflow.
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
	if text := w.own(p, h); strings.TrimSpace(text) != fmt.Sprint(len(canary)) {
		t.Errorf("the job saw %q", text)
	}
	w.NotKept(canary, l, h)
	for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))} {
		w.Unseen(form, "secrets.create", "secrets.get")
	}
	w.Unseen(canaryToken)
	if _, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
		t.Error(err)
	}
	for o, err := range p.ListOwned(t.Context(), sdk.ListOwnedRequest{}) {
		t.Errorf("left: %+v, %v", o, err)
	}
}

// own is the job's own output, without Argo's lines.
func (w *world) own(p *provider, h sdk.JobHandle) string {
	w.T.Helper()
	text, _ := w.texts(p, h, true)
	return text
}

// texts reads a log to its end: the job's lines, and Argo's.
func (w *world) texts(p *provider, h sdk.JobHandle, follow bool) (job, system string) {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(w.T.Context(), patience)
	defer cancel()
	for it, err := range p.JobLogs(ctx, sdk.JobLogsRequest{Handle: h, Follow: follow}) {
		if err != nil {
			w.T.Fatal(err)
		}
		if it.Entry == nil {
			continue
		}
		text := string(it.Entry.Data)
		if it.Entry.LineEnd == sdk.LineEndStripped {
			text += "\n"
		}
		if it.Entry.Stream == sdk.StreamSystem {
			system += text
		} else {
			job += text
		}
	}
	return job, system
}
