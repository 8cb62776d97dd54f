//go:build linux || darwin

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
	"github.com/windlass-run/windlass/internal/driver/local/proc"
	"github.com/windlass-run/windlass/sdk"
)

// RunJob starts the job, once for each attempt however often and from however
// many processes it is called, and returns when it runs or is recorded as one
// that can't.
func (p *provider) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	const op = "run job"
	if err := ctx.Err(); err != nil {
		return sdk.RunJobResult{}, p.fail(op, context.Cause(ctx))
	}
	req, err := p.decodeRequest(op, r.Launch)
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	encoded, err := r.Launch.Encode()
	if err != nil {
		return sdk.RunJobResult{}, p.fail(op, err)
	}
	s := &submission{p: p, r: r, req: req, hash: sdk.HashCanonical(encoded), folder: attempt.In(p.state, r.Launch.AttemptID)}
	res, err := s.run(ctx)
	if err != nil {
		return sdk.RunJobResult{}, p.fail(op, err)
	}
	return res, nil
}

// submission is one call of RunJob.
type submission struct {
	p      *provider
	r      sdk.RunJobRequest
	req    request
	hash   string
	folder attempt.Folder
}

func (s *submission) run(ctx context.Context) (sdk.RunJobResult, error) {
	// What has begun is adopted before secrets are asked for.
	if res, ok, err := s.adopt(); ok || err != nil {
		return res, err
	}
	order, err := s.order(ctx)
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		lock, err := s.take()
		if err == nil {
			// The supervisor has the lock too by the time that this one goes.
			defer func() { _ = lock.Close() }()
			return s.locked(ctx, lock, order)
		}
		if !errors.Is(err, attempt.ErrLocked) {
			return sdk.RunJobResult{}, err
		}
		// Another call is at it, or a supervisor is: it begins, or gives up.
		if res, ok, err := s.adopt(); ok || err != nil {
			return res, err
		}
		if err := s.p.clock.Sleep(ctx, pause); err != nil {
			return sdk.RunJobResult{}, err
		}
	}
}

// take makes the folder if need be, and takes its lock.
func (s *submission) take() (*os.File, error) {
	for {
		if err := os.Mkdir(string(s.folder), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, sdk.Errorf(sdk.FailedPrecondition, "make attempt", "%w", err)
		}
		lock, err := s.folder.Lock()
		if errors.Is(err, attempt.ErrNone) {
			continue // removed in between
		}
		return lock, err
	}
}

// adopt returns the attempt's handle if it has begun, or may have.
func (s *submission) adopt() (sdk.RunJobResult, bool, error) {
	l, err := attempt.Read[attempt.Launch](s.folder, attempt.LaunchFile)
	if errors.Is(err, attempt.ErrNone) {
		return sdk.RunJobResult{}, false, nil
	}
	if err != nil {
		return sdk.RunJobResult{}, false, err
	}
	if l.Hash != s.hash {
		return sdk.RunJobResult{}, false, sdk.Errorf(sdk.AlreadyExists, "adopt attempt", "attempt %s was made from another launch", s.r.Launch.AttemptID)
	}
	b, err := attempt.Read[attempt.Begun](s.folder, attempt.BegunFile)
	switch {
	case err == nil:
		return sdk.RunJobResult{Handle: s.p.handle(l, b.Supervisor), Adopted: true}, true, nil
	case !errors.Is(err, attempt.ErrNone):
		return sdk.RunJobResult{}, false, err
	case l.BootID != s.p.bootID:
		// The launch was made durable before the machine went down, and what
		// came then was not: the job may have run.
		return sdk.RunJobResult{Handle: s.p.handle(l, proc.Identity{BootID: l.BootID}), Adopted: true}, true, nil
	}
	return sdk.RunJobResult{}, false, nil
}

