package digitalocean

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/digitalocean/godo"
)

// route is an operation.
type route struct {
	method, pattern string
	// action is the operation's name in the API's own document.
	action string
	// scope is what a token must be allowed.
	scope string
	// query are the parameters that it takes.
	query []string
	// do carries it out under the lock. Nil for both means 204.
	do func(*Server, *call) (any, *Error)
}

// routes are the operations that a driver of jobs uses, as the API's document
// has them, https://docs.digitalocean.com/reference/api/digitalocean/, and godo.
func routes() []route {
	const (
		read, create, update, remove = "app:read", "app:create", "app:update", "app:delete"
		one                          = "/v2/apps/{id}"
		app                          = "/v2/apps/{app_id}"
		deployment                   = app + "/deployments/{deployment_id}"
		invocation                   = app + "/job-invocations/{job_invocation_id}"
	)
	pages := []string{"page", "per_page"}
	logs := []string{"type", "follow", "tail_lines", "pod_connection_timeout"}
	with := func(names []string, more ...string) []string { return append(slices.Clone(names), more...) }
	return []route{
		{"GET", "/v2/account", "account_get", "account:read", nil, (*Server).getAccount},
		{"GET", "/v2/apps", "apps_list", read, with(pages, "with_projects"), (*Server).listApps},
		{"POST", "/v2/apps", "apps_create", create, nil, (*Server).createApp},
		{"GET", one, "apps_get", read, []string{"name"}, (*Server).getApp},
		{"PUT", one, "apps_update", update, nil, (*Server).updateApp},
		{"DELETE", one, "apps_delete", remove, nil, (*Server).deleteApp},
		{"POST", "/v2/apps/propose", "apps_validate_appSpec", read, nil, (*Server).propose},
		{"GET", "/v2/apps/regions", "apps_list_regions", read, nil, (*Server).listRegions},
		{"GET", "/v2/apps/tiers/instance_sizes", "apps_list_instanceSizes", read, nil, (*Server).listSizes},
		{"GET", "/v2/apps/tiers/instance_sizes/{slug}", "apps_get_instanceSize", read, nil, (*Server).getSize},
		{"GET", app + "/deployments", "apps_list_deployments", read, with(pages, "deployment_types"), (*Server).listDeployments},
		{"POST", app + "/deployments", "apps_create_deployment", update, nil, (*Server).createDeployment},
		{"GET", deployment, "apps_get_deployment", read, nil, (*Server).getDeployment},
		{"POST", deployment + "/cancel", "apps_cancel_deployment", update, nil, (*Server).cancelDeployment},
		{"GET", app + "/job-invocations", "apps_list_job_invocations", read, with(pages, "deployment_id", "job_names"), (*Server).listInvocations},
		{"GET", invocation, "apps_get_job_invocation", read, []string{"job_name"}, (*Server).getInvocation},
		{"POST", invocation + "/cancel", "apps_cancel_job_invocation", update, []string{"job_name"}, (*Server).cancelInvocation},
		{"GET", app + "/jobs/{job_name}/invocations/{job_invocation_id}/logs", "apps_get_job_invocation_logs", read, with(logs, "deployment_id"), (*Server).invocationLogs},
		{"GET", app + "/logs", "apps_get_logs_active_deployment_aggregate", read, with(logs, "component_name"), (*Server).deploymentLogs},
		{"GET", app + "/components/{component_name}/logs", "apps_get_logs_active_deployment", read, logs, (*Server).deploymentLogs},
		{"GET", deployment + "/logs", "apps_get_logs_aggregate", read, with(logs, "component_name"), (*Server).deploymentLogs},
		{"GET", deployment + "/components/{component_name}/logs", "apps_get_logs", read, logs, (*Server).deploymentLogs},
	}
}

// Actions returns the names of the operations.
func Actions() []string {
	var out []string
	for _, r := range routes() {
		out = append(out, r.action)
	}
	return out
}

// getAccount is https://docs.digitalocean.com/reference/api/digitalocean/#operation/account_get
func (s *Server) getAccount(*call) (any, *Error) {
	return map[string]any{"account": godo.Account{DropletLimit: 25, FloatingIPLimit: 3, ReservedIPLimit: 3, VolumeLimit: 100, Email: "pocket@example.com", Name: "Pocket",
		UUID: s.account, EmailVerified: true, Status: "active", Team: &godo.TeamInfo{UUID: s.account, Name: "Pocket"}}}, nil
}

func (s *Server) listRegions(*call) (any, *Error) {
	return map[string]any{"regions": regions()}, nil
}

func (s *Server) listSizes(*call) (any, *Error) {
	var out []*godo.AppInstanceSize
	for _, size := range sizes() {
		out = append(out, size.view())
	}
	return map[string]any{"instance_sizes": out}, nil
}

func (s *Server) getSize(c *call) (any, *Error) {
	size, ok := sizeOf(c.path("slug"))
	if !ok {
		return nil, refuse(ruleSize, "instance size %q not found", c.path("slug"))
	}
	return map[string]any{"instance_size": size.view()}, nil
}

// The size of a page when none is asked for, and the largest.
const (
	pageDefault = 20
	pageMax     = 200
)

// paged cuts the asked page out of a list, and adds links and the total.
func paged[T any](s *Server, c *call, name string, list []T) (any, *Error) {
	number := func(parameter string, def, limit int) (int, *Error) {
		text := c.query.Get(parameter)
		if text == "" {
			return def, nil
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > limit {
			return 0, refuse(rulePage, "%s must be between 1 and %d", parameter, limit)
		}
		return n, nil
	}
	page, refused := number("page", 1, 1<<30)
	if refused != nil {
		return nil, refused
	}
	per, refused := number("per_page", pageDefault, pageMax)
	if refused != nil {
		return nil, refused
	}
	if s.knobs.PageSize > 0 {
		per = min(per, s.knobs.PageSize)
	}
	last := max(1, (len(list)+per-1)/per)
	from := min((page-1)*per, len(list))
	out := list[from:min(from+per, len(list))]
	if out == nil {
		out = []T{}
	}
	pages := godo.Pages{}
	link := func(n int) string {
		query := url.Values{}
		for k, v := range c.query {
			query[k] = v
		}
		query.Set("page", strconv.Itoa(n))
		query.Set("per_page", strconv.Itoa(per))
		return fmt.Sprintf("%s%s?%s", base(c.request), c.request.URL.Path, query.Encode())
	}
	if page > 1 {
		pages.First, pages.Prev = link(1), link(min(page, last+1)-1)
	}
	if page < last {
		pages.Next, pages.Last = link(page+1), link(last)
	}
	return map[string]any{name: out, "links": godo.Links{Pages: &pages}, "meta": godo.Meta{Total: len(list)}}, nil
}

// base is the address under which the caller reached the cloud.
func base(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}
