package batch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

const (
	active   = "ACTIVE"
	inactive = "INACTIVE"
)

// family is a definition's name with its revisions. A number is never used
// twice.
type family struct {
	Name      string
	Last      int32
	Revisions map[int32]*types.JobDefinition
}

// maxDefinition is the most bytes of a definition:
// https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html
const maxDefinition = 24 << 10

func (s *Service) registerJobDefinition(_ context.Context, call awsjson.Call, in *batch.RegisterJobDefinitionInput) (*batch.RegisterJobDefinitionOutput, error) {
	if n := len(call.Body); n > maxDefinition {
		return nil, refuse(ruleDefinitionSize, "Job definition size must be less than 24 KiB, got %d KiB", (n+1023)>>10)
	}
	if err := checkDefinition(in); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.definitions[*in.JobDefinitionName]
	if f == nil {
		f = &family{Name: *in.JobDefinitionName, Revisions: map[int32]*types.JobDefinition{}}
		s.definitions[f.Name] = f
	}
	f.Last++
	platforms := in.PlatformCapabilities
	if len(platforms) == 0 {
		platforms = []types.PlatformCapability{types.PlatformCapabilityEc2}
	}
	d := &types.JobDefinition{JobDefinitionName: &f.Name, Revision: ptr(f.Last), JobDefinitionArn: ptr(s.arn("job-definition", fmt.Sprintf("%s:%d", f.Name, f.Last))),
		Type: ptr(string(in.Type)), Status: ptr(active), ContainerOrchestrationType: types.OrchestrationTypeEcs, ContainerProperties: in.ContainerProperties,
		Parameters: orEmpty(in.Parameters), PlatformCapabilities: platforms, PropagateTags: in.PropagateTags, RetryStrategy: in.RetryStrategy, SchedulingPriority: in.SchedulingPriority,
		Tags: orNone(in.Tags), Timeout: in.Timeout}
	f.Revisions[f.Last] = d
	return &batch.RegisterJobDefinitionOutput{JobDefinitionArn: d.JobDefinitionArn, JobDefinitionName: d.JobDefinitionName, Revision: d.Revision}, nil
}

// orNone gives no map for an empty one: replies never have an empty one of tags.
func orNone(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// revision finds NAME:REVISION, or an ARN with a revision; nil is none. The lock
// is held.
func (s *Service) revision(name string) *types.JobDefinition {
	bare, ok := s.fromARN("job-definition", name)
	n, rev, more := strings.Cut(bare, ":")
	number, err := strconv.ParseInt(rev, 10, 32)
	if f := s.definitions[n]; ok && more && err == nil && f != nil {
		return f.Revisions[int32(number)]
	}
	return nil
}

// definition finds the definition that a job is to have: that of a revision, or
// the newest active one. The lock is held.
func (s *Service) definition(name string) (*types.JobDefinition, error) {
	bare, ok := s.fromARN("job-definition", name)
	n, rev, more := strings.Cut(bare, ":")
	f := s.definitions[n]
	if !ok || f == nil {
		return nil, refuse(ruleDefinition, "JobDefinition %s not found.", name)
	}
	if more {
		if _, err := strconv.ParseInt(rev, 10, 32); err != nil {
			return nil, refuse(ruleRevision, "JobDefinition %s has no number for a revision.", name)
		}
		d := s.revision(name)
		if d == nil {
			return nil, refuse(ruleDefinition, "JobDefinition %s not found.", name)
		}
		if *d.Status != active {
			return nil, refuse(ruleInactive, "JobDefinition %s is INACTIVE.", name)
		}
		return d, nil
	}
	for _, r := range slices.Backward(slices.Sorted(maps.Keys(f.Revisions))) {
		if d := f.Revisions[r]; *d.Status == active {
			return d, nil
		}
	}
	return nil, refuse(ruleInactive, "JobDefinition %s has no ACTIVE revision.", name)
}

func (s *Service) deregisterJobDefinition(_ context.Context, _ awsjson.Call, in *batch.DeregisterJobDefinitionInput) (*batch.DeregisterJobDefinitionOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.revision(*in.JobDefinition)
	if d == nil {
		return nil, refuse(ruleDeregister, "JobDefinition %s not found.", *in.JobDefinition)
	}
	d.Status = ptr(inactive)
	return &batch.DeregisterJobDefinitionOutput{}, nil
}

func (s *Service) describeJobDefinitions(_ context.Context, _ awsjson.Call, in *batch.DescribeJobDefinitionsInput) (*batch.DescribeJobDefinitionsOutput, error) {
	if len(in.JobDefinitions) > maxPage {
		return nil, refuse(ruleDefinitions100, "Maximum number of job definitions supported is %d.", maxPage)
	}
	for _, name := range in.JobDefinitions {
		bare, ok := s.fromARN("job-definition", name)
		if _, rev, more := strings.Cut(bare, ":"); !ok || !more || rev == "" {
			return nil, refuse(ruleDefinitions100, "%s is no ARN and no NAME:REVISION.", name)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]types.JobDefinition{}
	var names []string
	add := func(d *types.JobDefinition) {
		if _, twice := found[*d.JobDefinitionArn]; !twice && (in.Status == nil || *d.Status == *in.Status) {
			found[*d.JobDefinitionArn] = *d
			names = append(names, *d.JobDefinitionArn)
		}
	}
	for _, name := range in.JobDefinitions {
		if d := s.revision(name); d != nil {
			add(d)
		}
	}
	if len(in.JobDefinitions) == 0 {
		for _, n := range sortedKeys(s.definitions) {
			if in.JobDefinitionName != nil && n != *in.JobDefinitionName {
				continue
			}
			f := s.definitions[n]
			for _, r := range slices.Backward(slices.Sorted(maps.Keys(f.Revisions))) {
				add(f.Revisions[r])
			}
		}
	}
	page, next, err := s.page(names, in.NextToken, in.MaxResults, maxPage)
	if err != nil {
		return nil, err
	}
	out := &batch.DescribeJobDefinitionsOutput{JobDefinitions: []types.JobDefinition{}, NextToken: next}
	for _, n := range page {
		out.JobDefinitions = append(out.JobDefinitions, found[n])
	}
	return out, nil
}
