package kubernetes

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/kube/podlog"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/sdk"
)

const opLogs = "read logs"

// JobLogs implements sdk.JobLogger.
func (p *provider) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	refuse := func(err error) iter.Seq2[sdk.LogItem, error] {
		return func(yield func(sdk.LogItem, error) bool) { yield(sdk.LogItem{}, err) }
	}
	if err := ctx.Err(); err != nil {
		return refuse(p.fail(sdk.CodeOf(err), opLogs, err))
	}
	if err := p.checkHandle(opLogs, r.Handle); err != nil {
		return refuse(err)
	}
	return podlog.Reader{Kind: Kind, Op: opLogs, Provider: p.name, Source: logSource{p, r.Handle}, Stall: time.Duration(p.cfg.LogStall)}.Read(ctx, r.Cursor, r.Follow)
}

// logSource is where the output of a Job is: in the logs of its pods.
type logSource struct {
	p *provider
	h sdk.JobHandle
}

// Look implements podlog.Source.
func (s logSource) Look(ctx context.Context) (podlog.Sight, error) {
	is, err := s.p.looks.look(ctx, s.h, func(ctx context.Context, handles []sdk.JobHandle) ([]sight, error) {
		return s.p.sights(ctx, opLogs, handles)
	})
	if err != nil {
		return podlog.Sight{}, err
	}
	out := podlog.Sight{Over: is.job == nil}
	if is.job != nil {
		st := judge(is)
		out.Over = st.State.Terminal()
		// A Job that was cancelled before it had a pod.
		out.Silent = st.State == sdk.StateCancelled && len(is.pods) == 0
	}
	for i := range is.pods {
		c := podlog.Of(&is.pods[i], podspec.Main)
		c.Ended = c.Ended || podlog.Deserted(&is.pods[i], podspec.Main, is.now)
		out.Containers = append(out.Containers, c)
	}
	return out, nil
}

// Open implements podlog.Source.
func (s logSource) Open(ctx context.Context, c podlog.Container, since time.Time, follow bool) (io.ReadCloser, error) {
	if err := s.p.budget.Wait(ctx); err != nil {
		return nil, s.p.fail(sdk.CodeOf(err), opLogs, err)
	}
	return s.p.session.OpenLog(ctx, opLogs, s.p.session.Namespace, c.Pod, podspec.Main, since, follow)
}
