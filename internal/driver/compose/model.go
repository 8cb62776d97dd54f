package compose

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// model is a project as Compose resolves it.
type model struct {
	Services map[string]service `json:"services"`
	// files are those that it was read from, stale the folders of settings whose
	// service the project no longer has.
	files, stale []string
}

// service is what matters here of a service.
type service struct {
	Image         string             `json:"image"`
	Build         json.RawMessage    `json:"build"`
	ContainerName string             `json:"container_name"`
	Scale         *int               `json:"scale"`
	Environment   map[string]*string `json:"environment"`
	Ports         []publishedPort    `json:"ports"`
	Deploy        struct {
		Replicas *int `json:"replicas"`
	} `json:"deploy"`
}

type publishedPort struct {
	Published string `json:"published"`
}

// replicas is how many containers the project's files ask for.
func (s service) replicas() int {
	switch {
	case s.Deploy.Replicas != nil:
		return *s.Deploy.Replicas
	case s.Scale != nil:
		return *s.Scale
	}
	return 1
}

// most is how many containers the service can have at once: their names and
// ports on the machine are theirs alone. Zero is no bound.
func (s service) most() (n int, why string) {
	if s.ContainerName != "" {
		return 1, "container_name gives one container its name"
	}
	for _, x := range s.Ports {
		if x.Published == "" || x.Published == "0" {
			continue
		}
		span := 1
		if from, to, ok := strings.Cut(x.Published, "-"); ok {
			a, errA := strconv.Atoi(from)
			b, errB := strconv.Atoi(to)
			if errA == nil && errB == nil && b >= a {
				span = b - a + 1
			}
		}
		if n == 0 || span < n {
			n, why = span, "the published port "+x.Published+" is there for so many"
		}
	}
	return n, why
}

// image is the name of the service's image, also where Compose builds it.
// https://docs.docker.com/reference/compose-file/build/#using-build-and-image
func (p *provider) image(name string, s service) string {
	if s.Image != "" {
		return s.Image
	}
	return p.cfg.Project + "-" + name
}

// resolve has Compose read the project, with the settings of all services.
func (p *provider) resolve(ctx context.Context, op string) (model, error) {
	return p.resolveWith(ctx, op, nil)
}

// resolveWith reads the project with other settings of some services than those
// that are kept: a file for each, or none where it is empty.
func (p *provider) resolveWith(ctx context.Context, op string, instead map[string]string) (model, error) {
	base, layers, err := p.parts(op)
	if err != nil {
		return model{}, err
	}
	for name, path := range instead {
		if path == "" {
			delete(layers, name)
		} else {
			layers[name] = path
		}
	}
	m, err := p.parse(ctx, op, slices.Concat(base, inOrder(layers)))
	if err == nil || len(layers) == 0 {
		return m, err
	}
	// Settings of a service that the project no longer has make the whole of it
	// invalid. They must not keep the others from being operated.
	bare, berr := p.parse(ctx, op, base)
	if berr != nil {
		return model{}, err
	}
	var stale []string
	for name, path := range layers {
		l, lerr := readLayer(path)
		if _, ok := bare.Services[name]; !ok && lerr == nil && !l.made() {
			stale = append(stale, filepath.Dir(path))
			delete(layers, name)
		}
	}
	if len(stale) == 0 {
		return model{}, err
	}
	slices.Sort(stale)
	m, err = p.parse(ctx, op, slices.Concat(base, inOrder(layers)))
	m.stale = stale
	return m, err
}

func inOrder(layers map[string]string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(layers)) {
		out = append(out, layers[name])
	}
	return out
}

// parts are the project's own files and the files of settings by service.
func (p *provider) parts(op string) (base []string, layers map[string]string, err error) {
	if base, err = p.place.sources(); err == nil {
		layers, err = p.layers(op)
	}
	return base, layers, err
}

// files are those of which the project is made, where all settings fit it.
func (p *provider) files(op string) ([]string, error) {
	base, layers, err := p.parts(op)
	return slices.Concat(base, inOrder(layers)), err
}

