// Package cloudwatch is the pocket cloud's CloudWatch: GetMetricData over what the
// other services measure. It speaks two protocols of the real one, of which AWS's
// clients choose: Smithy's RPC v2 with CBOR, and JSON 1.0. See
// https://smithy.io/2.0/additional-specs/protocols/smithy-rpc-v2.html and
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html.
package cloudwatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/schemas"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/aws/smithy-go/transport/http/protocol/rpcv2"
	"github.com/fxamacker/cbor/v2"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// Point is one measurement.
type Point struct {
	At    time.Time
	Value float64
}

// Metric is one series.
type Metric struct {
	Namespace, Name string
	Dimensions      map[string]string
}

// Service is CloudWatch of one account and region.
type Service struct {
	// Points returns the points of a metric, oldest first; none where there is no
	// such metric.
	Points func(m Metric) []Point
}

const pathPrefix = "/service/GraniteServiceVersion20100801/operation/"

// Route is the operation that a request's path names; ok is false for a path that
// isn't this service's.
func Route(path string) (action string, ok bool) { return strings.CutPrefix(path, pathPrefix) }

// Input returns a request's body as JSON, for the record.
func Input(body []byte) []byte {
	var in cloudwatch.GetMetricDataInput
	if cbor.Unmarshal(body, &in) != nil {
		return nil
	}
	out, err := json.Marshal(in)
	if err != nil {
		return nil
	}
	return out
}

// Do carries out a call in CBOR.
func (s *Service) Do(ctx context.Context, call awsjson.Call, body []byte) fault.Reply {
	var in cloudwatch.GetMetricDataInput
	mode, err := cbor.DecOptions{ExtraReturnErrors: cbor.ExtraDecErrorUnknownField}.DecMode()
	if err == nil {
		err = mode.Unmarshal(body, &in)
	}
	out, refused := s.do(call, &in, err)
	if refused != nil {
		return Fail(refused)
	}
	data, err := encode(ctx, out)
	if err != nil {
		return Fail(broken(err))
	}
	return reply(http.StatusOK, data)
}

// Prefix is what stands before the operation in X-Amz-Target, of a call in JSON.
const Prefix = "GraniteServiceVersion20100801"

// jsonInput has times as JSON 1.0 does, in seconds.
type jsonInput struct {
	cloudwatch.GetMetricDataInput
	StartTime, EndTime *float64
}

// DoJSON carries out a call in JSON 1.0.
func (s *Service) DoJSON(ctx context.Context, call awsjson.Call, body []byte) fault.Reply {
	var in jsonInput
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	err := dec.Decode(&in)
	for from, to := range map[*float64]**time.Time{in.StartTime: &in.GetMetricDataInput.StartTime, in.EndTime: &in.GetMetricDataInput.EndTime} {
		if from != nil {
			at := time.UnixMicro(int64(*from * 1e6)).UTC()
			*to = &at
		}
	}
	out, refused := s.do(call, &in.GetMetricDataInput, err)
	if refused != nil {
		return FailJSON(refused)
	}
	data, err := awsjson.Encode(ctx, schemas.GetMetricData, out)
	if err != nil {
		return FailJSON(broken(err))
	}
	return fault.Reply{Status: http.StatusOK, Header: http.Header{"Content-Type": {contentJSON}}, Body: data}
}

const contentJSON = "application/x-amz-json-1.0"

// do carries out what was decoded, with its error.
func (s *Service) do(call awsjson.Call, in *cloudwatch.GetMetricDataInput, err error) (*cloudwatch.GetMetricDataOutput, *awsjson.Error) {
	if call.Action != "GetMetricData" {
		return nil, awsjson.Errorf("UnknownOperationException", "The pocket cloud doesn't offer cloudwatch:%s.", call.Action)
	}
	if err != nil {
		return nil, awsjson.Errorf("SerializationException", "%v", err)
	}
	out, err := s.getMetricData(in)
	var refused *awsjson.Error
	if errors.As(err, &refused) {
		return nil, refused
	}
	return out, nil
}

func broken(err error) *awsjson.Error {
	return &awsjson.Error{Code: "InternalServiceError", Message: err.Error(), Status: http.StatusInternalServerError}
}

// FailJSON writes a refusal in JSON 1.0.
func FailJSON(e *awsjson.Error) fault.Reply {
	r := e.Reply()
	r.Header.Set("Content-Type", contentJSON)
	return r
}

// Fail writes a refusal in CBOR.
func Fail(e *awsjson.Error) fault.Reply {
	status := e.Status
	if status == 0 {
		status = http.StatusBadRequest
	}
	data, err := cbor.Marshal(map[string]string{"__type": "com.amazonaws.cloudwatch#" + e.Code, "message": e.Message})
	if err != nil {
		panic("cloudwatch: " + err.Error()) // strings
	}
	r := reply(status, data)
	if e.Rule != "" {
		r.Header.Set(awsjson.RuleHeader, e.Rule)
	}
	return r
}

