package compose

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// plan is what a change comes to, worked out from what is there.
type plan struct {
	// args are the arguments of Compose's command.
	args []string
	// want and revision are as in entry.
	want     int
	revision string
	// write, when not nil, writes what Compose is to read; writes names it.
	write  func() error
	writes string
	// files are those that Compose reads once write has run.
	files    []string
	warnings []string
	// shown are what a dry run tells of what is written; pulls is the image that
	// would be fetched.
	shown map[string]string
	pulls string
}

// planner works out a plan from a service as it is; nil is nothing to do.
type planner func(ctx context.Context, s *scene) (*plan, error)

// change carries a change out: under the service's lock, noted in its journal
// before Compose is started and at its end. It returns the service as it was.
func (p *provider) change(ctx context.Context, op string, r sdk.OpRequest, v verb, f planner) (sdk.OpResult, *scene, error) {
	name, err := p.serviceName(op, r.Path)
	if err != nil {
		return sdk.OpResult{}, nil, err
	}
	s, err := p.see(ctx, op, name, true)
	if err != nil {
		return sdk.OpResult{}, nil, err
	}
	if s.dry = r.DryRun; s.dry {
		pl, err := p.plan(ctx, op, r, s, f)
		if err != nil || pl == nil {
			return sdk.OpResult{Generation: s.generation()}, s, err
		}
		return sdk.OpResult{Changed: true, Warnings: pl.warnings, Calls: p.calls(name, pl)}, s, nil
	}
	l, err := p.hold(ctx, op, name)
	if err != nil {
		return sdk.OpResult{}, nil, err
	}
	free := l.release
	defer func() { free() }()
	was := s.journal.last()
	if s.journal, err = p.readJournal(op, name); err != nil {
		return sdk.OpResult{}, nil, err
	}
	if e := s.journal.find(r.OpID); e != nil {
		res, err := p.again(op, s, *e)
		return res, s, err
	}
	if now := s.journal.last(); now != nil && (was == nil || was.Op != now.Op) {
		// Somebody was between the look and the lock.
		if s, err = p.see(ctx, op, name, true); err != nil {
			return sdk.OpResult{}, nil, err
		}
	}
	pl, err := p.plan(ctx, op, r, s, f)
	if err != nil || pl == nil {
		return sdk.OpResult{Generation: s.generation()}, s, err
	}
	res, err := p.carryOut(ctx, op, r, v, s, pl, l)
	free = func() {} // whoever waits for Compose has it now
	return res, s, err
}

// plan checks what was expected and works out what is to be done.
func (p *provider) plan(ctx context.Context, op string, r sdk.OpRequest, s *scene, f planner) (*plan, error) {
	if err := r.Expect.Check(op, s.status()); err != nil {
		if e := asError(err); e != nil {
			e.Provider = p.name
		}
		return nil, err
	}
	return f(ctx, s)
}

// again answers an operation that was sent before.
func (p *provider) again(op string, s *scene, e entry) (sdk.OpResult, error) {
	done, words := e.Ended != nil && e.Failed == "", ""
	if !done {
		done, words = s.shows(e)
	}
	if !done {
		return sdk.OpResult{}, p.fail(sdk.Unknown, op, "%s: this change was begun before and isn't begun again; %s", s.name, words)
	}
	return sdk.OpResult{Changed: true, Generation: e.Generation, Trace: p.traceWords(s.name)}, nil
}

func (p *provider) traceWords(name string) string { return "journal " + p.journalPath(name) }

