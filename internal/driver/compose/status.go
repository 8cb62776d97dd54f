package compose

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"

	"github.com/windlass-run/windlass/sdk"
)

const (
	opList   = "list workloads"
	opStatus = "look at workload"
)

func asError(err error) *sdk.Error {
	e, _ := errors.AsType[*sdk.Error](err)
	return e
}

// ListWorkloads implements sdk.WorkloadLister: the services of the project, with
// those of the profiles that are chosen, whether they have containers or not.
func (p *provider) ListWorkloads(ctx context.Context, r sdk.ListWorkloadsRequest) iter.Seq2[sdk.WorkloadItem, error] {
	return func(yield func(sdk.WorkloadItem, error) bool) {
		items, err := p.items(ctx, r.Name)
		if err != nil {
			yield(sdk.WorkloadItem{}, err)
			return
		}
		for _, it := range items {
			if err := ctx.Err(); err != nil {
				yield(sdk.WorkloadItem{}, p.ended(ctx, opList))
				return
			}
			if !yield(it, nil) {
				return
			}
		}
	}
}

func (p *provider) items(ctx context.Context, name string) ([]sdk.WorkloadItem, error) {
	m, err := p.resolve(ctx, opList)
	if err != nil {
		return nil, err
	}
	list, err := p.list(ctx, opList, name, true)
	if err != nil {
		return nil, err
	}
	of := map[string][]instance{}
	for _, c := range list {
		of[c.service] = append(of[c.service], c)
	}
	var out []sdk.WorkloadItem
	for _, n := range slices.Sorted(maps.Keys(m.Services)) {
		if name != "" && n != name {
			continue
		}
		j, err := p.readJournal(opList, n)
		if err != nil {
			return nil, err
		}
		s := scene{name: n, service: m.Services[n], list: of[n], journal: j}
		if s.underway, err = p.underway(ctx, n, j); err != nil {
			return nil, err
		}
		desired, ready := s.desired(), 0
		for _, c := range s.list {
			if c.ready() {
				ready++
			}
		}
		out = append(out, sdk.WorkloadItem{Path: sdk.WorkloadPath(n), Image: s.image(), Desired: &desired, Ready: &ready, Stopped: s.stopped(), Unmade: s.unmade()})
	}
	return out, nil
}

// WorkloadStatus implements sdk.WorkloadStatuser.
func (p *provider) WorkloadStatus(ctx context.Context, r sdk.WorkloadStatusRequest) (sdk.WorkloadStatusResult, error) {
	name, err := p.serviceName(opStatus, r.Path)
	if err != nil {
		return sdk.WorkloadStatusResult{}, err
	}
	s, err := p.look(ctx, opStatus, name)
	res := sdk.WorkloadStatusResult{Status: sdk.DeploymentStatus{Path: r.Path, Rollout: sdk.RolloutUnknown}}
	if err != nil && (sdk.CodeOf(err) != sdk.NotFound || r.OpID.IsZero()) {
		return sdk.WorkloadStatusResult{}, err
	}
	if err == nil {
		res.Status = s.status()
	}
	if !r.OpID.IsZero() {
		tr, err := p.trace(ctx, name, r.OpID, s)
		if err != nil {
			return sdk.WorkloadStatusResult{}, err
		}
		res.Op = &tr
	}
	return res, nil
}

// trace tells what became of an operation. s is nil where the project has no such
// service.
func (p *provider) trace(ctx context.Context, name string, id sdk.ID, s *scene) (sdk.OpTrace, error) {
	j, err := p.readJournal(opStatus, name)
	if err != nil {
		return sdk.OpTrace{}, err
	}
	path := p.journalPath(name)
	e := j.find(id)
	if e != nil && e.Ended != nil && e.Failed == "" {
		return sdk.OpTrace{State: sdk.OpAccepted, Generation: e.Generation, Evidence: fmt.Sprintf("%s: Compose finished the %s", path, e.Verb)}, nil
	}
	held, err := p.held(ctx, name)
	switch {
	case err != nil:
		return sdk.OpTrace{}, err
	case held && e != nil:
		return sdk.OpTrace{}, sdk.Errorf(sdk.Unavailable, opStatus, "%s: Compose is still at the %s, or at another change", name, e.Verb)
	case held:
		return sdk.OpTrace{}, sdk.Errorf(sdk.Unavailable, opStatus, "%s: somebody changes the service at the moment", name)
	case e == nil && j.forgot(id):
		return sdk.OpTrace{State: sdk.OpUnknown, Evidence: path + " no longer goes back so far"}, nil
	case e == nil:
		return sdk.OpTrace{State: sdk.OpAbsent, Evidence: path + " has no such change, and it is noted there before Compose is started"}, nil
	case s == nil:
		return sdk.OpTrace{State: sdk.OpUnknown, Evidence: path + ": it was begun; the project has no such service"}, nil
	}
	done, words := s.shows(*e)
	words = fmt.Sprintf("%s: it was begun; %s", path, words)
	if e.Failed != "" {
		words += "; Compose ended with: " + e.Failed
	}
	if done {
		return sdk.OpTrace{State: sdk.OpAccepted, Generation: e.Generation, Evidence: words}, nil
	}
	return sdk.OpTrace{State: sdk.OpUnknown, Evidence: words}, nil
}

// held reports whether a change is under way, by whatever process.
func (p *provider) held(ctx context.Context, name string) (bool, error) {
	if _, err := os.Stat(p.folder(name)); err != nil {
		return false, nil // nobody ever changed it
	}
	l, err := p.await(ctx, opStatus, name)
	if err != nil || l == nil {
		return l == nil && err == nil, err
	}
	l.release()
	return false, nil
}

// shows reports whether the containers are as a change was to leave them.
func (s *scene) shows(e entry) (done bool, words string) {
	running, fresh := 0, 0
	for _, c := range s.list {
		if c.live() {
			running++
		}
		if was, ok := e.Before[c.id]; !ok || c.started.After(was) {
			fresh++
		}
	}
	n := len(s.list)
	switch e.Verb {
	case verbStop:
		return running == 0, fmt.Sprintf("%d of %d containers run", running, n)
	case verbScale, verbStart:
		return n == e.Want && running == n, fmt.Sprintf("%d of %d containers run, %d were wanted", running, n, e.Want)
	case verbRestart:
		return n > 0 && fresh == n && running == n, fmt.Sprintf("%d of %d containers were started since", fresh, n)
	case verbConfig:
		left := len(s.drift.recreate)
		return s.drift.err == nil && left == 0 && fresh == n, fmt.Sprintf("%d of %d containers were made since, %d have another configuration", fresh, n, left)
	}
	return false, "its verb isn't known"
}