func reply(status int, data []byte) fault.Reply {
	return fault.Reply{Status: status, Header: http.Header{"Content-Type": {"application/cbor"}, "Smithy-Protocol": {"rpc-v2-cbor"}}, Body: data}
}

// encode writes an output with the SDK's encoder.
func encode(ctx context.Context, out smithy.Serializable) ([]byte, error) {
	req := smithyhttp.NewStackRequest().(*smithyhttp.Request)
	req.URL = &url.URL{Scheme: "http", Host: "pocket"}
	op := smithy.NewOperationSchema(schemas.GetMetricData, schemas.GetMetricDataOutput, nil)
	if err := rpcv2.NewCBOR(smithy.NewServiceSchema(schemas.GetMetricData, "")).SerializeRequest(ctx, op, out, req); err != nil {
		return nil, fmt.Errorf("encode the reply of GetMetricData: %w", err)
	}
	return io.ReadAll(req.GetStream())
}

// maxQueries is how many series one call may ask for.
const maxQueries = 500

func (s *Service) getMetricData(in *cloudwatch.GetMetricDataInput) (*cloudwatch.GetMetricDataOutput, error) {
	switch {
	case in.StartTime == nil || in.EndTime == nil || len(in.MetricDataQueries) == 0:
		return nil, refuse(ruleRequired, "MetricDataQueries, StartTime and EndTime must be given.")
	case !in.StartTime.Before(*in.EndTime):
		return nil, refuse(ruleTimes, "The parameter StartTime must be less than the parameter EndTime.")
	case len(in.MetricDataQueries) > maxQueries:
		return nil, refuse(ruleQueries, "The collection MetricDataQueries must not have a size greater than %d.", maxQueries)
	case in.NextToken != nil:
		return nil, refuse(ruleToken, "The value for parameter NextToken is not valid.")
	}
	out := &cloudwatch.GetMetricDataOutput{Messages: []types.MessageData{}, MetricDataResults: []types.MetricDataResult{}}
	seen := map[string]bool{}
	for _, q := range in.MetricDataQueries {
		if err := checkQuery(q, seen); err != nil {
			return nil, err
		}
		m := Metric{Namespace: *q.MetricStat.Metric.Namespace, Name: *q.MetricStat.Metric.MetricName, Dimensions: map[string]string{}}
		for _, d := range q.MetricStat.Metric.Dimensions {
			m.Dimensions[*d.Name] = *d.Value
		}
		r := types.MetricDataResult{Id: q.Id, Label: q.MetricStat.Metric.MetricName, StatusCode: types.StatusCodeComplete, Timestamps: []time.Time{}, Values: []float64{}}
		for _, p := range s.Points(m) {
			if p.At.Before(*in.StartTime) || !p.At.Before(*in.EndTime) {
				continue
			}
			r.Timestamps, r.Values = append(r.Timestamps, p.At), append(r.Values, p.Value)
		}
		if in.ScanBy != types.ScanByTimestampAscending { // the newest first, unless told otherwise
			for i, j := 0, len(r.Values)-1; i < j; i, j = i+1, j-1 {
				r.Timestamps[i], r.Timestamps[j] = r.Timestamps[j], r.Timestamps[i]
				r.Values[i], r.Values[j] = r.Values[j], r.Values[i]
			}
		}
		out.MetricDataResults = append(out.MetricDataResults, r)
	}
	return out, nil
}

// checkQuery checks one query.
func checkQuery(q types.MetricDataQuery, seen map[string]bool) error {
	id := ""
	if q.Id != nil {
		id = *q.Id
	}
	m := q.MetricStat
	switch {
	case id == "" || id[0] < 'a' || id[0] > 'z' || seen[id]:
		return refuse(ruleID, "The value for parameter Id is not unique, or doesn't begin with a lowercase letter.")
	case q.Expression != nil:
		return refuse(ruleExpression, "The pocket cloud doesn't offer expressions.")
	case m == nil || m.Metric == nil || m.Metric.Namespace == nil || m.Metric.MetricName == nil || m.Stat == nil || m.Period == nil:
		return refuse(ruleRequired, "A query has a MetricStat with a metric, a period and a statistic.")
	case *m.Stat != "Average" && *m.Stat != "Maximum" && *m.Stat != "Minimum":
		return refuse(ruleExpression, "The pocket cloud doesn't offer the statistic %s.", *m.Stat)
	}
	seen[id] = true
	switch p := *m.Period; {
	case p == 1, p == 5, p == 10, p == 20, p == 30, p > 0 && p%60 == 0:
		return nil
	}
	return refuse(rulePeriod, "The period must be 1, 5, 10, 20, 30, or a multiple of 60.")
}
