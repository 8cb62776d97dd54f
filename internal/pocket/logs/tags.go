package logs

import (
	"context"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// maxTags is the most tags of a group.
const maxTags = 50

// checkTags refuses what TagResource and CreateLogGroup refuse.
func checkTags(have, more map[string]string) error {
	n := len(have)
	for k := range more {
		if strings.HasPrefix(strings.ToLower(k), "aws:") {
			return refuse(ruleTagPrefix, "Invalid tag key: %s: aws: prefixed tag keys are reserved.", k)
		}
		if _, ok := have[k]; !ok {
			n++
		}
	}
	if n > maxTags {
		return refuse(ruleTags50, "The resource can have no more than %d tags.", maxTags)
	}
	return nil
}

// tagged returns the group of an ARN. s.mu is held.
func (s *Service) tagged(arn string) (*group, error) {
	name, ok := strings.CutPrefix(arn, s.groupARN(""))
	if !ok || name == "" || strings.HasSuffix(name, ":*") {
		return nil, refuse(ruleTaggedForm, "The specified resource ARN is not that of a log group: %s", arn)
	}
	g, ok := s.groups[name]
	if !ok {
		return nil, refuse(ruleTagged, "The specified log group does not exist.")
	}
	return g, nil
}

func (s *Service) tagResource(_ context.Context, _ awsjson.Call, in *cloudwatchlogs.TagResourceInput) (*cloudwatchlogs.TagResourceOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.tagged(*in.ResourceArn)
	if err != nil {
		return nil, err
	}
	if err := checkTags(g.Tags, in.Tags); err != nil {
		return nil, err
	}
	if g.Tags == nil {
		g.Tags = map[string]string{}
	}
	maps.Copy(g.Tags, in.Tags)
	return &cloudwatchlogs.TagResourceOutput{}, nil
}

func (s *Service) untagResource(_ context.Context, _ awsjson.Call, in *cloudwatchlogs.UntagResourceInput) (*cloudwatchlogs.UntagResourceOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.tagged(*in.ResourceArn)
	if err != nil {
		return nil, err
	}
	for _, k := range in.TagKeys {
		delete(g.Tags, k)
	}
	return &cloudwatchlogs.UntagResourceOutput{}, nil
}

func (s *Service) listTagsForResource(_ context.Context, _ awsjson.Call, in *cloudwatchlogs.ListTagsForResourceInput) (*cloudwatchlogs.ListTagsForResourceOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.tagged(*in.ResourceArn)
	if err != nil {
		return nil, err
	}
	tags := maps.Clone(g.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	return &cloudwatchlogs.ListTagsForResourceOutput{Tags: tags}, nil
}
