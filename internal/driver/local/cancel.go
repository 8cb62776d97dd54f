//go:build linux || darwin

package local

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
	"github.com/windlass-run/windlass/internal/driver/local/cgroup"
	"github.com/windlass-run/windlass/internal/driver/local/proc"
	"github.com/windlass-run/windlass/sdk"
)

// killTime bounds how long one call strikes at what a dead supervisor left.
const killTime = 5 * time.Second

// CancelJob tells the supervisor, which sends TERM to all processes of the job,
// waits for the grace, and sends KILL to what is left. Where the supervisor is
// dead, this call kills what is left of the job itself.
func (p *provider) CancelJob(ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	const op = "cancel job"
	if err := ctx.Err(); err != nil {
		return sdk.CancelJobResult{}, p.fail(op, context.Cause(ctx))
	}
	f, id, err := p.attempt(op, r.Handle)
	if err != nil {
		return sdk.CancelJobResult{}, err
	}
	c := attempt.Cancel{V: attempt.Version, At: p.clock.Now(), Grace: r.Grace, Why: r.Why}
	res, err := p.cancel(ctx, f, id, c)
	if err != nil {
		return res, p.fail(op, err)
	}
	return res, nil
}

func (p *provider) cancel(ctx context.Context, f attempt.Folder, id sdk.ID, c attempt.Cancel) (sdk.CancelJobResult, error) {
	gone := func(format string, args ...any) (sdk.CancelJobResult, error) {
		return sdk.CancelJobResult{Accepted: true, Gone: true, Evidence: fmt.Sprintf(format, args...)}, nil
	}
	v, err := p.look(f)
	if err != nil {
		return sdk.CancelJobResult{}, err
	}
	switch v.stage {
	case stageAbsent:
		return gone("no attempt %s here", id)
	case stageEnded:
		if left := alive(v.end.Left); len(left) > 0 {
			return sdk.CancelJobResult{Accepted: true, Evidence: fmt.Sprintf("ended, but for %d processes of other users", len(left))}, nil
		}
		return gone("ended at %s: %s", v.end.Ended.UTC().Format(time.RFC3339), message(v.end))
	case stageRebooted:
		return gone("the machine was rebooted since")
	case stageLost:
		n, err := p.endRest(ctx, id, v)
		if err != nil {
			return sdk.CancelJobResult{Accepted: true, Evidence: err.Error()}, nil
		}
		return gone("the supervisor is dead; %d processes that it left were killed, none is there", n)
	case stageUnsent:
		if ok, err := p.cancelUnsent(f, c); err != nil {
			return sdk.CancelJobResult{}, err
		} else if ok {
			return gone("never started")
		}
		// Somebody started it this moment.
	}
	return p.ask(f, v, c)
}

// cancelUnsent leaves a cancel that whoever starts the attempt later will find.
// It reports false when somebody is at it by now.
func (p *provider) cancelUnsent(f attempt.Folder, c attempt.Cancel) (bool, error) {
	lock, err := f.Lock()
	if errors.Is(err, attempt.ErrLocked) {
		return false, nil
	}
	if errors.Is(err, attempt.ErrNone) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = lock.Close() }()
	if f.Has(attempt.BegunFile) {
		return false, nil
	}
	return true, attempt.Write(f, attempt.CancelFile, c, attempt.Durable)
}

// ask leaves the cancel in the folder, where the supervisor finds it whenever
// it looks, and knocks.
func (p *provider) ask(f attempt.Folder, v view, c attempt.Cancel) (sdk.CancelJobResult, error) {
	knock := syscall.SIGCONT
	werr := attempt.Write(f, attempt.CancelFile, c, attempt.Visible)
	if errors.Is(werr, attempt.ErrNone) {
		return sdk.CancelJobResult{Accepted: true, Gone: true, Evidence: "cleaned up meanwhile"}, nil
	}
	if werr == nil && v.stage != stageHeld {
		// It may have begun before the cancel lay there for it to find.
		if now, err := p.look(f); err == nil {
			v = now
		}
	}
	if werr != nil {
		// On a full disk the knock itself must say it: with the launch's grace,
		// or with none.
		knock = syscall.SIGUSR1
		if c.Grace != nil && *c.Grace == 0 {
			knock = syscall.SIGUSR2
		}
		if v.stage != stageHeld {
			return sdk.CancelJobResult{}, werr
		}
	}
	evidence := "left for whoever starts it"
	if v.stage == stageHeld {
		err := v.begun.Supervisor.Signal(knock)
		switch {
		case errors.Is(err, proc.ErrGone):
			evidence = "the supervisor ended this moment"
		case errors.Is(err, proc.ErrForeign) && werr == nil:
			evidence = "left for the supervisor, which lives in another PID namespace"
		case err != nil && werr != nil:
			return sdk.CancelJobResult{}, errors.Join(err, werr)
		case err != nil:
			return sdk.CancelJobResult{}, err
		default:
			if werr != nil {
				_ = v.begun.Supervisor.Signal(syscall.SIGCONT) // it may be stopped
			}
			evidence = fmt.Sprintf("told supervisor %d", v.begun.Supervisor.PID)
		}
	}
	return sdk.CancelJobResult{Accepted: true, Evidence: evidence}, nil
}

// endRest kills what a dead supervisor left of its job, and returns how many
// processes that were.
func (p *provider) endRest(ctx context.Context, id sdk.ID, v view) (int, error) {
	if life, err := v.begun.Supervisor.Look(); err != nil {
		return 0, err
	} else if life == proc.Foreign {
		return 0, fmt.Errorf("the job ran in another PID namespace, from which windlass has to be run to end what is left: %w", proc.ErrForeign)
	}
	ctx, cancel := context.WithTimeout(ctx, killTime)
	defer cancel()
	n, err := groupOf(id, v).KillUntilGone(ctx)
	if err != nil {
		return n, fmt.Errorf("end what is left: %w", err)
	}
	m, err := proc.KillUntilGone(ctx, func() ([]proc.Identity, error) {
		return proc.Marked(attemptVariable + "=" + id.String())
	})
	if err != nil {
		return n + m, fmt.Errorf("end what is left: %w", err)
	}
	return n + m, nil
}

// groupOf returns the job's control group. Where its record is damaged, that is
// the one that would be made from here.
func groupOf(id sdk.ID, v view) *cgroup.Group {
	if v.begun.V == 0 && v.stage == stageLost {
		if host, err := cgroup.Detect(); err == nil {
			if places, err := host.Plan(id.String(), cgroup.Limits{}); err == nil {
				return cgroup.At(places)
			}
		}
	}
	return cgroup.At(v.begun.Cgroup)
}

// alive returns those that live.
func alive(list []proc.Identity) []proc.Identity {
	var out []proc.Identity
	for _, id := range list {
		if l, err := id.Look(); err != nil || l == proc.Alive || l == proc.Foreign {
			out = append(out, id)
		}
	}
	return out
}
