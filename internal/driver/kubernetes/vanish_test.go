package kubernetes

import (
	"net/http"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/sdk"
)

// TestClusterVanishes: a cluster that nobody can connect to was sent nothing; one
// that is gone after it made a part of the launch leaves that in doubt.
func TestClusterVanishes(t *testing.T) {
	for name, c := range map[string]struct {
		last  string
		clear bool
	}{"before": {"", true}, "behind the secret": {"/secrets", false}, "behind the policy": {"/networkpolicies", false}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			v := drivertest.Vanish(t, w.cluster)
			p := w.Open(func(r *sdk.OpenRequest) { r.Credentials["KUBECONFIG"] = kubeconfig(t, v.URL, pocket.Namespace) })
			spec := shell("true")
			spec.Profile, spec.Secrets = sdk.ProfileStrict, map[string]sdk.SecretRef{"S": w.Secrets.Set("S", []byte("x"))}
			l := w.Plan(p, spec)
			if c.last == "" {
				v.Now()
			} else {
				v.After(func(r *http.Request) bool {
					return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, c.last)
				})
			}
			_, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
			if err == nil || sdk.IsUnreached(err) != c.clear || sdk.IsClear(err) != c.clear || !sdk.IsRetryable(err) {
				t.Errorf("%v: unreached %t, clear %t", err, sdk.IsUnreached(err), sdk.IsClear(err))
			}
		})
	}
}
