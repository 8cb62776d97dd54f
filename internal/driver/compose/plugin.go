package compose

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/windlass-run/windlass/sdk"
)

// The Compose plugin is run by itself, without the docker command line before it:
// it takes the same arguments, and starts in half the time.

const pluginName = "docker-compose"

// What is said where the plugin is missing.
const (
	noPlugin     = "the Compose plugin (docker-compose) isn't installed: it is neither in Docker's folders of plugins nor in PATH"
	noPluginHelp = "install the package docker-compose-plugin, or name the program by `compose` in the provider's config"
)

// systemPlugins are where the docker command line looks for plugins of the whole
// machine, in its order.
// https://github.com/docker/cli/blob/master/cli-plugins/manager/manager_unix.go
var systemPlugins = [...]string{
	"/usr/local/lib/docker/cli-plugins", "/usr/local/libexec/docker/cli-plugins",
	"/usr/lib/docker/cli-plugins", "/usr/libexec/docker/cli-plugins",
}

// program returns the path of the Compose plugin.
func (p *provider) program(op string) (string, error) {
	if p.cfg.Compose != "" {
		path, err := exec.LookPath(p.cfg.Compose)
		if err != nil {
			return "", &sdk.Error{Code: sdk.FailedPrecondition, Op: op, Provider: p.name, Field: "compose", Remedy: noPluginHelp,
				Err: fmt.Errorf("the Compose plugin: %w", err)}
		}
		return path, nil
	}
	name := pluginName
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	var dirs []string
	if p.plugins != "" {
		dirs = append(dirs, p.plugins)
	}
	for _, dir := range append(dirs, systemPlugins[:]...) {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &sdk.Error{Code: sdk.FailedPrecondition, Op: op, Provider: p.name, Remedy: noPluginHelp, Err: errors.New(noPlugin)}
	}
	return path, nil
}
