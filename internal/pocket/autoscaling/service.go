// Package autoscaling is the pocket cloud's Application Auto Scaling: the scalable
// targets of ECS services. They are kept and shown; nothing is scaled by them. See
// https://docs.aws.amazon.com/autoscaling/application/APIReference/.
package autoscaling

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/schemas"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// modelData are the constraints on the inputs, taken from AWS's own model as
// botocore publishes it (Apache License 2.0).
//
//go:embed model.json
var modelData []byte

// Options are what the service needs of its surroundings.
type Options struct {
	Account, Region string
	// Now is the cloud's clock.
	Now func() time.Time
}

// Service is Application Auto Scaling of one account and region.
type Service struct {
	o   Options
	api awsjson.Service

	mu      sync.Mutex
	targets map[string]types.ScalableTarget // by resource ID
}

// New returns the service, without targets.
func New(o Options) (*Service, error) {
	model, err := awsjson.ParseModel(modelData)
	if err != nil {
		return nil, err
	}
	s := &Service{o: o, targets: map[string]types.ScalableTarget{}, api: awsjson.Service{Prefix: "AnyScaleFrontendService", Name: "application-autoscaling", Model: model,
		Invalid: func(v awsjson.Violation) *awsjson.Error {
			return awsjson.Errorf(validation, "1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: %s", v.Value, v.Path, v.Text)
		}}}
	s.api.Offer(
		awsjson.Handle(schemas.RegisterScalableTarget, schemas.RegisterScalableTargetRequest, s.register),
		awsjson.Handle(schemas.DeregisterScalableTarget, schemas.DeregisterScalableTargetRequest, s.deregister),
		awsjson.Handle(schemas.DescribeScalableTargets, schemas.DescribeScalableTargetsRequest, s.describe),
	)
	return s, nil
}

// API returns the operations.
func (s *Service) API() *awsjson.Service { return &s.api }

// check refuses what isn't a service of ECS.
func check(namespace types.ServiceNamespace, dimension types.ScalableDimension, id string) error {
	switch {
	case namespace != types.ServiceNamespaceEcs || dimension != types.ScalableDimensionECSServiceDesiredCount:
		return refuse(ruleECS, "The pocket cloud scales nothing but the DesiredCount of services of ECS.")
	case !strings.HasPrefix(id, "service/") || strings.Count(id, "/") != 2:
		return refuse(ruleResource, "Unsupported service namespace, resource type or scalable dimension")
	}
	return nil
}

func (s *Service) register(_ context.Context, _ awsjson.Call, in *aas.RegisterScalableTargetInput) (*aas.RegisterScalableTargetOutput, error) {
	if err := check(in.ServiceNamespace, in.ScalableDimension, *in.ResourceId); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.targets[*in.ResourceId]
	if !ok {
		if in.MinCapacity == nil || in.MaxCapacity == nil {
			return nil, refuse(ruleBounds, "Scalable target does not exist; MinCapacity and MaxCapacity must be given.")
		}
		now := s.o.Now()
		role := fmt.Sprintf("arn:aws:iam::%s:role/aws-service-role/ecs.application-autoscaling.amazonaws.com/AWSServiceRoleForApplicationAutoScaling_ECSService", s.o.Account)
		t = types.ScalableTarget{ServiceNamespace: in.ServiceNamespace, ScalableDimension: in.ScalableDimension, ResourceId: in.ResourceId, CreationTime: &now, RoleARN: &role,
			SuspendedState:    &types.SuspendedState{DynamicScalingInSuspended: new(bool), DynamicScalingOutSuspended: new(bool), ScheduledScalingSuspended: new(bool)},
			ScalableTargetARN: new(fmt.Sprintf("arn:aws:application-autoscaling:%s:%s:scalable-target/%x", s.o.Region, s.o.Account, now.UnixNano()))}
	}
	if in.MinCapacity != nil {
		t.MinCapacity = in.MinCapacity
	}
	if in.MaxCapacity != nil {
		t.MaxCapacity = in.MaxCapacity
	}
	if in.SuspendedState != nil {
		t.SuspendedState = in.SuspendedState
	}
	if *t.MinCapacity < 0 || *t.MaxCapacity < *t.MinCapacity {
		return nil, refuse(ruleBounds, "Maximum capacity cannot be less than minimum capacity")
	}
	s.targets[*in.ResourceId] = t
	return &aas.RegisterScalableTargetOutput{ScalableTargetARN: t.ScalableTargetARN}, nil
}

func (s *Service) deregister(_ context.Context, _ awsjson.Call, in *aas.DeregisterScalableTargetInput) (*aas.DeregisterScalableTargetOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.targets[*in.ResourceId]; !ok {
		return nil, refuse(ruleTarget, "No scalable target found for service namespace: %s, resource ID: %s, scalable dimension: %s", in.ServiceNamespace, *in.ResourceId, in.ScalableDimension)
	}
	delete(s.targets, *in.ResourceId)
	return &aas.DeregisterScalableTargetOutput{}, nil
}

// maxPage is how many targets a page has at most.
const maxPage = 50

func (s *Service) describe(_ context.Context, _ awsjson.Call, in *aas.DescribeScalableTargetsInput) (*aas.DescribeScalableTargetsOutput, error) {
	if in.ServiceNamespace != types.ServiceNamespaceEcs {
		return &aas.DescribeScalableTargetsOutput{ScalableTargets: []types.ScalableTarget{}}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, id := range slices.Sorted(maps.Keys(s.targets)) {
		if len(in.ResourceIds) == 0 || slices.Contains(in.ResourceIds, id) {
			all = append(all, id)
		}
	}
	n := maxPage
	if in.MaxResults != nil {
		n = min(max(int(*in.MaxResults), 1), maxPage)
	}
	page, next, ok := awsjson.Page(all, in.NextToken, n)
	if !ok {
		return nil, refuse(ruleNextToken, "Invalid token")
	}
	out := &aas.DescribeScalableTargetsOutput{ScalableTargets: []types.ScalableTarget{}, NextToken: next}
	for _, id := range page {
		out.ScalableTargets = append(out.ScalableTargets, s.targets[id])
	}
	return out, nil
}

// Save returns the service's state.
func (s *Service) Save() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return json.Marshal(s.targets)
}

// Load puts a saved state over the service's own.
func (s *Service) Load(data []byte) error {
	var targets map[string]types.ScalableTarget
	if err := json.Unmarshal(data, &targets); err != nil {
		return fmt.Errorf("load the state of Application Auto Scaling: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.targets, targets)
	return nil
}
