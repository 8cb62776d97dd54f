// Package aks finds clusters of Azure Kubernetes Service and gets tokens for them.
//
// The one call that this takes, listClusterUserCredential, goes through the vendor's
// pipeline of Resource Manager without the client for all of Container Service.
package aks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/internal/cloud/hosted"
	"github.com/windlass-run/windlass/sdk"
)

// serverApp is the application that tokens for clusters are issued for, in all of
// Azure's clouds.
// https://azure.github.io/kubelogin/concepts/aks.html
const serverApp = "6dae42f8-4368-4678-94ff-3960e28e3630"

// apiVersion is that of the call.
// https://learn.microsoft.com/en-us/rest/api/aks/managed-clusters/list-cluster-user-credentials
const apiVersion = "2025-10-01"

// Cloud is Azure Kubernetes Service, for the kind kubernetes.
func Cloud() hosted.Cloud {
	return hosted.Cloud{
		Key: "aks",
		Doc: "A cluster of Azure Kubernetes Service, instead of a kubeconfig. Its credentials are those of the kind azure-aci.",
		Fields: []sdk.SchemaField{
			{Name: "cluster", Type: sdk.TypeString, Required: true, Doc: "The cluster's name."},
			{Name: "resource_group", Type: sdk.TypeString, Required: true, Doc: "The resource group that the cluster is in."},
			{Name: "subscription", Type: sdk.TypeString, Default: "AZURE_SUBSCRIPTION_ID", Doc: "The subscription's ID."},
			{Name: "cloud", Type: sdk.TypeString, Default: azure.CloudPublic, Enum: []string{azure.CloudPublic, azure.CloudChina, azure.CloudGovernment}, Doc: "Which of Azure's clouds."},
			{Name: "endpoint", Type: sdk.TypeString, Doc: "A pocket cloud's address on this machine, https://127.0.0.1:PORT; leave it out for Azure itself."},
			{Name: "ca_file", Type: sdk.TypeString, Doc: "The certificate that signs the endpoint's own, a file as PEM."},
		},
		Open: open,
	}
}

type config struct {
	Cluster       string `json:"cluster"`
	ResourceGroup string `json:"resource_group"`
	Subscription  string `json:"subscription"`
	Cloud         string `json:"cloud"`
	Endpoint      string `json:"endpoint"`
	CAFile        string `json:"ca_file"`
}

// https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/resource-name-rules
var (
	clusterName = hosted.Form(`^[a-zA-Z0-9]([-_a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$`)
	groupName   = hosted.Form(`^[-\w.()]{0,89}[-\w()]$`)
)

// source is one cluster.
type source struct {
	session  *azure.Session
	client   *arm.Client
	provider string
	config   config
	// app is the application that tokens are issued for, once the cluster was found.
	app atomic.Pointer[string]
}

var _ hosted.Source = (*source)(nil)

func open(_ context.Context, r sdk.OpenRequest, raw json.RawMessage) (hosted.Source, error) {
	bad := func(field string, err error) (hosted.Source, error) {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: hosted.Op, Provider: r.Name, Field: field, Err: err}
	}
	var c config
	if err := json.Unmarshal(raw, &c); err != nil {
		return bad("", err)
	}
	switch {
	case !clusterName().MatchString(c.Cluster):
		return bad("config.cluster", fmt.Errorf("%q is no cluster's name: it has up to 63 letters, digits, dashes and underscores", c.Cluster))
	case !groupName().MatchString(c.ResourceGroup):
		return bad("config.resource_group", fmt.Errorf("%q is no resource group's name", c.ResourceGroup))
	}
	session, err := azure.Open(azure.Settings{Provider: r.Name, Subscription: c.Subscription, Cloud: c.Cloud, Endpoint: c.Endpoint, CAFile: c.CAFile, Credentials: r.Credentials,
		Ambient: r.AmbientCredentials, CallTimeout: r.CallTimeout})
	if err != nil {
		return nil, err
	}
	credential, options := session.Client()
	client, err := arm.NewClient("windlass", "v1.0.0", credential, options)
	if err != nil {
		return nil, errors.Join(&sdk.Error{Code: sdk.Internal, Op: hosted.Op, Provider: r.Name, Err: err}, session.Close())
	}
	return &source{session: session, client: client, provider: r.Name, config: c}, nil
}

// Close implements hosted.Source.
func (s *source) Close() error { return s.session.Close() }

