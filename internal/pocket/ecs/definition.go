package ecs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// family is a task definition's name with its revisions. A number is never
// used twice, even when all revisions are deleted.
type family struct {
	Name string
	Last int32
	// Revisions has those that weren't deleted.
	Revisions map[int32]*definition
}

// definition is one revision.
type definition struct {
	Def  types.TaskDefinition
	Tags []types.Tag
	// Seen is when it can be found.
	Seen time.Time
}

// active returns the newest ACTIVE revision. The lock is held.
func (f *family) active(now time.Time) *definition {
	var newest *definition
	for _, d := range f.Revisions {
		if d.Def.Status == types.TaskDefinitionStatusActive && !d.Seen.After(now) && (newest == nil || d.Def.Revision > newest.Def.Revision) {
			newest = d
		}
	}
	return newest
}

// definition finds a revision by ARN, family:revision or family, which means
// the newest ACTIVE one. The lock is held.
func (s *Service) definition(name string) (*definition, error) {
	bare, ok := s.fromARN("task-definition", name)
	if !ok {
		return nil, refuse(ruleDefinition, "TaskDefinition not found.")
	}
	now := s.o.Now()
	familyName, number, numbered := strings.Cut(bare, ":")
	f := s.families[familyName]
	if f == nil {
		return nil, refuse(ruleDefinition, "TaskDefinition not found.")
	}
	if !numbered {
		if d := f.active(now); d != nil {
			return d, nil
		}
		return nil, refuse(ruleDefinition, "TaskDefinition not found.")
	}
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return nil, refuse(ruleRevision, "Invalid revision number. Number: %s", number)
	}
	d := f.Revisions[int32(n)]
	if d != nil && d.Def.Status == types.TaskDefinitionStatusDeleteInProgress && !s.used(d) {
		delete(f.Revisions, int32(n)) // its last task has stopped
		d = nil
	}
	if d == nil || d.Seen.After(now) {
		return nil, refuse(ruleDefinition, "TaskDefinition not found.")
	}
	return d, nil
}

func (s *Service) registerTaskDefinition(ctx context.Context, call awsjson.Call, in *ecs.RegisterTaskDefinitionInput) (*ecs.RegisterTaskDefinitionOutput, error) {
	if err := checkDefinition(in); err != nil {
		return nil, err
	}
	cpu, err := cpuUnits(in.Cpu)
	if err != nil {
		return nil, err
	}
	memory, err := memoryMiB(in.Memory)
	if err != nil {
		return nil, err
	}
	name := *in.Family
	s.mu.Lock()
	defer s.mu.Unlock()
	if takes := s.knobs.RegisterTakes; takes > 0 {
		if s.inFlight[name] > 0 {
			return nil, refuse(ruleFamilyLock, "Too many concurrent attempts to create a new revision of the specified family.")
		}
		s.inFlight[name]++
		s.mu.Unlock()
		timer := time.NewTimer(takes)
		select {
		case <-timer.C:
		case <-ctx.Done(): // the registration goes on, as the real one does
			timer.Stop()
		}
		s.mu.Lock()
		s.inFlight[name]--
	}
	f := s.families[name]
	if f == nil {
		f = &family{Name: name, Revisions: map[int32]*definition{}}
		s.families[name] = f
	}
	f.Last++
	now := s.o.Now()
	d := &definition{Tags: slices.Clone(in.Tags), Seen: now.Add(s.knobs.DefinitionDelay), Def: types.TaskDefinition{
		TaskDefinitionArn: ptr(s.arn("task-definition", fmt.Sprintf("%s:%d", name, f.Last))), Family: &name, Revision: f.Last,
		Status: types.TaskDefinitionStatusActive, RegisteredAt: &now, RegisteredBy: ptr(s.caller(call)),
		ContainerDefinitions: in.ContainerDefinitions, Cpu: cpu, Memory: memory, EnableFaultInjection: in.EnableFaultInjection,
		EphemeralStorage: in.EphemeralStorage, ExecutionRoleArn: in.ExecutionRoleArn, IpcMode: in.IpcMode, NetworkMode: in.NetworkMode,
		PidMode: in.PidMode, PlacementConstraints: in.PlacementConstraints, RequiresCompatibilities: in.RequiresCompatibilities,
		RuntimePlatform: in.RuntimePlatform, TaskRoleArn: in.TaskRoleArn, Volumes: in.Volumes,
		Compatibilities: compatibilities(in),
	}}
	// What is left out is shown with its default.
	for i := range d.Def.ContainerDefinitions {
		c := &d.Def.ContainerDefinitions[i]
		if c.Essential == nil {
			c.Essential = ptr(true)
		}
		for _, list := range []*[]types.KeyValuePair{&c.Environment} {
			if *list == nil {
				*list = []types.KeyValuePair{}
			}
		}
		if c.MountPoints == nil {
			c.MountPoints = []types.MountPoint{}
		}
		if c.VolumesFrom == nil {
			c.VolumesFrom = []types.VolumeFrom{}
		}
		if c.PortMappings == nil {
			c.PortMappings = []types.PortMapping{}
		}
	}
	if d.Def.Volumes == nil {
		d.Def.Volumes = []types.Volume{}
	}
	if d.Def.PlacementConstraints == nil {
		d.Def.PlacementConstraints = []types.TaskDefinitionPlacementConstraint{}
	}
	f.Revisions[f.Last] = d
	shown := d.Def
	return &ecs.RegisterTaskDefinitionOutput{TaskDefinition: &shown, Tags: slices.Clone(d.Tags)}, nil
}

