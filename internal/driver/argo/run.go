package argo

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/argo"
	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/internal/driver/launch"
	"github.com/windlass-run/windlass/sdk"
)

const opRun = "run job"

// RunJob implements sdk.JobRunner. The Secret comes before the Workflow: a crash in
// between leaves no Workflow, and so nothing that waits for ever.
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
	name := req.Workflow.Name
	if secret != nil {
		if err := p.before(ctx, l, secret); err != nil {
			return sdk.RunJobResult{}, p.refused(ctx, name, req, err)
		}
	}
	made, err := p.client.Create(ctx, opRun, &req.Workflow)
	if secret != nil {
		err = kube.Behind(err)
	}
	adopted := sdk.CodeOf(err) == sdk.AlreadyExists
	if adopted {
		if made, err = p.adopt(ctx, l, name, err); err != nil {
			return sdk.RunJobResult{}, err
		}
	}
	if err != nil {
		return sdk.RunJobResult{}, p.refused(ctx, name, req, err)
	}
	if secret != nil {
		p.belong(ctx, made)
	}
	return sdk.RunJobResult{Handle: p.handle(made), Adopted: adopted}, nil
}

// reveal makes the launch's Secret, nil for none.
func (p *provider) reveal(ctx context.Context, l sdk.Launch, req *request) (*corev1.Secret, error) {
	data, err := podspec.Reveal(ctx, opRun, p.secrets, req.Sealed, l.Secrets)
	var e *sdk.Error
	if errors.As(err, &e) && e.Provider == "" {
		e.Provider = p.name
	}
	if err != nil || data == nil {
		return nil, err
	}
	immutable := true
	return &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: *req.Workflow.ObjectMeta.DeepCopy(),
		Type: corev1.SecretTypeOpaque, Immutable: &immutable, Data: data}, nil
}

// before makes the Secret. What an earlier send of the launch has made stays as it is.
func (p *provider) before(ctx context.Context, l sdk.Launch, secret *corev1.Secret) error {
	at := kube.Secrets(p.session.Namespace, "")
	err := p.spend(ctx, opRun, func() error { return p.session.Create(ctx, opRun, at, secret, nil) })
	if sdk.CodeOf(err) != sdk.AlreadyExists {
		return err
	}
	at.Name = secret.Name
	var is metav1.PartialObjectMetadata
	if e := p.spend(ctx, opRun, func() error { return p.session.Get(ctx, opRun, at.Metadata(), nil, &is) }); e != nil {
		return kube.Behind(e)
	}
	if is.Labels[sdk.LabelAttempt] != l.AttemptID.String() {
		return err
	}
	return nil
}

// adopt takes the Workflow that an earlier send of the launch has made.
func (p *provider) adopt(ctx context.Context, l sdk.Launch, name string, exists error) (*argo.Workflow, error) {
	w, err := p.client.Get(ctx, opRun, name)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		return nil, p.fail(sdk.Aborted, opRun, fmt.Errorf("the Workflow %s was there and is deleted", name))
	case err != nil:
		return nil, sdk.Unclear(err)
	case w.Labels[sdk.LabelAttempt] != l.AttemptID.String():
		return nil, exists
	case w.DeletionTimestamp != nil:
		return nil, p.fail(sdk.Aborted, opRun, fmt.Errorf("the Workflow %s is being deleted", name))
	}
	return w, nil
}

// belong makes the Secret go with the Workflow. Failing, it is left to the clean-up,
// which removes it by its name.
func (p *provider) belong(ctx context.Context, w *argo.Workflow) {
	at := kube.Secrets(p.session.Namespace, w.Name).Metadata()
	patch := map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{{APIVersion: argo.Version, Kind: argo.Kind, Name: w.Name, UID: w.UID}}}}
	if err := p.spend(ctx, opRun, func() error { return p.session.Patch(ctx, opRun, at, patch, nil) }); err != nil {
		p.log.WarnContext(ctx, "a Secret has no owner yet; the clean-up removes it", "name", at.Name, "error", err)
	}
}

// tidyFor bounds the removal of what a refused launch has made.
const tidyFor = 10 * time.Second

// refused tidies up behind a definite refusal, so that it left nothing, and gives it
// its reason.
func (p *provider) refused(ctx context.Context, name string, req *request, err error) error {
	if !sdk.IsClear(err) || sdk.IsUnreached(err) {
		return err
	}
	if len(req.Sealed) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyFor)
		defer cancel()
		// Another process may have sent the same launch.
		if _, gone := p.client.Get(ctx, opRun, name); sdk.CodeOf(gone) == sdk.NotFound {
			if _, e := p.removeSecret(ctx, opRun, name); e != nil {
				p.log.WarnContext(ctx, "a refused launch left a Secret behind", "name", name, "error", e)
			}
		}
	}
	var e *sdk.Error
	if errors.As(err, &e) && e.Code == sdk.NotFound {
		e.Reason, e.Remedy = sdk.ReasonInvalidSpec, "are the namespace "+p.session.Namespace+" and Argo's CRDs there? `kubectl get workflows -n "+p.session.Namespace+"`"
	}
	return err
}

func (p *provider) launches() launch.Reader[*request] {
	return launch.Reader[*request]{Provider: p.name, Identity: p.identity, Decode: decodeRequest}
}
