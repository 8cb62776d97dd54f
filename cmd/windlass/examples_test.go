//go:build linux

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/windlass-run/windlass/internal/driver/all"
	"github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/internal/testneed"
)

const examples = "../../examples"

// exampleTests are the tests that run what a folder of examples has: of each at least
// the first, where the machine has what it needs.
func exampleTests() map[string][]string {
	out := map[string][]string{
		".": nil, "compose": {"TestComposeExample"}, "step": {"TestStepDocument", "TestStepEphemeral"}, "plugin": {"TestExamplePlugin", "TestPageFromAnEmptyFolder"},
		"published-plugin": {"TestExamplePublishedPlugin"},
		"ci":               {"TestGitHubExample", "TestGitLabExample"}, "ci/github": {"TestGitHubExample"}, "ci/gitlab": {"TestGitLabExample"},
		"providers/local": {"TestExamples"}, "providers/docker": {"TestExamples"}, "providers/kubernetes": {"TestExamples", "TestRealExamples"}, "providers/argo": {"TestExamples", "TestRealExamples"},
	}
	for _, name := range pocketExamples() {
		out["providers/"+name] = append(out["providers/"+name], "TestExamples")
	}
	for key := range hostedClouds() {
		out["providers/"+key] = []string{"TestExamples"}
	}
	return out
}

// pocketExamples are the examples of providers that run on pocket clouds.
func pocketExamples() []string { return pocketKinds() }