// caller is the identity behind a call: a pocket cloud has one user per key.
func (s *Service) caller(call awsjson.Call) string {
	return fmt.Sprintf("arn:aws:iam::%s:user/%s", s.o.Account, call.AccessKey)
}

func compatibilities(in *ecs.RegisterTaskDefinitionInput) []types.Compatibility {
	out := []types.Compatibility{types.CompatibilityEc2}
	if slices.Contains(in.RequiresCompatibilities, types.CompatibilityFargate) ||
		in.NetworkMode == types.NetworkModeAwsvpc && in.Cpu != nil && in.Memory != nil && checkFargate(in) == nil {
		out = append(out, types.CompatibilityFargate)
	}
	return out
}

func (s *Service) describeTaskDefinition(_ context.Context, _ awsjson.Call, in *ecs.DescribeTaskDefinitionInput) (*ecs.DescribeTaskDefinitionOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.definition(*in.TaskDefinition)
	if err != nil {
		return nil, refuse(ruleDescribeDefinition, "Unable to describe task definition.")
	}
	shown := d.Def
	out := &ecs.DescribeTaskDefinitionOutput{TaskDefinition: &shown}
	if slices.Contains(in.Include, types.TaskDefinitionFieldTags) {
		out.Tags = append([]types.Tag{}, d.Tags...)
	}
	return out, nil
}

