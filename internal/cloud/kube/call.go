package kube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/reach"
	"github.com/windlass-run/windlass/sdk"
)

// Place is what a call is about.
type Place struct {
	// Group is the API's path, such as "api/v1" or "apis/batch/v1".
	Group string
	// Namespace is empty for what has none.
	Namespace string
	// Resource is the plural, Name one object, Sub its subresource.
	Resource, Name, Sub string

	metadata bool
}

// Metadata is the same place, of which a read gives the objects' metadata alone: a
// Secret's values aren't sent.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-table-and-partial-object-metadata
func (p Place) Metadata() Place {
	p.metadata = true
	return p
}

// accept is the form of the answer that is wanted.
func (p Place) accept() string {
	switch {
	case !p.metadata:
		return "application/json, */*"
	case p.Name == "":
		return "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	}
	return "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
}

func (p Place) path() string {
	parts := []string{p.Group}
	if p.Namespace != "" {
		parts = append(parts, "namespaces", p.Namespace)
	}
	for _, s := range []string{p.Resource, p.Name, p.Sub} {
		if s != "" {
			parts = append(parts, url.PathEscape(s))
		}
	}
	return strings.Join(parts, "/")
}

// Jobs is the place of a Job; an empty name is all of the namespace.
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/
func Jobs(namespace, name string) Place {
	return Place{Group: "apis/batch/v1", Namespace: namespace, Resource: "jobs", Name: name}
}

// Pods is the place of a Pod.
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
func Pods(namespace, name string) Place {
	return Place{Group: "api/v1", Namespace: namespace, Resource: "pods", Name: name}
}

// Log is the place of a Pod's log.
func Log(namespace, pod string) Place {
	p := Pods(namespace, pod)
	p.Sub = "log"
	return p
}

// Secrets is the place of a Secret.
// https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/secret-v1/
func Secrets(namespace, name string) Place {
	return Place{Group: "api/v1", Namespace: namespace, Resource: "secrets", Name: name}
}

// Policies is the place of a NetworkPolicy.
// https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/network-policy-v1/
func Policies(namespace, name string) Place {
	return Place{Group: "apis/networking.k8s.io/v1", Namespace: namespace, Resource: "networkpolicies", Name: name}
}

// Namespaces is the place of a Namespace, as an object.
// https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/namespace-v1/
func Namespaces(name string) Place {
	return Place{Group: "api/v1", Resource: "namespaces", Name: name}
}

// Accounts is the place of a ServiceAccount.
// https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/service-account-v1/
func Accounts(namespace, name string) Place {
	return Place{Group: "api/v1", Namespace: namespace, Resource: "serviceaccounts", Name: name}
}

// RuntimeClasses is the place of a RuntimeClass, which no namespace has.
// https://kubernetes.io/docs/reference/kubernetes-api/node/runtime-class-v1/
func RuntimeClasses(name string) Place {
	return Place{Group: "apis/node.k8s.io/v1", Resource: "runtimeclasses", Name: name}
}

// PriorityClasses is the place of a PriorityClass, which no namespace has.
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/priority-class-v1/
func PriorityClasses(name string) Place {
	return Place{Group: "apis/scheduling.k8s.io/v1", Resource: "priorityclasses", Name: name}
}

// Reviews is where one asks what one may do.
// https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access
func Reviews() Place {
	return Place{Group: "apis/authorization.k8s.io/v1", Resource: "selfsubjectaccessreviews"}
}

// maxReply bounds a reply that is held in memory.
const maxReply = 64 << 20

// Get reads an object, or a list, into out.
func (x *Session) Get(ctx context.Context, op string, at Place, query url.Values, out any) error {
	return x.call(ctx, op, http.MethodGet, at, query, "", nil, out)
}

// Create makes an object. A member that the API doesn't know is refused rather
// than dropped.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation
func (x *Session) Create(ctx context.Context, op string, at Place, object, out any) error {
	return x.call(ctx, op, http.MethodPost, at, url.Values{"fieldValidation": {"Strict"}}, "application/json", object, out)
}

// Patch changes an object by a JSON merge patch.
// https://www.rfc-editor.org/rfc/rfc7386
func (x *Session) Patch(ctx context.Context, op string, at Place, patch, out any) error {
	return x.call(ctx, op, http.MethodPatch, at, url.Values{"fieldValidation": {"Strict"}}, "application/merge-patch+json", patch, out)
}

// Delete deletes the object of a UID; what depends on it goes in the background.
func (x *Session) Delete(ctx context.Context, op string, at Place, uid string) error {
	background := metav1.DeletePropagationBackground
	return x.call(ctx, op, http.MethodDelete, at, nil, "application/json",
		&metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}, PropagationPolicy: &background, Preconditions: metav1.NewUIDPreconditions(uid)}, nil)
}

