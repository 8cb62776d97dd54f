// Package eks finds clusters of Amazon EKS and makes tokens for them.
//
// The one call that this takes, DescribeCluster, is signed and sent here: the vendor's
// client for all of EKS has every start of the program wait 3 ms for its schemas.
package eks

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/internal/cloud/hosted"
	"github.com/windlass-run/windlass/sdk"
)

// Cloud is Amazon EKS, for the kind kubernetes.
func Cloud() hosted.Cloud {
	return hosted.Cloud{
		Key: "eks",
		Doc: "A cluster of Amazon EKS, instead of a kubeconfig. Its credentials are those of the kind aws-ecs.",
		Fields: []sdk.SchemaField{
			{Name: "cluster", Type: sdk.TypeString, Required: true, Doc: "The cluster's name."},
			{Name: "region", Type: sdk.TypeString, Default: "AWS_REGION, AWS_DEFAULT_REGION, or the profile's", Doc: "The region that the cluster is in."},
			{Name: "endpoint", Type: sdk.TypeString, Doc: "A pocket cloud's address on this machine; leave it out for AWS itself."},
		},
		Open: open,
	}
}

type config struct {
	Cluster  string `json:"cluster"`
	Region   string `json:"region"`
	Endpoint string `json:"endpoint"`
}

// clusterName is the form of a name.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html
var clusterName = hosted.Form(`^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$`)

// source is one cluster.
type source struct {
	session  *aws.Session
	provider string
	cluster  string
}

var _ hosted.Source = (*source)(nil)

func open(ctx context.Context, r sdk.OpenRequest, raw json.RawMessage) (hosted.Source, error) {
	var c config
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: hosted.Op, Provider: r.Name, Err: err}
	}
	if !clusterName().MatchString(c.Cluster) {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: hosted.Op, Provider: r.Name, Field: "config.cluster", Err: fmt.Errorf("%q is no cluster's name", c.Cluster),
			Remedy: "a name has up to 100 letters, digits, dashes and underscores; an ARN isn't one"}
	}
	session, err := aws.Open(ctx, aws.Settings{Provider: r.Name, Region: c.Region, Endpoint: c.Endpoint, AnyAccount: true, Credentials: r.Credentials, Ambient: r.AmbientCredentials,
		CallTimeout: r.CallTimeout, Clock: r.Clock})
	if err != nil {
		return nil, err
	}
	return &source{session: session, provider: r.Name, cluster: c.Cluster}, nil
}

// Close implements hosted.Source.
func (s *source) Close() error {
	s.session.Close()
	return nil
}

// description is the part of an answer of DescribeCluster that is read.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_Cluster.html
type description struct {
	Cluster struct {
		Status               string `json:"status"`
		Endpoint             string `json:"endpoint"`
		CertificateAuthority struct {
			Data string `json:"data"`
		} `json:"certificateAuthority"`
		ResourcesVpcConfig struct {
			EndpointPublicAccess bool     `json:"endpointPublicAccess"`
			PublicAccessCidrs    []string `json:"publicAccessCidrs"`
		} `json:"resourcesVpcConfig"`
	} `json:"cluster"`
}

