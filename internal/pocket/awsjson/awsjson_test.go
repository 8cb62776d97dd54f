package awsjson

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/schemas"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

const model = `{
 "operations": {"RunTask": {"input": {"shape": "In"}}, "Plain": {"input": {"shape": "Plain"}}},
 "shapes": {
  "In": {"type": "structure", "required": ["taskDefinition"], "members": {"taskDefinition": {"shape": "Name"}, "count": {"shape": "Count"},
   "launchType": {"shape": "Launch"}, "tags": {"shape": "Tags"}, "enableECSManagedTags": {"shape": "Flag"}}},
  "Plain": {"type": "structure", "members": {"Map": {"shape": "Map"}, "At": {"shape": "Time"}, "Blob": {"shape": "Blob"}, "Odd": {"shape": "Odd"}}},
  "Name": {"type": "string", "min": 1, "max": 5, "pattern": "[a-zé]*"},
  "Odd": {"type": "string", "pattern": "(?!x)y"},
  "Count": {"type": "integer", "min": 1, "max": 10},
  "Launch": {"type": "string", "enum": ["EC2", "FARGATE"]},
  "Tags": {"type": "list", "member": {"shape": "Tag"}, "max": 2},
  "Tag": {"type": "structure", "required": ["key"], "members": {"key": {"shape": "Name"}, "value": {"shape": "Name"}}},
  "Flag": {"type": "boolean"}, "Time": {"type": "timestamp"}, "Blob": {"type": "blob"},
  "Map": {"type": "map", "key": {"shape": "Name"}, "value": {"shape": "Count"}, "max": 2}
 }}`

func service(t testing.TB) *Service {
	t.Helper()
	m, err := ParseModel([]byte(model))
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{Prefix: "P", Name: "p", Model: m, Invalid: func(v Violation) *Error { return Errorf("Invalid", "%s: %s", v.Path, v.Text) }}
	s.Offer(Handle(schemas.RunTask, schemas.RunTaskRequest, func(_ context.Context, call Call, in *ecs.RunTaskInput) (*ecs.RunTaskOutput, error) {
		if len(call.Body) == 0 {
			t.Error("the call has no body")
		}
		if *in.TaskDefinition == "boom" {
			return nil, context.DeadlineExceeded
		}
		at := time.Unix(1700000000, 500_000_000)
		return &ecs.RunTaskOutput{Tasks: []types.Task{{TaskArn: in.TaskDefinition, CreatedAt: &at}}, Failures: []types.Failure{}}, nil
	}), HandlePlain("Plain", func(context.Context, Call, *struct{ Map map[string]int }) (*struct{ N int }, error) {
		return &struct{ N int }{7}, nil
	}))
	return s
}

