package gcp

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudrun"
)

// TestF16Quota fills a location with jobs.
func TestF16Quota(t *testing.T) {
	c := newCloud(t, Options{})
	c.Run().TuneKnobs(func(k *cloudrun.Knobs) { k.MaxJobs, k.MaxExecutions = 3, 1 })
	for i := range 3 {
		c.create(t, fmt.Sprintf("job-%d", i), jobOf("sleep", "60"))
	}
	if _, err := c.jobs.CreateJob(t.Context(), &runpb.CreateJobRequest{Parent: parent, JobId: "more", Job: jobOf("true")}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the fourth job: %v", err)
	}
	c.start(t, "job-0", nil)
	if _, err := c.jobs.RunJob(t.Context(), &runpb.RunJobRequest{Name: parent + "/jobs/job-1"}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the second execution: %v", err)
	}
	op, err := c.jobs.DeleteJob(t.Context(), &runpb.DeleteJobRequest{Name: parent + "/jobs/job-0"})
	if err != nil {
		t.Fatal(err)
	}
	c.done(t, op)
	c.create(t, "more", jobOf("true"))
	c.ended(t, "more", nil)
}

// TestRetention drops the oldest of a job's completed executions, then all.
func TestRetention(t *testing.T) {
	c := newCloud(t, Options{})
	c.Run().TuneKnobs(func(k *cloudrun.Knobs) { k.MaxRetained = 2 })
	c.create(t, "job", jobOf("true"))
	var ended []*runpb.Execution
	for range 3 {
		ended = append(ended, c.ended(t, "job", nil))
	}
	c.ended(t, "job", nil)
	for i, e := range ended {
		_, err := c.execs.GetExecution(t.Context(), &runpb.GetExecutionRequest{Name: e.Name})
		if want := map[bool]codes.Code{true: codes.NotFound, false: codes.OK}[i == 0]; status.Code(err) != want {
			t.Errorf("execution %d: %v, want %s", i, err, want)
		}
	}
	if got := c.output(t, ended[0], "varlog/system"); got != "Container called exit(0).\n" {
		t.Errorf("the log of an execution that was dropped is %q", got)
	}
	c.Run().Forget()
	if list, err := c.execs.ListExecutions(t.Context(), &runpb.ListExecutionsRequest{Parent: parent + "/jobs/job"}); err != nil || len(list.Executions) != 0 {
		t.Errorf("forgotten executions: %v, %v", list, err)
	}
}

// TestLimits counts calls by the minute.
func TestLimits(t *testing.T) {
	var passed atomic.Int64
	c := newCloud(t, Options{Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(passed.Load())) }})
	c.SetLimits(Limit{Name: "Read requests", Actions: []string{"run:Get*", "run:List*"}, PerMinute: 2})
	list := func() error {
		_, err := c.jobs.ListJobs(t.Context(), &runpb.ListJobsRequest{Parent: parent})
		return err
	}
	get := func() error {
		_, err := c.jobs.GetJob(t.Context(), &runpb.GetJobRequest{Name: parent + "/jobs/none"})
		return err
	}
	if err := list(); err != nil {
		t.Error(err)
	}
	if err := get(); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	if err := list(); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "Read requests per minute") {
		t.Errorf("beyond the quota: %v", err)
	}
	c.create(t, "other", jobOf("true"))
	passed.Store(int64(time.Minute))
	if err := list(); err != nil {
		t.Errorf("in the next minute: %v", err)
	}
}

