package fake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// call is a call that is being answered.
type call struct {
	c    *Cloud
	op   Op
	lost bool
}

// opNames are the operations as errors name them.
var opNames = map[Op]string{OpCheck: "check", OpPrepareJob: "prepare job", OpRunJob: "run job", OpJobStatus: "read job status",
	OpFindJobs: "find jobs", OpCancelJob: "cancel job", OpCleanupJob: "clean up job", OpJobLogs: "read job logs",
	OpJobStatuses: "read job statuses", OpWatchJobs: "watch jobs", OpListOwned: "list owned objects",
	OpRemoveOwned: "remove owned object", OpRenewExpiry: "renew expiry",
	OpCreateResource: "create resource", OpReadResource: "read resource", OpUpdateResource: "update resource", OpDeleteResource: "delete resource",
	OpDiffResource: "compare resource", OpScaleResource: "scale resource", OpSensitiveKeys: "read sensitive keys",
	OpListWorkloads: "list workloads", OpWorkloadStatus: "read workload status", OpStartWorkload: "start workload",
	OpStopWorkload: "stop workload", OpScaleWorkload: "scale workload", OpRestartWorkload: "restart workload",
	OpApplyConfig: "configure workload", OpExecWorkload: "exec in workload", OpTailLogs: "read workload logs",
	OpStreamMetrics: "measure workloads"}

func opName(op Op) string { return opNames[op] }

// enter takes a call in: it counts, waits and refuses. body is what was sent.
func (c *Cloud) enter(ctx context.Context, op Op, body any) (*call, error) {
	if err := ctx.Err(); err != nil {
		return nil, ended(ctx, op)
	}
	n, err := c.store.count(op)
	if err != nil {
		return nil, broken(op, err)
	}
	if c.record && body != nil {
		raw, err := json.Marshal(body)
		if err == nil {
			err = c.store.keepBody(Body{op, raw})
		}
		if err != nil {
			return nil, broken(op, err)
		}
	}
	k := c.knobs.Load()
	if k.Latency > 0 {
		if err := c.clock.Sleep(ctx, time.Duration(k.Latency)); err != nil {
			return nil, ended(ctx, op)
		}
	}
	for c.store.blocked(op) {
		if err := c.clock.Sleep(ctx, folderPoll); err != nil {
			return nil, ended(ctx, op)
		}
	}
	if k.Rate > 0 {
		if wait := c.overRate(k.Rate); wait > 0 {
			return nil, classify(opName(op), &APIError{429, "Throttled"}, wait)
		}
	}
	in := &call{c: c, op: op}
	if c.hasFaults.Load() {
		if err := c.fault(ctx, in, n); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// fault lets the first fault hit that fits.
func (c *Cloud) fault(ctx context.Context, in *call, n int64) error {
	c.mu.Lock()
	var hit *armed
	for _, a := range c.faults {
		if a.Op == in.op && n >= a.Nth && a.take(c.store) {
			hit = a
			break
		}
	}
	c.mu.Unlock()
	if hit == nil {
		return nil
	}
	switch hit.Kind {
	case FaultLostReply:
		in.lost = true
		return nil
	case FaultReset:
		return classify(opName(in.op), &APIError{Code: "connection reset by peer"}, 0)
	case FaultBlock:
		if hit.entered != nil {
			select {
			case hit.entered <- struct{}{}:
			default:
			}
		}
		select {
		case <-hit.release:
			return nil
		case <-ctx.Done():
			return ended(ctx, in.op)
		}
	}
	return classify(opName(in.op), &APIError{hit.Status, hit.Code}, time.Duration(hit.RetryAfter))
}

// take uses up one of the times that a fault hits. In a folder, other
// processes may have used up some.
func (a *armed) take(st store) bool {
	if a.left < 0 {
		return true
	}
	for a.left > 0 {
		a.left--
		if !st.poll() {
			return true
		}
		if ok, err := st.claim(fmt.Sprintf("%s-%d-%d", a.Op, a.id, a.left)); err == nil && ok {
			return true
		}
	}
	return false
}

// overRate counts calls by the second, and returns how long to wait.
func (c *Cloud) overRate(rate int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if now.Sub(c.window) >= time.Second || now.Before(c.window) {
		c.window, c.inWindow = now, 0
	}
	c.inWindow++
	if c.inWindow > rate {
		return c.window.Add(time.Second).Sub(now)
	}
	return 0
}

// done ends a call: the reply may be lost.
func (in *call) done() error {
	if in.lost {
		return classify(opName(in.op), &APIError{Code: "connection reset by peer"}, 0)
	}
	return nil
}

func ended(ctx context.Context, op Op) error {
	code := sdk.Canceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = sdk.DeadlineExceeded
	}
	return &sdk.Error{Code: code, Op: opName(op), Err: context.Cause(ctx)}
}

func broken(op Op, err error) error {
	return &sdk.Error{Code: sdk.Internal, Op: opName(op), Err: err}
}

func absent(op Op, id string) error {
	return &sdk.Error{Code: sdk.NotFound, Op: opName(op), Err: fmt.Errorf("job %s: %w", id, &APIError{404, "NotFound"})}
}