func (s *Service) deregisterTaskDefinition(_ context.Context, _ awsjson.Call, in *ecs.DeregisterTaskDefinitionInput) (*ecs.DeregisterTaskDefinitionOutput, error) {
	if !strings.Contains(strings.TrimPrefix(*in.TaskDefinition, s.arn("task-definition", "")), ":") {
		return nil, refuse(ruleDeregisterRevision, "Missing revision.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.definition(*in.TaskDefinition)
	if err != nil {
		return nil, refuse(ruleDescribeDefinition, "Unable to describe task definition.")
	}
	if d.Def.Status != types.TaskDefinitionStatusActive {
		return nil, refuse(ruleDeregisterInactive, "The specified task definition is inactive. You can only deregister an ACTIVE task definition.")
	}
	now := s.o.Now()
	d.Def.Status, d.Def.DeregisteredAt = types.TaskDefinitionStatusInactive, &now
	shown := d.Def
	return &ecs.DeregisterTaskDefinitionOutput{TaskDefinition: &shown}, nil
}

// maxDelete is how many definitions one call may delete:
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_DeleteTaskDefinitions.html
const maxDelete = 10

func (s *Service) deleteTaskDefinitions(_ context.Context, _ awsjson.Call, in *ecs.DeleteTaskDefinitionsInput) (*ecs.DeleteTaskDefinitionsOutput, error) {
	if n := len(in.TaskDefinitions); n < 1 || n > maxDelete {
		return nil, refuse(ruleDelete10, "You can delete up to %d task definitions as a parameter in a single call.", maxDelete)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &ecs.DeleteTaskDefinitionsOutput{TaskDefinitions: []types.TaskDefinition{}, Failures: []types.Failure{}}
	for _, name := range in.TaskDefinitions {
		d, err := s.definition(name)
		if err != nil {
			out.Failures = append(out.Failures, failure(name, missing))
			continue
		}
		if d.Def.Status == types.TaskDefinitionStatusActive {
			f := failure(name, "The specified task definition is still in ACTIVE status. Please deregister the target and try again.")
			out.Failures = append(out.Failures, f)
			continue
		}
		now := s.o.Now()
		d.Def.Status, d.Def.DeleteRequestedAt = types.TaskDefinitionStatusDeleteInProgress, &now
		out.TaskDefinitions = append(out.TaskDefinitions, d.Def)
		if !s.used(d) {
			delete(s.families[*d.Def.Family].Revisions, d.Def.Revision)
		}
	}
	return out, nil
}

// used says whether a task that isn't stopped runs a definition: until then it
// stays in DELETE_IN_PROGRESS. The lock is held.
func (s *Service) used(d *definition) bool {
	return slices.ContainsFunc(s.order, func(t *task) bool {
		return *t.view.TaskDefinitionArn == *d.Def.TaskDefinitionArn && *t.view.LastStatus != stopped
	})
}

func (s *Service) listTaskDefinitions(_ context.Context, _ awsjson.Call, in *ecs.ListTaskDefinitionsInput) (*ecs.ListTaskDefinitionsOutput, error) {
	status := in.Status
	if status == "" {
		status = types.TaskDefinitionStatusActive
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.families)) {
		// The prefix is the family's whole name here, not a part of it.
		if in.FamilyPrefix != nil && *in.FamilyPrefix != name {
			continue
		}
		f := s.families[name]
		for _, n := range slices.Sorted(maps.Keys(f.Revisions)) {
			if d := f.Revisions[n]; d.Def.Status == status && !d.Seen.After(now) {
				all = append(all, *d.Def.TaskDefinitionArn)
			}
		}
	}
	if in.Sort == types.SortOrderDesc {
		slices.Reverse(all)
	}
	page, next, err := s.page(all, in.NextToken, in.MaxResults)
	if err != nil {
		return nil, err
	}
	return &ecs.ListTaskDefinitionsOutput{TaskDefinitionArns: page, NextToken: next}, nil
}

func (s *Service) listTaskDefinitionFamilies(_ context.Context, _ awsjson.Call, in *ecs.ListTaskDefinitionFamiliesInput) (*ecs.ListTaskDefinitionFamiliesOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.families)) {
		active := s.families[name].active(now) != nil
		if in.FamilyPrefix != nil && !strings.HasPrefix(name, *in.FamilyPrefix) ||
			in.Status == types.TaskDefinitionFamilyStatusActive && !active ||
			in.Status == types.TaskDefinitionFamilyStatusInactive && active {
			continue
		}
		all = append(all, name)
	}
	page, next, err := s.page(all, in.NextToken, in.MaxResults)
	if err != nil {
		return nil, err
	}
	return &ecs.ListTaskDefinitionFamiliesOutput{Families: page, NextToken: next}, nil
}
