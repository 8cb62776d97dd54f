package appplatform

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	pocket "github.com/windlass-run/windlass/internal/pocket/digitalocean"
	"github.com/windlass-run/windlass/sdk"
)

// TestCredentialsStaySecret: the token is in nothing but the header that it is for.
func TestCredentialsStaySecret(t *testing.T) { calm(t).CredentialsStaySecret("apps_list_deployments") }

// TestF86SealedSecrets: nobody who asks the platform about an app sees a secret's
// value, or the registry's credentials.
func TestF86SealedSecrets(t *testing.T) {
	const value, login = "canary-of-a-secret-91c2", "user:canary-of-a-registry-77e0"
	w := newWorld(t, pocket.Options{}, nil)
	w.Secrets.Set("TOKEN", []byte(value))
	w.Secrets.Set("LOGIN", []byte(login))
	p := w.Open()
	spec := shell(`test "$TOKEN" = "` + strings.ReplaceAll(value, "-", `-""`) + `" && echo right`)
	spec.Image = "ghcr.io/team/app:1"
	spec.Secrets = map[string]sdk.SecretRef{"TOKEN": "secret://env/TOKEN"}
	spec.Options = []byte(`{"registry_credentials":"secret://env/LOGIN"}`)
	l := w.Plan(p, spec)
	h := w.Run(p, l)
	w.Ended(p, h)
	if text, _ := w.Text(p, h, nil); text != "right\n" {
		t.Errorf("the job has another secret: it showed %q", text)
	}
	created := w.cloud.Calls().Calls("apps_create")
	if len(created) != 1 || !strings.Contains(string(created[0].Request), value) || !strings.Contains(string(created[0].Request), login) {
		t.Errorf("the secrets did not go out")
	}
	for i, c := range w.cloud.Calls().Calls("") {
		text := string(c.Reply)
		if c.Action != "apps_create" {
			text += string(c.Request)
		}
		for _, canary := range []string{value, login, strings.TrimPrefix(login, "user:")} {
			if strings.Contains(text, canary) {
				t.Errorf("call %d, %s, shows a secret", i, c.Action)
			}
		}
	}
	raw, err := l.Encode()
	if err != nil || strings.Contains(string(raw), value) || strings.Contains(string(raw), login) {
		t.Errorf("the launch has a secret (%v)", err)
	}
}

// TestSecretValues: what App Platform would change, or take for its own, is a
// clear refusal without the value, and nothing is made.
func TestSecretValues(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	for name, value := range map[string]string{"bytes": "\xffcanary", "nul": "canary\x00", "bindable": "canary${APP_ID}", "sealed": "EV[1:canary:x]"} {
		w.Secrets.Set("S", []byte(value))
		spec := shell("true")
		spec.Secrets = map[string]sdk.SecretRef{"S": "secret://env/S"}
		_, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: w.Plan(p, spec)})
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != sdk.InvalidArgument || e.Field != "secrets.S" || strings.Contains(fmt.Sprint(err), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := w.Count("apps_create"); n != 0 {
		t.Errorf("%d apps were made", n)
	}
}
