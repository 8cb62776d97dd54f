package batch

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/batch"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// tagged finds a resource's tags by its ARN, and returns the function that
// replaces them. The lock is held.
func (s *Service) tagged(arn string) (tags map[string]string, set func(map[string]string), err error) {
	if !strings.HasPrefix(arn, "arn:aws:batch:") {
		return nil, nil, refuse(ruleTagARN, "%s is no ARN of AWS Batch.", arn)
	}
	s.sweep()
	if id, ok := s.fromARN("job", arn); ok {
		if j := s.jobs[id]; j != nil {
			return j.view.Tags, func(m map[string]string) { j.view.Tags = m }, nil
		}
	}
	if d := s.revision(arn); d != nil {
		return d.Tags, func(m map[string]string) { d.Tags = m }, nil
	}
	if name, ok := s.fromARN("job-queue", arn); ok {
		if q, qerr := s.queue(name); qerr == nil && q.Name == name {
			return s.tags[arn], func(m map[string]string) { s.tags[arn] = m }, nil
		}
	}
	return nil, nil, refuse(ruleTagGone, "The resource %s was not found.", arn)
}

func (s *Service) tagResource(_ context.Context, _ awsjson.Call, in *batch.TagResourceInput) (*batch.TagResourceOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tags, set, err := s.tagged(*in.ResourceArn)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(orEmpty(tags))
	maps.Copy(all, in.Tags)
	if err := checkTags(all); err != nil {
		return nil, err
	}
	set(orNone(all))
	return &batch.TagResourceOutput{}, nil
}

func (s *Service) untagResource(_ context.Context, _ awsjson.Call, in *batch.UntagResourceInput) (*batch.UntagResourceOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tags, set, err := s.tagged(*in.ResourceArn)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(orEmpty(tags))
	maps.DeleteFunc(all, func(k, _ string) bool { return slices.Contains(in.TagKeys, k) })
	set(orNone(all))
	return &batch.UntagResourceOutput{}, nil
}

func (s *Service) listTagsForResource(_ context.Context, _ awsjson.Call, in *batch.ListTagsForResourceInput) (*batch.ListTagsForResourceOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tags, _, err := s.tagged(*in.ResourceArn)
	if err != nil {
		return nil, err
	}
	return &batch.ListTagsForResourceOutput{Tags: orNone(tags)}, nil
}
