package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	engine "github.com/windlass-run/windlass/internal/cloud/docker"
	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "wl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// world is what the conformance suite needs around the provider.
type world struct {
	t      *testing.T
	proxy  *proxy
	api    *engine.Client
	marks  string
	state  string
	owner  string
	ledger string
	config string
	log    *safeBuffer
	values providertest.Secrets
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.b.Bytes())
}

func newWorld(t *testing.T, config map[string]any) *world {
	host := testneed.Docker(t)
	w := &world{t: t, proxy: newProxy(t, host), marks: shortDir(t), state: t.TempDir(), log: &safeBuffer{}}
	ids := sdk.NewIDSource(sdk.SystemClock())
	w.owner, w.ledger = "suite-"+ids.NewID().Short(), ids.NewID().String()
	if err := os.Chmod(w.marks, 0o777); err != nil {
		t.Fatal(err)
	}
	if config == nil {
		config = map[string]any{}
	}
	config["host"] = w.proxy.host()
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	w.config = string(raw)
	e, err := engine.Resolve(engine.Settings{Host: host})
	if err != nil {
		t.Fatal(err)
	}
	if w.api, err = engine.New(e, "direct", 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.sweep()
		if err := w.api.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// call reaches the engine without the proxy.
func (w *world) call(f func(ctx context.Context, api *client.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return w.api.Call(ctx, "test", f)
}

func (w *world) containers(label string) []container.Summary {
	var out []container.Summary
	err := w.call(func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", label)})
		out = res.Items
		return err
	})
	if err != nil {
		w.t.Error(err)
	}
	return out
}

func (w *world) volumes(label string) []string {
	var out []string
	err := w.call(func(ctx context.Context, api *client.Client) error {
		res, err := api.VolumeList(ctx, client.VolumeListOptions{Filters: make(client.Filters).Add("label", label)})
		for _, v := range res.Items {
			out = append(out, v.Name)
		}
		return err
	})
	if err != nil {
		w.t.Error(err)
	}
	return out
}

func (w *world) remove(id string) {
	err := w.call(func(ctx context.Context, api *client.Client) error {
		_, err := api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		return err
	})
	if err != nil && !strings.Contains(err.Error(), "No such container") && !strings.Contains(err.Error(), "in progress") {
		w.t.Error(err)
	}
}

// sweep removes what cut calls left.
func (w *world) sweep() {
	label := sdk.LabelLedger + "=" + w.ledger
	for _, c := range w.containers(label) {
		w.remove(c.ID)
	}
	for _, v := range w.volumes(label) {
		if err := w.call(func(ctx context.Context, api *client.Client) error {
			_, err := api.VolumeRemove(ctx, v, client.VolumeRemoveOptions{})
			return err
		}); err != nil {
			w.t.Error(err)
		}
	}
	if base := tmpfsBase(); base != "" {
		f := newFolders(base, "unix://"+w.proxy.socket, true)
		notes, err := f.list()
		if err != nil {
			w.t.Error(err)
		}
		for _, n := range notes {
			if _, err := f.remove(n.Attempt); err != nil {
				w.t.Error(err)
			}
		}
	}
}

// harness puts the engine under the suite. Through returns a process's driver as the
// suite is to see it; nil is the driver itself.
func (w *world) harness(through func(sdk.Driver) sdk.Driver) providertest.Harness {
	if through == nil {
		through = func(d sdk.Driver) sdk.Driver { return d }
	}
	h := providertest.Harness{
		Driver: through(Driver()),
		Open: func(t providertest.T) sdk.Provider {
			p, err := through(Driver()).Open(t.Context(), sdk.OpenRequest{Name: "test", Config: json.RawMessage(w.config), Secrets: &w.values,
				Clock: sdk.SystemClock(), IDs: sdk.NewIDSource(sdk.SystemClock()), Owner: w.owner, LedgerID: w.ledger, StateDir: w.state,
				Log: newTextLog(w.log)})
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			return p
		},
		Behave: func(_ providertest.T, b providertest.Behaviour) (sdk.JobSpec, error) {
			return sdk.JobSpec{
				Image:  testneed.Image,
				Args:   append(sdk.Argv{"sh", "-c", b.Shell(func(key string) string { return "echo x >>/marks/" + key }), "sh"}, b.Args...),
				Mounts: []sdk.Mount{{Type: sdk.MountBind, Source: w.marks, Target: "/marks"}},
				// A network of its own is most of a container's cost.
				Network: networkNone,
			}, nil
		},
		Marks: func(t providertest.T, key string) int {
			data, err := os.ReadFile(filepath.Join(w.marks, key))
			if err != nil && !os.IsNotExist(err) {
				t.Fatalf("%v", err)
			}
			return bytes.Count(data, []byte("x"))
		},
		Secrets:    &w.values,
		Exposed:    w.exposed,
		Leftovers:  w.leftovers,
		Faults:     w.faults(),
		User:       "nobody",
		UserID:     "65534",
		Eventually: patience,
		Parallel:   8,
	}
	return h
}

// exposed is what those can see who may ask the engine, or look at this machine
// without being root or the user.
func (w *world) exposed(t providertest.T, h sdk.JobHandle) map[string][]byte {
	out := map[string][]byte{"requests": w.proxy.recorded(), "log": w.log.bytes()}
	err := w.call(func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerInspect(ctx, h.ID, client.ContainerInspectOptions{})
		out["inspect"] = res.Raw
		return err
	})
	if err != nil {
		t.Fatalf("inspect: %v", err)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, f := range lines {
		if b, err := os.ReadFile(f); err == nil {
			out[f] = b
		}
	}
	err = filepath.WalkDir(w.state, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			out[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

func (w *world) leftovers(_ providertest.T, run sdk.ID) []string {
	var out []string
	label := sdk.LabelRun + "=" + run.String()
	for _, c := range w.containers(label) {
		out = append(out, "container "+c.ID)
	}
	for _, v := range w.volumes(label) {
		out = append(out, "volume "+v)
	}
	return out
}

// requestOf is the request that stands for an operation.
func requestOf(op providertest.Op) func(r *http.Request) bool {
	switch op {
	case providertest.OpCheck:
		return to(http.MethodGet, "/info")
	case providertest.OpRunJob:
		return to(http.MethodPost, "/containers/create")
	case providertest.OpJobStatus, providertest.OpFindJobs, providertest.OpJobLogs, providertest.OpCancelJob, providertest.OpJobStatuses:
		return func(r *http.Request) bool {
			return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/json") && !strings.HasSuffix(r.URL.Path, "/containers/json")
		}
	case providertest.OpCleanupJob:
		return to(http.MethodDelete, "/containers/")
	case providertest.OpWatchJobs:
		return to(http.MethodGet, "/events")
	case providertest.OpListOwned:
		return to(http.MethodGet, "/containers/json")
	}
	return nil
}

func (w *world) faults() providertest.Faults {
	return providertest.Faults{
		LoseReply: func(_ providertest.T, op providertest.Op) {
			match := requestOf(op)
			if op == providertest.OpRunJob {
				// The job is there when it was started. The look that would clear
				// the loss up is lost as well.
				match = func(r *http.Request) bool {
					return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/start")
				}
				defer w.proxy.add(rule{match: requestOf(providertest.OpJobStatus), left: 1, before: func(string) bool { return false }})
			}
			w.proxy.add(rule{match: match, left: 1, lose: true})
		},
		Refuse: func(_ providertest.T, op providertest.Op) {
			w.proxy.add(rule{match: requestOf(op), left: 1, before: func(string) bool { return false }})
		},
		Block: func(_ providertest.T, op providertest.Op) (<-chan struct{}, func(), bool) {
			match := requestOf(op)
			if match == nil {
				return nil, nil, false
			}
			entered, open := make(chan struct{}, 100), make(chan struct{})
			x := w.proxy.add(rule{match: match, left: -1, before: func(string) bool {
				entered <- struct{}{}
				<-open
				return true
			}})
			var once sync.Once
			return entered, func() {
				once.Do(func() {
					w.proxy.end(x)
					close(open)
				})
			}, true
		},
		Throttle: func(_ providertest.T, op providertest.Op, n int) {
			w.proxy.add(rule{match: requestOf(op), left: n, status: http.StatusTooManyRequests})
		},
		Vanish: func(_ providertest.T, h sdk.JobHandle) { w.remove(h.ID) },
		Forge: func(t providertest.T, owner string) {
			ids := sdk.NewIDSource(sdk.SystemClock())
			labels := map[string]string{sdk.LabelOwner: owner, sdk.LabelLedger: w.ledger, sdk.LabelRun: ids.NewID().String(),
				sdk.LabelAttempt: ids.NewID().String(), sdk.LabelNumber: "1"}
			err := w.call(func(ctx context.Context, api *client.Client) error {
				_, err := api.ContainerCreate(ctx, client.ContainerCreateOptions{Config: &container.Config{Image: testneed.Image, Labels: labels}})
				return err
			})
			if err != nil {
				t.Fatalf("forge: %v", err)
			}
		},
	}
}

func TestSuite(t *testing.T) {
	w := newWorld(t, nil)
	begun := time.Now()
	providertest.Run(t, w.harness(nil))
	t.Logf("the suite took %s", time.Since(begun).Round(time.Second))
}

// TestSuiteRemote runs what differs on an engine that shares no files with this
// machine. Binds still work here, which the harness needs for its marks.
func TestSuiteRemote(t *testing.T) {
	h := newWorld(t, map[string]any{"remote": true}).harness(nil)
	h.Only = []string{"info", "check", "support-table", "files", "stdin", "secret-delivered", "secret-missing", "secret-visible", "cleanup"}
	providertest.Run(t, h)
}
