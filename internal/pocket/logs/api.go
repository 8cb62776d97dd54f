package logs

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/schemas"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// New returns the service, without groups.
func New(o Options) (*Service, error) {
	model, err := awsjson.ParseModel(modelData)
	if err != nil {
		return nil, err
	}
	s := &Service{account: o.Account, region: o.Region, now: o.Now, groups: map[string]*group{},
		api: awsjson.Service{Prefix: "Logs_20140328", Name: "logs", Model: model, Invalid: invalid}}
	s.api.Offer(
		awsjson.Handle(schemas.CreateLogGroup, schemas.CreateLogGroupRequest, s.createLogGroup),
		awsjson.Handle(schemas.DeleteLogGroup, schemas.DeleteLogGroupRequest, s.deleteLogGroup),
		awsjson.Handle(schemas.DescribeLogGroups, schemas.DescribeLogGroupsRequest, s.describeLogGroups),
		awsjson.Handle(schemas.PutRetentionPolicy, schemas.PutRetentionPolicyRequest, s.putRetentionPolicy),
		awsjson.Handle(schemas.DeleteRetentionPolicy, schemas.DeleteRetentionPolicyRequest, s.deleteRetentionPolicy),
		awsjson.Handle(schemas.TagResource, schemas.TagResourceRequest, s.tagResource),
		awsjson.Handle(schemas.UntagResource, schemas.UntagResourceRequest, s.untagResource),
		awsjson.Handle(schemas.ListTagsForResource, schemas.ListTagsForResourceRequest, s.listTagsForResource),
		awsjson.Handle(schemas.CreateLogStream, schemas.CreateLogStreamRequest, s.createLogStream),
		awsjson.Handle(schemas.DescribeLogStreams, schemas.DescribeLogStreamsRequest, s.describeLogStreams),
		awsjson.Handle(schemas.PutLogEvents, schemas.PutLogEventsRequest, s.putLogEvents),
		awsjson.Handle(schemas.GetLogEvents, schemas.GetLogEventsRequest, s.getLogEvents),
		awsjson.Handle(schemas.FilterLogEvents, schemas.FilterLogEventsRequest, s.filterLogEvents),
	)
	return s, nil
}

// API returns the operations.
func (s *Service) API() *awsjson.Service { return &s.api }

func invalid(v awsjson.Violation) *awsjson.Error {
	return awsjson.Errorf("InvalidParameterException", "1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: %s", v.Value, v.Path, v.Text)
}

// groupName takes a group's name or ARN, of which exactly one must be given.
func (s *Service) groupName(name, identifier *string) (string, error) {
	switch {
	case (name == nil) == (identifier == nil):
		return "", refuse(ruleOneName, "Exactly one of logGroupName and logGroupIdentifier must be specified.")
	case name != nil:
		return *name, nil
	}
	id := strings.TrimSuffix(*identifier, ":*")
	if !strings.HasPrefix(id, "arn:") {
		return id, nil
	}
	bare, ok := strings.CutPrefix(id, s.groupARN(""))
	if !ok {
		return "", noGroup()
	}
	return bare, nil
}

func (s *Service) createLogGroup(_ context.Context, _ awsjson.Call, in *cloudwatchlogs.CreateLogGroupInput) (*cloudwatchlogs.CreateLogGroupOutput, error) {
	if err := checkTags(nil, in.Tags); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.groups[*in.LogGroupName]; ok {
		return nil, refuse(ruleGroupExists, "The specified log group already exists")
	}
	s.groups[*in.LogGroupName] = &group{Name: *in.LogGroupName, Created: milliseconds(s.now()), Class: in.LogGroupClass, Tags: maps.Clone(in.Tags), Streams: map[string]*stream{}}
	return &cloudwatchlogs.CreateLogGroupOutput{}, nil
}

func (s *Service) deleteLogGroup(_ context.Context, _ awsjson.Call, in *cloudwatchlogs.DeleteLogGroupInput) (*cloudwatchlogs.DeleteLogGroupOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.groups[*in.LogGroupName]; !ok {
		return nil, noGroup()
	}
	delete(s.groups, *in.LogGroupName)
	return &cloudwatchlogs.DeleteLogGroupOutput{}, nil
}

// retentions returns the days that may be set:
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
func retentions() []int32 {
	return []int32{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}
}

