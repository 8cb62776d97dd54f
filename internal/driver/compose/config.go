package compose

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	engine "github.com/windlass-run/windlass/internal/cloud/docker"
	"github.com/windlass-run/windlass/sdk"
)

// config is what stands under `config:` of a provider.
type config struct {
	Project   string   `json:"project"`
	Directory string   `json:"directory"`
	Files     []string `json:"files"`
	EnvFiles  []string `json:"env_files"`
	Profiles  []string `json:"profiles"`
	Settings  string   `json:"settings"`
	Compose   string   `json:"compose"`
	Host      string   `json:"host"`
	Context   string   `json:"context"`
	TLSCA     string   `json:"tls_ca"`
	TLSCert   string   `json:"tls_cert"`
	TLSKey    string   `json:"tls_key"`
	Remote    bool     `json:"remote"`
}

func configSchema() sdk.Schema {
	text := &sdk.SchemaField{Type: sdk.TypeString}
	return sdk.Schema{Doc: "Which Compose project is operated, and on which engine.", Fields: slices.Concat([]sdk.SchemaField{
		{Name: "project", Type: sdk.TypeString, Required: true,
			Doc: "The project's name, as `docker compose ls` shows it. It is needed, since what Compose takes for it otherwise depends on the caller's folder and environment."},
		{Name: "directory", Type: sdk.TypeString, Default: "the folder in which windlass was started",
			Doc: "The project's folder: relative paths below and in the Compose files start there, and its .env is read."},
		{Name: "files", Type: sdk.TypeList, Elem: text, Default: "compose.yaml, compose.yml, docker-compose.yml or docker-compose.yaml of the folder, with the override file beside it",
			Doc: "The Compose files, in order. COMPOSE_FILE isn't looked at."},
		{Name: "env_files", Type: sdk.TypeList, Elem: text, Default: ".env of the folder", Doc: "Files with the variables that Compose files refer to."},
		{Name: "profiles", Type: sdk.TypeList, Elem: text, Default: "COMPOSE_PROFILES, as Compose reads it", Doc: "The profiles whose services are operated besides those that have none."},
		{Name: "settings", Type: sdk.TypeString, Default: ".windlass/PROJECT in the folder",
			Doc: "The folder in which Windlass keeps the settings of `svc config`, as files that Compose merges, and its notes on what was done. All who operate the project from this machine must name the same one."},
		{Name: "compose", Type: sdk.TypeString, Default: "docker-compose in Docker's folders of plugins, or of PATH", Doc: "The program of the Compose plugin."},
	}, engine.EndpointFields(), []sdk.SchemaField{
		{Name: "remote", Type: sdk.TypeBool, Default: "false", Doc: "The engine behind a socket of this machine doesn't share this machine's files, so that secrets can't be handed over."},
	})}
}

// place is where a project's files are.
type place struct {
	// directory is absolute; settings is the folder of Windlass's own files.
	directory, settings string
	// files are the configured ones, absolute; none is Compose's own names.
	files, envFiles []string
}

// resolve makes every path absolute. It reads nothing.
func (c config) resolve() (place, error) {
	dir, err := filepath.Abs(c.Directory)
	if err != nil {
		return place{}, &sdk.Error{Code: sdk.FailedPrecondition, Op: "open project", Field: "directory", Err: err}
	}
	in := func(path string) string {
		if filepath.IsAbs(path) {
			return filepath.Clean(path)
		}
		return filepath.Join(dir, path)
	}
	p := place{directory: dir, settings: filepath.Join(dir, ".windlass", c.Project)}
	if c.Settings != "" {
		p.settings = in(c.Settings)
	}
	for _, f := range c.Files {
		p.files = append(p.files, in(f))
	}
	for _, f := range c.EnvFiles {
		p.envFiles = append(p.envFiles, in(f))
	}
	return p, nil
}

// The names under which Compose itself looks for a project, and for what
// overrides it, best first.
// https://docs.docker.com/compose/intro/compose-application-model/
// https://docs.docker.com/compose/how-tos/multiple-compose-files/merge/
var (
	defaultNames  = [...]string{"compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"}
	overrideNames = [...]string{"compose.override.yml", "compose.override.yaml", "docker-compose.override.yml", "docker-compose.override.yaml"}
)

// sources returns the project's own Compose files, in order.
func (p place) sources() ([]string, error) {
	if len(p.files) > 0 {
		return p.files, nil
	}
	first := func(names []string) string {
		for _, n := range names {
			if _, err := os.Stat(filepath.Join(p.directory, n)); err == nil {
				return filepath.Join(p.directory, n)
			}
		}
		return ""
	}
	base := first(defaultNames[:])
	if base == "" {
		return nil, &sdk.Error{Code: sdk.FailedPrecondition, Op: "read project", Field: "files", Remedy: "set directory or files in the provider's config",
			Err: errors.New("there is no Compose file in " + p.directory)}
	}
	if over := first(overrideNames[:]); over != "" {
		return []string{base, over}, nil
	}
	return []string{base}, nil
}
