package kube

import (
	"context"
	"net/http"
	"net/url"
)

// Apps is the place of an object of apps/v1, such as a Deployment; an empty
// namespace is all of them, an empty name all of the namespace.
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/deployment-v1/
func Apps(resource, namespace, name string) Place {
	return Place{Group: "apis/apps/v1", Namespace: namespace, Resource: resource, Name: name}
}

// ConfigMaps is the place of a ConfigMap.
// https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/config-map-v1/
func ConfigMaps(namespace, name string) Place {
	return Place{Group: "api/v1", Namespace: namespace, Resource: "configmaps", Name: name}
}

// Autoscalers is the place of a namespace's HorizontalPodAutoscalers.
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/horizontal-pod-autoscaler-v2/
func Autoscalers(namespace string) Place {
	return Place{Group: "apis/autoscaling/v2", Namespace: namespace, Resource: "horizontalpodautoscalers"}
}

// PodMetrics is the place of a namespace's measurements, which metrics-server or
// something like it serves.
// https://github.com/kubernetes/metrics/blob/v0.34.4/pkg/apis/metrics/v1beta1/types.go
func PodMetrics(namespace string) Place {
	return Place{Group: "apis/metrics.k8s.io/v1beta1", Namespace: namespace, Resource: "pods"}
}

// Apply declares what manager wants of an object by server-side apply: what it
// declared before and doesn't now is given up. Force takes what others declared;
// without it that is Aborted. A resourceVersion or UID within object that isn't the
// object's is Aborted too, and nothing changes then. created reports whether the
// object wasn't there.
// https://kubernetes.io/docs/reference/using-api/server-side-apply/
func (x *Session) Apply(ctx context.Context, op string, at Place, manager string, force bool, object, out any) (created bool, err error) {
	query := url.Values{"fieldManager": {manager}, "fieldValidation": {"Strict"}}
	if force {
		query.Set("force", "true")
	}
	status, err := x.answer(ctx, op, http.MethodPatch, at, query, "application/apply-patch+yaml", object, out)
	return status == http.StatusCreated, err
}
