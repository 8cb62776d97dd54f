package batch

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/sdk"
)

// jobs is what this process has seen of jobs that were not cleaned up: which are
// in doubt, who uses a definition, which have ended, where logs are. It saves
// calls and decides nothing that a call wouldn't. The zero value is ready.
type jobs struct {
	mu sync.Mutex
	m  map[string]*job
	// uses counts jobs by definition.
	uses map[string]int
	// doubt has attempts that were sent, and whose answer wasn't clear.
	doubt map[sdk.ID]bool
}

type job struct {
	definition string
	ended      bool
	// ran: its container was made, so that there is a log, in stream.
	ran    bool
	stream string
	// endSeen is when its end was first seen here.
	endSeen time.Time
	// shown is when a call last showed it.
	shown time.Time
	// waiting is the last reason for which it waits, and since when it wasn't
	// given any more.
	waiting string
	silent  time.Time
}

// sent notes that an attempt was sent and is in doubt, or no longer.
func (k *jobs) sent(attempt sdk.ID, doubt bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !doubt {
		delete(k.doubt, attempt)
		return
	}
	if k.doubt == nil {
		k.doubt = map[sdk.ID]bool{}
	}
	k.doubt[attempt] = true
}

func (k *jobs) inDoubt(attempt sdk.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.doubt[attempt]
}

// made notes a job that was submitted.
func (k *jobs) made(h sdk.JobHandle) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.note(h)
}

// note returns what is known of a job, from now on. The lock is held.
func (k *jobs) note(h sdk.JobHandle) *job {
	e := k.m[h.ID]
	if e == nil {
		if k.m == nil {
			k.m, k.uses = map[string]*job{}, map[string]int{}
		}
		e = &job{definition: h.Metadata[keyDefinition]}
		k.m[h.ID] = e
		k.uses[e.definition]++
	}
	return e
}

// reasonDwell is how long a reason for waiting is still told of that AWS Batch
// gives at one look and not at the next.
const reasonDwell = time.Minute

// seen notes a job as a call has just shown it, and returns the reason for which
// it waits. One that has ended is noted only if it is known: nobody may ever
// clean it up.
func (k *jobs) seen(h sdk.JobHandle, j types.JobDetail) (waiting string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if hasEnded(j) && k.m[h.ID] == nil {
		return ""
	}
	e := k.note(h)
	e.shown = time.Now()
	if hasEnded(j) && !e.ended {
		e.ended, e.endSeen = true, time.Now()
	}
	e.ran = e.ran || ranAtAll(j)
	if s := stream(j); s != "" {
		e.stream = s
	}
	if now := str(j.StatusReason); now != "" {
		e.waiting, e.silent = now, time.Time{}
	} else if e.silent.IsZero() {
		e.silent = time.Now()
	} else if time.Since(e.silent) > reasonDwell {
		e.waiting = ""
	}
	return e.waiting
}

// drop forgets a job that was cleaned up.
func (k *jobs) drop(h sdk.JobHandle) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.m[h.ID]
	if e == nil {
		return
	}
	delete(k.m, h.ID)
	if k.uses[e.definition]--; k.uses[e.definition] <= 0 {
		delete(k.uses, e.definition)
	}
}

// leave forgets a job that is cleaned up where others are known that use its
// definition, and reports whether there are. The last of them stays, until its
// definition is gone: one of many that leave at once is the last.
func (k *jobs) leave(h sdk.JobHandle) (shared bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := h.Metadata[keyDefinition]
	n := k.uses[name]
	if k.m[h.ID] == nil {
		return n > 0
	}
	if n <= 1 {
		return false
	}
	delete(k.m, h.ID)
	k.uses[name]--
	return true
}

// using reports whether a job is known that uses a definition.
func (k *jobs) using(definition string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.uses[definition] > 0
}

// get returns a copy of what is known.
func (k *jobs) get(id string) (job, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.m[id]; e != nil {
		return *e, true
	}
	return job{}, false
}

// describe returns jobs by ID; one that AWS Batch doesn't know is not among them.
// https://docs.aws.amazon.com/batch/latest/APIReference/API_DescribeJobs.html
func (p *provider) describe(ctx context.Context, op string, ids []string) (map[string]types.JobDetail, error) {
	if err := p.reads.Wait(ctx); err != nil {
		return nil, p.fail(sdk.CodeOf(err), op, err)
	}
	return p.describeNow(ctx, op, ids)
}

// describeNow is describe for who has waited for the budget.
func (p *provider) describeNow(ctx context.Context, op string, ids []string) (map[string]types.JobDetail, error) {
	var out *batch.DescribeJobsOutput
	err := p.placed(op, p.session.Spend(ctx, p.reads, op, func(ctx context.Context) (err error) {
		out, err = p.batch.DescribeJobs(ctx, &batch.DescribeJobsInput{Jobs: ids})
		return err
	}))
	if err != nil {
		return nil, err
	}
	found := make(map[string]types.JobDetail, len(out.Jobs))
	for _, j := range out.Jobs {
		found[str(j.JobId)] = j
	}
	return found, nil
}

func hasEnded(j types.JobDetail) bool {
	return j.Status == types.JobStatusSucceeded || j.Status == types.JobStatusFailed
}

// ranAtAll reports whether the container was ever made.
func ranAtAll(j types.JobDetail) bool {
	return !at(j.StartedAt).IsZero() || j.Container != nil && (j.Container.ExitCode != nil || str(j.Container.LogStreamName) != "")
}

// stream returns the log stream of the one attempt, once it has one.
func stream(j types.JobDetail) string {
	if j.Container != nil && str(j.Container.LogStreamName) != "" {
		return *j.Container.LogStreamName
	}
	for _, a := range j.Attempts {
		if a.Container != nil && str(a.Container.LogStreamName) != "" {
			return *a.Container.LogStreamName
		}
	}
	return ""
}

// definitionOf returns the name in a definition's ARN.
func definitionOf(arn string) string {
	_, rest, _ := strings.Cut(arn, "job-definition/")
	name, _, _ := strings.Cut(rest, ":")
	return name
}
