package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/sdk"
)

// errNoAnswer is the cause of a call's own time-out.
var errNoAnswer = errors.New("no answer in time")

// plain drops the words that net/http puts around an error, which repeat the
// whole address.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// Behind is the error of a call that comes after one that made a part of a launch:
// that it wasn't sent itself proves nothing of the launch.
func Behind(err error) error {
	if sdk.IsUnreached(err) {
		return sdk.Unclear(err)
	}
	return err
}

// credentialsFailed reports whether a call wasn't sent since the kubeconfig's
// plugin gave no credentials. client-go has no type for that.
func credentialsFailed(err error) bool {
	return strings.HasPrefix(plain(err).Error(), "getting credentials: ")
}

// maxRetryAfter bounds the wait that a server may ask for.
const maxRetryAfter = 5 * time.Minute

// refused is the error of an answer that isn't a success. Only what the service says
// in its own form is a word of it: what else says 404 is something on the way to it.
func (x *Session) refused(op string, resp *http.Response, body []byte) error {
	e := &sdk.Error{Op: op, Provider: x.provider}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		e.RetryAfter = min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if x.words(e, resp.StatusCode, body) {
		if e.Code == sdk.Unauthenticated && x.cluster.Stranger != "" {
			e.Remedy = x.cluster.Stranger
		}
		return e
	}
	e.Code, e.Retryable, e.Err = sdk.Unavailable, true, wordlessError(resp.StatusCode)
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		e.Code, e.Retryable, e.Reason = sdk.Unauthenticated, false, sdk.ReasonCredentials
	case http.StatusTooManyRequests:
		e.Code = sdk.ResourceExhausted
	}
	return e
}

// wordlessError is an answer that isn't in the service's form, by its status.
type wordlessError int

func (e wordlessError) Error() string {
	return fmt.Sprintf("HTTP %d, which is no answer of the service", int(e))
}

// Unserved reports whether an answer says that nobody serves an address: of an API
// group that isn't there an API server says so without a Status. Something on the way
// may have said it as well.
func Unserved(err error) bool {
	var e wordlessError
	return errors.As(err, &e) && e == http.StatusNotFound
}

// statusWords reads what an API server says: a Status object.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#error-responses
func statusWords(e *sdk.Error, code int, body []byte) bool {
	st := metav1.Status{}
	if json.Unmarshal(body, &st) != nil || st.Kind != "Status" {
		return false
	}
	st.Code = int32(code) //nolint:gosec // an HTTP status
	e.Err = &apierrors.StatusError{ErrStatus: st}
	classify(e, st)
	return true
}

// Failed is the error of a Status that came in a watch.
func (x *Session) Failed(op string, st metav1.Status) error {
	e := &sdk.Error{Op: op, Provider: x.provider, Err: &apierrors.StatusError{ErrStatus: st}}
	classify(e, st)
	return e
}

func classify(e *sdk.Error, st metav1.Status) {
	switch st.Code {
	case http.StatusUnauthorized:
		e.Code, e.Reason, e.Remedy = sdk.Unauthenticated, sdk.ReasonCredentials, "renew the credentials that the kubeconfig names"
	case http.StatusForbidden:
		e.Code, e.Remedy = sdk.PermissionDenied, "`windlass provider check` lists which rights are missing"
		if strings.Contains(st.Message, "exceeded quota") {
			// https://kubernetes.io/docs/concepts/policy/resource-quotas/
			e.Code, e.Retryable, e.Reason, e.Remedy = sdk.ResourceExhausted, true, sdk.ReasonQuota, "`kubectl describe quota` shows what is used up"
		}
	case http.StatusNotFound:
		e.Code = sdk.NotFound
	case http.StatusConflict:
		e.Code = sdk.Aborted
		if st.Reason == metav1.StatusReasonAlreadyExists {
			e.Code = sdk.AlreadyExists
		}
	case http.StatusGone:
		e.Code = sdk.OutOfRange
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		e.Code, e.Reason = sdk.InvalidArgument, sdk.ReasonInvalidSpec
	case http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType:
		e.Code = sdk.Unimplemented
	case http.StatusTooManyRequests:
		e.Code, e.Retryable = sdk.ResourceExhausted, true
	default:
		e.Code, e.Retryable = sdk.Unavailable, true
	}
	if d := st.Details; d != nil && d.RetryAfterSeconds > 0 && e.RetryAfter == 0 {
		e.RetryAfter = min(time.Duration(d.RetryAfterSeconds)*time.Second, maxRetryAfter)
	}
}

// Expired reports whether a watch's place, or a list's, is no longer known, so
// that a list must come before the next one.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#410-gone-responses
func Expired(err error) bool { return sdk.CodeOf(err) == sdk.OutOfRange }
