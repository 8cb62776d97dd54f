package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/windlass-run/windlass/internal/cloud/reach"
	"github.com/windlass-run/windlass/sdk"
)

// credential returns the source of tokens: a client's secret, its certificate or
// a federated token where the variables are there, else the vendor's chain where
// that is allowed.
func (s Settings) credential(o policy.ClientOptions) (azcore.TokenCredential, error) {
	v := s.Credentials
	tenant, client := v["AZURE_TENANT_ID"], v["AZURE_CLIENT_ID"]
	// A pocket cloud is its own authority, which no list of Microsoft's knows.
	pocket := s.Endpoint != ""
	var got azcore.TokenCredential
	var err error
	field := ""
	// Not for the vendor's chain, which asks for services that may not be there.
	ambient := o
	o.Transport = listener{o.Transport}
	switch {
	case tenant == "" || client == "":
		err = errNone
	case v["AZURE_CLIENT_SECRET"] != "":
		field = "AZURE_CLIENT_SECRET"
		got, err = azidentity.NewClientSecretCredential(tenant, client, v[field], &azidentity.ClientSecretCredentialOptions{ClientOptions: o, DisableInstanceDiscovery: pocket})
	case v["AZURE_CLIENT_CERTIFICATE_PATH"] != "":
		field = "AZURE_CLIENT_CERTIFICATE_PATH"
		got, err = s.certificate(tenant, client, v[field], v["AZURE_CLIENT_CERTIFICATE_PASSWORD"], o, pocket)
	case v["AZURE_FEDERATED_TOKEN_FILE"] != "":
		field = "AZURE_FEDERATED_TOKEN_FILE"
		got, err = azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{ClientOptions: o, TenantID: tenant, ClientID: client, TokenFilePath: v[field], DisableInstanceDiscovery: pocket})
	default:
		err = errNone
	}
	if errors.Is(err, errNone) && s.Ambient {
		got, err = azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: ambient, TenantID: tenant, DisableInstanceDiscovery: pocket})
	}
	if err != nil {
		return nil, &sdk.Error{Code: sdk.Unauthenticated, Op: "open provider", Provider: s.Provider, Field: field, Err: err,
			Remedy: "set AZURE_TENANT_ID and AZURE_CLIENT_ID with AZURE_CLIENT_SECRET, AZURE_CLIENT_CERTIFICATE_PATH or AZURE_FEDERATED_TOKEN_FILE; or write credentials: ambient in the provider's entry"}
	}
	return source{got}, nil
}

var errNone = errors.New("there are no credentials")

// certificate reads a client's certificate and key, as PEM or PKCS #12. Errors of
// the parser may quote what the file holds.
func (s Settings) certificate(tenant, client, file, password string, o policy.ClientOptions, pocket bool) (azcore.TokenCredential, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	certs, key, err := azidentity.ParseCertificates(data, []byte(password))
	if err != nil {
		return nil, fmt.Errorf("%s holds no certificate with its key, or its password is wrong", file)
	}
	return azidentity.NewClientCertificateCredential(tenant, client, certs, key, &azidentity.ClientCertificateCredentialOptions{ClientOptions: o, DisableInstanceDiscovery: pocket})
}

// source gives tokens, and marks the failure to get one: nothing was sent then.
type source struct{ azcore.TokenCredential }

// GetToken implements azcore.TokenCredential.
func (s source) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	w := new(words)
	t, err := s.TokenCredential.GetToken(context.WithValue(ctx, wordsKey{}, w), o)
	if err != nil {
		return t, &noToken{err: cmp.Or(ctx.Err(), err), silent: w.silent.Load(), unreached: w.unreached.Load()}
	}
	return t, nil
}

// Token returns a token of a scope for a service that the vendor's clients don't call.
func (x *Session) Token(ctx context.Context, op, scope string) (azcore.AccessToken, error) {
	var out azcore.AccessToken
	err := x.Call(ctx, op, func(ctx context.Context) (err error) {
		out, err = x.token.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{scope}})
		return err
	})
	return out, err
}

// words is what came of the last request to an authority.
type words struct{ silent, unreached atomic.Bool }

// listener notes where the authority gave no answer: the vendor's errors hold a
// text alone then, as they do where credentials are wrong.
type listener struct{ policy.Transporter }

type wordsKey struct{}

// Do implements policy.Transporter.
func (l listener) Do(r *http.Request) (*http.Response, error) {
	ctx := reach.Watch(reach.Apart(r.Context()))
	res, err := l.Transporter.Do(r.WithContext(ctx))
	if w, ok := r.Context().Value(wordsKey{}).(*words); ok {
		w.silent.Store(err != nil)
		w.unreached.Store(err != nil && reach.Nothing(ctx))
	}
	return res, err
}

// noToken is a failure to get a token. silent: the authority gave no answer;
// unreached: there was no connection to it.
type noToken struct {
	err               error
	silent, unreached bool
}

func (e *noToken) Error() string { return "no access token could be had: " + e.err.Error() }

func (e *noToken) Unwrap() error { return e.err }

// NonRetriable tells the vendor's client that a further try is none of its own.
func (e *noToken) NonRetriable() {}
