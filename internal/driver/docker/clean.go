package docker

import (
	"context"
	"errors"
	"fmt"

	"github.com/windlass-run/windlass/sdk"
)

const opClean = "clean up job"

// CleanupJob implements sdk.JobCleaner. It removes the container, its anonymous
// volumes, and on this machine the attempt's secrets and input files.
func (p *provider) CleanupJob(ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	if err := r.Handle.Check(opClean, p.identity); err != nil {
		return sdk.CleanupJobResult{}, err
	}
	var res sdk.CleanupJobResult
	err := p.removeContainer(ctx, opClean, r.Handle.ID, false)
	switch {
	case err == nil:
		res.Removed = append(res.Removed, "container "+r.Handle.Name)
	case errors.Is(err, sdk.NotFound):
		if err := p.absent(ctx, opClean, r.Handle.Metadata[keyEngine], nil); err != nil {
			return res, err
		}
	default:
		return res, err
	}
	p.started.forget(r.Handle.ID)
	attempt, err := sdk.ParseID(r.Handle.Metadata[keyAttempt])
	if err != nil {
		return res, p.fail(sdk.InvalidArgument, opClean, fmt.Errorf("the handle names no attempt: %w", err))
	}
	switch ok, err := p.unmark(ctx, opClean, attempt); {
	case err != nil:
		return res, err
	case ok:
		res.Removed = append(res.Removed, "volume "+markName(attempt))
	}
	if in := p.inputs.get(attempt); in != nil {
		in.close()
	}
	return res, p.removeFolders(attempt, &res.Removed)
}

// removeFolders removes what lies on this machine for an attempt.
func (p *provider) removeFolders(attempt sdk.ID, removed *[]string) error {
	for _, f := range []*folders{p.tmp, p.files} {
		if f == nil {
			continue
		}
		ok, err := f.remove(attempt)
		if err != nil {
			return p.fail(sdk.Internal, opClean, fmt.Errorf("remove %s: %w", f.path(attempt), err))
		}
		if ok && removed != nil {
			*removed = append(*removed, "folder "+f.path(attempt))
		}
	}
	return nil
}

func (p *provider) hasFolders(attempt sdk.ID) bool {
	for _, f := range p.allFolders() {
		if _, err := f.note(attempt); err == nil {
			return true
		}
	}
	return false
}
