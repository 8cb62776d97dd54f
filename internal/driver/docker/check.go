package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/system"

	"github.com/windlass-run/windlass/sdk"
)

const opCheck = "check provider"

// lowDisk is how little space under the engine's data is worth a word.
const lowDisk = 1 << 30

// Check implements sdk.Provider.
func (p *provider) Check(ctx context.Context, _ sdk.CheckRequest) (sdk.CheckResult, error) {
	info, err := p.askEngine(ctx, opCheck)
	if err != nil {
		if ctx.Err() != nil {
			return sdk.CheckResult{}, err
		}
		item := sdk.CheckItem{Name: "engine", Detail: err.Error(), Remedy: "start the engine, or name another one by DOCKER_HOST or the provider's host"}
		if e, ok := errors.AsType[*sdk.Error](err); ok && e.Err != nil {
			// Which provider it is, and what to do, stand beside it.
			item.Detail = e.Err.Error()
			if e.Remedy != "" {
				item.Remedy = e.Remedy
			}
		}
		return sdk.CheckResult{Items: []sdk.CheckItem{item}}, nil
	}
	items := []sdk.CheckItem{
		p.checkEngine(info),
		p.checkPlatform(info), checkLimits(info), checkLogs(info), p.checkInputs(),
	}
	if p.local {
		if free, ok := freeBytes(info.DockerRootDir); ok {
			items = append(items, sdk.CheckItem{Name: "disk", OK: free >= lowDisk,
				Detail: fmt.Sprintf("%d MiB free under %s", free>>20, info.DockerRootDir), Remedy: "docker system prune"})
		}
	}
	return sdk.CheckResult{Items: items}, nil
}

func (p *provider) checkEngine(info *system.Info) sdk.CheckItem {
	item := sdk.CheckItem{Name: "engine", OK: true, Detail: fmt.Sprintf("Docker %s at %s, API %s, ID %s", info.ServerVersion, p.identity.Endpoint, p.client.APIVersion(), info.ID)}
	if isPodman(info) {
		item.Detail = fmt.Sprintf("Podman %s at %s, API %s; it has no lasting ID, so another one at this address isn't noticed", info.ServerVersion, p.identity.Endpoint, p.client.APIVersion())
	}
	return item
}

func (p *provider) checkPlatform(info *system.Info) sdk.CheckItem {
	return sdk.CheckItem{Name: "platform", OK: info.OSType == "linux", Detail: info.OSType + "/" + info.Architecture + ", kernel " + info.KernelVersion,
		Remedy: "use an engine that runs linux containers"}
}

func checkLimits(info *system.Info) sdk.CheckItem {
	var lacks []string
	for name, has := range map[string]bool{"memory": info.MemoryLimit, "cpu": info.CPUCfsQuota, "pids": info.PidsLimit, "swap": info.SwapLimit} {
		if !has {
			lacks = append(lacks, name)
		}
	}
	slices.Sort(lacks)
	item := sdk.CheckItem{Name: "limits", OK: len(lacks) == 0, Detail: fmt.Sprintf("cgroup v%s by %s", info.CgroupVersion, info.CgroupDriver),
		Remedy: "enable the controllers in the engine's kernel"}
	if len(lacks) > 0 {
		item.Detail += "; can't limit " + strings.Join(lacks, ", ")
	}
	return item
}

func checkLogs(info *system.Info) sdk.CheckItem {
	driver := logDriver(info, "")
	item := sdk.CheckItem{Name: "logs", OK: driver != logJSON, Detail: "output is kept by the log driver " + driver}
	if !item.OK {
		item.Detail += ", which replaces bytes that are not UTF-8"
		item.Remedy = "an engine with the log driver local keeps any bytes"
	}
	return item
}

func (p *provider) checkInputs() sdk.CheckItem {
	item := sdk.CheckItem{Name: "secrets", OK: p.local, Detail: "secrets are files in memory"}
	if !p.local {
		item.Detail = "the engine doesn't share this machine's memory file systems: secrets need allow_visible_secret"
		item.Remedy = "run windlass on the engine's machine"
	}
	return item
}
