package compose

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"go.uber.org/goleak"

	engine "github.com/windlass-run/windlass/internal/cloud/docker"
	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
	"github.com/windlass-run/windlass/sdk/workloadtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 60 * time.Second

// upProgram serves until it is told to stop.
const upProgram = `trap 'exit 0' TERM; echo "$(hostname) is up"; echo "$(hostname) errs" >&2; sleep 10000 & wait`

// yard is a Compose project of a test's own.
type yard struct {
	t        testing.TB
	host     string
	plugin   string
	project  string
	dir      string
	ids      sdk.IDSource
	wrapper  string
	mu       sync.Mutex
	services map[string]map[string]any
	// extra are other parts of the project's file.
	extra map[string]any
	made  map[string]int
	// client is the test's own; wiping is what it removes meanwhile.
	client *engine.Client
	wiping sync.WaitGroup
}

// newYard makes a project with a network and without services.
func newYard(t testing.TB) *yard {
	t.Helper()
	y := &yard{t: t, host: testneed.Docker(t), plugin: testneed.Compose(t), dir: t.TempDir(), ids: sdk.NewIDSource(sdk.SystemClock()),
		services: map[string]map[string]any{}, made: map[string]int{}}
	y.project = "wl-" + strings.ToLower(y.ids.NewID().Short())
	y.wrapper = filepath.Join(t.TempDir(), "docker-compose")
	script := strings.ReplaceAll(wrapperScript, "PLUGIN", y.plugin)
	if err := os.WriteFile(y.wrapper, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	if y.client, err = engine.New(engine.Endpoint{Host: y.host}, "test", 0); err != nil {
		t.Fatal(err)
	}
	base := plain("sh", "-c", upProgram)
	delete(base, "network_mode")
	y.put("base", base)
	t.Cleanup(func() {
		y.wiping.Wait()
		if err := y.client.Close(); err != nil {
			t.Error(err)
		}
		if out, err := y.compose(context.Background(), "down", "--remove-orphans", "--timeout", "0", "--volumes"); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
	// It makes the network, as whoever sets a project up does.
	if out, err := y.compose(t.Context(), "create", "base"); err != nil {
		t.Fatalf("create: %v\n%s", err, out)
	}
	return y
}

// wrapperScript stands in for the plugin: it notes what it is asked, and what
// changes something; it can refuse that, and can lose what the plugin says of it.
const wrapperScript = `#!/bin/sh
dir=${0%/*}
verb=
for a; do
	case $a in
	config|version|pull|--dry-run) verb=read; echo "$a" >>"$dir/asked"; break ;;
	up|stop|restart) verb=$a; break ;;
	esac
done
if [ "$verb" = read ] || [ -z "$verb" ]; then exec PLUGIN "$@"; fi
for s; do :; done
echo "$verb" >>"$dir/sent.$s"
if [ -e "$dir/refuse" ]; then rm "$dir/refuse"; exit 1; fi
echo "$verb" >>"$dir/done.$s"
if [ -e "$dir/lose" ]; then rm "$dir/lose"; PLUGIN "$@" >/dev/null 2>&1; exit 1; fi
if [ -e "$dir/kill" ]; then rm "$dir/kill"; kill -KILL $$; fi
exec PLUGIN "$@"
`

// plain is a service without a network, whose making is half of what the engine
// does for a container.
func plain(command ...string) map[string]any {
	return map[string]any{"image": testneed.Image, "command": escapeAll(command), "network_mode": "none"}
}

func escapeAll(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = escapeText(s)
	}
	return out
}

// compose runs the plugin itself, as a user of the project would.
func (y *yard) compose(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, y.plugin, append([]string{"--host", y.host, "--project-name", y.project, "--project-directory", y.dir}, args...)...)
	cmd.Dir = y.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (y *yard) must(args ...string) {
	y.t.Helper()
	if out, err := y.compose(y.t.Context(), args...); err != nil {
		y.t.Fatalf("docker compose %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// put writes a service into the project's file; nil takes it out.
func (y *yard) put(name string, s map[string]any) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if s == nil {
		delete(y.services, name)
	} else {
		y.services[name] = s
	}
	doc := map[string]any{"services": y.services}
	maps.Copy(doc, y.extra)
	data, err := json.Marshal(doc)
	if err == nil {
		err = replaceFile(filepath.Join(y.dir, "compose.yaml"), data)
	}
	if err != nil {
		y.t.Fatal(err)
	}
}

// alter changes a service in the project's file.
func (y *yard) alter(name string, change func(s map[string]any)) {
	y.mu.Lock()
	s := maps.Clone(y.services[name])
	y.mu.Unlock()
	change(s)
	y.put(name, s)
}

func (y *yard) name() string { return "s" + strings.ToLower(y.ids.NewID().Short()) }

// up makes a service and brings it up, not through the provider.
func (y *yard) up(t providertest.T, replicas int) string {
	name := y.name()
	y.put(name, plain("sh", "-c", upProgram))
	out, err := y.compose(t.Context(), "up", "--detach", "--no-deps", "--scale", fmt.Sprintf("%s=%d", name, replicas), name)
	if err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	y.mu.Lock()
	y.made[name] = 1
	y.mu.Unlock()
	t.Cleanup(func() { y.wipe(name) })
	return name
}

// wipe removes a service with its containers and settings, while other things go
// on.
func (y *yard) wipe(name string) {
	y.put(name, nil)
	y.wiping.Go(func() {
		filters := make(client.Filters).Add("label", labelProject+"="+y.project, labelService+"="+name)
		err := y.client.Long(context.Background(), "wipe", func(ctx context.Context, api *client.Client) error {
			res, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
			for _, c := range res.Items {
				_, rerr := api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
				err = errors.Join(err, rerr)
			}
			return err
		})
		if err := errors.Join(err, os.RemoveAll(filepath.Join(y.dir, ".windlass", y.project, name))); err != nil {
			y.t.Errorf("wipe %s: %v", name, err)
		}
	})
}

func (y *yard) lines(file string) int {
	data, err := os.ReadFile(filepath.Join(filepath.Dir(y.wrapper), file))
	if err != nil {
		return 0
	}
	return bytes.Count(data, []byte("\n"))
}

func (y *yard) arm(t providertest.T, what string) {
	if err := os.WriteFile(filepath.Join(filepath.Dir(y.wrapper), what), nil, 0o600); err != nil {
		t.Fatalf("%v", err)
	}
}

func (y *yard) open(t providertest.T, change ...func(map[string]any)) *provider {
	cfg := map[string]any{"project": y.project, "directory": y.dir, "host": y.host, "compose": y.wrapper}
	for _, f := range change {
		f(cfg)
	}
	raw, err := json.Marshal(cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	p, err := Driver().Open(t.Context(), sdk.OpenRequest{Name: "shop", Config: raw, IDs: y.ids, Owner: "suite", LedgerID: "ledger", StateDir: t.TempDir(),
		Secrets: &providertest.Secrets{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return p.(*provider)
}

func (y *yard) harness() workloadtest.Harness {
	cut := newCutter(y.t, y.host)
	sh := func(script string, args ...string) sdk.Argv {
		return append(sdk.Argv{"sh", "-c", script, "sh"}, args...)
	}
	return workloadtest.Harness{
		Open: func(t workloadtest.T) sdk.Provider {
			return y.open(t, func(c map[string]any) { c["host"] = cut.host() })
		},
		Make: func(t workloadtest.T, replicas int) sdk.WorkloadPath { return sdk.WorkloadPath(y.up(t, replicas)) },
		Changes: func(_ workloadtest.T, path sdk.WorkloadPath) int {
			y.mu.Lock()
			defer y.mu.Unlock()
			return y.made[string(path)] + y.lines("done."+string(path))
		},
		Spec: func(t workloadtest.T) (sdk.WorkloadPath, sdk.DeploymentSpec) {
			name := y.name()
			t.Cleanup(func() { y.wipe(name) })
			return sdk.WorkloadPath(name), sdk.DeploymentSpec{Name: name, Image: testneed.Image, Command: sh(upProgram), Ports: []sdk.Port{{Port: 80}}}
		},
		Absent: "none",
		Commands: workloadtest.Commands{
			Exit:  func(code int) sdk.Argv { return sh(fmt.Sprintf("exit %d", code)) },
			Print: func(out, errs string) sdk.Argv { return sh(`printf %s "$1"; printf %s "$2" >&2`, out, errs) },
			Cat:   func() sdk.Argv { return sdk.Argv{"cat"} },
			Args: func(args ...string) sdk.Argv {
				return sh(`for a; do echo "arg $(printf %s "$a" | od -An -v -tx1 | tr -d ' \n')"; done`, args...)
			},
			Env: func(name string) sdk.Argv {
				return sh(`if eval "[ -n \"\${$1+x}\" ]"; then eval "v=\$$1"; echo "env $1 $(printf %s "$v" | od -An -v -tx1 | tr -d ' \n')"; else echo "env $1 unset"; fi`, name)
			},
			Hang: func() sdk.Argv { return sdk.Argv{"sleep", "1000"} },
		},
		Line: func(string) string { return " is up\n" },
		Faults: workloadtest.Faults{
			LoseReply: func(t workloadtest.T, op workloadtest.Op) {
				if op == "ExecWorkload" {
					cut.arm()
					return
				}
				y.arm(t, "lose")
			},
			Refuse: func(t workloadtest.T, _ workloadtest.Op) { y.arm(t, "refuse") },
		},
		Eventually: patience, Poll: 100 * time.Millisecond,
	}
}

// looks reports whether a check only looks at its workload, or runs something in it.
func looks(check string) bool {
	for _, prefix := range []string{"list", "status", "exec", "metrics", "logs"} {
		if strings.HasPrefix(check, prefix) {
			return check != "logs-follow" && check != "status-brief" // which stops what it looks at
		}
	}
	return false
}

// sharing has the checks of a harness look at the same workloads.
func (y *yard) sharing(h workloadtest.Harness) workloadtest.Harness {
	of := map[int]string{}
	h.Make = func(_ workloadtest.T, replicas int) sdk.WorkloadPath {
		if of[replicas] == "" {
			of[replicas] = y.up(providertest.Testing(y.t.(*testing.T)), replicas)
		}
		return sdk.WorkloadPath(of[replicas])
	}
	return h
}

// TestSuite runs the checks in a few projects side by side: what they wait for is
// the engine.
func TestSuite(t *testing.T) {
	const projects = 4
	groups := make([][]string, projects)
	n := 0
	for _, c := range workloadtest.Checks() {
		i := 0
		if !looks(c.Name) {
			n++
			i = 1 + n%(projects-1)
		}
		groups[i] = append(groups[i], c.Name)
	}
	for i, names := range groups {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			h := y.harness()
			if i == 0 {
				h = y.sharing(h)
			}
			h.Only = names
			workloadtest.Run(t, h)
		})
	}
}
