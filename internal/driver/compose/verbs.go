package compose

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

const (
	opStart   = "start workload"
	opStop    = "stop workload"
	opScale   = "scale workload"
	opRestart = "restart workload"
)

// StopWorkload implements sdk.Stopper. Compose keeps the containers.
func (p *provider) StopWorkload(ctx context.Context, r sdk.StopWorkloadRequest) (sdk.StopWorkloadResult, error) {
	res, s, err := p.change(ctx, opStop, r.Op, verbStop, func(_ context.Context, s *scene) (*plan, error) {
		if s.stopped() || len(s.list) == 0 {
			return nil, nil
		}
		pl := &plan{args: []string{"stop", s.name}}
		l, err := p.layerOf(opStop, s.name)
		if l.made() {
			pl.warnings = append(pl.warnings, "it was made by `svc start -f` and stays, stopped; what removes it: "+p.removes(s.name))
		}
		return pl, err
	})
	out := sdk.StopWorkloadResult{Op: res}
	if s != nil {
		n := len(s.list)
		out.Restores = &n
	}
	return out, err
}

// removes is how a person removes a service that `svc start -f` made, which is
// provisioning (ADR 0030): no verb takes that back.
func (p *provider) removes(name string) string {
	return fmt.Sprintf("`docker compose --project-name %s --file %s rm --stop --force %s && rm -r %s`", p.cfg.Project, p.layerPath(name), name, p.folder(name))
}

// StartWorkload implements sdk.Starter.
func (p *provider) StartWorkload(ctx context.Context, r sdk.StartWorkloadRequest) (sdk.StartWorkloadResult, error) {
	if r.Spec != nil {
		return p.create(ctx, r)
	}
	res, _, err := p.change(ctx, opStart, r.Op, verbStart, func(ctx context.Context, s *scene) (*plan, error) {
		if slices.ContainsFunc(s.list, instance.live) {
			return nil, nil
		}
		n := len(s.list)
		if n == 0 {
			n = s.service.replicas()
		}
		if r.Replicas != nil {
			n = *r.Replicas
		}
		if n < 0 {
			return nil, p.negative(opStart)
		}
		return p.bring(ctx, opStart, s, n)
	})
	return sdk.StartWorkloadResult{Op: res}, err
}

// ScaleWorkload implements sdk.Scaler.
func (p *provider) ScaleWorkload(ctx context.Context, r sdk.ScaleWorkloadRequest) (sdk.ScaleWorkloadResult, error) {
	if r.Replicas < 0 {
		return sdk.ScaleWorkloadResult{}, p.negative(opScale)
	}
	res, _, err := p.change(ctx, opScale, r.Op, verbScale, func(ctx context.Context, s *scene) (*plan, error) {
		switch {
		case s.stopped():
			e := p.fail(sdk.FailedPrecondition, opScale, "service %s is stopped", s.name)
			e.Remedy = "start it, with `--replicas` for another number"
			return nil, e
		case len(s.list) == r.Replicas:
			return nil, nil
		}
		return p.bring(ctx, opScale, s, r.Replicas)
	})
	return sdk.ScaleWorkloadResult{Op: res}, err
}

func (p *provider) negative(op string) error {
	e := p.fail(sdk.InvalidArgument, op, "there can't be fewer than 0 containers")
	e.Field = "replicas"
	return e
}

// bring plans to have n containers run, made anew none of them. New ones would be
// of the files as they are now, so where those have drifted there are to be none.
func (p *provider) bring(ctx context.Context, op string, s *scene, n int) (*plan, error) {
	pl := &plan{args: upArgs(s.name, n, "--no-recreate"), want: n}
	drifted := len(s.drift.recreate) > 0
	if n > len(s.list) {
		if drifted {
			e := p.fail(sdk.FailedPrecondition, op, "the configuration of service %s has drifted: new containers would not be as those that are there", s.name)
			e.Remedy = "apply it first (" + p.applies(s) + "), or undo it in the project's files"
			return nil, e
		}
		var err error
		if pl.pulls, err = p.creatable(ctx, op, s, s.model, s.service, n); err != nil {
			return nil, err
		}
	} else if drifted {
		pl.warnings = append(pl.warnings, p.drifts(s))
	}
	if want := s.service.replicas(); n != want {
		pl.warnings = append(pl.warnings, fmt.Sprintf("the project's files say %d: the next `docker compose up` without --scale goes back to that", want))
	}
	return pl, nil
}

// drifts is what is said where a change leaves the containers' configuration as it
// is though the files have another (F100).
func (p *provider) drifts(s *scene) string {
	return fmt.Sprintf("the configuration of %s has drifted since %s made, and this doesn't apply it: %s does",
		s.name, count(len(s.drift.recreate), "container was", "containers were"), p.applies(s))
}

// applies is how a person brings the files' configuration to a service. Compose
// takes its settings along only where their file is named.
func (p *provider) applies(s *scene) string {
	if slices.Contains(s.model.files, p.layerPath(s.name)) {
		return "any change by `windlass svc config`"
	}
	return fmt.Sprintf("`docker compose up --detach %s`, or any change by `windlass svc config`", s.name)
}

// RestartWorkload implements sdk.Restarter. It restarts the containers as they
// are, and says so where the project's files have changed since.
func (p *provider) RestartWorkload(ctx context.Context, r sdk.RestartWorkloadRequest) (sdk.RestartWorkloadResult, error) {
	res, _, err := p.change(ctx, opRestart, r.Op, verbRestart, func(_ context.Context, s *scene) (*plan, error) {
		if s.stopped() || len(s.list) == 0 {
			e := p.fail(sdk.FailedPrecondition, opRestart, "service %s has no container that runs", s.name)
			e.Remedy = "start it"
			return nil, e
		}
		pl := &plan{args: []string{"restart", "--no-deps", s.name}, want: len(s.list)}
		if len(s.drift.recreate) > 0 {
			pl.warnings = append(pl.warnings, p.drifts(s))
		} else if s.drift.err != nil {
			pl.warnings = append(pl.warnings, "whether the configuration has drifted can't be told: "+text(s.drift.err))
		}
		return pl, nil
	})
	return sdk.RestartWorkloadResult{Op: res}, err
}

// pullTime bounds the fetching of an image, which nobody waits for at a service
// that runs.
const pullTime = 10 * time.Minute

// missesImage returns the name of a service's image where the engine lacks it.
// Nothing is built.
func (p *provider) missesImage(ctx context.Context, op, name string, s service) (string, error) {
	image := p.image(name, s)
	err := p.client.Call(ctx, op, func(ctx context.Context, api *client.Client) error {
		_, err := api.ImageInspect(ctx, image)
		return err
	})
	switch {
	case err == nil || sdk.CodeOf(err) != sdk.NotFound:
		return "", err
	case len(s.Build) > 0:
		e := p.fail(sdk.FailedPrecondition, op, "image %s of service %s isn't built", image, name)
		e.Field, e.Remedy = "image", "`docker compose build "+name+"`"
		return "", e
	}
	return image, nil
}

// pull fetches a service's image. Nothing of the service has changed when it
// fails.
func (p *provider) pull(ctx context.Context, op string, m model, name string) error {
	_, _, err := p.readWithin(ctx, pullTime, op, m.files, "pull", "--quiet", name)
	if e := asError(err); e != nil && e.Code == sdk.FailedPrecondition {
		e.Field = "image"
	}
	return err
}