// Cluster implements hosted.Source. The kubeconfig that Azure gives its users says
// where the cluster is, and whether it is called with tokens or, where it has local
// accounts alone, with a certificate.
func (s *source) Cluster(ctx context.Context) (hosted.Cluster, error) {
	var file []byte
	err := s.session.Call(ctx, hosted.Op, func(ctx context.Context) (err error) {
		file, err = s.kubeconfig(ctx)
		return err
	})
	if err != nil {
		return hosted.Cluster{}, s.explained(err)
	}
	place, user, err := entry(file)
	if err != nil {
		return hosted.Cluster{}, &sdk.Error{Code: sdk.Internal, Op: hosted.Op, Provider: s.provider, Err: fmt.Errorf("the kubeconfig that Azure gives for the cluster %s: %w", s.config.Cluster, err)}
	}
	out := hosted.Cluster{Server: place.Server, Authority: place.CertificateAuthorityData,
		Stranger: "give the identity the role Azure Kubernetes Service RBAC Writer for the cluster, or its object ID a RoleBinding"}
	if u, err := url.Parse(place.Server); err == nil && strings.Contains(u.Hostname(), ".privatelink.") {
		// https://learn.microsoft.com/en-us/azure/aks/private-clusters
		out.Closed = "the cluster " + s.config.Cluster + " is private: call it from its virtual network, or one that is peered with it"
	}
	app := serverOf(user)
	if app == "" {
		out.Certificate, out.Key = user.ClientCertificateData, user.ClientKeyData
		return out, nil
	}
	s.app.Store(&app)
	return out, nil
}

// kubeconfig makes the call.
func (s *source) kubeconfig(ctx context.Context) ([]byte, error) {
	at := runtime.JoinPaths(s.client.Endpoint(), "subscriptions", s.session.Subscription, "resourceGroups", url.PathEscape(s.config.ResourceGroup),
		"providers/Microsoft.ContainerService/managedClusters", url.PathEscape(s.config.Cluster), "listClusterUserCredential")
	req, err := runtime.NewRequest(ctx, http.MethodPost, at)
	if err != nil {
		return nil, err
	}
	req.Raw().URL.RawQuery = url.Values{"api-version": {apiVersion}, "format": {"exec"}}.Encode()
	req.Raw().Header.Set("Accept", "application/json")
	resp, err := s.client.Pipeline().Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	if !runtime.HasStatusCode(resp, http.StatusOK) {
		return nil, runtime.NewResponseError(resp)
	}
	// https://learn.microsoft.com/en-us/rest/api/aks/managed-clusters/list-cluster-user-credentials#credentialresults
	var out struct {
		Kubeconfigs []struct {
			Value []byte `json:"value"`
		} `json:"kubeconfigs"`
	}
	if err := runtime.UnmarshalAsJSON(resp, &out); err != nil {
		return nil, err
	}
	if len(out.Kubeconfigs) == 0 {
		return nil, errors.New("the answer has no kubeconfig")
	}
	return out.Kubeconfigs[0].Value, nil
}

// explained says what is to be done about a cluster that wasn't found.
func (s *source) explained(err error) error {
	out := hosted.Unseen(err)
	if out == nil {
		return err
	}
	code, _ := azure.CodeText(err)
	switch {
	case out.Code == sdk.PermissionDenied:
		out.Remedy = "give the identity the role Azure Kubernetes Service Cluster User Role for the cluster " + s.config.Cluster
	case code == "ResourceGroupNotFound":
		out.Field = "config.resource_group"
	case code != "SubscriptionNotFound":
		out.Remedy = "`az aks list --resource-group " + s.config.ResourceGroup + "` lists those that there are"
	}
	return out
}

// entry is the cluster and the user of a kubeconfig's context.
func entry(file []byte) (*api.Cluster, *api.AuthInfo, error) {
	// Errors of the decoder may quote what the file holds.
	c, err := clientcmd.Load(file)
	if err != nil {
		return nil, nil, errors.New("it can't be read")
	}
	at := c.Contexts[c.CurrentContext]
	if at == nil || c.Clusters[at.Cluster] == nil || c.AuthInfos[at.AuthInfo] == nil {
		return nil, nil, errors.New("it has no cluster and user")
	}
	place, user := c.Clusters[at.Cluster], c.AuthInfos[at.AuthInfo]
	if serverOf(user) == "" && (len(user.ClientCertificateData) == 0 || len(user.ClientKeyData) == 0) {
		return nil, nil, errors.New("its user has neither a certificate nor a login by Entra ID")
	}
	return place, user, nil
}

// serverOf is the application that a user's tokens are to be issued for; empty for one
// who needs none.
func serverOf(user *api.AuthInfo) string {
	switch {
	case user.Exec != nil:
		if i := slices.Index(user.Exec.Args, "--server-id"); i >= 0 && i+1 < len(user.Exec.Args) {
			return user.Exec.Args[i+1]
		}
		return serverApp
	case user.AuthProvider != nil:
		if id := user.AuthProvider.Config["apiserver-id"]; id != "" {
			return id
		}
		return serverApp
	}
	return ""
}

// Token implements hosted.Source.
func (s *source) Token(ctx context.Context) (hosted.Token, error) {
	app := s.app.Load()
	if app == nil {
		return hosted.Token{}, &sdk.Error{Code: sdk.Internal, Op: "get a token for the cluster", Provider: s.provider, Err: errors.New("the cluster wasn't found, or takes none")}
	}
	t, err := s.session.Token(ctx, "get a token for the cluster", *app+"/.default")
	if err != nil {
		return hosted.Token{}, err
	}
	return hosted.Token{Value: t.Token, Expires: t.ExpiresOn}, nil
}