// layers returns the files of settings by service.
func (p *provider) layers(op string) (map[string]string, error) {
	out := map[string]string{}
	found, err := os.ReadDir(p.place.settings)
	if err != nil && !os.IsNotExist(err) {
		e := p.fail(sdk.FailedPrecondition, op, "read the settings: %w", err)
		e.Field, e.Remedy = "settings", "let this user read the folder"
		return nil, e
	}
	for _, d := range found {
		path := filepath.Join(p.place.settings, d.Name(), layerFile)
		if _, err := os.Stat(path); d.IsDir() && err == nil {
			out[d.Name()] = path
		}
	}
	return out, nil
}

// parse has Compose read a project, unless it just did.
func (p *provider) parse(ctx context.Context, op string, files []string) (model, error) {
	m := model{files: files}
	args := []string{"config", "--format", "json"}
	key, err := p.readKey(ctx, op, files, args)
	if err != nil {
		return m, err
	}
	m.Services, err = p.resolved.get(ctx, p.clock, key, func() (map[string]service, error) {
		out, _, err := p.read(ctx, op, files, args...)
		if err != nil {
			return nil, err
		}
		var got model
		if err := json.Unmarshal(bytes.TrimSpace(out), &got); err != nil {
			return nil, p.fail(sdk.Internal, op, "docker compose config: what it wrote isn't a project in JSON: %w", err)
		}
		return got.Services, nil
	})
	if ctx.Err() != nil {
		return m, p.ended(ctx, op)
	}
	return m, err
}

// service returns a service of the project.
func (p *provider) service(op, name string, m model) (service, error) {
	s, ok := m.Services[name]
	if ok {
		return s, nil
	}
	list := strings.Join(slices.Sorted(maps.Keys(m.Services)), ", ")
	if list == "" {
		list = "none"
	}
	e := p.fail(sdk.NotFound, op, "project %s has no service %s; it has: %s", p.cfg.Project, name, list)
	e.Remedy = "`windlass svc ls` lists the services; one that belongs to a profile needs it under `profiles` in the provider's config"
	return service{}, e
}

// serviceName reads a workload's path.
func (p *provider) serviceName(op string, path sdk.WorkloadPath) (string, error) {
	if err := path.Check(); err != nil {
		return "", err
	}
	name := string(path)
	if strings.Contains(name, "/") || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") {
		e := p.fail(sdk.InvalidArgument, op, "%q: a workload of a Compose project is a SERVICE", name)
		e.Field = "target"
		return "", e
	}
	return name, nil
}

// drift is what Compose would do to a service if it were told to bring it up as
// the project's files are now.
type drift struct {
	// recreate are the containers that it would make anew: their configuration
	// isn't that of the files any more.
	recreate []string
	// makes are the networks and volumes that it would make.
	makes []string
	// err is why that can't be told.
	err error
}

// probe asks Compose by a dry run. Its own `config --hash` leaves env_file out,
// which what it does goes by.
func (p *provider) probe(ctx context.Context, op string, files []string, name string, count int) drift {
	_, reports, err := p.read(ctx, op, files, probeArgs(name, count)...)
	d := drift{err: err, recreate: objects(reports, "Container", "Recreate")}
	for _, sort := range []string{"Network", "Volume"} {
		for _, n := range objects(reports, sort, "Creating") {
			d.makes = append(d.makes, fmt.Sprintf("%s %s", strings.ToLower(sort), n))
		}
	}
	return d
}

func probeArgs(name string, count int) []string {
	return append([]string{"--dry-run"}, upArgs(name, max(count, 1))...)
}

// upArgs are the arguments by which Compose brings a service, and no other, to a
// number of containers. It builds and pulls nothing on the way.
func upArgs(name string, count int, more ...string) []string {
	args := []string{"up", "--detach", "--no-deps", "--no-build", "--pull", "never", "--scale", fmt.Sprintf("%s=%d", name, count)}
	return append(append(args, more...), name)
}
