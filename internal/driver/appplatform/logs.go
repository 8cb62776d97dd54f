package appplatform

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/sdk"
)

const opLogs = "read log"

const (
	// A follower asks again when a log isn't there yet, or broke off without
	// anything new: each time is a call.
	waitFirst = 250 * time.Millisecond
	waitLast  = 5 * time.Second
	// breaksMost is how often in a row a live log may break before that is the
	// caller's to know.
	breaksMost = 5
	// idle ends the reading of what a live log has now.
	idle = 2 * time.Second
)

// JobLogs implements sdk.JobLogger. A job's log is read live while it runs, and
// then from the archive, which proves its end. Both begin at the beginning.
func (p *provider) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(sdk.LogItem{}, p.fail(sdk.CodeOf(err), opLogs, err))
			return
		}
		f := &follower{p: p, h: r.Handle, follow: r.Follow, kind: godo.AppLogTypeRun, yield: yield}
		err := p.checkHandle(opLogs, r.Handle)
		if err == nil {
			f.at, err = readCursor(r.Cursor)
		}
		if err == nil {
			err = f.read(ctx)
		}
		if err != nil && !errors.Is(err, errLeft) {
			yield(sdk.LogItem{}, err)
		}
	}
}

// errLeft says that the reader has gone.
var errLeft = errors.New("the reader has gone")

// follower reads one log for one caller.
type follower struct {
	p      *provider
	h      sdk.JobHandle
	follow bool
	kind   godo.AppLogType
	at     position
	yield  func(sdk.LogItem, error) bool

	rounds int
	// hint: something says that the job may have ended. listened: a live log came
	// to its own end after the job's.
	hint, listened bool
	breaks         int
	wait           time.Duration
}

// read gives the log to its end, or what there is now.
func (f *follower) read(ctx context.Context) error {
	for ; ; f.rounds++ {
		before, began := f.at, time.Now()
		// What is archived after the job was seen ended is whole.
		known, err := f.know(ctx)
		if err != nil {
			return err
		}
		if f.rounds == 0 || known.ran || known.ended || !known.polledLately() {
			if err := f.round(ctx, known); err != nil {
				return err
			}
		}
		if !f.follow {
			return f.end(sdk.VerdictQuiet)
		}
		if known.ended && time.Since(known.over) > time.Duration(f.p.cfg.LogMax) {
			if f.listened {
				return f.end(sdk.VerdictQuiet)
			}
			return f.end(sdk.VerdictUnavailable)
		}
		if f.at != before || time.Since(began) > waitLast {
			f.wait = 0
		}
		f.wait = min(max(2*f.wait, waitFirst), waitLast)
		if err := sdk.SystemClock().Sleep(ctx, f.wait); err != nil {
			return f.p.fail(sdk.CodeOf(err), opLogs, err)
		}
	}
}

// round asks where the log is, and reads what is there.
func (f *follower) round(ctx context.Context, known seen) error {
	logs, err := f.addresses(ctx)
	switch {
	case err != nil:
		return err
	case logs == nil:
		return f.absent(known)
	case logs.LiveURL != "":
		return f.live(ctx, logs.LiveURL, known.ended)
	}
	whole, err := f.archive(ctx, logs.HistoricURLs)
	if err == nil && whole && known.ended {
		return f.end(sdk.VerdictComplete)
	}
	return err
}

// know returns what is known of the job. It asks unless this process has seen the
// end, or has somebody who asks often; at first that can wait, too.
func (f *follower) know(ctx context.Context) (seen, error) {
	known := f.p.seen.Get(f.h.ID)
	if f.h.Metadata[keyDeployment] != "" && (f.rounds == 0 || known.ended || known.polledLately() && !f.hint) {
		return known, nil
	}
	f.hint = false
	st, err := f.p.look(ctx, opLogs, f.h)
	if err != nil {
		return known, err
	}
	if st.Handle != nil {
		f.h = *st.Handle
	}
	return f.p.seen.Get(f.h.ID), nil
}

// addresses asks where the log is; nil is nowhere yet, or never.
func (f *follower) addresses(ctx context.Context) (*godo.AppLogs, error) {
	d := f.h.Metadata[keyDeployment]
	if d == "" {
		return nil, nil
	}
	logs, err := f.p.logs(ctx, opLogs, f.h.ID, d, f.kind, f.follow, 0)
	if notFound(err) {
		// It may be the log that isn't there yet, or the app that is gone.
		_, err = f.p.look(ctx, opLogs, f.h)
	}
	return logs, err
}

// logs asks for the addresses of a log; nil is none.
func (p *provider) logs(ctx context.Context, op, app, deployment string, kind godo.AppLogType, follow bool, tail int) (*godo.AppLogs, error) {
	logs, err := call(ctx, p, op, func(ctx context.Context) (*godo.AppLogs, *godo.Response, error) {
		return p.session.Client.Apps.GetLogs(ctx, app, deployment, jobName, kind, follow, tail)
	})
	switch {
	case sdk.CodeOf(err) == sdk.InvalidArgument: // nothing has been written yet
		return nil, nil
	case err != nil:
		return nil, err
	case logs == nil || logs.LiveURL == "" && len(logs.HistoricURLs) == 0:
		return nil, nil
	}
	return logs, nil
}

