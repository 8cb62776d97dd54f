package batch

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// routes are the operations by the last part of their path. All are POSTs.
func routes() map[string]string {
	return map[string]string{
		"registerjobdefinition": "RegisterJobDefinition", "deregisterjobdefinition": "DeregisterJobDefinition", "describejobdefinitions": "DescribeJobDefinitions",
		"submitjob": "SubmitJob", "describejobs": "DescribeJobs", "listjobs": "ListJobs", "terminatejob": "TerminateJob", "canceljob": "CancelJob",
		"describejobqueues": "DescribeJobQueues", "describecomputeenvironments": "DescribeComputeEnvironments",
	}
}

// pathPrefix is what all operations' paths begin with.
const pathPrefix = "/v1/"

// Serves says whether a path is one of AWS Batch's.
func Serves(path string) bool { return strings.HasPrefix(path, pathPrefix) }

// Route finds a request's operation and puts its whole input into one JSON
// object: what stands in the path and the query, and the body. See
// https://smithy.io/2.0/aws/protocols/aws-restjson1-protocol.html.
func Route(r *http.Request, body []byte) (action string, input []byte, err *awsjson.Error) {
	name := strings.TrimPrefix(r.URL.EscapedPath(), pathPrefix)
	if arn, ok := strings.CutPrefix(name, "tags/"); ok {
		return routeTags(r, arn, body)
	}
	action, ok := routes()[name]
	if !ok || r.Method != http.MethodPost {
		return "", nil, noRoute(r)
	}
	if len(body) == 0 {
		body = []byte("{}")
	}
	return action, body, nil
}

func noRoute(r *http.Request) *awsjson.Error {
	return &awsjson.Error{Code: "UnknownOperationException", Message: fmt.Sprintf("The pocket cloud doesn't offer %s %s.", r.Method, r.URL.Path), Status: http.StatusNotFound}
}

// routeTags is for the three operations whose path has the resource's ARN.
func routeTags(r *http.Request, escaped string, body []byte) (action string, input []byte, err *awsjson.Error) {
	actions := map[string]string{http.MethodPost: "TagResource", http.MethodDelete: "UntagResource", http.MethodGet: "ListTagsForResource"}
	arn, uerr := url.PathUnescape(escaped)
	if action = actions[r.Method]; action == "" || uerr != nil {
		return "", nil, noRoute(r)
	}
	members := map[string]any{}
	switch {
	case r.Method == http.MethodDelete:
		members["tagKeys"] = r.URL.Query()["tagKeys"]
	case len(body) > 0:
		if jerr := json.Unmarshal(body, &members); jerr != nil || members == nil {
			return "", nil, awsjson.Errorf("SerializationException", "the body is no JSON object: %v", jerr)
		}
		if _, ok := members["resourceArn"]; ok {
			return "", nil, awsjson.Errorf("SerializationException", "resourceArn stands in the path, not in the body")
		}
	}
	members["resourceArn"] = arn
	input, jerr := json.Marshal(members)
	if jerr != nil {
		return "", nil, awsjson.Errorf("SerializationException", "%v", jerr)
	}
	return action, input, nil
}

// Fail writes an error as AWS Batch does. A call beyond the rate has a name and
// a status of its own there; see https://github.com/ASFHyP3/hyp3/issues/1676.
func Fail(e *awsjson.Error) fault.Reply {
	if e.Code == "ThrottlingException" {
		e = &awsjson.Error{Code: "TooManyRequestsException", Message: "Too Many Requests", Status: http.StatusTooManyRequests}
	}
	return awsjson.Rest(e.Reply())
}

// invalid words the refusal of an input that breaks the model.
func invalid(v awsjson.Violation) *awsjson.Error {
	return awsjson.Errorf(client, "Error executing request, Exception : %s: %s", v.Path, v.Text)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