func (x *Session) call(ctx context.Context, op, verb string, at Place, query url.Values, media string, body, out any) error {
	_, err := x.answer(ctx, op, verb, at, query, media, body, out)
	return err
}

// answer makes one call and returns the status of its answer, where that is a success.
func (x *Session) answer(ctx context.Context, op, verb string, at Place, query url.Values, media string, body, out any) (status int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, x.lost(ctx, ctx, op, err)
	}
	inner, cancel := x.bound(ctx)
	defer cancel()
	resp, err := x.send(inner, verb, at, query, media, body)
	if err != nil {
		return 0, x.lost(ctx, inner, op, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read, or nothing more is wanted of it
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if err != nil {
		return 0, x.lost(ctx, inner, op, fmt.Errorf("read the answer: %w", err))
	}
	if len(data) > maxReply {
		return 0, x.lost(ctx, inner, op, fmt.Errorf("the answer has more than %d bytes", maxReply))
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return 0, x.refused(op, resp, data)
	}
	if out == nil {
		return resp.StatusCode, nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return 0, x.lost(ctx, inner, op, fmt.Errorf("read the answer: %w", err))
	}
	return resp.StatusCode, nil
}

// Stream opens a log or a watch. Only the answer's head is bounded by the call's
// time-out; the caller closes the body.
func (x *Session) Stream(ctx context.Context, op string, at Place, query url.Values) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, x.lost(ctx, ctx, op, err)
	}
	inner, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(x.timeout, func() { cancel(errNoAnswer) })
	resp, err := x.send(inner, http.MethodGet, at, query, "", nil)
	if !timer.Stop() && err == nil {
		_ = resp.Body.Close() // too late
		err = errNoAnswer
	}
	if err != nil {
		defer cancel(nil)
		return nil, x.lost(ctx, inner, op, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer cancel(nil)
		defer resp.Body.Close() //nolint:errcheck // it is an error's
		data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err != nil {
			return nil, x.lost(ctx, inner, op, err)
		}
		return nil, x.refused(op, resp, data)
	}
	return &stream{ReadCloser: resp.Body, end: func() { cancel(nil) }}, nil
}

// OpenLog opens the log of a pod's container from the second of since on, each line
// behind its stamp; a zero since is from the beginning.
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#get-read-log-of-the-specified-pod
func (x *Session) OpenLog(ctx context.Context, op, namespace, pod, container string, since time.Time, follow bool) (io.ReadCloser, error) {
	query := url.Values{"container": {container}, "timestamps": {"true"}}
	if follow {
		query.Set("follow", "true")
	}
	if !since.IsZero() {
		query.Set("sinceTime", since.UTC().Truncate(time.Second).Format(time.RFC3339))
	}
	return x.Stream(ctx, op, Log(namespace, pod), query)
}

type stream struct {
	io.ReadCloser
	end func()
}

// Close ends the request.
func (s *stream) Close() error {
	s.end()
	return s.ReadCloser.Close()
}

func (x *Session) send(ctx context.Context, verb string, at Place, query url.Values, media string, body any) (*http.Response, error) {
	u := x.base.JoinPath(at.path())
	u.RawQuery = query.Encode()
	var r io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, verb, u.String(), r)
	if err != nil {
		return nil, err
	}
	if verb != http.MethodGet {
		// net/http sends a request again by itself where it can rewind the body
		// and the connection turned out to be dead.
		req.GetBody = nil
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	req.Header.Set("Accept", at.accept())
	resp, err := x.client.Do(req)
	if err != nil {
		return nil, err
	}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		x.ahead.Store(int64(time.Until(at)))
	}
	return resp, nil
}

// lost is the error of a call that has no whole answer. outer is the caller's
// context, inner the one that the call's own bound may have ended.
func (x *Session) lost(outer, inner context.Context, op string, err error) error {
	e := &sdk.Error{Op: op, Provider: x.provider, Err: plain(err)}
	var none *noTokenError
	switch {
	case outer.Err() != nil:
		e.Code, e.Err = sdk.CodeOf(outer.Err()), outer.Err()
	case errors.Is(context.Cause(inner), errNoAnswer):
		e.Code, e.Retryable, e.Err = sdk.DeadlineExceeded, true, fmt.Errorf("%w (%s)", errNoAnswer, x.timeout)
	case errors.As(err, &none):
		x.tokenless(e, none)
	case credentialsFailed(err):
		e.Code, e.Reason, e.Remedy = sdk.Unauthenticated, sdk.ReasonCredentials, "run the kubeconfig's credential plugin by hand: `kubectl get pods`"
	default:
		e.Code, e.Retryable = sdk.Unavailable, true
	}
	if outer.Err() == nil && reach.Nothing(inner) {
		if e.Remedy == "" {
			e.Remedy = cmp.Or(x.cluster.Closed, "is "+x.Server+" the right address, and up?")
		}
		reach.Mark(inner, e, "")
	}
	return e
}