func (s *Service) putRetentionPolicy(_ context.Context, _ awsjson.Call, in *cloudwatchlogs.PutRetentionPolicyInput) (*cloudwatchlogs.PutRetentionPolicyOutput, error) {
	if in.RetentionInDays == nil || !slices.Contains(retentions(), *in.RetentionInDays) {
		return nil, refuse(ruleRetention, "RetentionInDays must be one of %v", retentions())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.groups[*in.LogGroupName]
	if !ok {
		return nil, noGroup()
	}
	g.Retention = in.RetentionInDays
	return &cloudwatchlogs.PutRetentionPolicyOutput{}, nil
}

func (s *Service) deleteRetentionPolicy(_ context.Context, _ awsjson.Call, in *cloudwatchlogs.DeleteRetentionPolicyInput) (*cloudwatchlogs.DeleteRetentionPolicyOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.groups[*in.LogGroupName]
	if !ok {
		return nil, noGroup()
	}
	g.Retention = nil
	return &cloudwatchlogs.DeleteRetentionPolicyOutput{}, nil
}

func (s *Service) createLogStream(_ context.Context, _ awsjson.Call, in *cloudwatchlogs.CreateLogStreamInput) (*cloudwatchlogs.CreateLogStreamOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.groups[*in.LogGroupName]
	if !ok {
		return nil, noGroup()
	}
	if _, ok := g.Streams[*in.LogStreamName]; ok {
		return nil, refuse(ruleStreamExists, "The specified log stream already exists")
	}
	g.open(*in.LogStreamName, s.now(), s.knobs)
	return &cloudwatchlogs.CreateLogStreamOutput{}, nil
}

// maxDescribe is both the default and the bound of a page of a listing.
const maxDescribe = 50

// slice cuts one page out of sorted names; a token is the last name before it.
func slice(all []string, after *string, limit *int32) (page []string, next *string) {
	if after != nil {
		i, found := slices.BinarySearch(all, *after)
		if found {
			i++
		}
		all = all[i:]
	}
	n := maxDescribe
	if limit != nil {
		n = int(*limit)
	}
	if len(all) <= n {
		return all, nil
	}
	return all[:n], &all[n-1]
}

func (s *Service) describeLogGroups(_ context.Context, _ awsjson.Call, in *cloudwatchlogs.DescribeLogGroupsInput) (*cloudwatchlogs.DescribeLogGroupsOutput, error) {
	if in.LogGroupNamePrefix != nil && in.LogGroupNamePattern != nil {
		return nil, refuse(rulePrefix, "LogGroup name prefix and LogGroup name pattern are mutually exclusive parameters.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var match []string
	for _, name := range names(s.groups) {
		if (in.LogGroupNamePrefix == nil || strings.HasPrefix(name, *in.LogGroupNamePrefix)) &&
			(in.LogGroupNamePattern == nil || strings.Contains(strings.ToLower(name), strings.ToLower(*in.LogGroupNamePattern))) &&
			(len(in.LogGroupIdentifiers) == 0 || slices.Contains(in.LogGroupIdentifiers, name) || slices.Contains(in.LogGroupIdentifiers, s.groupARN(name))) {
			match = append(match, name)
		}
	}
	out := &cloudwatchlogs.DescribeLogGroupsOutput{LogGroups: []types.LogGroup{}}
	page, next := slice(match, in.NextToken, in.Limit)
	out.NextToken = next
	for _, name := range page {
		g := s.groups[name]
		arn, bare, filters, size := s.groupARN(name)+":*", s.groupARN(name), int32(0), int64(0)
		for _, st := range g.Streams {
			for _, e := range st.Events {
				size += int64(len(e.Text) + overhead)
			}
		}
		out.LogGroups = append(out.LogGroups, types.LogGroup{Arn: &arn, LogGroupArn: &bare, LogGroupName: &g.Name, CreationTime: &g.Created,
			MetricFilterCount: &filters, RetentionInDays: g.Retention, StoredBytes: &size, LogGroupClass: cmp.Or(g.Class, types.LogGroupClassStandard)})
	}
	return out, nil
}

func (s *Service) describeLogStreams(_ context.Context, _ awsjson.Call, in *cloudwatchlogs.DescribeLogStreamsInput) (*cloudwatchlogs.DescribeLogStreamsOutput, error) {
	name, err := s.groupName(in.LogGroupName, in.LogGroupIdentifier)
	if err != nil {
		return nil, err
	}
	byTime := in.OrderBy == types.OrderByLastEventTime
	if byTime && in.LogStreamNamePrefix != nil {
		return nil, refuse(ruleOrderBy, "Cannot order by LastEventTime with a logStreamNamePrefix.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.groups[name]
	if !ok {
		return nil, noGroup()
	}
	now := milliseconds(s.now())
	var match []string
	for _, n := range names(g.Streams) {
		if g.Streams[n].Seen <= now && (in.LogStreamNamePrefix == nil || strings.HasPrefix(n, *in.LogStreamNamePrefix)) {
			match = append(match, n)
		}
	}
	page, next := slice(match, in.NextToken, in.Limit)
	out := &cloudwatchlogs.DescribeLogStreamsOutput{LogStreams: []types.LogStream{}, NextToken: next}
	for _, n := range page {
		st := g.Streams[n]
		arn := s.groupARN(name) + ":log-stream:" + n
		desc := types.LogStream{Arn: &arn, LogStreamName: &st.Name, CreationTime: &st.Created}
		if len(st.Events) > 0 {
			first, last, ingested := st.Events[0].At, st.Events[len(st.Events)-1].At, st.Last
			desc.FirstEventTimestamp, desc.LastEventTimestamp, desc.LastIngestionTime = &first, &last, &ingested
		}
		out.LogStreams = append(out.LogStreams, desc)
	}
	slices.SortStableFunc(out.LogStreams, func(a, b types.LogStream) int {
		if byTime && a.LastEventTimestamp != nil && b.LastEventTimestamp != nil {
			return int(*a.LastEventTimestamp - *b.LastEventTimestamp)
		}
		return 0
	})
	if in.Descending != nil && *in.Descending {
		slices.Reverse(out.LogStreams)
	}
	return out, nil
}

// The bounds of PutLogEvents:
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html
const (
	maxBatchBytes = 1_048_576
	maxSpan       = 24 * time.Hour
	maxFuture     = 2 * time.Hour
	maxPast       = 14 * 24 * time.Hour
)

func (s *Service) putLogEvents(_ context.Context, _ awsjson.Call, in *cloudwatchlogs.PutLogEventsInput) (*cloudwatchlogs.PutLogEventsOutput, error) {
	size := 0
	for i, e := range in.LogEvents {
		size += len(*e.Message) + overhead
		if i > 0 && *e.Timestamp < *in.LogEvents[i-1].Timestamp {
			return nil, refuse(ruleOrder, "Log events in a single PutLogEvents request must be in chronological order.")
		}
	}
	if size > maxBatchBytes {
		return nil, refuse(ruleSize, "Upload too large: %d bytes exceeds limit of %d", size, maxBatchBytes)
	}
	if n := len(in.LogEvents); n > 0 && *in.LogEvents[n-1].Timestamp-*in.LogEvents[0].Timestamp > maxSpan.Milliseconds() {
		return nil, refuse(ruleSpan, "The batch of log events in a single PutLogEvents request cannot span more than 24 hours.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.groups[*in.LogGroupName]
	if !ok {
		return nil, noGroup()
	}
	st, ok := g.Streams[*in.LogStreamName]
	if !ok {
		return nil, noStream()
	}
	now := s.now()
	out := &cloudwatchlogs.PutLogEventsOutput{}
	rejected := func() *types.RejectedLogEventsInfo {
		if out.RejectedLogEventsInfo == nil {
			out.RejectedLogEventsInfo = &types.RejectedLogEventsInfo{}
		}
		return out.RejectedLogEventsInfo
	}
	for i, e := range in.LogEvents {
		at := time.UnixMilli(*e.Timestamp)
		switch {
		case at.After(now.Add(maxFuture)):
			if first := int32(i); rejected().TooNewLogEventStartIndex == nil {
				rejected().TooNewLogEventStartIndex = &first
			}
		case at.Before(now.Add(-maxPast)):
			last := int32(i + 1)
			rejected().TooOldLogEventEndIndex = &last
		default:
			st.add(at, now, *e.Message, s.knobs)
		}
	}
	return out, nil
}