// other is the second place where a job's log may be: no page says whether a job
// before the deployment writes while running or while deploying.
func other(kind godo.AppLogType) godo.AppLogType {
	if kind == godo.AppLogTypeRun {
		return godo.AppLogTypeDeploy
	}
	return godo.AppLogTypeRun
}

// absent judges a log that isn't there.
func (f *follower) absent(known seen) error {
	switch {
	case known.ended && !known.ran:
		return f.end(sdk.VerdictComplete) // there is nothing that could have been written
	case known.ended && f.at.n == 0:
		f.kind = other(f.kind)
	}
	return nil
}

// archive reads what is archived. whole: it has all that was given before.
func (f *follower) archive(ctx context.Context, addresses []string) (whole bool, err error) {
	pass := &pass{from: f.at}
	for _, address := range addresses {
		for raw, err := range f.p.session.ArchivedLog(ctx, opLogs, address) {
			if err != nil {
				return false, f.broken(ctx, err)
			}
			if err := f.give(pass, raw); err != nil {
				return false, err
			}
		}
	}
	f.breaks, f.hint = 0, true
	return pass.reached(), nil
}

// live reads a live log until it ends or breaks. over: the job had ended before.
func (f *follower) live(ctx context.Context, address string, over bool) error {
	pass := &pass{from: f.at}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	// The silence is the log's: not the time that is taken over a line.
	var quiet *time.Timer
	if !f.follow {
		quiet = time.AfterFunc(idle, cancel)
		defer quiet.Stop()
	}
	for raw, err := range f.p.session.LiveLog(inner, opLogs, address) {
		switch {
		case err != nil && ctx.Err() == nil && inner.Err() != nil:
			return nil // it has been silent
		case err != nil:
			return f.broken(ctx, err)
		}
		if quiet != nil {
			quiet.Stop()
		}
		if err := f.give(pass, raw); err != nil {
			return err
		}
		if quiet != nil {
			quiet.Reset(idle)
		}
	}
	f.breaks, f.hint, f.listened = 0, true, f.listened || over
	return nil
}

// broken decides on a log that broke off: where it is followed it is read again
// from its beginning, as long as that helps.
func (f *follower) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return f.p.fail(sdk.CodeOf(ctx.Err()), opLogs, ctx.Err())
	}
	if f.breaks++; !f.follow || f.breaks > breaksMost {
		return err
	}
	return nil
}

// give hands a line on, if it is new.
func (f *follower) give(pass *pass, raw string) error {
	l := parseLine(raw)
	fresh, gap := pass.behind(l)
	if gap {
		g := &sdk.LogGap{From: f.at.at, To: l.at, Bytes: -1, Why: "DigitalOcean's log doesn't begin as it did when it was read before"}
		if !f.yield(sdk.LogItem{Gap: g}, nil) {
			return errLeft
		}
	}
	if !fresh {
		return nil
	}
	f.breaks = 0
	f.at.n, f.at.last = pass.n, sum(raw)
	if l.at.After(f.at.at) {
		f.at.at = l.at
	}
	text, _, marked := cutExit(l.text, f.h.Metadata[keyNonce])
	it := sdk.LogItem{Cursor: f.at.cursor()}
	if !marked || text != "" {
		it.Entry = &sdk.LogChunk{Time: l.at, Stream: sdk.StreamCombined, Data: []byte(text), LineEnd: sdk.LineEndStripped}
		if marked { // the job's last words had no newline
			it.Entry.LineEnd = sdk.LineEndKept
		}
	}
	if !f.yield(it, nil) {
		return errLeft
	}
	return nil
}

func (f *follower) end(v sdk.Verdict) error {
	f.yield(sdk.LogItem{End: &sdk.LogEnd{Verdict: v}, Cursor: f.at.cursor()}, nil)
	return errLeft
}

// exitTail is how many lines of the end of a log are looked through for an exit
// code: others may follow it on stderr.
const (
	exitTail = 100
	exitWait = 10 * time.Second
)

// exitCode reads the code that a wrapped command has written. whole: the log is
// archived, so that no code will come.
func (p *provider) exitCode(ctx context.Context, h sdk.JobHandle, st sdk.JobStatusResult) (code *int, whole bool, err error) {
	deployment, nonce := st.Raw["deployment"], h.Metadata[keyNonce]
	logs, err := p.logs(ctx, opStatus, h.ID, deployment, godo.AppLogTypeRun, false, exitTail)
	if err == nil && logs == nil {
		logs, err = p.logs(ctx, opStatus, h.ID, deployment, godo.AppLogTypeDeploy, false, exitTail)
	}
	if err != nil || logs == nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, exitWait)
	defer cancel()
	lines, whole := p.session.LiveLog(ctx, opStatus, logs.LiveURL), false
	if logs.LiveURL == "" {
		lines, whole = p.session.ArchivedLog(ctx, opStatus, logs.HistoricURLs[len(logs.HistoricURLs)-1]), true
	}
	for raw, err := range lines {
		if err != nil && code == nil {
			return nil, false, err
		}
		if _, n, ok := cutExit(parseLine(raw).text, nonce); ok {
			code = &n
		}
	}
	return code, whole, nil
}
