package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// write puts a file, and the folders above it, and returns its path.
func write(t *testing.T, path, text string) string {
	t.Helper()
	writeFile(t, path, text)
	return path
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func env(pairs ...string) Env {
	return EnvOf(pairs).WithPerson(func() (string, string) { return "ann", "box" })
}

func load(t *testing.T, r LoadRequest) *Config {
	t.Helper()
	c, err := Load(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefaults(t *testing.T) {
	c := load(t, LoadRequest{Env: env(), Dir: t.TempDir()})
	if c.Actor != "ann@box" || c.DefaultProvider != "" || c.Owner != "" || !c.Keeper {
		t.Errorf("actor %q, default provider %q, owner %q, keeper %v", c.Actor, c.DefaultProvider, c.Owner, c.Keeper)
	}
	if c.LogMaxBytes != 1<<30 || c.KeepLogs != 30*24*time.Hour || c.KeepRuns != 0 {
		t.Errorf("log %d, logs %s, runs %s", c.LogMaxBytes, c.KeepLogs, c.KeepRuns)
	}
	if got := c.ProviderNames(); !reflect.DeepEqual(got, []string{"docker", "local"}) {
		t.Errorf("providers %q", got)
	}
	p, err := c.Provider("docker")
	if err != nil {
		t.Fatal(err)
	}
	want := Provider{Name: "docker", Kind: "docker", Credentials: CredentialsEnv, PollInterval: 2 * time.Second, CallTimeout: 30 * time.Second, Origin: Origin{Kind: FromDefault}}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("provider %+v, want %+v", p, want)
	}
	if len(c.Warnings) > 0 || len(c.Files) > 0 {
		t.Errorf("warnings %q, files %q", c.Warnings, c.Files)
	}
}

// TestOrder sets one setting in every place and takes them away one by one.
func TestOrder(t *testing.T) {
	dir := t.TempDir()
	project := filepath.Join(dir, "work", FileName)
	user := filepath.Join(dir, "xdg", "windlass", FileName)
	const body = "providers: {prod: {kind: docker}, flag: {kind: docker}, env: {kind: docker}, user: {kind: docker}}\n"
	write(t, project, "default_provider: prod\n"+body)
	write(t, user, body+"default_provider: user\n")
	sub := filepath.Join(dir, "work", "a", "b")
	if err := os.MkdirAll(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	xdg := "XDG_CONFIG_HOME=" + filepath.Join(dir, "xdg")
	r := LoadRequest{Env: env(xdg, "WINDLASS_DEFAULT_PROVIDER=env"), Dir: sub, Flags: map[string]string{"on": "flag"}}
	for _, step := range []struct {
		want, origin string
		remove       func()
	}{
		{"flag", "--on", func() { r.Flags = nil }},
		{"env", "WINDLASS_DEFAULT_PROVIDER", func() { r.Env = env(xdg, "WINDLASS_DEFAULT_PROVIDER=") }},
		{"prod", project + ":1:19", func() { _ = os.Remove(project) }},
		{"user", user + ":2:19", func() { _ = os.Remove(user) }},
		{"", "default", func() {}},
	} {
		c := load(t, r)
		if got := c.Origin(SettingProvider).String(); c.DefaultProvider != step.want || got != step.origin {
			t.Errorf("got %q from %s, want %q from %s", c.DefaultProvider, got, step.want, step.origin)
		}
		step.remove()
	}
}

func TestExplicitFileStandsAlone(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, FileName), "owner: project\n")
	write(t, filepath.Join(dir, "other.yaml"), "retention: {logs: 1d}\n")
	for name, r := range map[string]LoadRequest{
		"request":  {Env: env(), ExplicitFile: "other.yaml"},
		"flag":     {Env: env("WINDLASS_CONFIG=nowhere"), Flags: map[string]string{"config": "other.yaml"}},
		"variable": {Env: env("WINDLASS_CONFIG=other.yaml")},
	} {
		r.Dir = dir
		c := load(t, r)
		if c.Owner != "" || c.KeepLogs != 24*time.Hour {
			t.Errorf("%s: owner %q, logs %s", name, c.Owner, c.KeepLogs)
		}
	}
	_, err := Load(t.Context(), LoadRequest{Env: env("WINDLASS_CONFIG=nowhere.yaml"), Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "WINDLASS_CONFIG: "+filepath.Join(dir, "nowhere.yaml")+" doesn't exist") {
		t.Errorf("got %v", err)
	}
}

func TestProviderEntries(t *testing.T) {
	dir := t.TempDir()
	user := write(t, filepath.Join(dir, "home", ".config", "windlass", FileName), `
providers:
  prod: {kind: fake, poll_interval: 9s, max_in_flight: 7}
  mine: {kind: fake, credentials: ambient}
`)
	project := write(t, filepath.Join(dir, "work", FileName), `
providers:
  docker:
  local: {max_in_flight: 3}
  prod:
    kind: docker
    submit_rate: 0.5
    call_timeout: 5s
    config: {host: "tcp://x", n: 1, list: [a, 2, true, null], deep: {x: 1.5}}
`)
	c := load(t, LoadRequest{Env: env("HOME=" + filepath.Join(dir, "home")), Dir: filepath.Join(dir, "work")})
	if !reflect.DeepEqual(c.Files, []string{project, user}) {
		t.Errorf("files %q", c.Files)
	}
	prod, err := c.Provider("prod")
	if err != nil {
		t.Fatal(err)
	}
	// The nearer entry stands for all of it: nothing of the user's remains.
	if prod.Kind != "docker" || prod.PollInterval != 2*time.Second || prod.MaxInFlight != 0 || prod.SubmitRate != 0.5 || prod.CallTimeout != 5*time.Second {
		t.Errorf("prod is %+v", prod)
	}
	if got, want := string(prod.Config), `{"host":"tcp://x","n":1,"list":["a",2,true,null],"deep":{"x":1.5}}`; got != want {
		t.Errorf("config %s, want %s", got, want)
	}
	if mine, _ := c.Provider("mine"); mine.Credentials != CredentialsAmbient {
		t.Errorf("mine is %+v", mine)
	}
	if local, _ := c.Provider("local"); local.Kind != "local" || local.MaxInFlight != 3 {
		t.Errorf("local is %+v", local)
	}
	if docker, _ := c.Provider("docker"); docker.Kind != "docker" || docker.Origin.Name != project {
		t.Errorf("docker is %+v", docker)
	}
	_, err = c.Provider("prd")
	if !errors.Is(err, sdk.NotFound) || !strings.Contains(err.Error(), `(did you mean "prod"?); there are docker, local, mine, prod`) {
		t.Errorf("got %v", err)
	}
}

func TestUntrustedFileAbove(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	path := write(t, filepath.Join(dir, FileName), "owner: evil\n")
	if err := os.Chown(path, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	_, err := Load(t.Context(), LoadRequest{Env: env(), Dir: work})
	if ps := ProblemsOf(err); len(ps) != 1 || ps[0].ID != ErrUntrusted || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("got %v", err)
	}
	// Nor is a link of theirs to a file of ours.
	own := write(t, filepath.Join(dir, "own.yaml"), "owner: own\n")
	if err := errors.Join(os.Rename(path, path+".bak"), os.Symlink(own, path), os.Lchown(path, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(t.Context(), LoadRequest{Env: env(), Dir: work}); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("a link: %v", err)
	}
	if err := errors.Join(os.Remove(path), os.Rename(path+".bak", path)); err != nil {
		t.Fatal(err)
	}
	// Named, it is trusted; and so it is in a folder of the same owner.
	if c := load(t, LoadRequest{Env: env(), Dir: work, ExplicitFile: path}); c.Owner != "evil" {
		t.Errorf("owner %q", c.Owner)
	}
	if err := os.Chown(work, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if c := load(t, LoadRequest{Env: env(), Dir: work}); c.Owner != "evil" {
		t.Errorf("owner %q", c.Owner)
	}
}

func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	c := load(t, LoadRequest{Env: env("WINDLASS_OWNR=a", "WINDLASS_FOO=1", "WINDLASS_TEST_X=1", "WINDLASS_RUN=1", "WINDLASS_MINE=1"), Dir: dir, KnownVars: []string{"WINDLASS_MINE"}})
	want := []string{"the variable WINDLASS_FOO is no setting and is ignored", "the variable WINDLASS_OWNR is no setting and is ignored; did you mean WINDLASS_OWNER?"}
	if !reflect.DeepEqual(c.Warnings, want) {
		t.Errorf("got %q", c.Warnings)
	}
}

func TestActorIsNeverEmpty(t *testing.T) {
	for _, c := range []struct{ name, host, want string }{
		{"ann", "box", "ann@box"}, {"a\x01n n", "b\nox", "ann@box"},
		{"", "", "uid" + itoa(os.Geteuid()) + "@unknown"},
	} {
		if os.Geteuid() < 0 && c.name == "" {
			continue
		}
		e := EnvOf(nil).WithPerson(func() (string, string) { return c.name, c.host })
		if got := load(t, LoadRequest{Env: e}).Actor; got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if got := load(t, LoadRequest{Env: env("WINDLASS_ACTOR=deploy bot")}).Actor; got != "deploy bot" {
		t.Errorf("got %q", got)
	}
	if c, err := Load(t.Context(), LoadRequest{Env: env("WINDLASS_ACTOR=a\x1b[31m")}); err == nil {
		t.Errorf("a control character passed: %q", c.Actor)
	}
	if got := load(t, LoadRequest{Env: Environ()}).Actor; !strings.Contains(got, "@") {
		t.Errorf("the machine's own is %q", got)
	}
}

func TestEnv(t *testing.T) {
	e := EnvOf([]string{"A=1", "B=x=y", "A=2", "=C:=C:\\", "bare", "WINDLASS_STATE=/s", "E=", "RAW=\xff\xfe"})
	if e.Get("A") != "1" || e.Get("B") != "x=y" || e.Get("none") != "" {
		t.Errorf("A %q, B %q", e.Get("A"), e.Get("B"))
	}
	if v, ok := e.Lookup("E"); v != "" || !ok {
		t.Error("E is not set to nothing")
	}
	var got []string
	for _, v := range e.Ambient() {
		got = append(got, string(v))
	}
	if want := []string{"A=1", "B=x=y", "=C:=C:\\", "E=", "RAW=\xff\xfe"}; !reflect.DeepEqual(got, want) {
		t.Errorf("ambient %q, want %q", got, want)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
