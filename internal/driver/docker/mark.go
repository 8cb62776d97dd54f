package docker

import (
	"context"
	"errors"

	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

// The engine keeps no record of who ended a container, and nothing on a
// container can be changed to keep one. So that every process on every machine
// can tell a cancelled job from one that failed, a cancel leaves a mark: an
// empty volume, named after the attempt and with its labels, which clean-up
// removes.

const markSuffix = "-cancelled"

func markName(attempt sdk.ID) string { return containerName(attempt) + markSuffix }

// mark records that the attempt is being cancelled. Doing it again changes nothing.
func (p *provider) mark(ctx context.Context, labels map[string]string) error {
	own := map[string]string{}
	for _, k := range []string{sdk.LabelRun, sdk.LabelAttempt, sdk.LabelNumber, sdk.LabelOwner, sdk.LabelLedger, sdk.LabelExpires} {
		if v, ok := labels[k]; ok {
			own[k] = v
		}
	}
	attempt, err := sdk.ParseID(labels[sdk.LabelAttempt])
	if err != nil {
		return err
	}
	return p.client.Call(ctx, opCancel, func(ctx context.Context, api *client.Client) error {
		_, err := api.VolumeCreate(ctx, client.VolumeCreateOptions{Name: markName(attempt), Labels: own})
		return err
	})
}

// marked reports whether the attempt was cancelled.
func (p *provider) marked(ctx context.Context, op string, labels map[string]string) (bool, error) {
	attempt, err := sdk.ParseID(labels[sdk.LabelAttempt])
	if err != nil {
		return false, nil // not one of ours: nobody marked it
	}
	var have map[string]string
	err = p.client.Call(ctx, op, func(ctx context.Context, api *client.Client) error {
		res, err := api.VolumeInspect(ctx, markName(attempt), client.VolumeInspectOptions{})
		have = res.Volume.Labels
		return err
	})
	if errors.Is(err, sdk.NotFound) {
		return false, nil
	}
	return err == nil && have[sdk.LabelAttempt] == attempt.String(), err
}

// unmark removes the mark; ok is false when there was none.
func (p *provider) unmark(ctx context.Context, op string, attempt sdk.ID) (ok bool, err error) {
	err = p.client.Call(ctx, op, func(ctx context.Context, api *client.Client) error {
		_, err := api.VolumeRemove(ctx, markName(attempt), client.VolumeRemoveOptions{})
		return err
	})
	if errors.Is(err, sdk.NotFound) {
		return false, nil
	}
	return err == nil, err
}
