package aws

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// judge holds AWS's own models, as botocore publishes them.
type judge struct {
	models map[string]*awsjson.Model // by service
	// old says that the models are older than ours: members, values and errors
	// that they don't know may be newer than they.
	old bool
}

var judges struct {
	once sync.Once
	*judge
}

// theJudge reads the models once for all tests.
func theJudge(t testing.TB) *judge {
	t.Helper()
	folder, version := botocore(t)
	judges.once.Do(func() {
		judges.judge = &judge{models: map[string]*awsjson.Model{}, old: version != modelVersion}
		for _, m := range modelFiles {
			model, err := awsjson.ParseModel(readModel(t, folder, m.source))
			if err != nil {
				t.Fatal(err)
			}
			judges.models[m.name] = model
		}
	})
	return judges.judge
}

// common are the errors that every action may have beside its own:
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/CommonErrors.html
var common = []string{"AccessDeniedException", "ThrottlingException", "ValidationException", "SerializationException", "ServerException", "ServiceUnavailable",
	"InvalidSignatureException", "IncompleteSignatureException", "MissingAuthenticationTokenException", "UnknownOperationException", "InternalFailure"}

// verdict lists what is wrong with a call: a request that was accepted or a
// reply that was given, against the model.
func (j *judge) verdict(service, action string, status int, request, reply []byte) []string {
	model := j.models[service]
	op, ok := model.Operations[action]
	if !ok {
		if status == 200 {
			return []string{"no such operation"}
		}
		return nil
	}
	var wrong []string
	check := func(what string, shape *awsjson.Ref, body []byte) {
		var value any
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v: %s", what, err, body))
			return
		}
		if shape == nil {
			return
		}
		for _, v := range model.Check(shape.Shape, value) {
			if j.old && (v.Kind == "unknown" || v.Kind == "enum") {
				continue
			}
			wrong = append(wrong, fmt.Sprintf("%s: %s %s is %q: %s", what, v.Kind, v.Path, v.Value, v.Text))
		}
	}
	if status == 200 {
		check("request", op.Input, request)
		check("reply", op.Output, reply)
		return wrong
	}
	if service == "batch" || service == "eks" { // the name of an error stands in a header there
		if status < 500 && status != 429 {
			check("error", &awsjson.Ref{Shape: "ClientException"}, reply)
		}
		return wrong
	}
	var e struct {
		Type string `json:"__type"`
	}
	if err := json.Unmarshal(reply, &e); err != nil || e.Type == "" {
		return append(wrong, fmt.Sprintf("error without a type: %s", reply))
	}
	i := slices.IndexFunc(op.Errors, func(r awsjson.Ref) bool { return r.Shape == e.Type })
	switch {
	case i >= 0:
		check("error", &awsjson.Ref{Shape: e.Type}, withoutType(reply))
	case !j.old && !slices.Contains(common, e.Type):
		wrong = append(wrong, "error "+e.Type+" is none of the operation's")
	}
	return wrong
}

// withoutType takes the members out that are the protocol's. Some models don't
// list the message either.
func withoutType(body []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return body
	}
	delete(members, "__type")
	delete(members, "message")
	out, err := json.Marshal(members)
	if err != nil {
		return body
	}
	return out
}

// judge checks every call that a test made.
func (c *cloud) judge(t testing.TB) {
	t.Helper()
	if _, err := findBotocore(); err != nil && os.Getenv("CI") != "true" {
		t.Logf("not judged by AWS's models: %v", err)
		return
	}
	j := theJudge(t)
	for _, call := range c.Calls().Calls("") {
		service, action, _ := strings.Cut(call.Action, ":")
		if call.Status == 0 || service == "sts" || service == "cloudwatch" || call.Status >= 500 {
			continue
		}
		for _, w := range j.verdict(service, action, call.Status, call.Request, call.Reply) {
			t.Errorf("botocore's model says of %s: %s", call.Action, w)
		}
	}
}

// TestJudge makes sure that the judge sees faults on both sides.
func TestJudge(t *testing.T) {
	j := theJudge(t)
	j = &judge{models: j.models} // strict, whatever the version
	for name, c := range map[string]struct {
		action         string
		status         int
		request, reply string
		want           string
	}{
		"right":            {"RunTask", 200, `{"taskDefinition":"a"}`, `{"tasks":[{"taskArn":"a","createdAt":1.5}],"failures":[]}`, ""},
		"missing":          {"RunTask", 200, `{}`, `{}`, "request: required taskDefinition"},
		"enum":             {"RunTask", 200, `{"taskDefinition":"a","launchType":"MOON"}`, `{}`, "request: enum launchType"},
		"unknown member":   {"RunTask", 200, `{"taskDefinition":"a"}`, `{"jobs":[]}`, "reply: unknown jobs"},
		"wrong type":       {"RunTask", 200, `{"taskDefinition":"a"}`, `{"tasks":[{"createdAt":"today"}]}`, "reply: type tasks.1.member.createdAt"},
		"stop code":        {"DescribeTasks", 200, `{"tasks":["a"]}`, `{"tasks":[{"stopCode":"Bored"}]}`, "reply: enum tasks.1.member.stopCode"},
		"foreign error":    {"RunTask", 400, `{}`, `{"__type":"NoSuchBucket","message":"m"}`, "error NoSuchBucket is none"},
		"its error":        {"RunTask", 400, `{}`, `{"__type":"ClusterNotFoundException","message":"m"}`, ""},
		"error without":    {"RunTask", 400, `{}`, `{"message":"m"}`, "without a type"},
		"unknown in error": {"RunTask", 400, `{}`, `{"__type":"ClusterNotFoundException","why":"m"}`, "error: unknown why"},
	} {
		got := strings.Join(j.verdict("ecs", c.action, c.status, []byte(c.request), []byte(c.reply)), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: verdict %q, want %q", name, got, c.want)
		}
	}
}
