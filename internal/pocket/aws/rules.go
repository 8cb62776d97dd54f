package aws

import (
	"slices"

	"github.com/windlass-run/windlass/internal/pocket/autoscaling"
	"github.com/windlass-run/windlass/internal/pocket/awsjson"
	"github.com/windlass-run/windlass/internal/pocket/batch"
	"github.com/windlass-run/windlass/internal/pocket/cloudwatch"
	"github.com/windlass-run/windlass/internal/pocket/ecs"
	"github.com/windlass-run/windlass/internal/pocket/eks"
	"github.com/windlass-run/windlass/internal/pocket/logs"
	"github.com/windlass-run/windlass/internal/pocket/secretsmanager"
	"github.com/windlass-run/windlass/internal/pocket/ssm"
)

// Rules returns the rules of all services: what they keep beyond the lengths,
// patterns, enums and required members of AWS's models.
func Rules() awsjson.Rules {
	return slices.Concat(ecs.Rules(), eks.Rules(), batch.Rules(), logs.Rules(), secretsmanager.Rules(), ssm.Rules(), autoscaling.Rules(), cloudwatch.Rules())
}

// Actions returns the operations that the cloud offers, by service.
func Actions() (map[string][]string, error) {
	s, err := New(Options{})
	if err != nil {
		return nil, err
	}
	out := map[string][]string{"sts": {"GetCallerIdentity"}, "cloudwatch": {"GetMetricData"}}
	for _, svc := range s.services {
		out[svc.Name] = slices.Sorted(slices.Values(svc.Actions()))
	}
	return out, s.Close()
}
