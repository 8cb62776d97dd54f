package azure

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

// resourceGroup is what container groups lie in.
type resourceGroup struct {
	Name, Location string
	Tags           map[string]string
}

func (s *Server) findResourceGroup(name string) (*resourceGroup, *Error) {
	for _, g := range s.resources {
		if strings.EqualFold(g.Name, name) {
			return g, nil
		}
	}
	return nil, refuse(ruleResourceGroup, "Resource group '%s' could not be found.", name)
}

func (s *Server) viewResourceGroup(g *resourceGroup) any {
	return map[string]any{"id": "/subscriptions/" + s.o.SubscriptionID + "/resourceGroups/" + g.Name, "name": g.Name, "type": "Microsoft.Resources/resourceGroups",
		"location": g.Location, "tags": g.Tags, "properties": map[string]any{"provisioningState": succeeded}}
}

func (s *Server) listResourceGroups(*call) (result, *Error) {
	out := []any{}
	for _, g := range s.resources {
		out = append(out, s.viewResourceGroup(g))
	}
	return result{http.StatusOK, map[string]any{"value": out}}, nil
}

func (s *Server) getResourceGroup(c *call) (result, *Error) {
	g, e := s.findResourceGroup(c.path["rg"])
	if e != nil {
		return result{}, e
	}
	return result{http.StatusOK, s.viewResourceGroup(g)}, nil
}

func (s *Server) headResourceGroup(c *call) (result, *Error) {
	if _, e := s.findResourceGroup(c.path["rg"]); e != nil {
		return result{}, e
	}
	return result{status: http.StatusNoContent}, nil
}

var resourceGroupForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[-\w._()]{0,89}[-\w_()]$`) })

// putResourceGroup makes a resource group. See
// https://learn.microsoft.com/en-us/rest/api/resources/resource-groups/create-or-update
func (s *Server) putResourceGroup(c *call) (result, *Error) {
	name := c.path["rg"]
	if !resourceGroupForm().MatchString(name) {
		return result{}, refuse(ruleResourceGroupName, "The provided resource group name '%s' has these invalid characters, or more than 90. The name can only be a letter, digit, '-', '.', '(', ')' or '_', and doesn't end with '.'.", name)
	}
	var in struct {
		Location string
		Tags     map[string]string
	}
	if err := json.Unmarshal(c.body, &in); err != nil {
		return result{}, refuse(ruleBody, "The request content was invalid and could not be deserialized: '%v'.", err)
	}
	if in.Location == "" {
		return result{}, refuse(ruleLocationMissing, "The location property is required for this definition.")
	}
	if e := checkTags(in.Tags); e != nil {
		return result{}, e
	}
	g, e := s.findResourceGroup(name)
	status := http.StatusOK
	if e != nil {
		status, g = http.StatusCreated, &resourceGroup{Name: name, Location: normalLocation(in.Location)}
		s.resources = append(s.resources, g)
	}
	g.Tags = in.Tags
	return result{status, s.viewResourceGroup(g)}, nil
}

// normalLocation is a location's name, of its display name too: "West Europe".
func normalLocation(s string) string { return strings.ToLower(strings.ReplaceAll(s, " ", "")) }

func (s *Server) viewSubscription() any {
	return map[string]any{"id": "/subscriptions/" + s.o.SubscriptionID, "subscriptionId": s.o.SubscriptionID, "tenantId": s.o.TenantID, "displayName": "Pocket", "state": "Enabled",
		"subscriptionPolicies": map[string]any{"locationPlacementId": "Public_2014-09-01", "quotaId": "PayAsYouGo_2014-09-01", "spendingLimit": "Off"}, "authorizationSource": "RoleBased", "managedByTenants": []any{}}
}

func (s *Server) listSubscriptions(*call) (result, *Error) {
	return result{http.StatusOK, map[string]any{"value": []any{s.viewSubscription()}, "count": map[string]any{"type": "Total", "value": 1}}}, nil
}

func (s *Server) getSubscription(*call) (result, *Error) {
	return result{http.StatusOK, s.viewSubscription()}, nil
}

func (s *Server) listTenants(*call) (result, *Error) {
	return result{http.StatusOK, map[string]any{"value": []any{map[string]any{"id": "/tenants/" + s.o.TenantID, "tenantId": s.o.TenantID, "displayName": "Pocket", "tenantCategory": "Home"}}}}, nil
}

// listPermissions tells what the caller may do. See
// https://learn.microsoft.com/en-us/rest/api/authorization/permissions/list-for-resource-group
func (s *Server) listPermissions(c *call) (result, *Error) {
	if _, e := s.findResourceGroup(c.path["rg"]); e != nil {
		return result{}, e
	}
	may := []string{"*"}
	if known, ok := s.o.Clients[c.who.Client]; ok && known.Actions != nil {
		may = known.Actions
	}
	actions, data := byPlane(may)
	notActions, notData := byPlane(s.denied)
	return result{http.StatusOK, map[string]any{"value": []any{map[string]any{"actions": actions, "notActions": notActions, "dataActions": data, "notDataActions": notData}}}}, nil
}

// byPlane parts permissions: those for what is in a vault are of the data. See
// https://learn.microsoft.com/en-us/azure/role-based-access-control/control-plane-and-data-plane
func byPlane(permissions []string) (control, data []string) {
	control, data = []string{}, []string{}
	for _, p := range permissions {
		vault := strings.HasPrefix(strings.ToLower(p), "microsoft.keyvault/vaults/secrets/")
		if !vault {
			control = append(control, p)
		}
		if vault || strings.HasPrefix(p, "*") || strings.EqualFold(p, "Microsoft.KeyVault/*") {
			data = append(data, p)
		}
	}
	return control, data
}
