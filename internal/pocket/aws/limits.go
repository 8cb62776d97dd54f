package aws

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// Limit is the token bucket of a group of actions.
type Limit struct {
	// Actions share the bucket: "ecs:DescribeTasks".
	Actions []string
	// PerSecond is how fast it fills, Burst what it holds.
	PerSecond float64
	Burst     int
}

// ECSLimits are the documented buckets of ECS and of reads of logs that touch
// one-off tasks, for one account and region. See
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/request-throttling.html and
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/cloudwatch_limits_cwl.html
func ECSLimits() []Limit {
	return []Limit{
		{Actions: []string{"ecs:DescribeClusters", "ecs:ListClusters"}, PerSecond: 20, Burst: 50},
		{Actions: []string{"ecs:DescribeTasks", "ecs:ListTasks"}, PerSecond: 20, Burst: 100},
		{Actions: []string{"ecs:DescribeTaskDefinition", "ecs:ListTaskDefinitions", "ecs:ListTaskDefinitionFamilies"}, PerSecond: 20, Burst: 50},
		{Actions: []string{"ecs:RunTask"}, PerSecond: 20, Burst: 100},
		{Actions: []string{"ecs:StopTask"}, PerSecond: 40, Burst: 100},
		{Actions: []string{"ecs:RegisterTaskDefinition", "ecs:DeregisterTaskDefinition"}, PerSecond: 1, Burst: 20},
		{Actions: []string{"logs:GetLogEvents"}, PerSecond: 25, Burst: 25},
		{Actions: []string{"logs:FilterLogEvents"}, PerSecond: 5, Burst: 5},
	}
}

// BatchLimits is the one documented bucket of AWS Batch. See
// https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html
func BatchLimits() []Limit {
	return []Limit{{Actions: []string{"batch:SubmitJob"}, PerSecond: 50, Burst: 50}}
}

// limits hold the buckets that are in force, none at first.
type limits struct {
	mu      sync.Mutex
	buckets []bucket
}

type bucket struct {
	Limit
	rate *rate.Limiter
}

// SetLimits puts token buckets in force, in place of all before.
func (s *Server) SetLimits(list []Limit) {
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	s.limits.buckets = nil
	for _, l := range list {
		s.limits.buckets = append(s.limits.buckets, bucket{l, rate.NewLimiter(rate.Limit(l.PerSecond), l.Burst)})
	}
}

// take refuses a call that no bucket has a token for.
func (l *limits) take(action string, now time.Time) *awsjson.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.buckets {
		if slices.Contains(b.Actions, action) && !b.rate.AllowN(now, 1) {
			return awsjson.Errorf("ThrottlingException", "Rate exceeded")
		}
	}
	return nil
}
