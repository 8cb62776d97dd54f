package aws

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	protocol "github.com/aws/smithy-go/transport/http/protocol/awsjson"
	"github.com/google/go-cmp/cmp"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// output is what the SDK makes of a reply.
type output interface {
	smithy.Serializable
	smithy.Deserializable
}

const sharing = `"sharingStrategy":{"nvidiaMps":{"maxComputePercent":1,"memory":1}},`

// TestSnapshots holds our decoder and encoder against the official snapshots
// that come with AWS's SDK: we take every member of the requests, and what the
// SDK reads from the replies we write back as the same JSON.
func TestSnapshots(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short")
	}
	server := newServer(t, Options{})
	for _, s := range []struct {
		name    string
		outputs map[string]output
	}{
		{"ecs", map[string]output{
			"CreateCluster": &ecs.CreateClusterOutput{}, "DeleteCluster": &ecs.DeleteClusterOutput{}, "DescribeClusters": &ecs.DescribeClustersOutput{},
			"ListClusters": &ecs.ListClustersOutput{}, "RegisterTaskDefinition": &ecs.RegisterTaskDefinitionOutput{},
			"DescribeTaskDefinition": &ecs.DescribeTaskDefinitionOutput{}, "DeregisterTaskDefinition": &ecs.DeregisterTaskDefinitionOutput{},
			"DeleteTaskDefinitions": &ecs.DeleteTaskDefinitionsOutput{}, "ListTaskDefinitions": &ecs.ListTaskDefinitionsOutput{},
			"ListTaskDefinitionFamilies": &ecs.ListTaskDefinitionFamiliesOutput{}, "RunTask": &ecs.RunTaskOutput{}, "DescribeTasks": &ecs.DescribeTasksOutput{},
			"ListTasks": &ecs.ListTasksOutput{}, "StopTask": &ecs.StopTaskOutput{}, "TagResource": &ecs.TagResourceOutput{},
			"UntagResource": &ecs.UntagResourceOutput{}, "ListTagsForResource": &ecs.ListTagsForResourceOutput{},
			"CreateService": &ecs.CreateServiceOutput{}, "UpdateService": &ecs.UpdateServiceOutput{}, "DeleteService": &ecs.DeleteServiceOutput{},
			"DescribeServices": &ecs.DescribeServicesOutput{}, "ListServices": &ecs.ListServicesOutput{}, "ExecuteCommand": &ecs.ExecuteCommandOutput{}}},
		{"applicationautoscaling", map[string]output{
			"RegisterScalableTarget": &applicationautoscaling.RegisterScalableTargetOutput{}, "DeregisterScalableTarget": &applicationautoscaling.DeregisterScalableTargetOutput{},
			"DescribeScalableTargets": &applicationautoscaling.DescribeScalableTargetsOutput{}}},
		{"cloudwatchlogs", map[string]output{
			"CreateLogGroup": &cloudwatchlogs.CreateLogGroupOutput{}, "DeleteLogGroup": &cloudwatchlogs.DeleteLogGroupOutput{},
			"DescribeLogGroups": &cloudwatchlogs.DescribeLogGroupsOutput{}, "PutRetentionPolicy": &cloudwatchlogs.PutRetentionPolicyOutput{},
			"DeleteRetentionPolicy": &cloudwatchlogs.DeleteRetentionPolicyOutput{}, "TagResource": &cloudwatchlogs.TagResourceOutput{},
			"UntagResource": &cloudwatchlogs.UntagResourceOutput{}, "ListTagsForResource": &cloudwatchlogs.ListTagsForResourceOutput{},
			"CreateLogStream": &cloudwatchlogs.CreateLogStreamOutput{}, "DescribeLogStreams": &cloudwatchlogs.DescribeLogStreamsOutput{},
			"PutLogEvents": &cloudwatchlogs.PutLogEventsOutput{}, "GetLogEvents": &cloudwatchlogs.GetLogEventsOutput{},
			"FilterLogEvents": &cloudwatchlogs.FilterLogEventsOutput{}}},
		{"secretsmanager", map[string]output{
			"CreateSecret": &secretsmanager.CreateSecretOutput{}, "PutSecretValue": &secretsmanager.PutSecretValueOutput{},
			"GetSecretValue": &secretsmanager.GetSecretValueOutput{}, "DescribeSecret": &secretsmanager.DescribeSecretOutput{},
			"DeleteSecret": &secretsmanager.DeleteSecretOutput{}}},
	} {
		folder := module(t, "github.com/aws/aws-sdk-go-v2/service/"+s.name)
		var service *awsjson.Service
		for _, o := range server.services {
			if strings.ReplaceAll(o.Name, "-", "") == s.name || o.Name == "logs" && s.name == "cloudwatchlogs" {
				service = o
			}
		}
		for _, action := range service.Actions() {
			if s.outputs[action] == nil {
				t.Errorf("%s: no output for %s", s.name, action)
			}
		}
		for action, out := range s.outputs {
			_, body := snapshot(t, filepath.Join(folder, "request_snapshot", action+".request.snap"))
			// The snapshots' made-up values may break a pattern, but have every
			// member in its type.
			body = bytes.ReplaceAll(body, []byte(sharing), nil) // a union, of GPUs, which are refused
			if err := service.Decodes(action, body); err != nil && strings.Contains(err.Error(), "SerializationException") {
				t.Errorf("%s: the official request isn't taken: %v", action, err)
			}
			header, body := snapshot(t, filepath.Join(folder, "response_snapshot", action+".response.snap"))
			if got := rewritten(t, action, out, header, body); !cmp.Equal(got, value(t, body)) {
				t.Errorf("%s: the official reply is written otherwise:\n%s", action, cmp.Diff(value(t, body), got))
			}
		}
	}
}

// rewritten reads a reply with the SDK and writes it with our encoder.
func rewritten(t *testing.T, action string, out output, header http.Header, body []byte) any {
	t.Helper()
	operation := smithy.NewSchema(smithy.ShapeID{Namespace: "test", Name: action}, smithy.ShapeTypeOperation, 0)
	op := smithy.NewOperationSchema(operation, nil, operation)
	resp := &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(bytes.NewReader(body))}}
	if err := protocol.New11(smithy.NewServiceSchema(operation, "")).DeserializeResponse(context.Background(), op, nil, resp, out); err != nil {
		t.Fatalf("%s: the SDK doesn't read its own reply: %v", action, err)
	}
	written, err := awsjson.Encode(t.Context(), operation, out)
	if err != nil {
		t.Fatal(err)
	}
	return value(t, written)
}

func value(t *testing.T, body []byte) any {
	t.Helper()
	var v any
	if len(bytes.TrimSpace(body)) == 0 {
		return map[string]any{}
	}
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return v
}

// snapshot reads a file of the SDK: a first line, headers, and the body.
func snapshot(t *testing.T, name string) (http.Header, []byte) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	start := bytes.Index(data, []byte("\n{")) + 1
	header := http.Header{}
	for line := range strings.Lines(string(data[:start])) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			header.Set(k, v)
		}
	}
	return header, data[start:]
}

// module returns the folder of a module that this one requires.
func module(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
