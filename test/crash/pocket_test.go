//go:build unix

package crash

import (
	"fmt"
	"net/http/httptest"

	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
)

// startPocket starts a pocket AWS for this host, which outlives its commands,
// and adds its providers.
func (h *host) startPocket() {
	h.t.Helper()
	cloud, err := pocket.New(pocket.Options{})
	if err != nil {
		h.t.Fatal(err)
	}
	web := httptest.NewServer(cloud)
	h.t.Cleanup(func() {
		web.Close()
		if err := cloud.Close(); err != nil {
			h.t.Error(err)
		}
	})
	for _, p := range []struct{ name, cluster string }{{"aws-ecs", "default"}, {"ecs-nowhere", "nowhere"}} {
		h.extra += fmt.Sprintf(`  %s:
    kind: aws-ecs
    credentials: pocket
    poll_interval: 100ms
    config: {region: %s, endpoint: "%s", cluster: %s, subnets: [subnet-0123456789abcdef0], execution_role: "arn:aws:iam::%s:role/execution",
      log_quiet: 300ms, missing_grace: 5s, describe_rate: 1000, log_rate: 1000}
`, p.name, pocket.Region, web.URL, p.cluster, pocket.Account)
	}
}
