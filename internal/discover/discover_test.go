package discover

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/config"
)

// yard is a home folder and a working folder in it.
type yard struct {
	t         *testing.T
	home, dir string
	env       map[string]string
}

func newYard(t *testing.T) *yard {
	home := t.TempDir()
	y := &yard{t: t, home: home, dir: filepath.Join(home, "My Shop"), env: map[string]string{"HOME": home}}
	if err := os.Mkdir(y.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return y
}

func (y *yard) write(name, text string) {
	y.t.Helper()
	path := filepath.Join(y.home, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) look() Result {
	return Look(Request{Env: config.EnvMap(y.env), Dir: y.dir, Root: y.home})
}

// line is what was found, in one line.
func line(f Found) string {
	out := f.Name + " " + f.Kind + " " + string(f.Credentials)
	for _, s := range f.Config {
		out += fmt.Sprintf(" %s=%v", s.Name, s.Value)
		if s.Guess {
			out += "?"
		}
	}
	return out
}

func (y *yard) wants(lines ...string) Result {
	y.t.Helper()
	r := y.look()
	var got []string
	for _, f := range r.Found {
		got = append(got, line(f))
		if f.From == "" {
			y.t.Errorf("%s comes from nowhere", f.Name)
		}
	}
	if !slices.Equal(got, lines) {
		y.t.Errorf("found\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(lines, "\n  "))
	}
	return r
}

func (y *yard) everything() {
	y.write(".docker/config.json", `{"currentContext": "build"}`)
	y.write(".docker/contexts/meta/1/meta.json", `{"Name": "build", "Endpoints": {"docker": {"Host": "tcp://build:2376"}}}`)
	y.write(".docker/contexts/meta/2/meta.json", `{"Name": "afar", "Endpoints": {"docker": {"Host": "ssh://me@afar"}}}`)
	y.write(".docker/contexts/meta/3/meta.json", `{"Name": "kube", "Endpoints": {"kubernetes": {"Host": "https://x"}}}`)
	y.write("My Shop/compose.yaml", "services: {web: {image: x}}\n")
	y.write(".kube/config", "apiVersion: v1\nkind: Config\ncurrent-context: prod\ncontexts:\n- name: arn:aws:eks:eu-west-1:1:cluster/shop\n  context: {cluster: a}\n- name: prod\n  context: {cluster: b, namespace: batch}\nusers:\n- name: me\n  user: {token: canary}\n")
	y.write(".aws/config", "[default]\nregion = eu-central-1\n[profile stage]\nregion=us-east-1\ns3 =\n  max_concurrent_requests = 20\n[sso-session x]\nsso_region = eu-west-1\n")
	y.write(".aws/credentials", "[default]\naws_access_key_id = AKIACANARY\naws_secret_access_key = canary\n")
	y.write(".config/gcloud/active_config", "work\n")
	y.write(".config/gcloud/configurations/config_work", "[core]\naccount = a@b.example\nproject = shop-1\n\n[run]\nregion = europe-west4\n")
	y.write(".config/gcloud/application_default_credentials.json", `{"refresh_token": "canary"}`)
	y.write(".azure/azureProfile.json", "\ufeff"+`{"subscriptions": [{"id": "1", "isDefault": false}, {"id": "22222222-2222-2222-2222-222222222222", "isDefault": true, "environmentName": "AzureUSGovernment"}]}`)
	y.write(".azure/config", "[defaults]\ngroup = jobs\nlocation = usgovvirginia\n")
	y.write(".config/doctl/config.yaml", "access-token: canary\ncontext: default\nauth-contexts: {team: canary}\n")
}

// TestNothing: an empty home, and none at all, have nothing and no trouble.
func TestNothing(t *testing.T) {
	y := newYard(t)
	if r := y.wants(); len(r.Troubles) > 0 {
		t.Errorf("%+v", r.Troubles)
	}
	if r := Look(Request{}); len(r.Troubles) > 0 || len(r.Found) > 0 && filepath.Separator == '\\' {
		t.Errorf("%+v", r)
	}
}

// TestEverything looks in a home that has all.
func TestEverything(t *testing.T) {
	y := newYard(t)
	y.everything()
	r := y.wants(
		"build docker ambient context=build",
		"afar docker ambient context=afar",
		"myshop compose env project=myshop",
		"prod kubernetes ambient context=prod namespace=batch",
		"shop kubernetes ambient context=arn:aws:eks:eu-west-1:1:cluster/shop",
		"ecs aws-ecs ambient region=eu-central-1 cluster=default? subnets=[subnet-0123456789abcdef0]? execution_role=ecsTaskExecutionRole?",
		"batch aws-batch ambient region=eu-central-1 queue=my-queue? execution_role=arn:aws:iam::123456789012:role/ecsTaskExecutionRole?",
		"cloudrun gcp-cloudrun ambient project=shop-1 region=europe-west4",
		"aci azure-aci ambient subscription=22222222-2222-2222-2222-222222222222 resource_group=jobs location=usgovvirginia cloud=government",
		"digitalocean digitalocean ambient",
	)
	if len(r.Troubles) > 0 {
		t.Errorf("%+v", r.Troubles)
	}
	if text := fmt.Sprintf("%+v", r); strings.Contains(strings.ToLower(text), "canary") {
		t.Errorf("a secret came along: %s", text)
	}
	if from := r.Found[0].From; !strings.Contains(from, "in use") {
		t.Errorf("the context in use: %s", from)
	}
	if notes := strings.Join(r.Found[1].Notes, ""); !strings.Contains(notes, "ssh") {
		t.Errorf("a context over ssh: %s", notes)
	}
}

// TestVariables: what variables say goes before files, and needs no ambient chain.
func TestVariables(t *testing.T) {
	y := newYard(t)
	y.everything()
	y.write("one", "current-context: a\ncontexts: [{name: a}, {name: b}]\n")
	y.write("two", `{"current-context": "b", "contexts": [{"name": "b", "context": {"namespace": "lost"}}, {"name": "local"}]}`)
	for k, v := range map[string]string{
		"DOCKER_CONFIG": filepath.Join(y.home, ".docker"), "DOCKER_CONTEXT": "afar", "COMPOSE_PROJECT_NAME": "other",
		"KUBECONFIG":        filepath.Join(y.home, "one") + string(filepath.ListSeparator) + filepath.Join(y.home, "two"),
		"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "canary", "AWS_REGION": "eu-north-1",
		"GOOGLE_APPLICATION_CREDENTIALS": "/sa.json", "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_REGION": "r",
		"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "canary", "AZURE_SUBSCRIPTION_ID": "s", "DIGITALOCEAN_TOKEN": "canary",
	} {
		y.env[k] = v
	}
	y.wants(
		"afar docker env context=afar",
		"build docker env context=build",
		"other compose env project=other",
		"a kubernetes env context=a",
		"b kubernetes env context=b",
		"local-2 kubernetes env context=local",
		"ecs aws-ecs env region=eu-north-1 cluster=default? subnets=[subnet-0123456789abcdef0]? execution_role=ecsTaskExecutionRole?",
		"batch aws-batch env region=eu-north-1 queue=my-queue? execution_role=arn:aws:iam::123456789012:role/ecsTaskExecutionRole?",
		"cloudrun gcp-cloudrun env project=p region=r",
		"aci azure-aci env subscription=s resource_group=jobs location=usgovvirginia",
		"digitalocean digitalocean env",
	)
}

// TestParts: what is there in part is found with what it lacks.
func TestParts(t *testing.T) {
	y := newYard(t)
	y.write(".aws/config", "[profile a]\nregion = eu-west-3\n[profile b]\n")
	y.write(".config/gcloud/configurations/config_default", "[core]\nproject = p\n")
	y.env["KUBERNETES_SERVICE_HOST"] = "10.0.0.1"
	r := y.wants(
		"cluster kubernetes ambient",
		"ecs aws-ecs ambient region=eu-west-1? cluster=default? subnets=[subnet-0123456789abcdef0]? execution_role=ecsTaskExecutionRole?",
		"batch aws-batch ambient region=eu-west-1? queue=my-queue? execution_role=arn:aws:iam::123456789012:role/ecsTaskExecutionRole?",
		"cloudrun gcp-cloudrun ambient project=p region=europe-west1?",
	)
	for i, want := range map[int]string{1: "AWS_PROFILE chooses one: a, b.", 3: "application-default login"} {
		if notes := strings.Join(r.Found[i].Notes, " "); !strings.Contains(notes, want) {
			t.Errorf("%s: %s", r.Found[i].Name, notes)
		}
	}
	y.env["AWS_PROFILE"] = "a"
	if got := line(y.look().Found[1]); !strings.Contains(got, "region=eu-west-3 ") {
		t.Errorf("the profile that is named: %s", got)
	}
}

// TestPodman finds sockets, and no plain files in their places.
func TestPodman(t *testing.T) {
	y := newYard(t)
	short, err := os.MkdirTemp("", "w") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	y.env["XDG_RUNTIME_DIR"] = short
	path := filepath.Join(short, "podman", "podman.sock")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	y.write("run/podman/podman.sock", "")
	y.wants("podman docker env host=unix://" + path)
}

// TestTroubles: each file that can't be made sense of is told with its reason and
// without a word of what it holds; the others are found all the same.
func TestTroubles(t *testing.T) {
	y := newYard(t)
	y.everything()
	broken := []string{".docker/config.json", ".docker/contexts/meta/1/meta.json", "My Shop/compose.yaml", ".kube/config", ".aws/config", ".aws/credentials",
		".config/gcloud/configurations/config_work", ".azure/azureProfile.json", ".azure/config", ".config/doctl/config.yaml"}
	for _, name := range broken {
		y.write(name, "canary: [\x00\ncanary")
	}
	r := y.look()
	var files []string
	for _, x := range r.Troubles {
		rel, err := filepath.Rel(y.home, x.File)
		if err != nil || strings.Contains(x.Err.Error(), "canary") || strings.Contains(x.Err.Error(), y.home) {
			t.Errorf("%s: %v, %v", x.File, x.Err, err)
		}
		files = append(files, filepath.ToSlash(rel))
	}
	slices.Sort(broken)
	slices.Sort(files)
	if !slices.Equal(files, broken) {
		t.Errorf("troubles with %q", files)
	}
	if len(r.Found) != 2 { // the other context, and Google's login
		t.Errorf("%+v", r.Found)
	}
}

// TestOddFiles: folders, pipes and endless files in the places of files are no hang and
// no crash; a file as a folder is nothing.
func TestOddFiles(t *testing.T) {
	y := newYard(t)
	y.write(".kube/config/inside", "")
	y.write(".aws", "a file")
	y.write(".docker", "a file")
	y.write(".config/doctl/config.yaml", strings.Repeat("#", maxFile+1))
	r := y.wants()
	if len(r.Troubles) != 2 {
		t.Errorf("%+v", r.Troubles)
	}
}

// TestMany: of very many contexts some are listed, the current one first, under names
// that are legal and different.
func TestMany(t *testing.T) {
	y := newYard(t)
	text := "current-context: zz\ncontexts:\n- {name: zz}\n"
	for i := range 200 {
		text += fmt.Sprintf("- {name: \"%s/é ctx:%d\\n\"}\n", strings.Repeat("n", 70), i)
	}
	y.write(".kube/config", text)
	r := y.look()
	names := map[string]bool{}
	for _, f := range r.Found {
		if names[f.Name] || f.Name != legal(f.Name) || len(f.Name) > maxName {
			t.Errorf("the name %q", f.Name)
		}
		names[f.Name] = true
	}
	if len(r.Found) != maxEach || r.Found[0].Name != "zz" {
		t.Errorf("%d found, first %s", len(r.Found), r.Found[0].Name)
	}
}

func FuzzParseINI(f *testing.F) {
	for _, s := range []string{"[a]\nb = c\n", "\ufeff[default]\nk=v", "[a\n", "= x", "[a]\n x\n#;\n", "[a]\r\nb=\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		sections, err := parseINI(data)
		if err != nil && err != errNoINI { //nolint:errorlint // it is this very one, which quotes nothing
			t.Errorf("%v", err)
		}
		for _, s := range sections {
			if s.values == nil {
				t.Errorf("%q has no values", s.name)
			}
		}
	})
}

func FuzzLegal(f *testing.F) {
	f.Add("prod/eu")
	f.Fuzz(func(t *testing.T, s string) {
		got := legal(s)
		if len(got) > maxName || got != legal(got) || strings.Trim(got, "-_.") != got {
			t.Errorf("legal(%q) = %q", s, got)
		}
	})
}
