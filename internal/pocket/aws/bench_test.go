package aws

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	pocket "github.com/windlass-run/windlass/internal/pocket/ecs"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// benchCloud has many scripted tasks that run, so that what is measured is the
// cloud's own part of a call, without the network.
func benchCloud(b *testing.B, tasks int) (call func(target, body string) string) {
	s := newServer(b, Options{LogGroups: []string{"jobs"}, Executor: run.NewScripted(func(run.Spec) run.Play { return run.Play{For: -1} })})
	s.ECS().SetKnobs(pocket.Knobs{Pace: pocket.Pace{Provisioning: time.Hour}})
	c := &cloud{Server: s}
	call = func(target, body string) string {
		w := httptest.NewRecorder()
		req := c.request(b, target, []byte(body))
		req.URL.Path = "/"
		s.ServeHTTP(w, req)
		if w.Code != http.StatusOK {
			b.Fatalf("%s: %d %s", target, w.Code, w.Body)
		}
		return w.Body.String()
	}
	call("ecs:RegisterTaskDefinition", `{"family":"bench","networkMode":"awsvpc","requiresCompatibilities":["FARGATE"],"cpu":"256","memory":"512","containerDefinitions":[{"name":"main","image":"app","command":["true"]}]}`)
	for range tasks / 10 {
		call("ecs:RunTask", runBench(10))
	}
	return call
}

func runBench(n int) string {
	return strings.Replace(`{"taskDefinition":"bench","count":N,"launchType":"FARGATE","networkConfiguration":{"awsvpcConfiguration":{"subnets":["subnet-01234567"]}}}`, "N", map[int]string{1: "1", 10: "10"}[n], 1)
}

// BenchmarkRunTask starts a task beside 10,000 others.
func BenchmarkRunTask(b *testing.B) {
	call := benchCloud(b, 10_000)
	for b.Loop() {
		call("ecs:RunTask", runBench(1))
	}
}

// BenchmarkDescribeTasks describes 100 tasks of 10,000.
func BenchmarkDescribeTasks(b *testing.B) {
	call := benchCloud(b, 10_000)
	list := call("ecs:ListTasks", `{}`)
	arns := list[strings.IndexByte(list, '[') : strings.IndexByte(list, ']')+1]
	if n := strings.Count(arns, "arn:"); n != 100 {
		b.Fatal(n)
	}
	for b.Loop() {
		call("ecs:DescribeTasks", `{"tasks":`+arns+`}`)
	}
}
