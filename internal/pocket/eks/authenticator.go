package eks

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Authenticator says whose tokens for one cluster are, as the webhook before its API
// server does. It works by the rules of
// https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/token/token.go
type Authenticator struct {
	// Cluster is the name of the cluster.
	Cluster string
	// Endpoint is the scheme and host of STS, which answers the call that a token is.
	Endpoint string
	Client   *http.Client
	// Now is the cluster's clock.
	Now func() time.Time
}

const (
	tokenPrefix   = "k8s-aws-v1."
	clusterHeader = "X-K8s-Aws-Id"
	maxToken      = 4 << 10
	tokenLife     = 15 * time.Minute
)

// parameters are all that a token's call may have.
func parameters() []string {
	return []string{"action", "version", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-expires", "x-amz-security-token", "x-amz-signature", "x-amz-signedheaders"}
}

// Whose returns the ARN of the identity that made a token.
func (a Authenticator) Whose(ctx context.Context, token string) (arn string, err error) {
	call, err := a.parse(token)
	if err != nil {
		return "", fmt.Errorf("input token was not properly formatted: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, call, http.NoBody)
	if err != nil {
		return "", err
	}
	req.Header.Set(clusterHeader, a.Cluster)
	req.Header.Set("Accept", "application/json")
	answer, err := a.Client.Do(req)
	if err != nil {
		return "", errors.New("sts getCallerIdentity failed: there is no answer")
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("sts getCallerIdentity failed: expected 200, got %d: %s", answer.StatusCode, body)
	}
	var out struct {
		Response struct {
			Result struct{ Arn string } `json:"GetCallerIdentityResult"`
		} `json:"GetCallerIdentityResponse"`
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return "", fmt.Errorf("sts getCallerIdentity failed: %w", err)
	}
	return out.Response.Result.Arn, nil
}

// parse returns the call that a token is.
func (a Authenticator) parse(token string) (string, error) {
	if len(token) > maxToken {
		return "", errors.New("token is too large")
	}
	encoded, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok {
		return "", fmt.Errorf("token is missing expected %q prefix", tokenPrefix)
	}
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(string(text))
	if err != nil {
		return "", err
	}
	if at := u.Scheme + "://" + u.Host; at != a.Endpoint {
		return "", fmt.Errorf("unexpected hostname %q in pre-signed URL", at)
	}
	if u.Path != "/" {
		return "", errors.New("unexpected path in pre-signed URL")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", errors.New("malformed query parameter")
	}
	got := map[string]string{}
	for key, values := range query {
		if !slices.Contains(parameters(), strings.ToLower(key)) {
			return "", fmt.Errorf("non-whitelisted query parameter %q", key)
		}
		if len(values) != 1 {
			return "", errors.New("query parameter with multiple values not supported")
		}
		got[strings.ToLower(key)] = values[0]
	}
	if got["action"] != "GetCallerIdentity" {
		return "", errors.New("unexpected action parameter in pre-signed URL")
	}
	if !slices.Contains(strings.Split(strings.ToLower(got["x-amz-signedheaders"]), ";"), strings.ToLower(clusterHeader)) {
		return "", fmt.Errorf("client did not sign the %s header in the pre-signed URL", clusterHeader)
	}
	if n, err := strconv.Atoi(got["x-amz-expires"]); err != nil || n < 0 || n > int(tokenLife/time.Second) {
		return "", fmt.Errorf("invalid X-Amz-Expires parameter in pre-signed URL: %q", got["x-amz-expires"])
	}
	made, err := time.Parse("20060102T150405Z", got["x-amz-date"])
	if err != nil {
		return "", errors.New("X-Amz-Date parameter must be present in pre-signed URL")
	}
	if a.Now().After(made.Add(tokenLife)) {
		return "", fmt.Errorf("X-Amz-Date parameter is expired (%.f minute expiration) %s", tokenLife.Minutes(), made)
	}
	return u.String(), nil
}
