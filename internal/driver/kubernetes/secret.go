package kubernetes

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/sdk"
)

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
	return &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: *req.Job.ObjectMeta.DeepCopy(),
		Type: corev1.SecretTypeOpaque, Immutable: &immutable, Data: data}, nil
}
