package argo

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/argo"
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
	var own executor
	read := podlog.Reader{Kind: Kind, Op: opLogs, Provider: p.name, Source: podSource{p, r.Handle}, Stall: time.Duration(p.cfg.LogStall), Split: own.split}
	if p.server != nil {
		read.Source, read.Unproven = serverSource{p, r.Handle}, true
		read.Kept = func(ctx context.Context) (io.ReadCloser, error) {
			if err := p.budget.Wait(ctx); err != nil {
				return nil, p.fail(sdk.CodeOf(err), opLogs, err)
			}
			return p.server.Artifact(ctx, opLogs, r.Handle.ID, r.Handle.ID, argo.MainLogs)
		}
	}
	return read.Read(ctx, r.Cursor, r.Follow)
}

// silent reports whether a Workflow that is over never started the container.
func silent(w *argo.Workflow) bool {
	n, ok := w.Node()
	return !ok || n.HostNodeName == "" && untold(w)
}

// untold reports whether nothing in a Workflow that is over tells that the container
// was started: a node had been found for its pod, and whether it came to run there went
// with the pod. Argo deletes a pod that still waits when the Workflow is to end.
// https://github.com/argoproj/argo-workflows/blob/v4.0.5/workflow/controller/pod/queue.go
func untold(w *argo.Workflow) bool {
	n, _ := w.Node()
	return n.Outputs == nil || n.Outputs.ExitCode == nil
}

// podSource is where the output of a Workflow is, on the Kubernetes API: in the logs of
// its pods.
type podSource struct {
	p *provider
	h sdk.JobHandle
}

// Look implements podlog.Source. The pods are read after the Workflow: what it says of
// their end they say themselves by then.
func (s podSource) Look(ctx context.Context) (podlog.Sight, error) {
	w, err := s.p.look(ctx, opLogs, s.h)
	if err != nil {
		return podlog.Sight{}, err
	}
	pods, err := s.p.podsOf(ctx, opLogs, s.h)
	if err != nil {
		return podlog.Sight{}, err
	}
	out := podlog.Sight{Over: w == nil || w.Status.Done()}
	if w != nil && w.Status.Done() {
		out.Silent, out.Untold = silent(w), untold(w)
	}
	for i := range pods {
		c := podlog.Of(&pods[i], podspec.Main)
		c.Ended = c.Ended || podlog.Deserted(&pods[i], podspec.Main, s.p.session.Now())
		out.Containers = append(out.Containers, c)
	}
	return out, nil
}

// Open implements podlog.Source.
func (s podSource) Open(ctx context.Context, c podlog.Container, since time.Time, follow bool) (io.ReadCloser, error) {
	if err := s.p.budget.Wait(ctx); err != nil {
		return nil, s.p.fail(sdk.CodeOf(err), opLogs, err)
	}
	return s.p.session.OpenLog(ctx, opLogs, s.p.session.Namespace, c.Pod, podspec.Main, since, follow)
}

// serverSource is where the output of a Workflow is, through Argo Server, which doesn't
// tell of pods: the Workflow stands for its only one.
type serverSource struct {
	p *provider
	h sdk.JobHandle
}

// Look implements podlog.Source.
func (s serverSource) Look(ctx context.Context) (podlog.Sight, error) {
	w, err := s.p.look(ctx, opLogs, s.h)
	if err != nil || w == nil {
		return podlog.Sight{Over: true}, err
	}
	n, _ := w.Node()
	out := podlog.Sight{Over: w.Status.Done(), Kept: n.Has(argo.MainLogs)}
	if out.Over && silent(w) {
		out.Silent = true
		return out, nil
	}
	if w.Archived() && !out.Kept {
		return out, nil // the pod went with the Workflow
	}
	out.Containers = []podlog.Container{{UID: s.h.Metadata[keyUID], Pod: s.h.ID, Started: judge(w).Launches > 0 || out.Over, Ended: out.Over}}
	return out, nil
}

// Open implements podlog.Source.
func (s serverSource) Open(ctx context.Context, _ podlog.Container, since time.Time, follow bool) (io.ReadCloser, error) {
	if err := s.p.budget.Wait(ctx); err != nil {
		return nil, s.p.fail(sdk.CodeOf(err), opLogs, err)
	}
	return s.p.server.OpenLog(ctx, opLogs, s.h.ID, podspec.Main, since, follow)
}