// locked sends the launch; nobody else can meanwhile.
func (s *submission) locked(ctx context.Context, lock *os.File, order attempt.Order) (res sdk.RunJobResult, err error) {
	if res, ok, err := s.adopt(); ok || err != nil {
		return res, err
	}
	s.p.hit(pointFolder)
	begun := false
	defer func() {
		// What proves that nothing was begun leaves nothing, unless a cancel
		// lies there, which must outlive this call.
		if err != nil && !begun && !s.folder.Has(attempt.CancelFile) {
			if derr := s.folder.Discard(); derr != nil {
				err = errors.Join(err, derr)
			}
		}
	}()
	in, err := s.openStdin(ctx)
	if err != nil {
		return res, err
	}
	defer in.close()
	order.Stdin = in.file != nil
	c, err := s.spawn(lock, in.file)
	if err != nil {
		return res, err
	}
	defer c.close()
	l := s.launch()
	// While the supervisor comes up, what must outlive a crash is written.
	err = s.record(l)
	if err == nil {
		err = c.hello(ctx, s.p.callLimit)
	}
	s.p.hit(pointSpawned)
	if err != nil {
		c.kill()
		return res, err
	}
	s.p.hit(pointLaunched)
	begun = true // it may have, from here on
	if err := c.send(ctx, order); err != nil {
		s.p.reap(c.cmd)
		return res, err
	}
	s.p.hit(pointOrdered)
	reply, err := c.answer(ctx)
	s.p.reap(c.cmd)
	s.p.hit(pointConfirmed)
	switch {
	case err == nil && reply.Error != "":
		begun = false
		return res, &sdk.Error{Code: reply.Code, Op: "start supervisor", Reason: reply.Reason, Err: errors.New(reply.Error)}
	case err == nil:
		in.begin(s.p)
		return sdk.RunJobResult{Handle: s.p.handle(l, reply.Supervisor)}, nil
	case ctx.Err() != nil:
		return res, context.Cause(ctx)
	}
	// The supervisor was killed. Whether it had begun is on record.
	if res, ok, aerr := s.adopt(); ok && aerr == nil {
		res.Adopted = false
		return res, nil
	}
	return res, sdk.Errorf(sdk.Unavailable, "start supervisor", "it ended before it had begun: %w", err)
}

func (s *submission) launch() attempt.Launch {
	l := s.r.Launch
	return attempt.Launch{V: attempt.Version, RunID: l.RunID, AttemptID: l.AttemptID, Attempt: l.Attempt, Owner: l.Owner, LedgerID: l.LedgerID,
		Name: s.req.Name, Labels: s.req.Labels, Hash: s.hash, BootID: s.p.bootID, CreatedAt: s.p.clock.Now(), Expires: l.Expires}
}

// record makes the folder and the launch in it durable.
func (s *submission) record(l attempt.Launch) error {
	if err := attempt.Write(s.folder, attempt.LaunchFile, l, attempt.Durable); err != nil {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "record launch", Err: err}
	}
	if err := attempt.SyncDir(s.p.state); err != nil {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "record launch", Err: err}
	}
	return nil
}

// The keys of a handle's metadata.
const (
	keyBoot   = "boot_id"
	keyPIDNS  = "pid_ns"
	keyPID    = "pid"
	keyStart  = "start_time"
	keyFolder = "folder"
)

func (p *provider) handle(l attempt.Launch, supervisor proc.Identity) sdk.JobHandle {
	m := map[string]string{keyBoot: supervisor.BootID, keyFolder: l.AttemptID.String()}
	if supervisor.PID != 0 {
		m[keyPID], m[keyStart] = strconv.Itoa(supervisor.PID), strconv.FormatUint(supervisor.Start, 10)
	}
	if supervisor.PIDNS != "" {
		m[keyPIDNS] = supervisor.PIDNS
	}
	return sdk.JobHandle{V: sdk.HandleVersion, Kind: Kind, Identity: p.identity, ID: l.AttemptID.String(), Name: l.Name, Metadata: m}
}

// attempt returns the folder that a handle means.
func (p *provider) attempt(op string, h sdk.JobHandle) (attempt.Folder, sdk.ID, error) {
	if err := h.Check(op, p.identity); err != nil {
		return "", sdk.ID{}, p.fail(op, err)
	}
	id, err := sdk.ParseID(h.ID)
	if err != nil {
		return "", sdk.ID{}, p.fail(op, fmt.Errorf("handle: %w", err))
	}
	return attempt.In(p.state, id), id, nil
}
