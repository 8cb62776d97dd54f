//go:build linux

// Command folder is a provider plugin: it runs programs of this machine, each job in a
// folder of its own. docs/write-a-provider.md tells how it came about.
package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin"
)

const kind = "folder"

func main() { plugin.Serve(driver()) }

// driver says what the backend is and what it can truly give.
func driver() sdk.Driver {
	return sdk.Driver{
		Kind: kind, Doc: "Programs of this machine, each job in a folder of its own.", Capabilities: sdk.CapabilitiesOf[*provider](), Support: support(), Open: open,
		Config: sdk.Schema{Fields: []sdk.SchemaField{{Name: "dir", Type: sdk.TypeString, Doc: "The folder that jobs are kept in; a relative one lies in the state folder.", Default: "jobs"}}},
		Guarantees: sdk.Guarantees{
			Submit: sdk.SubmitGuarantee{By: sdk.SubmitByName}, // there can be one folder of a name
			Found:  sdk.FoundGuarantee{Consistent: true}, Argv: sdk.ArgvExact, ExitCode: sdk.ExitCodeProcess,
			CancelReadBack: true, NoImage: true, Logs: sdk.LogGuarantee{Fidelity: sdk.LogBytes, EndProven: true, Live: true},
		},
	}
}

// support is what each field of a job becomes; sdk.Refused refuses by it.
func support() (out []sdk.FieldSupport) {
	for _, f := range strings.Fields("name entrypoint args env workdir labels allow_visible_secret timeout start_timeout retries") {
		out = append(out, sdk.FieldSupport{Field: f, Values: "any"})
	}
	for _, f := range strings.Fields("image image_entrypoint secrets user cpu memory gpu ephemeral_storage pids grace network mounts files stdin profile ttl") {
		out = append(out, sdk.FieldSupport{Field: f, Refused: "a folder has no " + f})
	}
	return out
}

// provider is the backend as it was opened.
type provider struct {
	opened sdk.OpenRequest
	self   sdk.Identity // its Endpoint is the folder
}

func open(_ context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
	config := struct{ Dir string }{"jobs"}
	if err := driver().Config.Decode("config", r.Config, &config); err != nil {
		return nil, err
	}
	dir := config.Dir
	if !filepath.IsAbs(dir) { // the plugin's own folder is gone with the next install
		dir = filepath.Join(r.StateDir, dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, sdk.Errorf(sdk.FailedPrecondition, "open provider", "%w", err)
	}
	return &provider{opened: r, self: sdk.Identity{Kind: kind, Endpoint: dir}}, nil
}

func (p *provider) Close() error { return nil }
func (p *provider) Info() sdk.Info {
	return sdk.Info{Name: p.opened.Name, Kind: kind, Identity: p.self, Guarantees: driver().Guarantees}
}

func (p *provider) Check(context.Context, sdk.CheckRequest) (sdk.CheckResult, error) {
	f, err := os.CreateTemp(p.self.Endpoint, ".check-")
	if err != nil {
		return sdk.CheckResult{Items: []sdk.CheckItem{{Name: "folder", Detail: err.Error(), Remedy: "let the plugin write to it"}}}, nil
	}
	return sdk.CheckResult{Items: []sdk.CheckItem{{Name: "folder", OK: true, Detail: p.self.Endpoint}}}, errors.Join(f.Close(), os.Remove(f.Name()))
}
