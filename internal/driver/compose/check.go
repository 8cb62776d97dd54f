package compose

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

const opCheck = "check provider"

// Check implements sdk.Provider.
func (p *provider) Check(ctx context.Context, _ sdk.CheckRequest) (sdk.CheckResult, error) {
	var out sdk.CheckResult
	for _, f := range []func(context.Context) []sdk.CheckItem{p.checkPlugin, p.checkEngine, p.checkProject} {
		out.Items = append(out.Items, f(ctx)...)
		if ctx.Err() != nil {
			return sdk.CheckResult{}, p.ended(ctx, opCheck)
		}
	}
	return out, nil
}

func failed(name string, err error, remedy string) []sdk.CheckItem {
	if e := asError(err); e != nil && e.Remedy != "" {
		remedy = e.Remedy
	}
	return []sdk.CheckItem{{Name: name, Detail: text(err), Remedy: remedy}}
}

func (p *provider) checkPlugin(ctx context.Context) []sdk.CheckItem {
	const name = "compose plugin"
	program, err := p.program(opCheck)
	if err != nil {
		return failed(name, err, noPluginHelp)
	}
	version, _, err := p.read(ctx, opCheck, nil, "version", "--short")
	if err != nil {
		return failed(name, err, "install Compose 2.30 or later")
	}
	return []sdk.CheckItem{{Name: name, OK: true, Detail: fmt.Sprintf("Compose %s, %s", bytes.TrimSpace(version), program)}}
}

func (p *provider) checkEngine(ctx context.Context) []sdk.CheckItem {
	var v client.ServerVersionResult
	err := p.client.Call(ctx, opCheck, func(ctx context.Context, api *client.Client) error {
		var err error
		v, err = api.ServerVersion(ctx, client.ServerVersionOptions{})
		return err
	})
	if err != nil {
		return failed("engine", err, "start the engine, or name another one by DOCKER_HOST or the provider's host")
	}
	return []sdk.CheckItem{{Name: "engine", OK: true, Detail: fmt.Sprintf("Docker %s at %s", v.Version, p.identity.Endpoint)}}
}

func (p *provider) checkProject(ctx context.Context) []sdk.CheckItem {
	if _, err := p.program(opCheck); err != nil {
		return nil // said already
	}
	m, err := p.resolve(ctx, opCheck)
	if err != nil {
		return failed("project", err, "mend the project's files")
	}
	items := []sdk.CheckItem{{Name: "project", OK: true, Detail: fmt.Sprintf("%s in %s", count(len(m.Services), "service", "services"), p.place.directory)}}
	if len(m.stale) > 0 {
		names := make([]string, len(m.stale))
		for i, dir := range m.stale {
			names[i] = filepath.Base(dir)
		}
		items = append(items, sdk.CheckItem{Name: "settings", Detail: "left out, since the project no longer has the service: " + strings.Join(names, ", "),
			Remedy: "remove " + strings.Join(m.stale, ", ")})
	}
	return items
}
