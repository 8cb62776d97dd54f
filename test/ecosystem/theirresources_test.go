//go:build linux

package ecosystem

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
)

// theirPlugins puts their plugin under several names into a folder, of which each is
// another plugin; the keeper hosts them, or each command does.
func theirPlugins(t *testing.T, keeper string, names ...string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.env = append(os.Environ(), "WINDLASS_STATE="+filepath.Join(w.dir, "state"), "WINDLASS_KEEPER="+keeper, "HOME="+w.dir, "WINDLASS_PLUGINS="+filepath.Join(w.dir, "plugins"))
	plugins, providers := "plugins:\n", "providers:\n"
	for _, name := range names {
		place(t, filepath.Join(w.dir, "plugins"), "theirs-provider", name, `{"name": "`+name+`", "version": "0.1.0"}`)
		plugins += "  " + name + ": {config: {region: nyc}}\n"
		providers += "  my-" + name + ": {kind: " + name + ", poll_interval: 100ms, config: {log_quiet: 300ms}}\n"
	}
	w.write("windlass.yaml", plugins+providers)
	if keeper == "on" {
		t.Cleanup(w.dismiss)
	}
	return w
}

// dismiss ends the keeper, which its log names, and waits until it has left.
func (w *world) dismiss() {
	log, _ := os.ReadFile(filepath.Join(w.dir, "state", "keeper.log"))
	all := regexp.MustCompile(`msg="keeper started" pid=([0-9]+)`).FindAllSubmatch(log, -1)
	if len(all) == 0 {
		w.t.Errorf("no keeper was started: %s", log)
		return
	}
	pid, err := strconv.Atoi(string(all[len(all)-1][1]))
	if err != nil {
		w.t.Error(err)
		return
	}
	_ = syscall.Kill(pid, syscall.SIGTERM) // it may have left
	until(w.t, "end of the keeper", func() bool { return syscall.Kill(pid, 0) != nil })
}

// answer runs a command and reads its envelope.
func (w *world) answer(into any, args ...string) (exit int, code string) {
	w.t.Helper()
	cmd := w.command("windlass", append(args, "--json")...)
	out, err := cmd.Output()
	var e struct {
		Data  json.RawMessage
		Error *struct{ Code, Message, ID string }
	}
	if jsonErr := json.Unmarshal(out, &e); jsonErr != nil {
		w.t.Fatalf("windlass %v: %v: %s", args, err, out)
	}
	if e.Error != nil {
		return cmd.ProcessState.ExitCode(), e.Error.Code + ": " + e.Error.Message
	}
	if into != nil {
		if err := json.Unmarshal(e.Data, into); err != nil {
			w.t.Fatalf("windlass %v: %v: %s", args, err, e.Data)
		}
	}
	return cmd.ProcessState.ExitCode(), ""
}

const shelves = `resources:
  - {name: first, type: theirs.shelf, provider: my-theirs}
  - name: second
    type: theirs.shelf
    provider: my-theirs
    config: {n: 1.5, text: "<&> é", list: [1, {a: null}], token: canary-token}
    size: large
    hints: {cpu: "2", memory: 1Gi, storage: 10Gi}
    depends_on: [first]
`

// TestTheirResources: windlass resource on a plugin of their SDK, unchanged, in a process
// of its own: every field of each verb goes there and back.
func TestTheirResources(t *testing.T) {
	for _, keeper := range []string{"off", "on"} {
		t.Run("keeper "+keeper, func(t *testing.T) {
			t.Parallel()
			w := theirPlugins(t, keeper, "theirs")
			w.write("r.yaml", shelves)
			var changes []struct {
				Action, ProviderID, Status string
				Rows                       []string
			}
			resource := func(into any, args ...string) (int, string) {
				t.Helper()
				return w.answer(into, append([]string{"resource", args[0], "-f", "r.yaml"}, args[1:]...)...)
			}
			if exit, code := resource(&changes, "apply"); exit != 0 || len(changes) != 2 || changes[1].Action != "create" || changes[1].Status != "kept" || len(changes[1].Rows) != 1 {
				t.Fatalf("apply: exit %d, %s, %+v", exit, code, changes)
			}
			var read []struct {
				Found      bool
				ProviderID string `json:"provider_id"`
				Outputs    struct {
					Config     json.RawMessage
					Size       string
					Hints      []string
					DependsOn  []string `json:"depends_on"`
					Replicas   int
					Token, Pin string
				}
			}
			if exit, code := resource(&read, "read"); exit != 0 || len(read) != 2 {
				t.Fatalf("read: exit %d, %s", exit, code)
			}
			o := read[1].Outputs
			if read[1].ProviderID != "id-of-second" || o.Size != "large" || strings.Join(o.Hints, " ") != "2 1Gi 10Gi" || strings.Join(o.DependsOn, " ") != "first" || o.Replicas != 1 {
				t.Errorf("read %+v", read[1])
			}
			if strings.Contains(o.Token+o.Pin+string(o.Config), "canary") || o.Token == "" || !strings.Contains(string(o.Config), `"text"`) {
				t.Errorf("masked wrongly: %+v, %s", o, o.Config)
			}
			raw, err := os.ReadFile(filepath.Join(w.dir, "plugins", "theirs", "kept", "second.json"))
			if err != nil || !strings.Contains(string(raw), `{"n":1.5,"text":"\u003c\u0026\u003e é","list":[1,{"a":null}],"token":"canary-token"}`) {
				t.Errorf("the config came as %s, %v", raw, err)
			}
			if exit, code := resource(nil, "diff"); exit != 0 {
				t.Errorf("diff of what is as wanted: exit %d, %s", exit, code)
			}
			w.write("r.yaml", strings.Replace(shelves, "1.5", "2", 1))
			if exit, code := resource(&changes, "apply"); exit != 0 || changes[0].Action != "nothing" || changes[1].Action != "update" {
				t.Errorf("update: exit %d, %s, %+v", exit, code, changes)
			}
			if exit, code := resource(nil, "scale", "second=0"); exit != 0 {
				t.Errorf("scale: exit %d, %s", exit, code)
			}
			var health []struct {
				Healthy bool
				Message string
			}
			if exit, _ := resource(&health, "health"); exit != 1 || !health[0].Healthy || health[1].Healthy || health[1].Message != "by its replicas" {
				t.Errorf("health: exit %d, %+v", exit, health)
			}
			var trouble []struct {
				Diagnostics []struct{ ID, Phase, Cause, At, Detail string }
			}
			if exit, code := resource(&trouble, "troubleshoot", "second", "--message", "it is bare"); exit != 0 || len(trouble) != 1 || len(trouble[0].Diagnostics) != 1 ||
				trouble[0].Diagnostics[0].Detail != "it is bare" || trouble[0].Diagnostics[0].At != "2023-11-14T22:13:20Z" {
				t.Errorf("troubleshoot: exit %d, %s, %+v", exit, code, trouble)
			}
			if exit, code := resource(&changes, "delete", "--yes"); exit != 0 || changes[0].Action != "delete" {
				t.Errorf("delete: exit %d, %s, %+v", exit, code, changes)
			}
			if exit, code := resource(&changes, "delete", "--yes"); exit != 0 || changes[0].Action != "nothing" || len(changes[0].Rows) != 0 {
				t.Errorf("delete again: exit %d, %s, %+v", exit, code, changes)
			}
			if out, err := w.command("windlass", "ledger", "export").Output(); err != nil || strings.Contains(string(out), "canary") || strings.Count(string(out), `"resource.`) < 6 {
				t.Errorf("the ledger: %v: %s", err, out)
			}
			if out, err := w.command("windlass", "ledger", "verify").CombinedOutput(); err != nil {
				t.Errorf("verify: %v: %s", err, out)
			}
		})
	}
}

