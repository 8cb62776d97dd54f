package ecs

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// maxTags is how many a resource may have, those of AWS apart.
const maxTags = 50

// checkTags checks what the model doesn't say of tags.
func checkTags(tags []types.Tag) error {
	if len(tags) > maxTags {
		return refuse(ruleTagCount, "The maximum number of tags that you can apply to a resource is %d.", maxTags)
	}
	seen := map[string]bool{}
	for _, t := range tags {
		key := text(t.Key)
		if key == "" {
			return refuse(ruleTagKey, "Tag key must not be empty.")
		}
		if strings.HasPrefix(strings.ToLower(key), "aws:") || strings.HasPrefix(strings.ToLower(text(t.Value)), "aws:") {
			return refuse(ruleTagPrefix, "Tags with the prefix aws: are reserved for AWS use.")
		}
		if seen[key] {
			return refuse(ruleTagTwice, "Duplicate tag keys found. Please note that Tag keys are case sensitive.")
		}
		seen[key] = true
	}
	return nil
}

// merge puts tags over others, by key.
func merge(below, above []types.Tag) []types.Tag {
	out := slices.Clone(below)
	for _, t := range above {
		i := slices.IndexFunc(out, func(o types.Tag) bool { return text(o.Key) == text(t.Key) })
		if i < 0 {
			out = append(out, t)
		} else {
			out[i] = t
		}
	}
	return out
}

// tagged finds a resource's tags by its ARN. The lock is held.
func (s *Service) tagged(arn string) (*[]types.Tag, error) {
	if name, ok := s.fromARN("cluster", arn); ok {
		if c := s.clusters[name]; c != nil {
			return &c.Tags, nil
		}
	}
	if name, ok := s.fromARN("task", arn); ok {
		if t := s.tasks[name[strings.LastIndexByte(name, '/')+1:]]; t != nil {
			return &t.view.Tags, nil
		}
	}
	if name, ok := s.fromARN("service", arn); ok {
		if v := s.services[name]; v != nil && v.Active {
			return &v.Tags, nil
		}
	}
	if strings.HasPrefix(arn, s.arn("task-definition", "")) {
		if d, err := s.definition(arn); err == nil {
			return &d.Tags, nil
		}
	}
	if !strings.HasPrefix(arn, "arn:aws:ecs:") {
		return nil, refuse(ruleTagARN, "Invalid identifier: %s is no ARN of ECS", arn)
	}
	return nil, refuse(ruleTagGone, "The specified resource could not be found.")
}

func (s *Service) tagResource(_ context.Context, _ awsjson.Call, in *ecs.TagResourceInput) (*ecs.TagResourceOutput, error) {
	if err := checkTags(in.Tags); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tags, err := s.tagged(*in.ResourceArn)
	if err != nil {
		return nil, err
	}
	all := merge(*tags, in.Tags)
	if err := checkTags(slices.DeleteFunc(slices.Clone(all), func(t types.Tag) bool { return strings.HasPrefix(text(t.Key), "aws:") })); err != nil {
		return nil, err
	}
	*tags = all
	return &ecs.TagResourceOutput{}, nil
}

func (s *Service) untagResource(_ context.Context, _ awsjson.Call, in *ecs.UntagResourceInput) (*ecs.UntagResourceOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tags, err := s.tagged(*in.ResourceArn)
	if err != nil {
		return nil, err
	}
	*tags = slices.DeleteFunc(slices.Clone(*tags), func(t types.Tag) bool { return slices.Contains(in.TagKeys, text(t.Key)) })
	return &ecs.UntagResourceOutput{}, nil
}

func (s *Service) listTagsForResource(_ context.Context, _ awsjson.Call, in *ecs.ListTagsForResourceInput) (*ecs.ListTagsForResourceOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tags, err := s.tagged(*in.ResourceArn)
	if err != nil {
		return nil, err
	}
	return &ecs.ListTagsForResourceOutput{Tags: append([]types.Tag{}, *tags...)}, nil
}
