package discover

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/windlass-run/windlass/internal/config"
)

// errNoYAML and errNoJSON are all that is said of such files.
var (
	errNoYAML = errors.New("isn't the YAML that it should be")
	errNoJSON = errors.New("isn't the JSON that it should be")
)

// docker looks for the contexts of Docker's command line. The default one needs no entry.
// https://docs.docker.com/engine/manage-resources/contexts/
func (l *look) docker() {
	dir := l.under("DOCKER_CONFIG", ".docker")
	if dir == "" {
		return
	}
	current := l.Env.Get("DOCKER_CONTEXT")
	if data, ok := l.read(filepath.Join(dir, "config.json")); ok {
		var c struct {
			CurrentContext string `json:"currentContext"`
		}
		if json.Unmarshal(data, &c) != nil {
			l.trouble(filepath.Join(dir, "config.json"), errNoJSON)
		} else if current == "" {
			current = c.CurrentContext
		}
	}
	meta := filepath.Join(dir, "contexts", "meta")
	entries, err := os.ReadDir(meta)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNotDir) {
			l.trouble(meta, errors.New("can't be listed"))
		}
		return
	}
	type dockerContext struct {
		Name      string
		Endpoints map[string]struct{ Host string }
	}
	var all []dockerContext
	for _, e := range entries {
		path := filepath.Join(meta, e.Name(), "meta.json")
		data, ok := l.read(path)
		if !ok {
			continue
		}
		var c dockerContext
		if json.Unmarshal(data, &c) != nil || c.Name == "" {
			l.trouble(path, errNoJSON)
			continue
		}
		if c.Endpoints["docker"].Host != "" && c.Name != "default" {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b dockerContext) int { return currentFirst(a.Name, b.Name, current) })
	for i, c := range all {
		if i == maxEach {
			break
		}
		f := Found{Name: c.Name, Kind: "docker", From: "Docker's context " + c.Name, Credentials: config.CredentialsAmbient, Config: text("context", c.Name)}
		if c.Name == current {
			f.From += ", the one in use"
		}
		if l.has("DOCKER_CONFIG") {
			f.Credentials = config.CredentialsEnv // which has the folder
		}
		if strings.HasPrefix(c.Endpoints["docker"].Host, "ssh://") {
			f.Notes = append(f.Notes, "It leads over ssh, which Windlass doesn't speak: forward the engine's socket, and name that by host.")
		}
		l.add(f)
	}
}

// currentFirst orders by name, with one before all.
func currentFirst(a, b, current string) int {
	switch {
	case a == b:
		return 0
	case a == current:
		return -1
	case b == current:
		return 1
	}
	return strings.Compare(a, b)
}

// podman looks for the sockets of Podman's service, the user's and the system's.
// https://docs.podman.io/en/latest/markdown/podman-system-service.1.html
func (l *look) podman() {
	for _, x := range []struct{ name, base string }{{"podman", l.Env.Get("XDG_RUNTIME_DIR")}, {"podman-system", l.Root + "/run"}} {
		path := filepath.Join(x.base, "podman", "podman.sock")
		if st, err := os.Stat(path); x.base != "" && err == nil && st.Mode()&fs.ModeSocket != 0 {
			l.add(Found{Name: x.name, Kind: "docker", From: "Podman's socket " + path, Credentials: config.CredentialsEnv, Config: text("host", "unix://"+path)})
		}
	}
}

// compose looks for a project in the folder.
// https://docs.docker.com/compose/how-tos/project-name/
func (l *look) compose() {
	if l.Dir == "" {
		return
	}
	for _, name := range []string{"compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"} {
		path := filepath.Join(l.Dir, name)
		data, ok := l.read(path)
		if !ok {
			continue
		}
		var c struct {
			Name string `yaml:"name"`
		}
		if yaml.Unmarshal(data, &c) != nil {
			l.trouble(path, errNoYAML)
			return
		}
		project := c.Name
		if v := l.Env.Get("COMPOSE_PROJECT_NAME"); v != "" {
			project = v
		}
		f := Found{Kind: "compose", From: name + " of this folder", Credentials: config.CredentialsEnv,
			Notes: []string{"Services of the project, for windlass svc called in this folder; directory names it for calls from elsewhere."}}
		if project == "" || strings.Contains(project, "$") {
			project = composeName(filepath.Base(l.Dir))
		}
		f.Name, f.Config = project, []Setting{orGuess("project", project, "my-project")}
		l.add(f)
		return // Compose takes the first as well
	}
}

// composeName is what Compose makes of a folder's name.
func composeName(folder string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(folder) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || b.Len() > 0 && (r == '-' || r == '_') {
			b.WriteRune(r)
		}
	}
	return b.String()
}
