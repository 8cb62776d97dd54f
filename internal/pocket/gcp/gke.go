package gcp

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// GKECluster is a cluster of Kubernetes that is somewhere; the pocket cloud makes none.
type GKECluster struct {
	// Location is a region or a zone; empty is the server's.
	Location, Name string
	// Endpoint is its API server, HOST:PORT, whose certificate Authority signs, as PEM.
	// While a cluster is made it has neither.
	Endpoint  string
	Authority []byte
	// Status is RUNNING where it is empty.
	Status string
	// Private closes its endpoint to all but its VPC, Authorized to all but some
	// networks.
	Private, Authorized bool
	// DNS is a name that it is reached by alone.
	DNS string
}

// gkeService is the part of Kubernetes Engine that tells of clusters. It speaks REST
// alone, and is served beside what Google's annotations make of gRPC: the messages for
// all of Kubernetes Engine would be registered at every start of the program. See
// https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters
type gkeService struct {
	mu       sync.Mutex
	clusters map[string]GKECluster // by location/name
}

// PutCluster has a cluster be there.
func (s *Server) PutCluster(c GKECluster) {
	if c.Location == "" {
		c.Location = s.o.Location
	}
	s.gke.mu.Lock()
	defer s.gke.mu.Unlock()
	s.gke.clusters[c.Location+"/"+c.Name] = c
}

// KnowsToken reports whether a request bears a token that the cloud takes; clusters ask
// by it.
func (s *Server) KnowsToken(r *http.Request) bool {
	return s.knows(r.Header.Values("Authorization")) == nil
}

// gkeRule is the one rule: it has no row in the tables of the gRPC services.
const gkeRule = "gke-cluster"

// gkeRules are the rules of Kubernetes Engine.
func gkeRules() gapi.Table {
	return gapi.Table{{ID: gkeRule, Code: codes.NotFound, Text: "The cluster must exist.",
		Doc: "https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters/get"}}
}

// gkePaths are those of the calls: with locations, and with zones, which older clients
// use. See
// https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters/get
var gkePaths = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^/v1/projects/([^/]+)/(?:locations|zones)/([^/]+)/clusters(?:/([^/]+))?$`)
})

// gkePath is the location and the name that a path means; an empty name is all of it.
func (s *Server) gkePath(path string) (location, name string, ok bool) {
	m := gkePaths().FindStringSubmatch(path)
	if m == nil || !(gapi.Project{ID: s.o.Project, Number: s.o.Number}).Is(m[1]) {
		return "", "", false
	}
	return m[2], m[3], true
}

// serveGKE answers a call of Kubernetes Engine.
func (s *Server) serveGKE(w http.ResponseWriter, r *http.Request, location, name string) {
	action, permission := "container:GetCluster", "container.clusters.get"
	if name == "" {
		action, permission = "container:ListClusters", "container.clusters.list"
	}
	fault.Server{Plan: s.faults, Recorder: s.calls, Now: s.o.Now}.Serve(w, r, action, nil, func() fault.Reply {
		err := s.knows(r.Header.Values("Authorization"))
		if err == nil {
			err = s.policy.Check(permission, "projects/"+s.o.Project)
		}
		if err == nil && r.Method != http.MethodGet {
			err = gapi.Errorf(codes.Unimplemented, "The pocket cloud doesn't offer %s %s.", r.Method, r.URL.Path)
		}
		var out any
		if err == nil {
			out, err = s.gke.find(location, name)
		}
		if err != nil {
			return restError(err)
		}
		return restReply(http.StatusOK, out)
	}, func(f fault.Refusal) fault.Reply {
		return restError(refusal(r.Context(), f))
	})
}

// find is a cluster's description, or that of all of a location.
func (g *gkeService) find(location, name string) (any, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if name != "" {
		c, ok := g.clusters[location+"/"+name]
		if !ok {
			return nil, gkeRules().Refuse(gkeRule, "Not found: projects/-/locations/%s/clusters/%s.\nCould not find [%s] in [%s].", location, name, name, location)
		}
		return c.view(), nil
	}
	clusters := []any{}
	for _, key := range slices.Sorted(maps.Keys(g.clusters)) {
		if c := g.clusters[key]; location == "-" || c.Location == location {
			clusters = append(clusters, c.view())
		}
	}
	return map[string]any{"clusters": clusters}, nil
}

// view is a cluster as the API describes it.
func (c GKECluster) view() map[string]any {
	type doc = map[string]any
	out := doc{"name": c.Name, "location": c.Location, "status": "RUNNING", "currentMasterVersion": "1.34.1-gke.1", "currentNodeVersion": "1.34.1-gke.1", "masterAuth": doc{},
		"selfLink": "https://container.googleapis.com/v1/projects/" + Project + "/locations/" + c.Location + "/clusters/" + c.Name}
	if c.Status != "" {
		out["status"] = c.Status
	}
	if c.Endpoint != "" {
		out["endpoint"], out["masterAuth"] = c.Endpoint, doc{"clusterCaCertificate": base64.StdEncoding.EncodeToString(c.Authority)}
	}
	if c.Private {
		out["privateClusterConfig"] = doc{"enablePrivateEndpoint": true, "enablePrivateNodes": true, "privateEndpoint": c.Endpoint}
	}
	if c.Authorized {
		out["masterAuthorizedNetworksConfig"] = doc{"enabled": true, "cidrBlocks": []doc{{"cidrBlock": "192.0.2.0/24"}}}
	}
	if c.DNS != "" {
		out["controlPlaneEndpointsConfig"] = doc{"dnsEndpointConfig": doc{"endpoint": c.DNS, "allowExternalTraffic": !c.Private}, "ipEndpointsConfig": doc{"enabled": false}}
	}
	return out
}

// restReply is an answer in JSON.
func restReply(code int, v any) fault.Reply {
	body, err := json.Marshal(v)
	if err != nil {
		panic("gcp: " + err.Error()) // texts of ours
	}
	return fault.Reply{Status: code, Header: http.Header{"Content-Type": {"application/json; charset=UTF-8"}}, Body: body}
}

// restError is a refusal: https://cloud.google.com/apis/design/errors#http_mapping
func restError(err error) fault.Reply {
	code := status.Code(err)
	out := restReply(httpStatus(code), map[string]any{"error": map[string]any{"code": httpStatus(code), "message": strings.TrimSpace(status.Convert(err).Message()), "status": codeName(code)}})
	if rule := gapi.RuleOf(err); rule != "" {
		out.Header.Set(gapi.RuleHeader, rule)
	}
	return out
}
