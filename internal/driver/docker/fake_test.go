package docker

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/api/types/volume"

	"github.com/windlass-run/windlass/sdk"
)

// fakeEngine is the part of an engine that the driver uses, in memory. Its
// containers do what script says.
type fakeEngine struct {
	t      testing.TB
	server *httptest.Server
	host   string

	mu         sync.Mutex
	id         string
	api        string
	images     map[string]bool
	pull       func(w http.ResponseWriter, image string)
	containers map[string]*fakeContainer
	volumes    map[string]volume.Volume
	hooks      []*hook
	calls      map[string]int
	events     []chan string
	starts     int
	// script says what a started container does: its log and its end.
	script func(c *fakeContainer)
}

type fakeContainer struct {
	ID     string
	Name   string
	Create container.CreateRequest
	State  container.State
	Log    []logRecord
	ended  chan struct{}
}

// hook gets the next matching requests; it returns false when it has answered.
type hook struct {
	method, part string
	left         int
	do           func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

func newFake(t testing.TB) *fakeEngine {
	t.Helper()
	f := &fakeEngine{t: t, id: "ENGINE:ONE", api: "1.41", images: map[string]bool{"busybox:local": true}, containers: map[string]*fakeContainer{},
		volumes: map[string]volume.Volume{}, calls: map[string]int{}}
	socket := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	f.host = "unix://" + socket
	mux := http.NewServeMux()
	mux.HandleFunc("/_ping", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", f.api) })
	mux.HandleFunc("GET /info", f.info)
	mux.HandleFunc("POST /containers/create", f.create)
	mux.HandleFunc("GET /containers/json", f.list)
	mux.HandleFunc("GET /containers/{id}/json", f.one(f.inspect))
	mux.HandleFunc("GET /containers/{id}/logs", f.one(f.logs))
	mux.HandleFunc("POST /containers/{id}/start", f.one(f.start))
	mux.HandleFunc("POST /containers/{id}/kill", f.one(f.kill))
	mux.HandleFunc("DELETE /containers/{id}", f.one(f.remove))
	mux.HandleFunc("POST /volumes/create", f.createVolume)
	mux.HandleFunc("GET /volumes/{name}", f.volume)
	mux.HandleFunc("DELETE /volumes/{name}", f.volume)
	mux.HandleFunc("GET /volumes", func(w http.ResponseWriter, _ *http.Request) { give(w, volume.ListResponse{}) })
	mux.HandleFunc("POST /images/create", f.pullImage)
	mux.HandleFunc("GET /images/{name}/json", func(w http.ResponseWriter, r *http.Request) {
		if !f.images[r.PathValue("name")] {
			refuse(w, http.StatusNotFound, "No such image: "+r.PathValue("name"))
			return
		}
		give(w, map[string]any{"Id": "sha256:1", "Config": map[string]any{"Entrypoint": []string{"/entry"}}})
	})
	mux.HandleFunc("GET /events", f.watch)
	f.server = &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = strings.TrimPrefix(r.URL.Path, "/v"+f.api)
		f.handle(w, r, mux)
	})}}
	f.server.Start()
	t.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

func (f *fakeEngine) handle(w http.ResponseWriter, r *http.Request, next http.Handler) {
	f.mu.Lock()
	f.calls[r.Method+" "+kindOf(r.URL.Path)]++
	var found *hook
	for _, h := range f.hooks {
		if h.left != 0 && r.Method == h.method && strings.Contains(r.URL.Path, h.part) {
			h.left--
			found = h
			break
		}
	}
	f.mu.Unlock()
	if found != nil {
		found.do(w, r, next)
		return
	}
	next.ServeHTTP(w, r)
}

// kindOf is a path without names.
func kindOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) == 3 {
		return parts[0] + "/" + parts[2]
	}
	if len(parts) == 2 && parts[1] != "json" && parts[1] != "create" {
		return parts[0] + "/*"
	}
	return strings.Join(parts, "/")
}

func (f *fakeEngine) called(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[what]
}

// on puts a hook before the next n matching requests; -1 is all.
func (f *fakeEngine) on(method, part string, n int, do func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks = append(f.hooks, &hook{method, part, n, do})
}

// loseReply carries the request out and cuts the connection.
func loseReply(w http.ResponseWriter, r *http.Request, next http.Handler) {
	next.ServeHTTP(httptest.NewRecorder(), r)
	cutOff(w, r, next)
}

func cutOff(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_ = c.Close()
}

func fail(status int, message string) func(w http.ResponseWriter, r *http.Request, next http.Handler) {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { refuse(w, status, message) }
}

func give(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": message})
}

func (f *fakeEngine) info(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	give(w, system.Info{ID: f.id, NCPU: 4, MemTotal: 8 << 30, MemoryLimit: true, SwapLimit: true, CPUCfsQuota: true, PidsLimit: true,
		OSType: "linux", ServerVersion: "20.10.24", Plugins: system.PluginsInfo{Log: []string{logJSON, logLocal}},
		Runtimes: map[string]system.RuntimeWithStatus{"runc": {}}})
}

func (f *fakeEngine) one(do func(w http.ResponseWriter, r *http.Request, c *fakeContainer)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := f.container(r.PathValue("id"))
		if c == nil {
			refuse(w, http.StatusNotFound, "No such container: "+r.PathValue("id"))
			return
		}
		do(w, r, c)
	}
}

func (f *fakeEngine) container(name string) *fakeContainer {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.containers {
		if c.ID == name || c.Name == name {
			return c
		}
	}
	return nil
}

