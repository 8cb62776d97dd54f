package appplatform

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/internal/cloud/do"
	"github.com/windlass-run/windlass/internal/driver/launch"
	"github.com/windlass-run/windlass/sdk"
)

const opRun = "run job"

// RunJob implements sdk.JobRunner. It makes one call, which makes the app and has
// it deployed, and returns while the platform is at it.
func (p *provider) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	l := r.Launch
	if err := ctx.Err(); err != nil {
		return sdk.RunJobResult{}, p.fail(sdk.CodeOf(err), opRun, err)
	}
	req, err := p.launches().ToSend(opRun, l)
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	job := component(req.App.Spec)
	secrets, err := p.unseal(ctx, l.Secrets)
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	job.Envs = append(job.Envs, secrets...)
	if req.Login != "" {
		if job.Image.RegistryCredentials, err = p.resolve(ctx, "options.registry_credentials", req.Login); err != nil {
			return sdk.RunJobResult{}, err
		}
	}
	sent := p.clock.Now()
	a, err := call(ctx, p, opRun, func(ctx context.Context) (*godo.App, *godo.Response, error) {
		return p.session.Client.Apps.Create(ctx, req.App)
	})
	switch {
	case taken(err, req.App.Spec.Name):
		return p.adopt(ctx, l, req)
	case err != nil:
		return sdk.RunJobResult{}, refused(err)
	case a == nil || a.ID == "":
		return sdk.RunJobResult{}, p.later(opRun, errors.New("DigitalOcean's reply has no app"))
	}
	return sdk.RunJobResult{Handle: p.handle(a.ID, req.App.Spec.Name, firstOf(a), req.Nonce, sent)}, nil
}

// firstOf returns the deployment that a create has made.
func firstOf(a *godo.App) *godo.Deployment {
	for _, d := range []*godo.Deployment{a.PendingDeployment, a.InProgressDeployment, a.ActiveDeployment} {
		if d != nil {
			return d
		}
	}
	return nil
}

// taken reports whether a create was refused for its name. No page tells status
// and words, so a refusal that quotes the name counts, too.
func taken(err error, name string) bool {
	switch sdk.CodeOf(err) {
	case sdk.AlreadyExists, sdk.Aborted:
		return true
	case sdk.InvalidArgument, sdk.FailedPrecondition:
		return do.Taken(do.Text(err)) || strings.Contains(do.Text(err), name)
	}
	return false
}

// adopt takes the app that an earlier send of the launch has made.
func (p *provider) adopt(ctx context.Context, l sdk.Launch, req *request) (sdk.RunJobResult, error) {
	name := req.App.Spec.Name
	a, err := p.byName(ctx, opRun, name)
	if err != nil {
		// The app is there, so that a refusal of the search is none of the launch.
		var e *sdk.Error
		if errors.As(err, &e) && sdk.IsClear(err) {
			return sdk.RunJobResult{}, p.later(opRun, fmt.Errorf("an app %s is there, and can't be looked for: %w", name, err))
		}
		return sdk.RunJobResult{}, err
	}
	if a == nil {
		return sdk.RunJobResult{}, p.later(opRun, fmt.Errorf("an app %s is there, and isn't listed yet", name))
	}
	m, ours := markOf(a)
	if !ours || !m.of(l) {
		return sdk.RunJobResult{}, p.fail(sdk.AlreadyExists, opRun, fmt.Errorf("an app %s is there that this launch has not made", name))
	}
	h, err := p.found(ctx, opRun, a)
	if err != nil {
		return sdk.RunJobResult{}, sdk.Unclear(err)
	}
	return sdk.RunJobResult{Handle: h, Adopted: true}, nil
}

// found makes a handle of an app that was looked for.
func (p *provider) found(ctx context.Context, op string, a *godo.App) (sdk.JobHandle, error) {
	list, err := p.deployments(ctx, op, a.ID)
	if err != nil && !notFound(err) {
		return sdk.JobHandle{}, err
	}
	sent := a.CreatedAt
	if sent.IsZero() {
		sent = p.clock.Now()
	}
	own, _ := split(list, "")
	return p.handle(a.ID, a.Spec.Name, own, nonceOf(a.Spec), sent), nil
}

// nonceOf returns the nonce of a command that writes its exit code: it is the
// attempt's ID.
func nonceOf(spec *godo.AppSpec) string {
	job := component(spec)
	nonce := strings.TrimPrefix(spec.Name, do.AppPrefix)
	if job != nil && strings.HasPrefix(strings.TrimPrefix(job.RunCommand, "exec "), quoteAll([]string{"sh", "-c", wrapper, nonce})+" ") {
		return nonce
	}
	return ""
}

// refused gives a definite refusal its reason.
func refused(err error) error {
	var e *sdk.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code {
	case sdk.ResourceExhausted:
		e.Retryable, e.Reason = true, sdk.ReasonQuota
	case sdk.InvalidArgument, sdk.FailedPrecondition, sdk.NotFound:
		e.Reason = sdk.ReasonInvalidSpec
	}
	return err
}

// launches reads this provider's launches.
func (p *provider) launches() launch.Reader[*request] {
	return launch.Reader[*request]{Provider: p.name, Identity: p.identity, Decode: decodeRequest}
}
