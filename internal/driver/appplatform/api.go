package appplatform

import (
	"context"
	"errors"
	"iter"
	"net/http"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/sdk"
)

// pageMax is the largest page of a list.
// https://docs.digitalocean.com/reference/api/digitalocean/#operation/apps_list
const pageMax = 200

// call makes a call whose reply is one value.
func call[R any](ctx context.Context, p *provider, op string, f func(ctx context.Context) (R, *godo.Response, error)) (R, error) {
	var out R
	err := p.session.Call(ctx, op, func(ctx context.Context) (err error) {
		out, _, err = f(ctx)
		return err
	})
	return out, err
}

// pages gives the values of all pages of a list. An error comes last.
func pages[R any](ctx context.Context, p *provider, op string, f func(ctx context.Context, o *godo.ListOptions) ([]R, *godo.Response, error)) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for n := 1; ; n++ {
			var out []R
			last := false
			err := p.session.Call(ctx, op, func(ctx context.Context) error {
				list, answer, err := f(ctx, &godo.ListOptions{Page: n, PerPage: pageMax})
				if err != nil {
					return err
				}
				out, last = list, answer.Links == nil || answer.Links.IsLastPage()
				return nil
			})
			if err != nil {
				var none R
				yield(none, err)
				return
			}
			for _, v := range out {
				if !yield(v, nil) {
					return
				}
			}
			if last || len(out) == 0 {
				return
			}
		}
	}
}

func (p *provider) apps(ctx context.Context, op string) iter.Seq2[*godo.App, error] {
	return pages(ctx, p, op, p.session.Client.Apps.List)
}

func (p *provider) app(ctx context.Context, op, id string) (*godo.App, error) {
	a, err := call(ctx, p, op, func(ctx context.Context) (*godo.App, *godo.Response, error) {
		return p.session.Client.Apps.Get(ctx, id)
	})
	if err == nil && a == nil {
		err = p.later(op, errors.New("DigitalOcean's reply has no app"))
	}
	return a, err
}

// byName looks for an app among all of the account's; nil is none.
func (p *provider) byName(ctx context.Context, op, name string) (*godo.App, error) {
	for a, err := range p.apps(ctx, op) {
		if err != nil {
			return nil, err
		}
		if a != nil && a.Spec != nil && a.Spec.Name == name {
			return a, nil
		}
	}
	return nil, nil
}

// deployments returns those of an app. The job's own is the oldest; further ones
// are the platform's doing.
func (p *provider) deployments(ctx context.Context, op, app string) ([]*godo.Deployment, error) {
	var out []*godo.Deployment
	list := func(ctx context.Context, o *godo.ListOptions) ([]*godo.Deployment, *godo.Response, error) {
		return p.session.Client.Apps.ListDeployments(ctx, app, o)
	}
	for d, err := range pages(ctx, p, op, list) {
		if err != nil {
			return nil, err
		}
		if d != nil {
			out = append(out, d)
		}
	}
	return out, nil
}

// invocations returns what is listed of a deployment's job as invocations. Pages
// tell of those of scheduled jobs alone.
// https://docs.digitalocean.com/reference/api/digitalocean/#operation/apps_list_job_invocations
func (p *provider) invocations(ctx context.Context, op, app, deployment string) ([]*godo.JobInvocation, error) {
	var out []*godo.JobInvocation
	list := func(ctx context.Context, o *godo.ListOptions) ([]*godo.JobInvocation, *godo.Response, error) {
		return p.session.Client.Apps.ListJobInvocations(ctx, app, &godo.ListJobInvocationsOptions{Page: o.Page, PerPage: o.PerPage, DeploymentID: deployment, JobNames: []string{jobName}})
	}
	for i, err := range pages(ctx, p, op, list) {
		if err != nil {
			return nil, err
		}
		if i != nil && i.DeploymentID == deployment && i.JobName == jobName {
			out = append(out, i)
		}
	}
	return out, nil
}

// cancelDeployment makes the call that godo lacks.
// https://docs.digitalocean.com/reference/api/digitalocean/#operation/apps_cancel_deployment
func (p *provider) cancelDeployment(ctx context.Context, op, app, deployment string) error {
	return p.session.Call(ctx, op, func(ctx context.Context) error {
		return p.postCancel(ctx, app, deployment)
	})
}

func (p *provider) postCancel(ctx context.Context, app, deployment string) error {
	req, err := p.session.Client.NewRequest(ctx, http.MethodPost, "v2/apps/"+app+"/deployments/"+deployment+"/cancel", nil)
	if err != nil {
		return err
	}
	_, err = p.session.Client.Do(ctx, req, nil)
	return err
}

// free asks the platform whether a launch's name is free: it is the check that a
// create goes through, and no list. The rest of the spec is one that can't be
// refused: whether the launch's own is says nothing of its name.
// https://docs.digitalocean.com/reference/api/digitalocean/#operation/apps_validate_appSpec
func (p *provider) free(ctx context.Context, op, name string) (bool, error) {
	spec := &godo.AppSpec{Name: name, Jobs: []*godo.AppJobSpec{{Name: jobName, Kind: godo.AppJobSpecKind_PreDeploy, InstanceCount: 1, InstanceSizeSlug: sizes()[0].slug,
		Image: &godo.ImageSourceSpec{RegistryType: godo.ImageSourceSpecRegistryType_DockerHub, Registry: "library", Repository: "busybox", Tag: "latest"}}}}
	out, err := call(ctx, p, op, func(ctx context.Context) (*godo.AppProposeResponse, *godo.Response, error) {
		return p.session.Client.Apps.Propose(ctx, &godo.AppProposeRequest{Spec: spec})
	})
	return err == nil && out != nil && out.AppNameAvailable, err
}

// notFound reports whether an error says that there is no such thing.
func notFound(err error) bool { return sdk.CodeOf(err) == sdk.NotFound }
