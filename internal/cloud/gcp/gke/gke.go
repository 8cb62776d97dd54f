// Package gke finds clusters of Google Kubernetes Engine and gets tokens for them.
//
// The one call that this takes, clusters.get, is sent as REST: Google's messages for
// all of Kubernetes Engine would be registered at every start of the program.
package gke

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/internal/cloud/gcp"
	"github.com/windlass-run/windlass/internal/cloud/hosted"
	"github.com/windlass-run/windlass/internal/cloud/reach"
	"github.com/windlass-run/windlass/sdk"
)

// emailScope has the cluster know a service account by its address: without it a
// RoleBinding must name its number.
// https://cloud.google.com/kubernetes-engine/docs/how-to/role-based-access-control#troubleshooting
const emailScope = "https://www.googleapis.com/auth/userinfo.email"

// Cloud is Google Kubernetes Engine, for the kind kubernetes.
func Cloud() hosted.Cloud {
	return hosted.Cloud{
		Key: "gke",
		Doc: "A cluster of Google Kubernetes Engine, instead of a kubeconfig. Its credentials are those of the kind gcp-cloudrun.",
		Fields: []sdk.SchemaField{
			{Name: "cluster", Type: sdk.TypeString, Required: true, Doc: "The cluster's name."},
			{Name: "location", Type: sdk.TypeString, Required: true, Doc: "The region or the zone that the cluster is in."},
			{Name: "project", Type: sdk.TypeString, Default: "GOOGLE_CLOUD_PROJECT, or the credentials' own", Doc: "The project's ID."},
			{Name: "endpoint", Type: sdk.TypeString, Doc: "A pocket cloud's address on this machine; leave it out for Google Cloud itself."},
		},
		Open: open,
	}
}

type config struct {
	Cluster  string `json:"cluster"`
	Location string `json:"location"`
	Project  string `json:"project"`
	Endpoint string `json:"endpoint"`
}

var (
	// https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters#resource:-cluster
	clusterName  = hosted.Form(`^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`)
	locationName = hosted.Form(`^[a-z]+-[a-z]+[0-9]{1,2}(-[a-z])?$`)
)

// source is one cluster.
type source struct {
	session  *gcp.Session
	client   *http.Client
	provider string
	config   config
}

var _ hosted.Source = (*source)(nil)