// TestEveryExampleRuns: each folder of examples has a test that runs it, and a README;
// each kind of provider has a folder; and what isn't there is in no list.
func TestEveryExampleRuns(t *testing.T) {
	tests := map[string]bool{}
	for _, pattern := range []string{"*_test.go", "../../examples/plugin/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
				tests[string(m[1])] = true
			}
		}
	}
	listed, err := os.ReadFile(filepath.Join(examples, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	runs := exampleTests()
	seen := map[string]bool{}
	err = filepath.WalkDir(examples, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		folder, err := filepath.Rel(examples, filepath.Dir(path))
		if err != nil || seen[folder] {
			return err
		}
		seen[folder] = true
		by, ok := runs[folder]
		if !ok {
			t.Errorf("examples/%s has no test that runs it", folder)
		}
		for _, name := range by {
			if !tests[name] {
				t.Errorf("examples/%s is to be run by %s, which isn't there", folder, name)
			}
		}
		about := folder
		if _, err := os.Stat(filepath.Join(examples, about, "README.md")); err != nil {
			about = filepath.Dir(folder) // a part of an example that is told whole
		}
		if _, err := os.Stat(filepath.Join(examples, about, "README.md")); err != nil {
			t.Errorf("examples/%s has no README: %v", folder, err)
		}
		if folder != "." && (about == "." || !strings.Contains(string(listed), "("+about+")")) {
			t.Errorf("examples/README.md doesn't name %s", about)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder := range runs {
		if !seen[folder] {
			t.Errorf("examples/%s isn't there", folder)
		}
	}
	for _, d := range all.Drivers() {
		if d.Kind != "fake" && !seen["providers/"+d.Kind] && !seen[d.Kind] {
			t.Errorf("the kind %s has no example", d.Kind)
		}
	}
}

// placed is an example's configuration with what leads to where it is tried: the
// credentials, and settings that stand for the example's own; a nil one leaves it out.
func placed(t *testing.T, text []byte, credentials string, settings map[string]any) string {
	t.Helper()
	doc := map[string]any{}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	providers, _ := doc["providers"].(map[string]any)
	if len(providers) == 0 {
		t.Fatal("the example has no provider")
	}
	for name, p := range providers {
		entry, _ := p.(map[string]any)
		config, ok := entry["config"].(map[string]any)
		if !ok {
			t.Fatalf("%s has no config", name)
		}
		for key, v := range settings {
			if config[key] = v; v == nil {
				delete(config, key)
			}
		}
		if entry["poll_interval"] = "100ms"; credentials != "" {
			entry["credentials"] = credentials
		}
	}
	out, err := yaml.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// commented are the lines of a file that are settings behind a #.
var commented = regexp.MustCompile(`(?m)^( *)# ([a-z_]+: .*)$`)

// example does what a folder's README says. The configuration must be valid as it
// stands, also with each setting that is a comment, and is then placed. Where nothing
// can be pulled, an image is named in the place of busybox.
func (p *program) example(folder, image string, place func(text []byte) string) {
	p.t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(examples, folder, name))
		if err != nil {
			p.t.Fatal(err)
		}
		return string(text)
	}
	text := read("windlass.yaml")
	if !strings.HasPrefix(text, "# ") {
		p.t.Error("windlass.yaml doesn't begin with what it is")
	}
	for _, variant := range []string{text, commented.ReplaceAllString(text, "$1$2")} {
		p.write("windlass.yaml", variant)
		if out, code := p.do("config", "validate"); code != 0 {
			p.t.Errorf("windlass.yaml isn't valid:\n%s\n%s", out, variant)
		}
	}
	p.write("windlass.yaml", place([]byte(text)))
	p.doesPage(strings.ReplaceAll(read("README.md"), "--image busybox ", "--image "+image+" "))
}

// TestExamples does what the examples of providers say: clouds are pocket clouds, and
// so are the clusters.
func TestExamples(t *testing.T) {
	t.Parallel()
	clouds := pocketUp(t)
	text, err := os.ReadFile(filepath.Join(clouds.dir, "pocket.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var pocket struct {
		Providers map[string]struct {
			Credentials string
			Config      map[string]any
		}
	}
	if err := yaml.Unmarshal(text, &pocket); err != nil {
		t.Fatal(err)
	}
	// A test of its own around those in parallel, so that the clouds outlive them.
	t.Run("of", func(t *testing.T) {
		for _, kind := range pocketExamples() {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				to, ok := pocket.Providers[kind]
				if !ok {
					t.Fatal("pocket up has no such kind")
				}
				if _, cluster := to.Config["kubeconfig"]; cluster {
					to.Config["namespace"] = nil // the kubeconfig has it
				}
				newProgram(t, "off").example("providers/"+kind, "busybox", func(text []byte) string { return placed(t, text, to.Credentials, to.Config) })
			})
		}
		for key, open := range hostedClouds() {
			t.Run(key, func(t *testing.T) {
				t.Parallel()
				cloud := open(t)
				var cluster map[string]any
				if err := yaml.Unmarshal([]byte("{cluster: prod, "+cloud.config+", "+cloud.endpoint+"}"), &cluster); err != nil {
					t.Fatal(err)
				}
				newProgram(t, "off").example("providers/"+key, "busybox", func(text []byte) string {
					return placed(t, text, "pocket", map[string]any{key: cluster, "namespace": kube.Namespace})
				})
			})
		}
		for _, kind := range []string{"local", "docker"} {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				newProgram(t, "off").example("providers/"+kind, testneed.Image, func(text []byte) string { return placed(t, text, "", nil) })
			})
		}
	})
}

// TestRealExamples does what the examples of clusters say on a real one.
func TestRealExamples(t *testing.T) {
	t.Parallel()
	for kind, name := range map[string]string{"kubernetes": "jobs", "argo": "flows"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := onRealCluster(t, "off")
			config, err := os.ReadFile(filepath.Join(p.dir, "windlass.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			namespace := regexp.MustCompile(name + `: .*namespace: ([a-z0-9-]+)`).FindSubmatch(config)
			if namespace == nil {
				t.Fatalf("no namespace in %s", config)
			}
			p.example("providers/"+kind, testneed.Image, func(text []byte) string {
				return placed(t, text, "env", map[string]any{"context": nil, "namespace": string(namespace[1])})
			})
		})
	}
}

