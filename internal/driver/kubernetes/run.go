package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/driver/launch"
	"github.com/windlass-run/windlass/sdk"
)

const opRun = "run job"

// RunJob implements sdk.JobRunner. What the pod needs comes before the Job: a
// crash in between leaves no Job, and so nothing that waits for ever.
func (p *provider) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	l := r.Launch
	if err := ctx.Err(); err != nil {
		return sdk.RunJobResult{}, p.fail(sdk.CodeOf(err), opRun, err)
	}
	req, err := p.launches().ToSend(opRun, l)
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	secret, err := p.reveal(ctx, l, req)
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	name := req.Job.Name
	if err := p.before(ctx, l, req, secret); err != nil {
		return sdk.RunJobResult{}, p.refused(ctx, name, req, err)
	}
	var made batchv1.Job
	err = p.spend(ctx, opRun, func() error {
		return p.session.Create(ctx, opRun, kube.Jobs(p.session.Namespace, ""), &req.Job, &made)
	})
	if req.Policy != nil || secret != nil {
		err = kube.Behind(err)
	}
	adopted := sdk.CodeOf(err) == sdk.AlreadyExists
	if adopted {
		made, err = p.adopt(ctx, l, name, err)
		if err != nil {
			return sdk.RunJobResult{}, err
		}
	}
	if err != nil {
		return sdk.RunJobResult{}, p.refused(ctx, name, req, err)
	}
	p.belong(ctx, req, &made)
	return sdk.RunJobResult{Handle: p.handle(&made), Adopted: adopted}, nil
}

// before makes what the pod needs. What an earlier send of the launch has made
// stays as it is.
func (p *provider) before(ctx context.Context, l sdk.Launch, req *request, secret *corev1.Secret) error {
	create := func(at kube.Place, object any) error {
		err := p.spend(ctx, opRun, func() error { return p.session.Create(ctx, opRun, at, object, nil) })
		if sdk.CodeOf(err) != sdk.AlreadyExists {
			return err
		}
		at.Name = req.Job.Name
		var is metav1.PartialObjectMetadata
		if e := p.spend(ctx, opRun, func() error { return p.session.Get(ctx, opRun, at.Metadata(), nil, &is) }); e != nil {
			return kube.Behind(e)
		}
		if is.Labels[sdk.LabelAttempt] != l.AttemptID.String() {
			return err
		}
		return nil
	}
	if req.Policy != nil {
		if err := create(kube.Policies(p.session.Namespace, ""), req.Policy); err != nil {
			return err
		}
	}
	if secret == nil {
		return nil
	}
	err := create(kube.Secrets(p.session.Namespace, ""), secret)
	if req.Policy != nil {
		err = kube.Behind(err)
	}
	return err
}

// adopt takes the Job that an earlier send of the launch has made.
func (p *provider) adopt(ctx context.Context, l sdk.Launch, name string, exists error) (batchv1.Job, error) {
	j, err := p.getJob(ctx, opRun, name)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		return j, p.fail(sdk.Aborted, opRun, fmt.Errorf("the Job %s was there and is deleted", name))
	case err != nil:
		return j, sdk.Unclear(err)
	case j.Labels[sdk.LabelAttempt] != l.AttemptID.String():
		return j, exists
	case j.DeletionTimestamp != nil:
		return j, p.fail(sdk.Aborted, opRun, fmt.Errorf("the Job %s is being deleted", name))
	}
	return j, nil
}

// belong makes what came before the Job go with it. Failing, it is left to the
// clean-up, which removes each by its name.
func (p *provider) belong(ctx context.Context, req *request, j *batchv1.Job) {
	for _, at := range p.parts(req, j.Name) {
		patch := map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID}}}}
		if err := p.spend(ctx, opRun, func() error { return p.session.Patch(ctx, opRun, at.Metadata(), patch, nil) }); err != nil {
			p.log.WarnContext(ctx, "an object has no owner yet; the clean-up removes it", "resource", at.Resource, "name", at.Name, "error", err)
		}
	}
}

// parts are what a launch makes beside the Job.
func (p *provider) parts(req *request, name string) []kube.Place {
	var out []kube.Place
	if len(req.Sealed) > 0 {
		out = append(out, kube.Secrets(p.session.Namespace, name))
	}
	if req.Policy != nil {
		out = append(out, kube.Policies(p.session.Namespace, name))
	}
	return out
}

// tidyFor bounds the removal of what a refused launch has made.
const tidyFor = 10 * time.Second

// refused tidies up behind a definite refusal, so that it left nothing, and gives
// it its reason.
func (p *provider) refused(ctx context.Context, name string, req *request, err error) error {
	if !sdk.IsClear(err) || sdk.IsUnreached(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyFor)
	defer cancel()
	if parts := p.parts(req, name); len(parts) > 0 {
		// Another process may have sent the same launch.
		if _, gone := p.getJob(ctx, opRun, name); sdk.CodeOf(gone) == sdk.NotFound {
			for _, at := range parts {
				if _, e := p.session.RemovePart(ctx, opRun, at, p.spend); e != nil {
					p.log.WarnContext(ctx, "a refused launch left an object behind", "resource", at.Resource, "name", at.Name, "error", e)
				}
			}
		}
	}
	var e *sdk.Error
	if errors.As(err, &e) && e.Code == sdk.NotFound {
		e.Reason, e.Remedy = sdk.ReasonInvalidSpec, "is the namespace "+p.session.Namespace+" there? `kubectl get namespaces`"
	}
	return err
}

// launches reads this provider's launches.
func (p *provider) launches() launch.Reader[*request] {
	return launch.Reader[*request]{Provider: p.name, Identity: p.identity, Decode: decodeRequest}
}

func (p *provider) getJob(ctx context.Context, op, name string) (batchv1.Job, error) {
	var j batchv1.Job
	err := p.spend(ctx, op, func() error { return p.session.Get(ctx, op, kube.Jobs(p.session.Namespace, name), nil, &j) })
	return j, err
}
