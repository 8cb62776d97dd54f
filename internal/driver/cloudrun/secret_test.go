package cloudrun

import (
	"strings"
	"testing"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"

	pocket "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/sdk"
)

// TestMissingSecret: a secret, or a version, that Cloud Run would not find is
// refused before launch by its reference. Without the right to look nothing is
// said, and Cloud Run's own check refuses the launch. No value is read.
func TestMissingSecret(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	if _, err := w.cloud.Secrets().Put("there", []byte("value")); err != nil {
		t.Fatal(err)
	}
	second, err := w.cloud.Secrets().Put("there", []byte("value-2"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.cloud.Secrets().DisableSecretVersion(t.Context(), &secretmanagerpb.DisableSecretVersionRequest{Name: second}); err != nil {
		t.Fatal(err)
	}
	spec := shell("true")
	problem := func(ref sdk.SecretRef) string {
		t.Helper()
		spec.Secrets = map[string]sdk.SecretRef{"S": ref}
		l := w.Prepare(p, spec)
		switch {
		case len(l.Problems) == 0:
			return ""
		case len(l.Problems) > 1 || l.Problems[0].Field != "secrets.S" || l.Problems[0].Value != string(ref) || l.Problems[0].Code != sdk.FailedPrecondition:
			t.Errorf("%s: %+v", ref, l.Problems)
		}
		return l.Problems[0].Message
	}
	project := "projects/" + pocket.Project + "/secrets/"
	for ref, want := range map[sdk.SecretRef]string{
		"secret://gcp-sm/nosuch":                             "Secret Manager doesn't have it: ",
		sdk.SecretRef("secret://gcp-sm/" + project + "none"): "Secret Manager doesn't have it: ",
		"secret://gcp-sm/there?version=7":                    "Secret Manager doesn't have it: ",
		"secret://gcp-sm/there?version=2":                    "its version is disabled in Secret Manager",
		"secret://gcp-sm/there?version=1":                    "",
	} {
		if got := problem(ref); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", ref, got, want)
		}
	}
	w.cloud.Policy().Deny("secretmanager.versions.get")
	if got := problem("secret://gcp-sm/nosuch"); got != "" {
		t.Errorf("without the right to look: %s", got)
	}
	_, err = p.RunJob(t.Context(), sdk.RunJobRequest{Launch: w.Plan(p, spec)})
	if !sdk.IsClear(err) || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("Cloud Run's own check: %v", err)
	}
	if n := w.Count("secretmanager:AccessSecretVersion"); n != 0 {
		t.Errorf("%d values were read", n)
	}
}