func open(ctx context.Context, r sdk.OpenRequest, raw json.RawMessage) (hosted.Source, error) {
	bad := func(field string, err error) (hosted.Source, error) {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: hosted.Op, Provider: r.Name, Field: field, Err: err}
	}
	var c config
	if err := json.Unmarshal(raw, &c); err != nil {
		return bad("", err)
	}
	switch {
	case !clusterName().MatchString(c.Cluster):
		return bad("config.cluster", fmt.Errorf("%q is no cluster's name: it has up to 40 lowercase letters, digits and dashes", c.Cluster))
	case !locationName().MatchString(c.Location):
		return bad("config.location", fmt.Errorf("%q is neither a region, as europe-west1, nor a zone, as europe-west1-b", c.Location))
	}
	session, err := gcp.Open(ctx, gcp.Settings{Provider: r.Name, Project: c.Project, Endpoint: c.Endpoint, Regionless: true, Scopes: []string{emailScope},
		Credentials: r.Credentials, Ambient: r.AmbientCredentials, CallTimeout: r.CallTimeout})
	if err != nil {
		return nil, err
	}
	tr := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is documented as one
	tr.HTTP2 = reach.Pings()
	if c.Endpoint != "" {
		tr.Proxy = nil
	}
	return &source{session: session, provider: r.Name, config: c,
		client: &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// Close implements hosted.Source.
func (s *source) Close() error {
	s.client.CloseIdleConnections()
	return s.session.Close()
}

// Token implements hosted.Source: the access token of all of Google's services.
func (s *source) Token(ctx context.Context) (hosted.Token, error) {
	t, err := s.session.Token(ctx, "get a token for the cluster")
	if err != nil {
		return hosted.Token{}, err
	}
	return hosted.Token{Value: t.AccessToken, Expires: t.Expiry}, nil
}

// cluster is the part of an answer of clusters.get that is read.
// https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters
type cluster struct {
	Status     string `json:"status"`
	Endpoint   string `json:"endpoint"`
	MasterAuth struct {
		ClusterCaCertificate string `json:"clusterCaCertificate"`
	} `json:"masterAuth"`
	PrivateClusterConfig struct {
		EnablePrivateEndpoint bool `json:"enablePrivateEndpoint"`
	} `json:"privateClusterConfig"`
	MasterAuthorizedNetworksConfig struct {
		Enabled bool `json:"enabled"`
	} `json:"masterAuthorizedNetworksConfig"`
	ControlPlaneEndpointsConfig struct {
		DNSEndpointConfig struct {
			Endpoint             string `json:"endpoint"`
			AllowExternalTraffic bool   `json:"allowExternalTraffic"`
		} `json:"dnsEndpointConfig"`
		IPEndpointsConfig struct {
			Enabled *bool `json:"enabled"`
		} `json:"ipEndpointsConfig"`
	} `json:"controlPlaneEndpointsConfig"`
}

// Cluster implements hosted.Source.
func (s *source) Cluster(ctx context.Context) (hosted.Cluster, error) {
	var c cluster
	if err := s.session.Call(ctx, hosted.Op, func(ctx context.Context) error { return s.get(ctx, &c) }); err != nil {
		return hosted.Cluster{}, s.explained(err)
	}
	out := hosted.Cluster{Stranger: "allow the identity roles/container.developer in the project " + s.session.Project + ", or give its address a RoleBinding"}
	// A cluster may be reached by name alone; the certificate is one that all know then.
	// https://cloud.google.com/kubernetes-engine/docs/concepts/network-isolation#dns-endpoint
	ends := c.ControlPlaneEndpointsConfig
	if byIP := ends.IPEndpointsConfig.Enabled; byIP != nil && !*byIP && ends.DNSEndpointConfig.Endpoint != "" {
		out.Server = "https://" + ends.DNSEndpointConfig.Endpoint
		if !ends.DNSEndpointConfig.AllowExternalTraffic {
			out.Closed = "the cluster " + s.config.Cluster + " takes no calls from outside Google Cloud (allowExternalTraffic is false): call it from there, or allow them"
		}
		return out, nil
	}
	if c.Endpoint == "" || c.MasterAuth.ClusterCaCertificate == "" {
		return hosted.Cluster{}, &sdk.Error{Code: sdk.FailedPrecondition, Op: hosted.Op, Provider: s.provider, Field: "config.cluster",
			Err: fmt.Errorf("the cluster %s is %s, and has no API server", s.config.Cluster, c.Status), Remedy: "wait until `gcloud container clusters describe " + s.config.Cluster + "` says RUNNING"}
	}
	authority, err := base64.StdEncoding.DecodeString(c.MasterAuth.ClusterCaCertificate)
	if err != nil {
		return hosted.Cluster{}, &sdk.Error{Code: sdk.Internal, Op: hosted.Op, Provider: s.provider, Err: fmt.Errorf("the certificate authority of the cluster %s: %w", s.config.Cluster, err)}
	}
	out.Server, out.Authority = "https://"+c.Endpoint, authority
	switch {
	case c.PrivateClusterConfig.EnablePrivateEndpoint:
		out.Closed = "the API server of " + s.config.Cluster + " is reached from its VPC alone (enablePrivateEndpoint): call it from there, or enable its DNS endpoint"
	case c.MasterAuthorizedNetworksConfig.Enabled:
		out.Closed = "the API server of " + s.config.Cluster + " is open to authorized networks alone: call it from one, or add this network"
	}
	return out, nil
}

// explained says what is to be done about a cluster that wasn't found.
func (s *source) explained(err error) error {
	out := hosted.Unseen(err)
	if out == nil {
		return err
	}
	out.Remedy = "`gcloud container clusters list --project " + s.session.Project + "` lists those that there are"
	if out.Code == sdk.PermissionDenied {
		out.Remedy = "allow the credentials container.clusters.get (roles/container.clusterViewer) in the project " + s.session.Project
	}
	return out
}

// maxReply bounds a cluster's description in bytes.
const maxReply = 8 << 20

// get makes the call.
// https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters/get
func (s *source) get(ctx context.Context, into *cluster) error {
	base := s.session.Endpoint
	if base == "" {
		base = "https://container.googleapis.com"
	}
	at := base + "/v1/projects/" + url.PathEscape(s.session.Project) + "/locations/" + s.config.Location + "/clusters/" + s.config.Cluster
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return err
	}
	if err := s.session.Authorize(reach.Apart(ctx), hosted.Op, req); err != nil {
		return err
	}
	req.Header.Set("User-Agent", "windlass")
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return refused(resp.StatusCode, data)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// refused is the error of an answer that isn't a success, as gRPC gives it.
// https://cloud.google.com/apis/design/errors#http_mapping
func refused(code int, data []byte) error {
	var body struct {
		Error struct {
			Status  codes.Code `json:"status"`
			Message string     `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(data, &body) != nil || body.Error.Status == codes.OK {
		return fmt.Errorf("HTTP %d, which is no answer of Google Kubernetes Engine", code)
	}
	return status.Error(body.Error.Status, body.Error.Message)
}
