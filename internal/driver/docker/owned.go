package docker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

const (
	opList   = "list owned objects"
	opRemove = "remove owned object"

	typeContainer = "container"
	typeVolume    = "volume"
	typeFolder    = "folder"

	tmpfsFolder = "tmpfs:"
	stateFolder = "state:"
)

// ListOwned implements sdk.OwnedLister. It gives the containers, the
// marks of cancels, and the folders on this machine whose container is gone or
// was never made.
func (p *provider) ListOwned(ctx context.Context, r sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
	return func(yield func(sdk.OwnedObject, error) bool) {
		filters := make(client.Filters).Add("label", sdk.LabelAttempt)
		if r.Owner != "" {
			filters.Add("label", sdk.LabelOwner+"="+r.Owner)
		}
		list, err := p.list(ctx, opList, filters)
		if err != nil {
			yield(sdk.OwnedObject{}, err)
			return
		}
		has := map[sdk.ID]bool{}
		for _, c := range list {
			o := ownedObject(typeContainer, c.ID, firstName(c.Names), c.Labels)
			o.CreatedAt = time.Unix(c.Created, 0).UTC()
			o.State = string(c.State)
			o.Live = c.State == container.StateRunning || c.State == container.StatePaused || c.State == container.StateRestarting
			has[o.AttemptID] = true
			if !yield(o, nil) {
				return
			}
		}
		marks, err := p.listMarks(ctx, filters)
		if err != nil {
			yield(sdk.OwnedObject{}, err)
			return
		}
		for _, v := range marks {
			o := ownedObject(typeVolume, v.Name, v.Name, v.Labels)
			o.CreatedAt = engineTime(v.CreatedAt)
			if !yield(o, nil) {
				return
			}
		}
		for prefix, f := range p.allFolders() {
			notes, err := f.list()
			if err != nil {
				yield(sdk.OwnedObject{}, p.fail(sdk.Internal, opList, fmt.Errorf("read %s: %w", f.base, err)))
				return
			}
			for _, n := range notes {
				if has[n.Attempt] || r.Owner != "" && n.Owner != r.Owner {
					continue
				}
				if !yield(ownedFolder(prefix, f.path(n.Attempt), n), nil) {
					return
				}
			}
		}
	}
}

func (p *provider) allFolders() map[string]*folders {
	out := map[string]*folders{}
	if p.tmp != nil {
		out[tmpfsFolder] = p.tmp
	}
	if p.files != nil {
		out[stateFolder] = p.files
	}
	return out
}

// listMarks returns the volumes that cancels left.
func (p *provider) listMarks(ctx context.Context, filters client.Filters) ([]volume.Volume, error) {
	var out []volume.Volume
	err := p.client.Call(ctx, opList, func(ctx context.Context, api *client.Client) error {
		res, err := api.VolumeList(ctx, client.VolumeListOptions{Filters: filters})
		out = res.Items
		return err
	})
	return out, err
}

func ownedObject(kind, id, name string, labels map[string]string) sdk.OwnedObject {
	o := sdk.OwnedObject{Type: kind, ID: id, Name: name, Owner: labels[sdk.LabelOwner], LedgerID: labels[sdk.LabelLedger]}
	// A label that isn't an ID leaves the zero ID.
	o.RunID, _ = sdk.ParseID(labels[sdk.LabelRun])
	o.AttemptID, _ = sdk.ParseID(labels[sdk.LabelAttempt])
	if n, err := strconv.ParseInt(labels[sdk.LabelExpires], 10, 64); err == nil && n > 0 {
		o.Expires = time.Unix(n, 0).UTC()
	}
	return o
}

func ownedFolder(prefix, path string, n note) sdk.OwnedObject {
	return sdk.OwnedObject{Type: typeFolder, ID: prefix + n.Attempt.String(), Name: path, RunID: n.RunID, AttemptID: n.Attempt,
		Owner: n.Owner, LedgerID: n.LedgerID, CreatedAt: n.Made, Expires: n.Expires, State: "left over"}
}

// RemoveOwned implements sdk.OwnedLister. A container that was listed as live
// is killed; one that has begun to run since is FailedPrecondition.
func (p *provider) RemoveOwned(ctx context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
	o := r.Object
	switch o.Type {
	case typeContainer:
		return sdk.RemoveOwnedResult{}, p.removeOwnedContainer(ctx, o)
	case typeVolume:
		return sdk.RemoveOwnedResult{}, p.removeOwnedMark(ctx, o)
	case typeFolder:
		return sdk.RemoveOwnedResult{}, p.removeOwnedFolder(o)
	}
	return sdk.RemoveOwnedResult{}, p.fail(sdk.InvalidArgument, opRemove, fmt.Errorf("%q is no type of object that is made here", o.Type))
}

func (p *provider) removeOwnedContainer(ctx context.Context, o sdk.OwnedObject) error {
	c, err := p.inspect(ctx, opRemove, o.ID)
	if errors.Is(err, sdk.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := p.sameOwner(o, ownedObject(typeContainer, c.ID, c.Name, containerLabels(c))); err != nil {
		return err
	}
	if err := p.removeContainer(ctx, opRemove, o.ID, o.Live); err != nil && !errors.Is(err, sdk.NotFound) {
		return err
	}
	p.started.forget(o.ID)
	return p.removeFolders(o.AttemptID, nil)
}

func (p *provider) removeOwnedMark(ctx context.Context, o sdk.OwnedObject) error {
	var labels map[string]string
	err := p.client.Call(ctx, opRemove, func(ctx context.Context, api *client.Client) error {
		res, err := api.VolumeInspect(ctx, o.ID, client.VolumeInspectOptions{})
		labels = res.Volume.Labels
		return err
	})
	if errors.Is(err, sdk.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := p.sameOwner(o, ownedObject(typeVolume, o.ID, o.ID, labels)); err != nil {
		return err
	}
	if o.ID != markName(o.AttemptID) {
		return p.fail(sdk.FailedPrecondition, opRemove, fmt.Errorf("volume %s is not one that is made here", o.ID))
	}
	_, err = p.unmark(ctx, opRemove, o.AttemptID)
	return err
}

func (p *provider) removeOwnedFolder(o sdk.OwnedObject) error {
	for prefix, f := range p.allFolders() {
		if !strings.HasPrefix(o.ID, prefix) {
			continue
		}
		n, err := f.note(o.AttemptID)
		if err != nil {
			// Without its note nothing says whose it is, or it is gone.
			return nil
		}
		if err := p.sameOwner(o, ownedFolder(prefix, "", n)); err != nil {
			return err
		}
		if _, err := f.remove(o.AttemptID); err != nil {
			return p.fail(sdk.Internal, opRemove, fmt.Errorf("remove %s: %w", f.path(o.AttemptID), err))
		}
	}
	return nil
}

func (p *provider) sameOwner(listed, now sdk.OwnedObject) error {
	if listed.RunID == now.RunID && listed.AttemptID == now.AttemptID && listed.Owner == now.Owner && listed.LedgerID == now.LedgerID {
		return nil
	}
	return p.fail(sdk.FailedPrecondition, opRemove, fmt.Errorf("%s %s carries other labels than were listed", listed.Type, listed.Name))
}
