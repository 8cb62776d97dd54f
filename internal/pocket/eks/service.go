// Package eks is the pocket cloud's Elastic Kubernetes Service: it tells where the
// clusters are that it was given, and whose a token for one is. It makes none. See
// https://docs.aws.amazon.com/eks/latest/APIReference/.
package eks

import (
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// modelData are the constraints on the inputs, taken from AWS's own model as
// botocore publishes it (Apache License 2.0).
//
//go:embed model.json
var modelData []byte

// Options are what the service needs of its surroundings.
type Options struct {
	Account, Region string
	// Now is the cloud's clock.
	Now func() time.Time
}

// Cluster is a cluster that is somewhere.
type Cluster struct {
	Name string
	// Endpoint is its API server, https://HOST:PORT, whose certificate Authority signs,
	// as PEM. While a cluster is made it has neither.
	Endpoint  string
	Authority []byte
	// Status is ACTIVE where it is empty.
	Status string
	// Private closes its endpoint to all but its VPC; Networks, as CIDRs, to all but
	// those.
	Private  bool
	Networks []string
}

// Service is EKS of one account and region.
type Service struct {
	o   Options
	api awsjson.Service

	mu       sync.Mutex
	clusters map[string]Cluster
	made     map[string]time.Time
}

// New returns the service, without clusters.
func New(o Options) (*Service, error) {
	model, err := awsjson.ParseModel(modelData)
	if err != nil {
		return nil, err
	}
	s := &Service{o: o, clusters: map[string]Cluster{}, made: map[string]time.Time{}, api: awsjson.Service{Name: "eks", Model: model,
		Invalid: func(v awsjson.Violation) *awsjson.Error {
			return awsjson.Errorf("InvalidParameterException", "1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: %s", v.Value, v.Path, v.Text)
		}}}
	s.api.Offer(
		awsjson.HandlePlain("DescribeCluster", s.describe),
		awsjson.HandlePlain("ListClusters", s.list),
	)
	return s, nil
}

// API returns the operations.
func (s *Service) API() *awsjson.Service { return &s.api }

// Put has a cluster be there.
func (s *Service) Put(c Cluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.made[c.Name]; !ok {
		s.made[c.Name] = s.o.Now()
	}
	s.clusters[c.Name] = c
}

const pathPrefix = "/clusters"

// Serves says whether a path is one of EKS's.
func Serves(path string) bool { return path == pathPrefix || strings.HasPrefix(path, pathPrefix+"/") }

// Route finds a request's operation and puts its whole input into one JSON object. See
// https://smithy.io/2.0/aws/protocols/aws-restjson1-protocol.html.
func Route(r *http.Request) (action string, input []byte, err *awsjson.Error) {
	in := map[string]any{}
	rest := strings.TrimPrefix(strings.TrimPrefix(r.URL.EscapedPath(), pathPrefix), "/")
	name, uerr := url.PathUnescape(rest)
	switch {
	case r.Method != http.MethodGet || strings.Contains(rest, "/") || uerr != nil:
		return "", nil, &awsjson.Error{Code: "UnknownOperationException", Message: fmt.Sprintf("The pocket cloud doesn't offer %s %s.", r.Method, r.URL.Path), Status: http.StatusNotFound}
	case name != "":
		action, in["name"] = "DescribeCluster", name
	default:
		action = "ListClusters"
		for key, values := range r.URL.Query() {
			in[key] = values[0]
			if n, err := strconv.Atoi(values[0]); key == "maxResults" && err == nil {
				in[key] = n
			}
		}
	}
	input, jerr := json.Marshal(in)
	if jerr != nil {
		return "", nil, awsjson.Errorf("InvalidParameterException", "%v", jerr)
	}
	return action, input, nil
}

type describeInput struct {
	Name string `json:"name"`
}

type description struct {
	Cluster cluster `json:"cluster"`
}

// cluster is https://docs.aws.amazon.com/eks/latest/APIReference/API_Cluster.html
type cluster struct {
	Name                 string    `json:"name"`
	Arn                  string    `json:"arn"`
	CreatedAt            float64   `json:"createdAt"`
	Version              string    `json:"version"`
	Endpoint             string    `json:"endpoint,omitempty"`
	RoleArn              string    `json:"roleArn"`
	ResourcesVpcConfig   network   `json:"resourcesVpcConfig"`
	Status               string    `json:"status"`
	CertificateAuthority authority `json:"certificateAuthority"`
	PlatformVersion      string    `json:"platformVersion"`
}

type authority struct {
	Data string `json:"data,omitempty"`
}

type network struct {
	SubnetIDs             []string `json:"subnetIds"`
	SecurityGroupIDs      []string `json:"securityGroupIds"`
	VpcID                 string   `json:"vpcId"`
	EndpointPublicAccess  bool     `json:"endpointPublicAccess"`
	EndpointPrivateAccess bool     `json:"endpointPrivateAccess"`
	PublicAccessCidrs     []string `json:"publicAccessCidrs"`
}

func (s *Service) describe(_ context.Context, _ awsjson.Call, in *describeInput) (*description, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.clusters[in.Name]
	if !ok {
		return nil, refuse(ruleCluster, "No cluster found for name: %s.", in.Name)
	}
	out := cluster{Name: c.Name, Arn: fmt.Sprintf("arn:aws:eks:%s:%s:cluster/%s", s.o.Region, s.o.Account, c.Name), CreatedAt: float64(s.made[c.Name].UnixMilli()) / 1000, Version: "1.34",
		Endpoint: c.Endpoint, RoleArn: "arn:aws:iam::" + s.o.Account + ":role/eks", Status: c.Status, PlatformVersion: "eks.1", CertificateAuthority: authority{base64.StdEncoding.EncodeToString(c.Authority)},
		ResourcesVpcConfig: network{SubnetIDs: []string{"subnet-0123456789abcdef0"}, SecurityGroupIDs: []string{}, VpcID: "vpc-0123456789abcdef0", EndpointPublicAccess: !c.Private,
			EndpointPrivateAccess: c.Private, PublicAccessCidrs: slices.Clone(c.Networks)}}
	if out.Status == "" {
		out.Status = "ACTIVE"
	}
	if len(c.Networks) == 0 && !c.Private {
		out.ResourcesVpcConfig.PublicAccessCidrs = []string{"0.0.0.0/0"}
	}
	return &description{out}, nil
}

type listInput struct {
	MaxResults int     `json:"maxResults"`
	NextToken  *string `json:"nextToken"`
	Include    any     `json:"include"`
}

type listOutput struct {
	Clusters  []string `json:"clusters"`
	NextToken *string  `json:"nextToken,omitempty"`
}

// maxPage is how many names a page has at most.
const maxPage = 100

func (s *Service) list(_ context.Context, _ awsjson.Call, in *listInput) (*listOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := maxPage
	if in.MaxResults > 0 {
		n = min(in.MaxResults, maxPage)
	}
	page, next, ok := awsjson.Page(slices.Sorted(maps.Keys(s.clusters)), in.NextToken, n)
	if !ok {
		return nil, refuse(ruleNextToken, "Invalid token")
	}
	if page == nil {
		page = []string{}
	}
	return &listOutput{page, next}, nil
}
