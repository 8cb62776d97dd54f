//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// inHome writes files below the program's home folder.
func (p *program) inHome(files map[string]string) {
	p.t.Helper()
	for name, text := range files {
		path := filepath.Join(p.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			p.t.Fatal(err)
		}
	}
}

// fullHome is a home that points to a backend of each kind that can be found.
func fullHome() map[string]string {
	return map[string]string{
		".docker/contexts/meta/1/meta.json": `{"Name": "build", "Endpoints": {"docker": {"Host": "tcp://build:2376"}}}`,
		"shop/compose.yaml":                 "services: {web: {image: x}}\n",
		".kube/config":                      "current-context: prod\ncontexts:\n- {name: prod, context: {namespace: \"a #b\\nc\"}}\n- {name: \"x: {y\"}\nusers: [{name: me, user: {token: canary}}]\n",
		".aws/config":                       "[default]\nregion = eu-central-1\n",
		".config/gcloud/application_default_credentials.json": `{"refresh_token": "canary"}`,
		".config/gcloud/configurations/config_default":        "[core]\nproject = shop-1\n",
		".azure/azureProfile.json":                            `{"subscriptions": [{"id": "22222222-2222-2222-2222-222222222222", "isDefault": true}]}`,
		".config/doctl/config.yaml":                           "access-token: canary\n",
	}
}

// blocksOf returns a configuration with each run of lines that are settings behind a #
// uncommented, and with all of them.
func blocksOf(text string) []string {
	var out []string
	lines := strings.SplitAfter(text, "\n")
	is := func(i int) bool { return i >= 0 && i < len(lines) && strings.HasPrefix(lines[i], "# ") }
	var all strings.Builder
	for i := range lines {
		all.WriteString(strings.TrimPrefix(lines[i], "# "))
		if !is(i) || is(i-1) {
			continue
		}
		var one strings.Builder
		inside := true
		for j, l := range lines {
			if j >= i && !is(j) {
				inside = false
			}
			if j >= i && inside {
				l = strings.TrimPrefix(l, "# ")
			}
			one.WriteString(l)
		}
		out = append(out, one.String())
	}
	return append(out, all.String())
}

// TestInit does what a user does: in an empty home and in one that has everything. What
// it writes is valid, also with any part uncommented, and holds no secret.
func TestInit(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{"empty": nil, "full": fullHome()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProgram(t, "off")
			p.inHome(files)
			p.inHome(map[string]string{"shop/.git/HEAD": "ref: refs/heads/main\n"})
			q := *p
			q.dir = filepath.Join(p.dir, "shop")
			out, code := q.do("init")
			path := filepath.Join(q.dir, "windlass.yaml")
			if code != 0 || out != path+"\n" {
				t.Fatalf("exit %d: %s", code, out)
			}
			text, err := os.ReadFile(path)
			if err != nil || strings.Contains(string(text), "canary") {
				t.Fatalf("%v\n%s", err, text)
			}
			kinds := []string{"docker"}
			if files != nil {
				kinds = []string{"docker", "compose", "kubernetes", "aws-ecs", "aws-batch", "gcp-cloudrun", "azure-aci", "digitalocean"}
			}
			for _, kind := range kinds {
				if !strings.Contains(string(text), "#     kind: "+kind+"\n") {
					t.Errorf("no %s in\n%s", kind, text)
				}
			}
			variants := append(blocksOf(string(text)), string(text))
			if len(variants) < len(kinds)+3 {
				t.Errorf("only %d variants", len(variants))
			}
			for _, v := range variants {
				q.write("windlass.yaml", v)
				if out, code := q.do("config", "validate"); code != 0 {
					t.Errorf("exit %d: %s\n%s", code, out, v)
				}
			}
			if entries, err := os.ReadDir(q.dir); err != nil || len(entries) > 4 { // with compose.yaml, .git and coverage
				t.Errorf("left %v, %v", entries, err)
			}
		})
	}
}

