package aws

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	pocket "github.com/windlass-run/windlass/internal/pocket/ecs"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// FuzzServe sends any body to any operation of a cloud that has a bit of
// everything: the answer is a reply of the protocol, and never a fault of ours.
func FuzzServe(f *testing.F) {
	const network = `"networkConfiguration":{"awsvpcConfiguration":{"subnets":["subnet-01234567"]}}`
	bodies := []string{
		`{}`,
		`{"family":"f","networkMode":"awsvpc","requiresCompatibilities":["FARGATE"],"cpu":"256","memory":"1 GB","executionRoleArn":"r","containerDefinitions":[{"name":"m","image":"i","command":["true"],"dependsOn":[],"secrets":[{"name":"S","valueFrom":"p"}],"logConfiguration":{"logDriver":"awslogs","options":{"awslogs-group":"jobs","awslogs-region":"r","awslogs-stream-prefix":"p"}}}],"tags":[{"key":"k"}]}`,
		`{"taskDefinition":"f","launchType":"FARGATE","count":2,"clientToken":"t","startedBy":"me",` + network + `,"overrides":{"containerOverrides":[{"name":"m","environment":[{"name":"A","value":"b"}]}]},"tags":[{"key":"k","value":"v"}],"propagateTags":"TASK_DEFINITION"}`,
		`{"taskDefinition":"f:1","capacityProviderStrategy":[{"capacityProvider":"FARGATE","weight":1}],` + network + `}`,
		`{"tasks":["a"],"include":["TAGS"]}`, `{"task":"a","reason":"r"}`, `{"family":"f","desiredStatus":"STOPPED","maxResults":1}`,
		`{"logGroupName":"jobs","logStreamName":"s","startFromHead":true,"limit":1,"startTime":1,"endTime":9}`,
		`{"logGroupName":"jobs","logStreamName":"s","logEvents":[{"timestamp":1,"message":"m"}]}`,
		`{"Name":"/a","Value":"v","Type":"String","Overwrite":true}`, `{"Names":["/a:1"],"WithDecryption":true}`,
		`{"serviceName":"s","taskDefinition":"f","desiredCount":1,"launchType":"FARGATE","clientToken":"t",` + network + `,"deploymentConfiguration":{"deploymentCircuitBreaker":{"enable":true,"rollback":true}}}`,
		`{"service":"s","desiredCount":2,"forceNewDeployment":true}`, `{"services":["s"],"include":["TAGS"]}`, `{"task":"a","command":"sh -c 'x'","interactive":true}`,
		`{"ServiceNamespace":"ecs","ScalableDimension":"ecs:service:DesiredCount","ResourceId":"service/default/s","MinCapacity":1,"MaxCapacity":2}`,
		`{"SecretId":"s","SecretString":"v","VersionStages":["AWSCURRENT"]}`, `{"Name":"s","SecretString":"v"}`,
	}
	actions, err := Actions()
	if err != nil {
		f.Fatal(err)
	}
	delete(actions, "sts")
	delete(actions, "batch") // of another protocol: FuzzServeBatch
	delete(actions, "cloudwatch")
	var targets []string
	for service, names := range actions {
		for _, n := range names {
			targets = append(targets, service+":"+n)
		}
	}
	slices.Sort(targets)
	for i := range targets {
		for _, b := range bodies {
			f.Add(i, []byte(b))
		}
	}
	c := &cloud{Server: newServer(f, Options{LogGroups: []string{"jobs"}, Executor: run.NewScripted(func(run.Spec) run.Play { return run.Play{Stdout: []byte("line\n")} })})}
	c.ECS().SetKnobs(pocket.Knobs{KeepStopped: time.Millisecond})
	f.Fuzz(func(t *testing.T, target int, body []byte) {
		if target < 0 || target >= len(targets) {
			return
		}
		w := httptest.NewRecorder()
		r := c.request(t, targets[target], body)
		r.URL.Path = "/"
		c.ServeHTTP(w, r)
		var e struct {
			Type string `json:"__type"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != http.StatusOK && (w.Code != http.StatusBadRequest || e.Type == "" || strings.HasPrefix(e.Type, "Server")) {
			t.Errorf("%s of %q: %d %s", targets[target], body, w.Code, w.Body)
		}
	})
}