// TestExamplePlugin builds the plugin and runs a job on it, as its README says.
func TestExamplePlugin(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "on")
	t.Cleanup(p.dismiss)
	at := filepath.Join(p.dir, "plugins", "folder")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(at, "folder"), "./examples/plugin")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	manifest, err := os.ReadFile(filepath.Join(examples, "plugin", "plugin.json"))
	if err != nil {
		t.Fatal(err)
	}
	p.write("plugins/folder/plugin.json", string(manifest))
	p.example("plugin", "", func(text []byte) string { return string(text) })
}

// TestExamplePublishedPlugin does what the example says, with a plugin of that wire
// alone in the place of somebody's.
func TestExamplePublishedPlugin(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "on")
	t.Cleanup(p.dismiss)
	p.plugin(pretendTheirs)
	err := errors.Join(os.Mkdir(filepath.Join(p.dir, "plugins"), 0o700),
		os.Rename(filepath.Join(p.dir, ".local", "share", "windlass", "plugins", pretendTheirs), filepath.Join(p.dir, "plugins", pretendTheirs)))
	if err != nil {
		t.Fatal(err)
	}
	p.example("published-plugin", "busybox", func(text []byte) string { return string(text) })
}

// twice finds what a message says two times between colons.
func twice(message string) string {
	parts := strings.Split(strings.TrimSpace(message), ": ")
	for i, p := range parts {
		if len(p) > 3 && slices.Contains(parts[:i], p) {
			return p
		}
	}
	return ""
}

// TestErrorsSayThingsOnce: no message of a kind, of what isn't there and of a backend
// that doesn't answer, says the same of what was done and where two times.
func TestErrorsSayThingsOnce(t *testing.T) {
	t.Parallel()
	clouds := pocketUp(t)
	clouds.write("dead.yaml", deadProviders(t, clouds))
	t.Run("of", func(t *testing.T) {
		for _, kind := range pocketKinds() {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				q := *clouds
				q.t = t
				target := kind + "/nowhere/nothing"
				q.write(kind+".yaml", "target: "+target+"\nimage: busybox\nreplicas: 1\n")
				said := 0
				for _, args := range [][]string{
					{"svc", "status", target}, {"svc", "start", "-f", kind + ".yaml"}, {"svc", "stop", target, "--yes"}, {"svc", "scale", target, "2"}, {"svc", "restart", target},
					{"svc", "logs", target}, {"svc", "config", target, "--set", "A=b"}, {"svc", "exec", target, "--", "true"},
					{"status", "--on", kind, "01jgfjja00eayvsy0000000001"}, {"cancel", "--on", kind, "01jgfjja00eayvsy0000000001"},
					{"provider", "check", "--config", "dead.yaml", kind}, {"svc", "ls", "--config", "dead.yaml", "--on", kind},
					append(append([]string{"run", "--config", "dead.yaml"}, pocketFlags(kind)...), "--", "true"),
				} {
					out, code := q.fails(args...)
					if code == 0 {
						t.Errorf("%q works: %s", args, out)
					}
					for line := range strings.Lines(out) {
						if strings.HasPrefix(line, "windlass: ") {
							said++
							if part := twice(line); part != "" {
								t.Errorf("%q says %q twice: %s", args, part, line)
							}
						}
					}
				}
				if said < 10 {
					t.Errorf("only %d messages", said)
				}
			})
		}
	})
}

// deadProviders is a configuration whose providers lead to where nobody answers.
func deadProviders(t *testing.T, clouds *program) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(clouds.dir, "pocket.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	port := regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)
	dead := nobody(t)
	out := port.ReplaceAllString(string(text), dead)
	for _, kind := range []string{"kubernetes", "argo"} {
		name := filepath.Join(clouds.dir, "pocket-"+kind+"-kubeconfig.yaml")
		config, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		gone := filepath.Join(clouds.dir, "dead-"+kind+".yaml")
		if err := os.WriteFile(gone, port.ReplaceAll(config, []byte(dead)), 0o600); err != nil {
			t.Fatal(err)
		}
		out = strings.ReplaceAll(out, name, gone)
	}
	return out
}