func (f *fakeEngine) create(w http.ResponseWriter, r *http.Request) {
	var req container.CreateRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	name := r.URL.Query().Get("name")
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.images[req.Image] {
		refuse(w, http.StatusNotFound, "No such image: "+req.Image)
		return
	}
	for _, c := range f.containers {
		if c.Name == name {
			refuse(w, http.StatusConflict, fmt.Sprintf("Conflict. The container name %q is already in use by container %q.", "/"+name, c.ID))
			return
		}
	}
	c := &fakeContainer{ID: fmt.Sprintf("%064d", len(f.containers)+1), Name: name, Create: req, ended: make(chan struct{}),
		State: container.State{Status: container.StateCreated, StartedAt: "0001-01-01T00:00:00Z", FinishedAt: "0001-01-01T00:00:00Z"}}
	f.containers[c.ID] = c
	w.WriteHeader(http.StatusCreated)
	give(w, container.CreateResponse{ID: c.ID})
}

func (f *fakeEngine) list(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []container.Summary{}
	for _, c := range f.containers {
		out = append(out, container.Summary{ID: c.ID, Names: []string{"/" + c.Name}, Labels: c.Create.Labels, State: c.State.Status})
	}
	give(w, out)
}

func (f *fakeEngine) inspect(w http.ResponseWriter, _ *http.Request, c *fakeContainer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := c.State
	give(w, container.InspectResponse{ID: c.ID, Name: "/" + c.Name, Created: "2026-01-01T00:00:00Z", State: &st,
		Config: c.Create.Config, HostConfig: c.Create.HostConfig})
}

func (f *fakeEngine) start(w http.ResponseWriter, _ *http.Request, c *fakeContainer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.State.Running {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	f.starts++
	c.State.Status, c.State.Running, c.State.StartedAt = container.StateRunning, true, "2026-01-01T00:00:01Z"
	if f.script != nil {
		f.script(c)
	}
	w.WriteHeader(http.StatusNoContent)
}

// exit ends a container; the engine's lock is held.
func (c *fakeContainer) exit(code int) {
	c.State.Status, c.State.Running, c.State.ExitCode, c.State.FinishedAt = container.StateExited, false, code, "2026-01-01T00:00:02Z"
	close(c.ended)
}

func (c *fakeContainer) print(stream sdk.Stream, data string) {
	c.Log = append(c.Log, logRecord{stream: stream, stamp: int64(1e18) + int64(len(c.Log)), data: data})
}

func (f *fakeEngine) kill(w http.ResponseWriter, _ *http.Request, c *fakeContainer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !c.State.Running {
		refuse(w, http.StatusConflict, "Cannot kill container: "+c.ID+": Container "+c.ID+" is not running")
		return
	}
	c.exit(137)
	w.WriteHeader(http.StatusNoContent)
}

func (f *fakeEngine) remove(w http.ResponseWriter, _ *http.Request, c *fakeContainer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.State.Running {
		refuse(w, http.StatusConflict, "You cannot remove a running container "+c.ID+". Stop the container before attempting removal or force remove")
		return
	}
	delete(f.containers, c.ID)
	w.WriteHeader(http.StatusNoContent)
}

// logs gives the log from a stamp on, as engines up to 20.10 do.
func (f *fakeEngine) logs(w http.ResponseWriter, r *http.Request, c *fakeContainer) {
	since := int64(0)
	if s := r.URL.Query().Get("since"); s != "" {
		sec, ns, _ := strings.Cut(s, ".")
		a, _ := strconv.ParseInt(sec, 10, 64)
		b, _ := strconv.ParseInt(ns, 10, 64)
		since = a*int64(time.Second) + b
	}
	follow := r.URL.Query().Get("follow") != ""
	sent := 0
	for {
		f.mu.Lock()
		log, running := c.Log[sent:], c.State.Running
		sent = len(c.Log)
		f.mu.Unlock()
		for _, x := range log {
			if x.stamp < since {
				continue
			}
			stream := byte(frameOut)
			if x.stream == sdk.StreamStderr {
				stream = frameErr
			}
			if _, err := w.Write(frameOf(stream, time.Unix(0, x.stamp), x.data)); err != nil {
				return
			}
		}
		w.(http.Flusher).Flush()
		if !follow || !running {
			return
		}
		select {
		case <-c.ended:
		case <-r.Context().Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (f *fakeEngine) createVolume(w http.ResponseWriter, r *http.Request) {
	var req volume.CreateRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	v := volume.Volume{Name: req.Name, Labels: req.Labels}
	f.volumes[req.Name] = v
	give(w, v)
}

func (f *fakeEngine) volume(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.volumes[r.PathValue("name")]
	switch {
	case !ok:
		refuse(w, http.StatusNotFound, "no such volume")
	case r.Method == http.MethodDelete:
		delete(f.volumes, v.Name)
		w.WriteHeader(http.StatusNoContent)
	default:
		give(w, v)
	}
}

func (f *fakeEngine) pullImage(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("fromImage") + ":" + r.URL.Query().Get("tag")
	if f.pull != nil {
		f.pull(w, name)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.images[strings.TrimPrefix(name, "docker.io/library/")] = true
	give(w, map[string]string{"status": "Status: Downloaded newer image for " + name})
}

func (f *fakeEngine) watch(w http.ResponseWriter, r *http.Request) {
	w.(http.Flusher).Flush()
	if r.URL.Query().Get("until") != "" {
		return
	}
	ch := make(chan string, 100)
	f.mu.Lock()
	f.events = append(f.events, ch)
	f.mu.Unlock()
	for {
		select {
		case s := <-ch:
			if _, err := fmt.Fprintln(w, s); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (f *fakeEngine) lock(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}
