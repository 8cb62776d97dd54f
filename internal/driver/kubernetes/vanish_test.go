package kubernetes

import (
	"testing"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/sdk"
)

// TestClusterVanishes: a cluster that nobody can connect to was sent nothing; one
// that is gone after it made a part of the launch leaves that in doubt.
func TestClusterVanishes(t *testing.T) {
	for name, last := range map[string]string{"before": "", "behind the secret": "/secrets", "behind the policy": "/networkpolicies"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			spec := shell("true")
			spec.Profile, spec.Secrets = sdk.ProfileStrict, map[string]sdk.SecretRef{"S": w.Secrets.Set("S", []byte("x"))}
			drivertest.Vanishes(t, w.World, w.cluster, func(r *sdk.OpenRequest, url string) {
				r.Credentials["KUBECONFIG"] = kubeconfig(t, url, pocket.Namespace)
			}, spec, last)
		})
	}
}
