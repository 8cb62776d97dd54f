package docker

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/system"

	"github.com/windlass-run/windlass/sdk"
)

// asPodman makes the fake answer as Podman 4.3.1 does where it differs from Docker: an ID
// of its own with each answer, other log drivers, and its words for what isn't so. It
// returns the signals that its containers got; KILL ends them, and nothing else.
func (f *fakeEngine) asPodman() (sent func() []string) {
	var mu sync.Mutex
	var signals []string
	asked := 0
	f.on(http.MethodGet, "/info", -1, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		give(w, system.Info{ID: fmt.Sprintf("6fe62651-b356-4f28-99df-%012d", asked), NCPU: 2, MemTotal: 8 << 30, MemoryLimit: true, SwapLimit: true, CPUCfsQuota: true, PidsLimit: true,
			OSType: "linux", ServerVersion: "4.3.1", Plugins: system.PluginsInfo{Log: []string{logFile, "none", "passthrough", "journald"}}})
	})
	f.on(http.MethodPost, "/containers/create", -1, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if c := f.container(r.URL.Query().Get("name")); c != nil {
			refuse(w, http.StatusInternalServerError, fmt.Sprintf(`container create: creating container storage: the container name %q is already in use by %s. `+
				`You have to remove that container to be able to reuse that name: that name is already in use`, c.Name, c.ID))
			return
		}
		next.ServeHTTP(w, r)
	})
	f.on(http.MethodPost, "/kill", -1, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		f.lock(func() {
			for _, c := range f.containers {
				if !c.State.Running {
					refuse(w, http.StatusConflict, "can only kill running containers. "+c.ID+" is in state exited: container state improper")
					return
				}
				s := r.URL.Query().Get("signal")
				mu.Lock()
				signals = append(signals, s)
				mu.Unlock()
				if s == signalKill {
					c.exit(137)
					c.State.Status = stateStopped
				}
				w.WriteHeader(http.StatusNoContent)
			}
		})
	})
	f.on(http.MethodDelete, "/containers/", -1, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		running := false
		f.lock(func() {
			for _, c := range f.containers {
				running = running || c.State.Running
			}
		})
		if running {
			refuse(w, http.StatusInternalServerError, "cannot remove container x as it is running - running or paused containers cannot be removed without force: container state improper")
			return
		}
		next.ServeHTTP(w, r)
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(signals)
	}
}

func TestPodman(t *testing.T) {
	f := newFake(t)
	signals := f.asPodman()
	b := openTest(t, f.host)
	l := b.prepare(t, sh("x"))
	if len(l.Warnings) > 0 {
		t.Errorf("warnings: %q", l.Warnings)
	}
	h := b.send(t, l)
	f.lock(func() {
		for _, c := range f.containers {
			if got := c.Create.HostConfig.LogConfig.Type; got != logFile {
				t.Errorf("log driver %q", got)
			}
		}
	})
	if again := b.send(t, l); again.ID != h.ID || f.starts != 1 {
		t.Errorf("sent again: %s and %s, %d starts", h.ID, again.ID, f.starts)
	}
	if _, err := b.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); sdk.CodeOf(err) != sdk.FailedPrecondition {
		t.Errorf("clean-up of a running job: %v", err)
	}
	grace := time.Millisecond
	res, err := b.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h, Grace: &grace})
	if err != nil || !res.Accepted || res.Evidence != "the engine sent signal SIGTERM" {
		t.Errorf("cancel: %+v, %v", res, err)
	}
	if st := b.ended(t, h); st.State != sdk.StateCancelled || st.ExitCode == nil || *st.ExitCode != 137 || st.Raw[rawStatus] != string(stateStopped) {
		t.Errorf("got %+v", st)
	}
	if got := signals(); !slices.Equal(got, []string{signalTerm, signalKill}) {
		t.Errorf("signals %v", got)
	}
	if res, err := b.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil || !res.Gone {
		t.Errorf("cancel of an ended job: %+v, %v", res, err)
	}
	b.clean(t, h)
	if st, err := b.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("behind clean-up: %+v, %v", st, err)
	}
}

// A job that ends before the signal isn't cancelled.
func TestPodmanEndsBeforeTheSignal(t *testing.T) {
	f := newFake(t)
	f.asPodman()
	b := openTest(t, f.host)
	h := b.run(t, sh("x"))
	f.on(http.MethodPost, "/volumes/create", 1, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		f.lock(func() {
			for _, c := range f.containers {
				c.exit(0)
			}
		})
		next.ServeHTTP(w, r)
	})
	if res, err := b.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil || res.Accepted || !res.Gone {
		t.Errorf("cancel: %+v, %v", res, err)
	}
	if st := b.ended(t, h); st.State != sdk.StateSucceeded {
		t.Errorf("got %+v", st)
	}
}

func TestPodmanCheck(t *testing.T) {
	f := newFake(t)
	f.asPodman()
	b := openTest(t, f.host)
	res, err := b.Check(t.Context(), sdk.CheckRequest{})
	if err != nil || len(res.Items) < 4 || !strings.HasPrefix(res.Items[0].Detail, "Podman 4.3.1 ") {
		t.Errorf("got %+v, %v", res, err)
	}
	for _, i := range res.Items {
		if i.Name == "logs" && !i.OK {
			t.Errorf("got %+v", i)
		}
	}
}