// Cluster implements hosted.Source.
func (s *source) Cluster(ctx context.Context) (hosted.Cluster, error) {
	var got description
	err := s.session.Call(ctx, hosted.Op, func(ctx context.Context) error { return s.describe(ctx, &got) })
	if err != nil {
		return hosted.Cluster{}, s.explained(err)
	}
	c := got.Cluster
	if c.Endpoint == "" || c.CertificateAuthority.Data == "" {
		return hosted.Cluster{}, &sdk.Error{Code: sdk.FailedPrecondition, Op: hosted.Op, Provider: s.provider, Field: "config.cluster",
			Err: fmt.Errorf("the cluster %s is %s, and has no API server", s.cluster, c.Status), Remedy: "wait until `aws eks describe-cluster --name " + s.cluster + "` says ACTIVE"}
	}
	authority, err := base64.StdEncoding.DecodeString(c.CertificateAuthority.Data)
	if err != nil {
		return hosted.Cluster{}, &sdk.Error{Code: sdk.Internal, Op: hosted.Op, Provider: s.provider, Err: fmt.Errorf("the certificate authority of the cluster %s: %w", s.cluster, err)}
	}
	out := hosted.Cluster{Server: c.Endpoint, Authority: authority,
		Stranger: "give the identity of `aws sts get-caller-identity` an access entry: `aws eks create-access-entry --cluster-name " + s.cluster + " --principal-arn ARN`"}
	// https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html
	switch cidrs := c.ResourcesVpcConfig.PublicAccessCidrs; {
	case !c.ResourcesVpcConfig.EndpointPublicAccess:
		out.Closed = "the API server of " + s.cluster + " is reached from its VPC alone (endpointPublicAccess is false): call it from there, or allow public access"
	case len(cidrs) > 0 && !slices.Contains(cidrs, "0.0.0.0/0"):
		out.Closed = "the API server of " + s.cluster + " is open to " + strings.Join(cidrs, ", ") + " alone (publicAccessCidrs): call it from there, or add this network"
	}
	return out, nil
}

// explained says what is to be done about a cluster that wasn't found.
func (s *source) explained(err error) error {
	out := hosted.Unseen(err)
	if out == nil {
		return err
	}
	out.Remedy = "`aws eks list-clusters --region " + s.session.Region + "` lists those that there are"
	if out.Code == sdk.PermissionDenied {
		out.Remedy = "allow the credentials eks:DescribeCluster on the cluster " + s.cluster
	}
	return out
}

// maxReply bounds a description in bytes.
const maxReply = 1 << 20

// emptyHash is the SHA-256 of nothing.
const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// describe makes the call.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_DescribeCluster.html
func (s *source) describe(ctx context.Context, into *description) error {
	creds, err := s.session.Config.Credentials.Retrieve(ctx)
	if err != nil {
		return err
	}
	base := s.session.Endpoint
	if base == "" {
		// https://docs.aws.amazon.com/general/latest/gr/eks.html
		base = "https://eks." + s.session.Region + "." + s.session.Suffix()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(base, "/")+"/clusters/"+url.PathEscape(s.cluster), http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "windlass")
	if err := v4.NewSigner().SignHTTP(ctx, creds, req, emptyHash, "eks", s.session.Region, time.Now()); err != nil {
		return err
	}
	resp, err := s.session.Config.HTTPClient.Do(req)
	if err != nil {
		return operation(&smithyhttp.RequestSendError{Err: err})
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return operation(fmt.Errorf("read the answer: %w", err))
	}
	if resp.StatusCode != http.StatusOK {
		return operation(refused(resp, data))
	}
	if err := json.Unmarshal(data, into); err != nil {
		return operation(fmt.Errorf("read the answer: %w", err))
	}
	return nil
}

func operation(err error) error {
	return &smithy.OperationError{ServiceID: "EKS", OperationName: "DescribeCluster", Err: err}
}

// refused is the error of an answer that isn't a success, in the vendor's own types.
// https://smithy.io/2.0/aws/protocols/aws-restjson1-protocol.html#operation-error-serialization
func refused(resp *http.Response, data []byte) error {
	var body struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(data, &body) // without a message the name says it
	name, _, _ := strings.Cut(resp.Header.Get("X-Amzn-Errortype"), ":")
	var cause error = &smithy.GenericAPIError{Code: name, Message: body.Message}
	if name == "" {
		cause = fmt.Errorf("HTTP %d, which is no answer of EKS", resp.StatusCode)
	}
	return &awshttp.ResponseError{RequestID: resp.Header.Get("X-Amzn-Requestid"),
		ResponseError: &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: resp}, Err: cause}}
}