// TestDelete deletes a job while it runs, and looks at it meanwhile.
func TestDelete(t *testing.T) {
	c := newCloud(t, Options{})
	free := filepath.Join(t.TempDir(), "free")
	c.create(t, "job", jobOf("sh", "-c", `trap '' TERM; echo up; until [ -e "$0" ]; do sleep 0.01; done`, free))
	c.Run().TuneKnobs(func(k *cloudrun.Knobs) { k.Grace = long })
	_, e := c.start(t, "job", nil)
	c.until(t, e.Name, "output", func(*runpb.Execution) bool { return c.output(t, e, "stdout") == "up\n" })
	op, err := c.jobs.DeleteJob(t.Context(), &runpb.DeleteJobRequest{Name: parent + "/jobs/job"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.jobs.RunJob(t.Context(), &runpb.RunJobRequest{Name: parent + "/jobs/job"}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a run during the deletion: %v", err)
	}
	if _, err := c.jobs.CreateJob(t.Context(), &runpb.CreateJobRequest{Parent: parent, JobId: "job", Job: jobOf("true")}); status.Code(err) != codes.AlreadyExists {
		t.Errorf("a job of the same name during the deletion: %v", err)
	}
	if j, err := c.jobs.GetJob(t.Context(), &runpb.GetJobRequest{Name: parent + "/jobs/job"}); err != nil || j.DeleteTime == nil || !j.Reconciling {
		t.Errorf("during the deletion the job is %v, %v", j, err)
	}
	if err := os.WriteFile(free, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.done(t, op)
	if _, err := c.jobs.GetJob(t.Context(), &runpb.GetJobRequest{Name: parent + "/jobs/job"}); status.Code(err) != codes.NotFound {
		t.Errorf("after the deletion: %v", err)
	}
	if _, err := c.execs.GetExecution(t.Context(), &runpb.GetExecutionRequest{Name: e.Name}); status.Code(err) != codes.NotFound {
		t.Errorf("its execution after the deletion: %v", err)
	}

	c.create(t, "job", jobOf("true"))
	e = c.ended(t, "job", nil)
	if op, err = c.execs.DeleteExecution(t.Context(), &runpb.DeleteExecutionRequest{Name: e.Name}); err != nil {
		t.Fatal(err)
	}
	c.done(t, op)
	list, err := c.execs.ListExecutions(t.Context(), &runpb.ListExecutionsRequest{Parent: parent + "/jobs/job"})
	if err != nil || len(list.Executions) != 0 {
		t.Errorf("executions that are left: %v, %v", list, err)
	}
}

// TestOperations waits for, lists, deletes and can't cancel operations.
func TestOperations(t *testing.T) {
	c := newCloud(t, Options{})
	c.create(t, "job", jobOf("sleep", "60"))
	op, e := c.start(t, "job", nil)
	if got, err := c.ops.WaitOperation(t.Context(), &longrunningpb.WaitOperationRequest{Name: op.Name, Timeout: durationpb.New(time.Millisecond)}); err != nil || got.Done {
		t.Errorf("a wait that ends before the operation: %v, %v", got, err)
	}
	if _, err := c.ops.DeleteOperation(t.Context(), &longrunningpb.DeleteOperationRequest{Name: op.Name}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("deletion of an operation under way: %v", err)
	}
	if _, err := c.ops.CancelOperation(t.Context(), &longrunningpb.CancelOperationRequest{Name: op.Name}); status.Code(err) != codes.Unimplemented {
		t.Errorf("cancellation of an operation: %v", err)
	}
	if got, err := c.ops.GetOperation(t.Context(), &longrunningpb.GetOperationRequest{Name: op.Name}); err != nil || got.Done || got.Metadata.MessageIs(&runpb.Execution{}) == false {
		t.Errorf("the operation is %v, %v", got, err)
	}
	list, err := c.ops.ListOperations(t.Context(), &longrunningpb.ListOperationsRequest{Name: parent, PageSize: 1})
	if err != nil || len(list.Operations) != 1 || list.NextPageToken == "" {
		t.Errorf("a page of operations: %v, %v", list, err)
	}
	c.Run().TuneKnobs(func(k *cloudrun.Knobs) { k.OperationDelay = time.Hour })
	if _, err := c.execs.CancelExecution(t.Context(), &runpb.CancelExecutionRequest{Name: e.Name}); err != nil {
		t.Fatal(err)
	}
	c.until(t, e.Name, "end", func(e *runpb.Execution) bool { return e.CompletionTime != nil })
	if got, err := c.ops.GetOperation(t.Context(), &longrunningpb.GetOperationRequest{Name: op.Name}); err != nil || got.Done {
		t.Errorf("the operation of an execution that ended is done at once: %v, %v", got, err)
	}
}

// TestUpdate changes a job.
func TestUpdate(t *testing.T) {
	c := newCloud(t, Options{})
	made := c.create(t, "job", jobOf("sh", "-c", "exit 1"))
	next := proto.CloneOf(made)
	next.Template.Template.Containers[0].Args = []string{"-c", "exit 0"}
	op, err := c.jobs.UpdateJob(t.Context(), &runpb.UpdateJobRequest{Job: next, ValidateOnly: true})
	if err != nil || !op.Done {
		t.Errorf("a validation: %v, %v", op, err)
	}
	if op, err = c.jobs.UpdateJob(t.Context(), &runpb.UpdateJobRequest{Job: next}); err != nil {
		t.Fatal(err)
	}
	changed := &runpb.Job{}
	c.result(t, op, changed)
	if changed.Generation != 2 || changed.ObservedGeneration != 2 || changed.Etag == made.Etag || changed.Uid != made.Uid || changed.Reconciling {
		t.Errorf("the job is %v", changed)
	}
	if _, err := c.jobs.UpdateJob(t.Context(), &runpb.UpdateJobRequest{Job: next}); status.Code(err) != codes.Aborted {
		t.Errorf("an update by a stale etag: %v", err)
	}
	if e := c.ended(t, "job", nil); e.SucceededCount != 1 {
		t.Errorf("the execution is %v", e)
	}
	other := jobOf("true")
	other.Name = parent + "/jobs/other"
	if op, err = c.jobs.UpdateJob(t.Context(), &runpb.UpdateJobRequest{Job: other, AllowMissing: true}); err != nil {
		t.Fatal(err)
	}
	c.result(t, op, changed)
	if changed.Name != other.Name {
		t.Errorf("the job is %v", changed)
	}
	op, err = c.jobs.CreateJob(t.Context(), &runpb.CreateJobRequest{Parent: parent, JobId: "dry", Job: jobOf("true"), ValidateOnly: true})
	if err != nil || !op.Done {
		t.Errorf("a validation: %v, %v", op, err)
	}
	if _, err := c.jobs.GetJob(t.Context(), &runpb.GetJobRequest{Name: parent + "/jobs/dry"}); status.Code(err) != codes.NotFound {
		t.Errorf("a validation made the job: %v", err)
	}
}

// TestExecutionToken runs a job with its creation.
func TestExecutionToken(t *testing.T) {
	c := newCloud(t, Options{})
	j := jobOf("true")
	j.CreateExecution = &runpb.Job_RunExecutionToken{RunExecutionToken: "first"}
	c.create(t, "job", j)
	if e := c.execution(t, parent+"/jobs/job/executions/job-first"); e.SucceededCount != 1 {
		t.Errorf("the execution is %v", e)
	}
}

// TestVisibility hides what is new for a while.
func TestVisibility(t *testing.T) {
	var passed atomic.Int64
	c := newCloud(t, Options{Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(passed.Load())) }})
	c.Run().TuneKnobs(func(k *cloudrun.Knobs) { k.ListDelay, k.GetDelay, k.PageSize = time.Hour, time.Minute, 1 })
	c.create(t, "a", jobOf("true"))
	if _, err := c.jobs.GetJob(t.Context(), &runpb.GetJobRequest{Name: parent + "/jobs/a"}); status.Code(err) != codes.NotFound {
		t.Errorf("a new job can be got: %v", err)
	}
	c.create(t, "b", jobOf("true"))
	passed.Store(int64(2 * time.Minute))
	if _, err := c.jobs.GetJob(t.Context(), &runpb.GetJobRequest{Name: parent + "/jobs/a"}); err != nil {
		t.Error(err)
	}
	if list, err := c.jobs.ListJobs(t.Context(), &runpb.ListJobsRequest{Parent: parent}); err != nil || len(list.Jobs) != 0 {
		t.Errorf("new jobs are listed: %v, %v", list, err)
	}
	passed.Store(int64(2 * time.Hour))
	list, err := c.jobs.ListJobs(t.Context(), &runpb.ListJobsRequest{Parent: parent})
	if err != nil || len(list.Jobs) != 1 || list.NextPageToken == "" {
		t.Fatalf("the first page is %v, %v", list, err)
	}
	list, err = c.jobs.ListJobs(t.Context(), &runpb.ListJobsRequest{Parent: parent, PageToken: list.NextPageToken})
	if err != nil || len(list.Jobs) != 1 || short(list.Jobs[0].Name) != "b" || list.NextPageToken != "" {
		t.Errorf("the second page is %v, %v", list, err)
	}
}

// TestNames refuses names of another form, and projects that aren't there.
func TestNames(t *testing.T) {
	c := newCloud(t, Options{})
	for name, want := range map[string]codes.Code{"jobs/a": codes.InvalidArgument, "": codes.InvalidArgument, parent + "/jobs/": codes.InvalidArgument, parent + "/jobs/a/b": codes.InvalidArgument,
		"projects/other/locations/" + Location + "/jobs/a": codes.PermissionDenied, "projects/" + Number + "/locations/" + Location + "/jobs/a": codes.NotFound} {
		if _, err := c.jobs.GetJob(t.Context(), &runpb.GetJobRequest{Name: name}); status.Code(err) != want {
			t.Errorf("GetJob of %q: %v, want %s", name, err, want)
		}
	}
}

// TestFaults has calls refused, lost and cut, and looks at what was recorded.
func TestFaults(t *testing.T) {
	c := newCloud(t, Options{})
	create := &runpb.CreateJobRequest{Parent: parent, JobId: "job", Job: jobOf("true")}

	c.Faults().Add(fault.Rule{Action: "run:CreateJob", Count: 1, Effect: fault.Effect{Refuse: Unavailable()}})
	if _, err := c.jobs.CreateJob(t.Context(), create); status.Code(err) != codes.Unavailable {
		t.Errorf("a refused call: %v", err)
	}
	c.Faults().Clear()
	c.Faults().Add(fault.Rule{Action: "run:*", Count: 1, Effect: fault.Effect{Reset: true}})
	if _, err := c.jobs.CreateJob(t.Context(), create); status.Code(err) != codes.Unavailable {
		t.Errorf("a call that was cut: %v", err)
	}
	if _, err := c.jobs.GetJob(t.Context(), &runpb.GetJobRequest{Name: parent + "/jobs/job"}); status.Code(err) != codes.NotFound {
		t.Errorf("a call that was cut was carried out: %v", err)
	}
	c.Faults().Clear()
	c.Faults().Add(fault.Rule{Action: "run:CreateJob", Match: func(body []byte) bool { return strings.Contains(string(body), `"jobId":"job"`) }, Effect: fault.Effect{Drop: true, Latency: time.Millisecond}})
	if _, err := c.jobs.CreateJob(t.Context(), create); status.Code(err) != codes.Unavailable {
		t.Errorf("a call whose reply was lost: %v", err)
	}
	if _, err := c.jobs.GetJob(t.Context(), &runpb.GetJobRequest{Name: parent + "/jobs/job"}); err != nil {
		t.Errorf("a call whose reply was lost wasn't carried out: %v", err)
	}
	calls := c.Calls().Calls("run:CreateJob")
	if len(calls) != 3 || calls[0].Status != 503 || !calls[1].Lost || calls[1].Status != 0 || !calls[2].Lost || calls[2].Status != 200 || !strings.Contains(string(calls[2].Request), `"image":"app"`) {
		t.Errorf("the calls were recorded as %+v", calls)
	}

	c.Faults().Clear()
	c.Faults().Add(fault.Rule{Action: "run:GetJob", Effect: fault.Effect{Drop: true}})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/v2/"+parent+"/jobs/job", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := c.web.Do(r); err == nil {
		_ = resp.Body.Close()
		t.Errorf("a reply by REST that was lost came: %s", resp.Status)
	}
	c.Faults().Clear()
	throttle := Throttle()
	throttle.RetryAfter = 1500 * time.Millisecond
	c.Faults().Add(fault.Rule{Action: "run:ListJobs", Effect: fault.Effect{Refuse: throttle}})
	code, header, reply := c.rest(t, "GET", "/v2/"+parent+"/jobs", nil)
	if kind, _, _ := problem(reply); code != 429 || kind != "RESOURCE_EXHAUSTED" || header.Get("Retry-After") != "2" {
		t.Errorf("throttled by REST: %d %v %v", code, header, reply)
	}
	c.Faults().Clear()
	c.Faults().Add(fault.Rule{Action: "run:ListJobs", Effect: fault.Effect{Refuse: Deny("run.jobs.list", parent)}})
	if _, err := c.jobs.ListJobs(t.Context(), &runpb.ListJobsRequest{Parent: parent}); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "run.jobs.list") {
		t.Errorf("denied: %v", err)
	}
}
