package awsjson

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Presigned reports whether a request bears its signature in the query.
func Presigned(r *http.Request) bool { return r.URL.Query().Has("X-Amz-Signature") }

// presignedLife is how long STS takes a call that was signed before, whatever
// X-Amz-Expires says:
// https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/token/token.go
const presignedLife = 15 * time.Minute

// ReadPresigned checks that a request without a body bears a signature of version 4 in
// its query, in the right form and within its time, and returns its scope. Where secret
// knows the secret of the key, the signature itself is verified, so that it stands for
// the headers that it names. See
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-signing-elements.html
func ReadPresigned(r *http.Request, now time.Time, secret func(accessKey string) (string, bool)) (Scope, error) {
	query := r.URL.Query()
	for _, need := range []string{"X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders"} {
		if query.Get(need) == "" {
			return Scope{}, &Error{Code: "IncompleteSignature", Message: "AWS query-string parameters must include '" + need + "'.", Status: http.StatusForbidden}
		}
	}
	refused := func(format string, args ...any) (Scope, error) {
		e := Errorf("SignatureDoesNotMatch", format, args...)
		e.Status = http.StatusForbidden
		return Scope{}, e
	}
	c := strings.Split(query.Get("X-Amz-Credential"), "/")
	date, err := time.Parse("20060102T150405Z", query.Get("X-Amz-Date"))
	if query.Get("X-Amz-Algorithm") != "AWS4-HMAC-SHA256" || len(c) != 5 || c[4] != "aws4_request" || err != nil || date.Format("20060102") != c[1] {
		return refused("The signature isn't of version 4, or its date isn't its scope's.")
	}
	if now.After(date.Add(presignedLife)) || date.After(now.Add(clockSkew)) {
		return refused("Signature expired: %s is now earlier than %s", date.Format("20060102T150405Z"), now.Add(-presignedLife).UTC().Format("20060102T150405Z"))
	}
	scope := Scope{AccessKey: c[0], Region: c[2], Service: c[3]}
	key, ok := secret(scope.AccessKey)
	if !ok {
		return scope, nil
	}
	given := query.Get("X-Amz-Signature")
	query.Del("X-Amz-Signature")
	if want := presignature(r, query, c, key); subtle.ConstantTimeCompare([]byte(want), []byte(given)) != 1 {
		return refused("The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details.")
	}
	return scope, nil
}

// presignature is the signature that a request should have beside the rest of its
// query.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
func presignature(r *http.Request, query url.Values, scope []string, secret string) string {
	names := strings.Split(query.Get("X-Amz-SignedHeaders"), ";")
	slices.Sort(names)
	var headers strings.Builder
	for _, name := range names {
		value := strings.Join(r.Header.Values(name), ",")
		if strings.EqualFold(name, "host") {
			value = r.Host
		}
		headers.WriteString(strings.ToLower(name) + ":" + strings.Join(strings.Fields(value), " ") + "\n")
	}
	canonical := strings.Join([]string{r.Method, r.URL.EscapedPath(), strings.ReplaceAll(query.Encode(), "+", "%20"), headers.String(), strings.Join(names, ";"), hexHash("")}, "\n")
	toSign := strings.Join([]string{"AWS4-HMAC-SHA256", query.Get("X-Amz-Date"), strings.Join(scope[1:], "/"), hexHash(canonical)}, "\n")
	key := []byte("AWS4" + secret)
	for _, part := range scope[1:] {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, toSign))
}

func hexHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text)) // it never fails
	return h.Sum(nil)
}
