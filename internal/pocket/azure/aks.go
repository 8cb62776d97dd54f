package azure

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// clusterApp is the application that tokens for clusters are issued for. See
// https://azure.github.io/kubelogin/concepts/aks.html
const clusterApp = "6dae42f8-4368-4678-94ff-3960e28e3630"

// ManagedCluster is a cluster of Kubernetes that is somewhere; the pocket cloud makes
// none.
type ManagedCluster struct {
	// ResourceGroup is that of the server where it is empty.
	ResourceGroup, Name string
	// Server is its API server, https://HOST:PORT, whose certificate Authority signs,
	// as PEM.
	Server    string
	Authority []byte
	// Certificate and Key, as PEM, are its local account's; without them it takes
	// tokens of Entra ID.
	Certificate, Key []byte
}

// clusterVersions are the versions of Container Service that give a kubeconfig in the
// form that is asked for. See
// https://learn.microsoft.com/en-us/rest/api/aks/managed-clusters/list-cluster-user-credentials
func clusterVersions() []string {
	return []string{"2022-11-01", "2023-10-01", "2024-09-01", "2025-05-01", "2025-10-01"}
}

// PutCluster has a cluster be there.
func (s *Server) PutCluster(c ManagedCluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.ResourceGroup == "" {
		c.ResourceGroup = s.o.ResourceGroup
	}
	s.clusters = append(slices.DeleteFunc(s.clusters, func(o ManagedCluster) bool { return o.is(c.ResourceGroup, c.Name) }), c)
}

func (c ManagedCluster) is(group, name string) bool {
	return strings.EqualFold(c.ResourceGroup, group) && strings.EqualFold(c.Name, name)
}

// ClusterCaller returns the ID of the application that a token for clusters was issued
// to; ok is false for what is none. Clusters ask by it, as they verify tokens by
// themselves.
func (s *Server) ClusterCaller(token string) (client string, ok bool) {
	who, ok := s.openToken(token)
	if !ok || who.Audience != clusterApp || who.Tenant != s.o.TenantID || s.o.Now().Unix() >= who.Expires {
		return "", false
	}
	return who.Client, true
}

// listClusterUserCredential gives the kubeconfig of a cluster's users: JSON is YAML. See
// https://learn.microsoft.com/en-us/rest/api/aks/managed-clusters/list-cluster-user-credentials
func (s *Server) listClusterUserCredential(c *call) (result, *Error) {
	group, e := s.findResourceGroup(c.path["rg"])
	if e != nil {
		return result{}, e
	}
	i := slices.IndexFunc(s.clusters, func(m ManagedCluster) bool { return m.is(group.Name, c.path["name"]) })
	if i < 0 {
		return result{}, refuse(ruleCluster, "The Resource 'Microsoft.ContainerService/managedClusters/%s' under resource group '%s' was not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix", c.path["name"], group.Name)
	}
	format := c.request.URL.Query().Get("format")
	if format != "" && format != "exec" && format != "azure" {
		return result{}, refuse(ruleQuery, "The value '%s' of parameter format is invalid.", format)
	}
	m := s.clusters[i]
	name := "clusterUser_" + group.Name + "_" + m.Name
	type doc = map[string]any
	file, err := json.Marshal(doc{"apiVersion": "v1", "kind": "Config", "current-context": m.Name, "preferences": doc{},
		"clusters": []doc{{"name": m.Name, "cluster": doc{"server": m.Server, "certificate-authority-data": base64.StdEncoding.EncodeToString(m.Authority)}}},
		"contexts": []doc{{"name": m.Name, "context": doc{"cluster": m.Name, "user": name}}},
		"users":    []doc{{"name": name, "user": m.user(format, s.o.TenantID)}}})
	if err != nil {
		panic("azure: " + err.Error()) // texts of ours
	}
	return result{http.StatusOK, doc{"kubeconfigs": []doc{{"name": "clusterUser", "value": base64.StdEncoding.EncodeToString(file)}}}}, nil
}

// user is what a kubeconfig says of its user.
func (c ManagedCluster) user(format, tenant string) map[string]any {
	// The application of the public client that people log in with:
	// https://azure.github.io/kubelogin/concepts/aks.html
	const client = "80faf920-1908-4b52-b5ef-a8e7bedfc67a"
	switch {
	case len(c.Certificate) > 0:
		return map[string]any{"client-certificate-data": base64.StdEncoding.EncodeToString(c.Certificate), "client-key-data": base64.StdEncoding.EncodeToString(c.Key)}
	case format == "exec":
		return map[string]any{"exec": map[string]any{"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "kubelogin", "provideClusterInfo": false, "env": nil,
			"args": []string{"get-token", "--environment", "AzurePublicCloud", "--server-id", clusterApp, "--client-id", client, "--tenant-id", tenant, "--login", "devicecode"}}}
	}
	return map[string]any{"auth-provider": map[string]any{"name": "azure", "config": map[string]string{"apiserver-id": clusterApp, "client-id": client, "config-mode": "1",
		"environment": "AzurePublicCloud", "tenant-id": tenant}}}
}