// carryOut notes the change, starts Compose and waits for it. It takes the lock
// over.
func (p *provider) carryOut(ctx context.Context, op string, r sdk.OpRequest, v verb, s *scene, pl *plan, l *lock) (sdk.OpResult, error) {
	e := entry{Op: r.OpID, Verb: v, Began: p.clock.Now(), Want: pl.want, Revision: pl.revision, Before: map[string]time.Time{}}
	for _, c := range s.list {
		e.Before[c.id] = c.started
	}
	j := s.journal
	j.add(e)
	if err := p.writeJournal(op, s.name, j); err != nil {
		l.release()
		return sdk.OpResult{}, err
	}
	if pl.write != nil {
		if err := pl.write(); err != nil {
			// The note stands, and says that nothing came of it.
			p.note(op, s.name, r.OpID, err, l)
			return sdk.OpResult{}, err
		}
	}
	files := s.model.files
	if pl.files != nil {
		files = pl.files
	}
	generation := make(chan string, 1)
	err := p.run(ctx, op, files, l, filepath.Join(p.folder(s.name), outputFile), pl.args, func(err error) {
		generation <- p.note(op, s.name, r.OpID, err, l)
	})
	if err != nil {
		return sdk.OpResult{}, err
	}
	return sdk.OpResult{Changed: true, Generation: <-generation, Trace: p.traceWords(s.name), Warnings: pl.warnings}, nil
}

// noteTime bounds the look at what a change came to.
const noteTime = 10 * time.Second

// note writes a change's end into the journal and gives the lock up. It returns
// the generation that the change led to, where that can be told. What can't be
// written is left: the containers then tell.
func (p *provider) note(op, name string, id sdk.ID, failed error, l *lock) string {
	defer l.release()
	ctx, cancel := context.WithTimeout(context.Background(), noteTime)
	defer cancel()
	j, err := p.readJournal(op, name)
	if err != nil {
		p.log.Warn("the end of a change couldn't be noted", "service", name, "error", err)
		return ""
	}
	e := j.find(id)
	if e == nil {
		return ""
	}
	now := p.clock.Now()
	e.Ended = &now
	if failed != nil {
		e.Failed = line(text(failed))
	} else if list, err := p.list(ctx, op, name, false); err == nil {
		s := scene{name: name, list: list, journal: j}
		e.Generation = s.generation()
	}
	generation := e.Generation
	if err := p.writeJournal(op, name, j); err != nil {
		p.log.Warn("the end of a change couldn't be noted", "service", name, "error", err)
	}
	return generation
}

// calls are what a dry run shows of a plan.
func (p *provider) calls(name string, pl *plan) []sdk.PlannedCall {
	var out []sdk.PlannedCall
	if pl.pulls != "" {
		out = append(out, sdk.PlannedCall{Name: "docker compose pull", Object: pl.pulls})
	}
	if pl.write != nil {
		out = append(out, sdk.PlannedCall{Name: "write file", Object: pl.writes, Args: pl.shown})
	}
	return append(out, sdk.PlannedCall{Name: "docker compose " + pl.args[0], Object: p.cfg.Project + "/" + name,
		Args: map[string]string{"arguments": strings.Join(pl.args[1:], " ")}})
}

// creatable refuses what Compose couldn't make for a service, or could only by
// making what isn't the service's: networks and volumes are provisioning. It pulls
// the image where the engine lacks it; a dry run returns the image's name instead.
func (p *provider) creatable(ctx context.Context, op string, s *scene, m model, svc service, total int) (pulls string, err error) {
	if n, why := svc.most(); n > 0 && total > n {
		e := p.fail(sdk.FailedPrecondition, op, "service %s can't have %d containers: %s", s.name, total, why)
		e.Field, e.Remedy = "replicas", "change the project's files"
		return "", e
	}
	missing, err := p.missesImage(ctx, op, s.name, svc)
	if err != nil {
		return "", err
	}
	if missing != "" && s.dry {
		return missing, nil
	}
	if missing != "" {
		if err := p.pull(ctx, op, m, s.name); err != nil {
			return "", err
		}
	}
	if s.sound() {
		return "", nil
	}
	d := p.probe(ctx, op, m.files, s.name, total)
	switch {
	case d.err != nil:
		return "", d.err
	case len(d.makes) > 0:
		e := p.fail(sdk.FailedPrecondition, op, "service %s needs what isn't there: %s", s.name, strings.Join(d.makes, ", "))
		e.Remedy = fmt.Sprintf("make it first: `docker compose --project-name %s create` makes networks and volumes", p.cfg.Project)
		return "", e
	}
	return "", nil
}