// TestService decodes strictly, and words what goes wrong.
func TestService(t *testing.T) {
	s := service(t)
	for name, k := range map[string]struct {
		action, body string
		status       int
		want         string
	}{
		"right":       {"RunTask", `{"taskDefinition":"é","count":10,"tags":[{"key":"a"}],"enableECSManagedTags":true}`, 200, `{"failures":[],"tasks":[{"createdAt":1700000000.5,"taskArn":"é"}]}`},
		"null member": {"RunTask", `{"taskDefinition":"a","count":null}`, 200, `"taskArn":"a"`},
		// The SDK's schema knows this member, the older model doesn't.
		"newer member":  {"RunTask", `{"taskDefinition":"a","startedBy":"me"}`, 200, `"taskArn":"a"`},
		"no JSON":       {"RunTask", `{`, 400, "SerializationException"},
		"two values":    {"RunTask", `{"taskDefinition":"a"} {}`, 400, "goes on after"},
		"null":          {"RunTask", `null`, 400, "no JSON object"},
		"unknown":       {"RunTask", `{"taskDefinition":"a","x":1}`, 400, `unknown member \"x\"`},
		"case":          {"RunTask", `{"TaskDefinition":"a"}`, 400, "unknown member"},
		"deep":          {"RunTask", `{"taskDefinition":"a","overrides":{"containerOverrides":[{"command":"x"}]}}`, 400, "overrides.containerOverrides[0].command: got a string, want a list"},
		"fraction":      {"RunTask", `{"taskDefinition":"a","count":1.5}`, 400, "want a whole number of 32 bits"},
		"required":      {"RunTask", `{}`, 400, "taskDefinition: Member must not be null"},
		"short":         {"RunTask", `{"taskDefinition":""}`, 400, "length greater than or equal to 1"},
		"long":          {"RunTask", `{"taskDefinition":"éééééé"}`, 400, "length less than or equal to 5"},
		"pattern":       {"RunTask", `{"taskDefinition":"A"}`, 400, "regular expression pattern"},
		"low":           {"RunTask", `{"taskDefinition":"a","count":0}`, 400, "value greater than or equal to 1"},
		"high":          {"RunTask", `{"taskDefinition":"a","count":11}`, 400, "value less than or equal to 10"},
		"enum":          {"RunTask", `{"taskDefinition":"a","launchType":"x"}`, 400, "enum value set"},
		"many":          {"RunTask", `{"taskDefinition":"a","tags":[{"key":"a"},{"key":"b"},{"key":"c"}]}`, 400, "tags: Member must have length"},
		"in a list":     {"RunTask", `{"taskDefinition":"a","tags":[{"value":"a"}]}`, 400, "tags.1.member.key: Member must not be null"},
		"null in list":  {"RunTask", `{"taskDefinition":"a","tags":[null]}`, 400, "tags[0]: a list has no null"},
		"plain null":    {"Plain", `{"Map":{"a":null}}`, 400, "SerializationException"},
		"union":         {"RunTask", `{"taskDefinition":"a","overrides":{"containerOverrides":[{"resourceRequirements":[{"type":"GPU","value":"1","sharingStrategy":{}}]}]}}`, 400, "ClientException"},
		"no operation":  {"Nope", `{}`, 400, "UnknownOperationException"},
		"broken":        {"RunTask", `{"taskDefinition":"boom"}`, 500, "ServerException"},
		"plain":         {"Plain", `{"Map":{"a":1}}`, 200, `{"N":7}`},
		"plain unknown": {"Plain", `{"Nap":1}`, 400, "SerializationException"},
		"plain type":    {"Plain", `{"Map":[]}`, 400, "SerializationException"},
		"plain value":   {"Plain", `{"Map":{"a":99}}`, 400, "Map.a.value: Member must have value"},
		"plain key":     {"Plain", `{"Map":{"A":1}}`, 400, "Map.key: Member must satisfy regular"},
		"plain time":    {"Plain", `{"At":"now"}`, 400, "SerializationException"},
		"plain blob":    {"Plain", `{"Blob":7}`, 400, "SerializationException"},
		// Go has no look-ahead: such a pattern isn't checked.
		"plain pattern": {"Plain", `{"Odd":"zzz"}`, 200, "7"},
	} {
		reply := s.Do(t.Context(), Call{Action: k.action}, []byte(k.body))
		if reply.Status != k.status || !strings.Contains(string(reply.Body), k.want) {
			t.Errorf("%s: got %d %s, want %d and %s", name, reply.Status, reply.Body, k.status, k.want)
		}
		if !json.Valid(reply.Body) || reply.Header.Get("Content-Type") != "application/x-amz-json-1.1" {
			t.Errorf("%s: %s is no reply of the protocol", name, reply.Body)
		}
	}
	if err := s.Decodes("Nope", nil); err == nil {
		t.Error("an unknown operation decodes")
	}
	if _, err := ParseModel([]byte("{")); err == nil {
		t.Error("a broken model parses")
	}
}

// TestError carries its code, text, rule and fields.
func TestError(t *testing.T) {
	e := &Error{Code: "C", Message: "m", Status: 418, Rule: "r", Fields: map[string]any{"ids": []string{"a"}}}
	reply := e.Reply()
	if string(reply.Body) != `{"__type":"C","ids":["a"],"message":"m"}` || reply.Status != 418 || reply.Header.Get(RuleHeader) != "r" || e.Error() != "C: m" {
		t.Errorf("%d %s %v", reply.Status, reply.Body, reply.Header)
	}
}

// FuzzDo sends any body: the answer is JSON, and never a fault of the server.
func FuzzDo(f *testing.F) {
	f.Add([]byte(`{"taskDefinition":"a","tags":[{"key":"a"}],"count":3}`))
	f.Add([]byte(`{"taskDefinition":null,"overrides":{"containerOverrides":[{"environment":[{"name":"x"}]}]}}`))
	f.Add([]byte("{\"taskDefinition\":\"\\ud800\xff\"}"))
	s := service(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) == 0 || strings.Contains(string(body), "boom") {
			return
		}
		for _, action := range []string{"RunTask", "Plain"} {
			if reply := s.Do(t.Context(), Call{Action: action}, body); reply.Status >= 500 || !json.Valid(reply.Body) {
				t.Errorf("%s of %q: %d %s", action, body, reply.Status, reply.Body)
			}
		}
	})
}

// FuzzReadSignature reads any header, and takes none with a foreign scope.
func FuzzReadSignature(f *testing.F) {
	f.Add("AWS4-HMAC-SHA256 Credential=AKID/20231114/eu-central-1/ecs/aws4_request, SignedHeaders=host;x-amz-date, Signature="+strings.Repeat("0a", 32), "20231114T221320Z")
	f.Add("AWS4-HMAC-SHA256 =,=", "20231114T221320Z")
	f.Fuzz(func(t *testing.T, header, date string) {
		r := &http.Request{Header: http.Header{"Authorization": {header}, "X-Amz-Date": {date}}}
		scope, err := ReadSignature(r, time.Unix(1700000000, 0))
		if err == nil && (scope.AccessKey == "" || scope.Region == "" || scope.Service == "" || !strings.Contains(header, scope.AccessKey+"/")) {
			t.Errorf("%q gives %+v", header, scope)
		}
	})
}
