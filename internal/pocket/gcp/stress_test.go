package gcp

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/internal/pocket/run"
)

// TestStress makes, runs, cancels and deletes jobs all at once, and finds every
// task of every execution counted once.
func TestStress(t *testing.T) {
	script := run.NewScripted(func(s run.Spec) run.Play {
		// A play per name, so that every run of the test is the same.
		n := 0
		for _, c := range s.Name {
			n += int(c)
		}
		switch n % 3 {
		case 0:
			return run.Play{Stdout: []byte("out\n"), Exit: run.Exit{Code: 0}}
		case 1:
			return run.Play{Stderr: []byte("err\n"), Exit: run.Exit{Code: 1}}
		default:
			return run.Play{For: -1}
		}
	})
	c := newCloud(t, Options{Executor: script})
	random := rand.New(rand.NewPCG(1, 2))
	var all sync.WaitGroup
	for i := range 40 {
		id, deleted := fmt.Sprintf("job-%d", i), random.IntN(2) == 0
		all.Go(func() {
			j := jobOf("x")
			j.Template.TaskCount, j.Template.Template.Retries = 5, &runpb.TaskTemplate_MaxRetries{MaxRetries: 1}
			if _, err := c.jobs.CreateJob(t.Context(), &runpb.CreateJobRequest{Parent: parent, JobId: id, Job: j}); err != nil {
				t.Error(err)
				return
			}
			op, err := c.jobs.RunJob(t.Context(), &runpb.RunJobRequest{Name: parent + "/jobs/" + id})
			if err != nil {
				t.Error(err)
				return
			}
			e := &runpb.Execution{}
			if err := op.Metadata.UnmarshalTo(e); err != nil {
				t.Error(err)
				return
			}
			if _, err := c.execs.CancelExecution(t.Context(), &runpb.CancelExecutionRequest{Name: e.Name}); err != nil && status.Code(err) != codes.FailedPrecondition {
				t.Error(err)
			}
			for !op.Done {
				if op, err = c.ops.WaitOperation(t.Context(), &longrunningpb.WaitOperationRequest{Name: op.Name}); err != nil {
					t.Error(err)
					return
				}
			}
			if e, err = c.execs.GetExecution(t.Context(), &runpb.GetExecutionRequest{Name: e.Name}); err != nil {
				t.Error(err)
				return
			}
			if n := e.SucceededCount + e.FailedCount + e.CancelledCount; n != 5 || e.RunningCount != 0 || e.CompletionTime == nil || e.Reconciling {
				t.Errorf("an execution ended as %+v", countsOf(e))
			}
			if deleted {
				if _, err := c.jobs.DeleteJob(t.Context(), &runpb.DeleteJobRequest{Name: parent + "/jobs/" + id}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
