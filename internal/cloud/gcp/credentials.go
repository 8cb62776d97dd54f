package gcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/windlass-run/windlass/sdk"
)

// scope is that of all calls; what they may do is IAM's affair.
// https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.jobs/create
const scope = "https://www.googleapis.com/auth/cloud-platform"

func (s Settings) scopes() []string { return append([]string{scope}, s.Scopes...) }

// withCredentials returns the source of access tokens, and the project that the
// credentials are of, where they say: a file of credentials, else a token, else
// gcloud's login or the metadata server where the ambient ones are allowed.
func withCredentials(ctx context.Context, s Settings) (oauth2.TokenSource, string, error) {
	v := s.Credentials
	if file := v["GOOGLE_APPLICATION_CREDENTIALS"]; file != "" {
		return fromFile(ctx, s, file, "GOOGLE_APPLICATION_CREDENTIALS")
	}
	if token := cmp.Or(v["GOOGLE_OAUTH_ACCESS_TOKEN"], v["CLOUDSDK_AUTH_ACCESS_TOKEN"]); token != "" {
		return fixed{&oauth2.Token{AccessToken: token, TokenType: "Bearer"}}, "", nil
	}
	if !s.Ambient {
		return nil, "", &sdk.Error{Code: sdk.Unauthenticated, Op: "open provider", Provider: s.Provider, Err: errors.New("there are no credentials"),
			Remedy: "set GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_OAUTH_ACCESS_TOKEN; or write credentials: ambient in the provider's entry"}
	}
	if file := loginFile(v); file != "" {
		if _, err := os.Stat(file); err == nil {
			return fromFile(ctx, s, file, file)
		}
	}
	return metadataServer{google.ComputeTokenSource("", s.scopes()...)}, "", nil
}

// loginFile is where `gcloud auth application-default login` leaves its
// credentials.
// https://cloud.google.com/docs/authentication/application-default-credentials
func loginFile(v map[string]string) string {
	const name = "application_default_credentials.json"
	switch {
	case v["CLOUDSDK_CONFIG"] != "":
		return filepath.Join(v["CLOUDSDK_CONFIG"], name)
	case v["APPDATA"] != "":
		return filepath.Join(v["APPDATA"], "gcloud", name)
	case v["HOME"] != "":
		return filepath.Join(v["HOME"], ".config", "gcloud", name)
	}
	return ""
}

// kinds are the credentials that a file may hold.
func kinds() []google.CredentialsType {
	return []google.CredentialsType{google.ServiceAccount, google.AuthorizedUser, google.ExternalAccount, google.ExternalAccountAuthorizedUser, google.ImpersonatedServiceAccount}
}

// fromFile reads a file of credentials.
func fromFile(ctx context.Context, s Settings, file, field string) (oauth2.TokenSource, string, error) {
	fail := func(err error) (oauth2.TokenSource, string, error) {
		return nil, "", &sdk.Error{Code: sdk.Unauthenticated, Op: "open provider", Provider: s.Provider, Field: field, Err: err,
			Remedy: "name a file of credentials as Google Cloud's console or gcloud writes it"}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return fail(err)
	}
	var head struct {
		Type google.CredentialsType `json:"type"`
	}
	// Errors of the decoder may quote what the file holds.
	if json.Unmarshal(data, &head) != nil {
		return fail(fmt.Errorf("%s is not JSON", file))
	}
	if !slices.Contains(kinds(), head.Type) {
		return fail(fmt.Errorf("%s holds credentials of the unknown type %q", file, head.Type))
	}
	// The source outlives the call that opens the provider.
	got, err := google.CredentialsFromJSONWithType(context.WithoutCancel(ctx), data, head.Type, s.scopes()...)
	if err != nil {
		return fail(fmt.Errorf("%s can't be used as credentials of the type %s", file, head.Type))
	}
	return got.TokenSource, got.ProjectID, nil
}

// fixed is a token that was handed over.
type fixed struct{ token *oauth2.Token }

// Token implements oauth2.TokenSource.
func (f fixed) Token() (*oauth2.Token, error) { return f.token, nil }

// metadataServer gives tokens on Google's own machines. Elsewhere nobody answers,
// which means that there are no credentials.
type metadataServer struct{ oauth2.TokenSource }

// noCredentials is a failure to get a token, where nothing was sent; unheard: the
// authority gave no answer, so that the credentials may be right.
type noCredentials struct {
	err     error
	unheard bool
}

// noToken is the failure of a source of tokens. That of a service account keeps
// the words alone of a request that failed.
// https://github.com/golang/oauth2/blob/master/jwt/jwt.go
func noToken(from oauth2.TokenSource, err error) *noCredentials {
	var request *url.Error
	var answer *oauth2.RetrieveError
	_, metadata := from.(metadataServer)
	failed := errors.As(err, &request) || strings.Contains(err.Error(), `cannot fetch token: Post "`)
	return &noCredentials{err, !metadata && failed && !errors.As(err, &answer)}
}

func (e *noCredentials) Error() string { return "no access token could be had: " + e.err.Error() }

func (e *noCredentials) Unwrap() error { return e.err }