// TestTheirResourceCodes: each code of their errors arrives as it was sent, from a call
// that reads and from one that changes; and what their host calls absent is absent.
func TestTheirResourceCodes(t *testing.T) {
	w := theirPlugins(t, "off", "theirs")
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		w.write("r.yaml", "resources:\n  - {name: code-"+c.String()+", type: theirs.shelf, provider: my-theirs}\n")
		exit, code := w.answer(nil, "resource", "health", "-f", "r.yaml")
		if c == codes.NotFound {
			if exit != 1 || code != "" {
				t.Errorf("%s: exit %d, %s", c, exit, code)
			}
			continue
		}
		words := "as the name says"
		if c == codes.Unimplemented {
			words = "says that it has ResourceDriver"
		}
		if exit != 125 || !strings.HasPrefix(code, c.String()+": ") || !strings.Contains(code, words) {
			t.Errorf("%s: exit %d, %s", c, exit, code)
		}
	}
	// Where nobody can say what is sensitive, no value is shown; and nobody looks there.
	w.write("r.yaml", "resources:\n  - {name: dark, type: theirs.cellar, provider: my-theirs, config: {a: canary-a}}\n")
	out, err := w.command("windlass", "resource", "apply", "-f", "r.yaml", "--json").CombinedOutput()
	if err != nil || strings.Contains(string(out), "canary") {
		t.Errorf("apply: %v: %s", err, out)
	}
	for range 2 {
		if exit, code := w.answer(nil, "resource", "troubleshoot", "-f", "r.yaml"); exit != 125 || !strings.HasPrefix(code, "Unimplemented: ") || !strings.Contains(code, "my-theirs") || !strings.Contains(code, "Troubleshooter") {
			t.Errorf("troubleshoot: exit %d, %s", exit, code)
		}
	}
}

// TestTheirAbsent: a capability that a plugin doesn't serve isn't there. Using it anyway
// is Unimplemented, and names provider, plugin and capability.
func TestTheirAbsent(t *testing.T) {
	w := theirPlugins(t, "off", "keeper", "runner")
	w.write("r.yaml", "resources:\n  - {name: a, type: theirs.shelf, provider: my-runner}\n")
	if exit, code := w.answer(nil, "resource", "read", "-f", "r.yaml"); exit != 125 || !strings.HasPrefix(code, "Unimplemented: ") || !strings.Contains(code, "provider my-runner: kind runner has no ResourceDriver") {
		t.Errorf("resources of a plugin that runs jobs: exit %d, %s", exit, code)
	}
	if exit, code := w.answer(nil, "run", "-d", "--on", "my-keeper", "--image", "app", "--allow-no-cancel", "--dry-run", "true"); exit != 125 || !strings.HasPrefix(code, "Unimplemented: ") ||
		!strings.Contains(code, "provider my-keeper: kind keeper has no JobRunner") {
		t.Errorf("a job on a plugin that keeps resources: exit %d, %s", exit, code)
	}
	for name, c := range map[string]struct{ has, lacks string }{"my-keeper": {"ResourceDriver", "JobRunner"}, "my-runner": {"JobRunner", "ResourceDriver"}} {
		out, err := w.command("windlass", "provider", "describe", name).Output()
		if err != nil || !strings.Contains(string(out), c.has) || strings.Contains(string(out), c.lacks) {
			t.Errorf("describe %s: %v: %s", name, err, out)
		}
	}
}
