package aci

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/windlass-run/windlass/sdk"
)

const opCheck = "check"

// probe is a container group that doesn't exist: no call that names it can change
// anything.
const probe = groupPrefix + "check"

const (
	instancesVersion   = "2023-05-01"
	permissionsVersion = "2022-04-01"
)

// right is an action that the driver needs, and a call that would show its lack.
type right struct {
	action             string
	method, path, body string
}

// rights are the actions that the driver needs.
// https://learn.microsoft.com/en-us/azure/role-based-access-control/permissions/containers#microsoftcontainerinstance
func rights() []right {
	const kind = "Microsoft.ContainerInstance/containerGroups/"
	return []right{
		{kind + "read", http.MethodGet, "", ""},
		// A group needs a location.
		{kind + "write", http.MethodPut, "", "{}"},
		{kind + "delete", http.MethodDelete, "", ""},
		{kind + "stop/action", http.MethodPost, "/stop", ""},
		{kind + "containers/logs/read", http.MethodGet, "/containers/" + container + "/logs", ""},
	}
}

// Check implements sdk.Provider. It asks which actions the caller is allowed; each
// that isn't among them, or all where that can't be asked, is tried with a call
// that changes nothing: a refusal for rights comes before one for the thing. What
// the caller may read in a vault isn't known before a job names it.
func (p *provider) Check(ctx context.Context, _ sdk.CheckRequest) (sdk.CheckResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CheckResult{}, p.fail(sdk.CodeOf(err), opCheck, err)
	}
	var res sdk.CheckResult
	// A list proves reach and credentials, and that subscription and resource
	// group are there.
	err := p.session.Call(ctx, opCheck, func(ctx context.Context) error {
		_, err := p.groups.NewListByResourceGroupPager(p.cfg.ResourceGroup, nil).NextPage(ctx)
		return err
	})
	if err != nil && sdk.CodeOf(err) != sdk.PermissionDenied {
		return res, err
	}
	_, options := p.session.Client()
	client, err := arm.NewClient("windlass", "v1.0.0", p.token, options)
	if err != nil {
		return res, p.fail(sdk.Internal, opCheck, err)
	}
	granted, err := p.granted(ctx, client)
	if err != nil && !sdk.IsClear(err) {
		return res, err
	}
	for _, r := range rights() {
		item := sdk.CheckItem{Name: r.action, OK: true, Detail: "allowed"}
		if !slices.ContainsFunc(granted, func(g grant) bool { return g.allows(r.action) }) {
			err := p.try(ctx, client, r)
			switch sdk.CodeOf(err) {
			case 0, sdk.InvalidArgument, sdk.NotFound, sdk.FailedPrecondition, sdk.Aborted, sdk.ResourceExhausted:
			case sdk.PermissionDenied:
				item.OK, item.Detail = false, oneLine(err.Error())
				item.Remedy = "allow " + r.action + " in the resource group " + p.cfg.ResourceGroup + "; docs/drivers/azure-aci.md has the role"
			default:
				return res, err
			}
		}
		res.Items = append(res.Items, item)
	}
	return res, nil
}

// grant is what a role gives.
type grant struct {
	Actions    []string `json:"actions"`
	NotActions []string `json:"notActions"`
}

func (g grant) allows(action string) bool {
	match := func(pattern string) bool { return wildcard(pattern, action) }
	return slices.ContainsFunc(g.Actions, match) && !slices.ContainsFunc(g.NotActions, match)
}

// wildcard matches an action with a pattern, in which a star is any text.
// https://learn.microsoft.com/en-us/azure/role-based-access-control/role-definitions#actions
func wildcard(pattern, action string) bool {
	parts := strings.Split(strings.ToLower(pattern), "*")
	text, ok := strings.CutPrefix(strings.ToLower(action), parts[0])
	if !ok || len(parts) == 1 {
		return ok && text == ""
	}
	for _, part := range parts[1 : len(parts)-1] {
		if _, text, ok = strings.Cut(text, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}

// granted asks what the caller may do in the resource group.
// https://learn.microsoft.com/en-us/rest/api/authorization/permissions/list-for-resource-group
func (p *provider) granted(ctx context.Context, client *arm.Client) ([]grant, error) {
	var out struct {
		Value []grant `json:"value"`
	}
	err := p.session.Call(ctx, opCheck, func(ctx context.Context) error {
		data, err := p.send(ctx, client, http.MethodGet, "/providers/Microsoft.Authorization/permissions", permissionsVersion, "")
		if err != nil {
			return err
		}
		return json.Unmarshal(data, &out)
	})
	return out.Value, err
}

func (p *provider) try(ctx context.Context, client *arm.Client, r right) error {
	return p.session.Call(ctx, opCheck, func(ctx context.Context) error {
		_, err := p.send(ctx, client, r.method, "/providers/Microsoft.ContainerInstance/containerGroups/"+probe+r.path, instancesVersion, r.body)
		return err
	})
}

// send makes a call below the resource group, and returns what it answers.
func (p *provider) send(ctx context.Context, client *arm.Client, method, path, version, body string) ([]byte, error) {
	req, err := runtime.NewRequest(ctx, method, runtime.JoinPaths(client.Endpoint(), "/subscriptions/"+p.session.Subscription+"/resourceGroups/"+p.cfg.ResourceGroup+path))
	if err != nil {
		return nil, err
	}
	req.Raw().URL.RawQuery = "api-version=" + version
	req.Raw().Header.Set("Accept", "application/json")
	if body != "" {
		if err := req.SetBody(closing{strings.NewReader(body)}, "application/json"); err != nil {
			return nil, err
		}
	}
	res, err := client.Pipeline().Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // it is read
	if res.StatusCode >= http.StatusBadRequest {
		return nil, runtime.NewResponseError(res)
	}
	return runtime.Payload(res)
}

// closing is a body that needs no closing.
type closing struct{ *strings.Reader }

// Close implements io.Closer.
func (closing) Close() error { return nil }