// TestInitAgain: a file that is there is left alone, and written over whole when told
// so, also a broken one; through a link, with its mode kept.
func TestInitAgain(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	p.inHome(fullHome())
	p.write("windlass.yaml", "x: [\n")
	if out, code := p.fails("init"); code != 125 || !strings.Contains(out, "windlass.yaml is there already") || !strings.Contains(out, "--force") {
		t.Errorf("exit %d: %s", code, out)
	}
	if text, err := os.ReadFile(filepath.Join(p.dir, "windlass.yaml")); err != nil || string(text) != "x: [\n" {
		t.Errorf("%q, %v", text, err)
	}
	if err := errors.Join(os.Rename(filepath.Join(p.dir, "windlass.yaml"), filepath.Join(p.dir, "real.yaml")), os.Symlink("real.yaml", filepath.Join(p.dir, "windlass.yaml")),
		os.Chmod(filepath.Join(p.dir, "real.yaml"), 0o640)); err != nil {
		t.Fatal(err)
	}
	out, code := p.do("init", "--force", "--use", "build,ecs", "--default", "prod", "--json")
	var v struct {
		Data struct {
			File  string
			Found []struct {
				Name    string
				Used    bool
				Replace []string
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s", code, err, out)
	}
	used := map[string]bool{}
	for _, f := range v.Data.Found {
		used[f.Name] = f.Used
		if f.Name == "ecs" && len(f.Replace) != 3 {
			t.Errorf("ecs: replace %v", f.Replace)
		}
	}
	if !used["build"] || !used["ecs"] || !used["prod"] || used["batch"] || used["aci"] {
		t.Errorf("used: %v", used)
	}
	if st, err := os.Lstat(filepath.Join(p.dir, "real.yaml")); err != nil || st.Mode() != 0o640 {
		t.Errorf("%v, %v", st, err)
	}
	if out, code := p.do("provider", "ls"); code != 0 || !strings.Contains(out, "ecs") || !strings.Contains(out, "prod") || strings.Contains(out, "aci") {
		t.Errorf("exit %d: %s", code, out)
	}
	if out, code := p.do("init", "--force", "--use", "all"); code != 0 {
		t.Errorf("exit %d: %s", code, out)
	}
	if out, code := p.do("config", "validate"); code != 0 {
		t.Errorf("exit %d: %s", code, out)
	}
	for _, args := range [][]string{{"--use", "buidl"}, {"--default", "buidl"}} {
		if out, code := p.fails(append([]string{"init", "--force"}, args...)...); code != 125 || !strings.Contains(out, `did you mean "build"?`) {
			t.Errorf("%q: exit %d: %s", args, code, out)
		}
	}
	if out, code := p.fails("init", "--print", "--json"); code != 2 {
		t.Errorf("exit %d: %s", code, out)
	}
}

// TestInitPlaces: where a file can't be written, and where another one rules, init says
// so; broken files of others' are told and passed over.
func TestInitPlaces(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	p.inHome(map[string]string{".kube/config": "canary: [", "windlass.yaml": "owner: upper\n", "sub/x": "", "there/windlass.yaml/x": ""})
	at := func(dir string) *program {
		q := *p
		if q.dir = dir; !filepath.IsAbs(dir) {
			q.dir = filepath.Join(p.dir, dir)
		}
		return &q
	}
	if out, code := at("/sys/kernel").fails("init"); code != 125 || !strings.Contains(out, "folder that you may write to") || !strings.Contains(out, "--print") {
		t.Errorf("a folder without rights: exit %d: %s", code, out)
	}
	if out, code := at("/sys/kernel").do("init", "--print"); code != 0 || !strings.Contains(out, "providers:\n") {
		t.Errorf("--print: exit %d: %s", code, out)
	}
	if out, code := at("there").fails("init", "--force"); code != 125 || !strings.Contains(out, "is a folder") {
		t.Errorf("a folder of that name: exit %d: %s", code, out)
	}
	out, code := at("sub").fails("init")
	for _, want := range []string{filepath.Join(p.dir, "windlass.yaml") + " was read in this folder until now", filepath.Join(p.dir, ".kube", "config") + " isn't the YAML that it should be"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, no %q: %s", code, want, out)
		}
	}
	if strings.Contains(out, "canary") {
		t.Errorf("%s", out)
	}
	p.env = append(p.env, "WINDLASS_CONFIG="+filepath.Join(p.dir, "windlass.yaml"))
	if out, code := at("sub").fails("init", "--force"); code != 0 || !strings.Contains(out, "isn't read while it is set") {
		t.Errorf("exit %d: %s", code, out)
	}
}
