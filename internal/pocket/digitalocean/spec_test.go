package digitalocean

import (
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/digitalocean/godo"
	"github.com/google/go-cmp/cmp"

	"github.com/windlass-run/windlass/internal/pocket/run"
)

// TestSpecDefaults completes a spec.
func TestSpecDefaults(t *testing.T) {
	c := newCloud(t, Options{})
	app, _ := c.create(t, "defaults", &godo.AppJobSpec{Name: "main", Image: &godo.ImageSourceSpec{RegistryType: godo.ImageSourceSpecRegistryType_DOCR, Repository: "app"},
		RunCommand: "true", Envs: []*godo.AppVariableDefinition{{Key: "A", Value: "1"}}})
	want := &godo.AppSpec{Name: "defaults", Region: "nyc", Jobs: []*godo.AppJobSpec{{Name: "main", Kind: godo.AppJobSpecKind_PostDeploy, RunCommand: "true",
		Image:            &godo.ImageSourceSpec{RegistryType: godo.ImageSourceSpecRegistryType_DOCR, Repository: "app", Tag: "latest"},
		InstanceSizeSlug: "apps-s-1vcpu-0.5gb", InstanceCount: 1, Envs: []*godo.AppVariableDefinition{{Key: "A", Value: "1", Scope: godo.AppVariableScope_RunAndBuildTime}}}}}
	if diff := cmp.Diff(want, app.Spec); diff != "" {
		t.Error(diff)
	}
}

// TestReference names images as an engine takes them.
func TestReference(t *testing.T) {
	for want, i := range map[string]*godo.ImageSourceSpec{
		"registry.digitalocean.com/app:1": {RegistryType: godo.ImageSourceSpecRegistryType_DOCR, Repository: "app", Tag: "1"},
		"busybox:local":                   image(),
		"me/app:1":                        {RegistryType: godo.ImageSourceSpecRegistryType_DockerHub, Registry: "me", Repository: "app", Tag: "1"},
		"ghcr.io/me/app@sha256:0":         {RegistryType: godo.ImageSourceSpecRegistryType_Ghcr, Registry: "me", Repository: "app", Digest: "sha256:0"},
	} {
		if got := reference(i); got != want {
			t.Errorf("%v is %s", i, got)
		}
	}
}

// output runs a job and returns its lines.
func (c *cloud) output(t *testing.T, spec *godo.AppSpec) []string {
	t.Helper()
	app, _, err := c.client.Apps.Create(t.Context(), &godo.AppCreateRequest{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	id := app.PendingDeployment.ID
	c.until(t, app.ID, id, godo.DeploymentPhase_Active)
	lines := texts(c.archive(t, app.ID, id, "main"))
	if _, err := c.client.Apps.Delete(t.Context(), app.ID); err != nil {
		t.Fatal(err)
	}
	for i, l := range lines {
		lines[i] = strings.ReplaceAll(l, app.ID, "<id>")
	}
	return lines
}

// TestEnvironment gives a job its variables.
func TestEnvironment(t *testing.T) {
	c := newCloud(t, Options{})
	main := job("main", "env | grep ^W_ | sort")
	main.Envs = []*godo.AppVariableDefinition{{Key: "W_BOTH", Value: "job"}, {Key: "W_ID", Value: "at ${APP_ID}"}, {Key: "W_RUN", Value: "r", Scope: godo.AppVariableScope_RunTime},
		{Key: "W_BUILD", Value: "b", Scope: godo.AppVariableScope_BuildTime}, {Key: "W_SELF", Value: "${_self.W_RUN}${other.W_OTHER}"}, {Key: "W_PLAIN", Value: "$X ${W_RUN} ${nosuch.V}"}}
	other := job("other", "true")
	other.Envs = []*godo.AppVariableDefinition{{Key: "W_OTHER", Value: "o"}}
	got := c.output(t, &godo.AppSpec{Name: "env", Jobs: []*godo.AppJobSpec{other, main}, Envs: []*godo.AppVariableDefinition{{Key: "W_BOTH", Value: "app"}, {Key: "W_APP", Value: "a"}}})
	want := []string{"W_APP=a", "W_BOTH=job", "W_ID=at <id>", "W_PLAIN=$X ${W_RUN} ${nosuch.V}", "W_RUN=r", "W_SELF=ro"}
	if !slices.Equal(got, want) {
		t.Errorf("the environment is %q", got)
	}
}

// TestSecrets shows sealed values only, and runs the job with the open one.
func TestSecrets(t *testing.T) {
	c := newCloud(t, Options{})
	const canary = "canary-7f3a"
	main := job("main", "echo $W_SECRET")
	main.Envs = []*godo.AppVariableDefinition{{Key: "W_SECRET", Value: canary, Type: godo.AppVariableType_Secret}, {Key: "W_EMPTY", Type: godo.AppVariableType_Secret}}
	main.Image.RegistryCredentials = "me:" + canary
	app, id := c.create(t, "secrets", main)
	c.until(t, app.ID, id, godo.DeploymentPhase_Active)
	if got := texts(c.archive(t, app.ID, id, "main")); !slices.Equal(got, []string{canary}) {
		t.Errorf("the job saw %q", got)
	}
	sealed := app.Spec.Jobs[0].Envs[0].Value
	if !strings.HasPrefix(sealed, "EV[1:") || !strings.HasSuffix(sealed, "]") || app.Spec.Jobs[0].Envs[1].Value != "" || !isSealed(app.Spec.Jobs[0].Image.RegistryCredentials) {
		t.Errorf("the spec came back with %v", app.Spec.Jobs[0])
	}
	// The spec as it came back is good for the next submission.
	again, _, err := c.client.Apps.Update(t.Context(), app.ID, &godo.AppUpdateRequest{Spec: app.Spec})
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Spec.Jobs[0].Envs[0].Value; got != sealed {
		t.Errorf("the sealed value changed to %s", got)
	}
	c.until(t, app.ID, again.PendingDeployment.ID, godo.DeploymentPhase_Active)
	if got := texts(c.archive(t, app.ID, again.PendingDeployment.ID, "main")); !slices.Equal(got, []string{canary}) {
		t.Errorf("the job saw %q", got)
	}
	for _, call := range c.Calls().Calls("") {
		if strings.Contains(string(call.Reply), canary) && call.Action != "log_archive" {
			t.Errorf("a reply of %s shows the secret", call.Action)
		}
	}
}

// TestRunCommand reads a command by a shell or as words.
func TestRunCommand(t *testing.T) {
	c := newCloud(t, Options{})
	output := func(command string, noShell bool) []string {
		c.TuneKnobs(func(k *Knobs) { k.NoShell = noShell })
		return c.output(t, &godo.AppSpec{Name: "command", Jobs: []*godo.AppJobSpec{job("main", command)}})
	}
	if got := output("echo a &&\necho 'b  c' | tr b B", false); !slices.Equal(got, []string{"a", "B  c"}) {
		t.Errorf("a shell reads %q", got)
	}
	// What is quoted for a shell is the same to both.
	quoted := `'printf' '%s\n' 'a b' '$HOME' '' '&&' 'it'\''s'`
	for _, noShell := range []bool{false, true} {
		if got := output(quoted, noShell); !slices.Equal(got, []string{"a b", "$HOME", "", "&&", "it's"}) {
			t.Errorf("without a shell %v: %q", noShell, got)
		}
	}
	if got := output("echo a && echo b", true); !slices.Equal(got, []string{"a && echo b"}) {
		t.Errorf("words are %q", got)
	}
}

// TestKeepEntrypoint gives a run command to an image's entry point.
func TestKeepEntrypoint(t *testing.T) {
	c := newCloud(t, Options{Executor: run.NewProcesses(map[string]run.Image{"busybox:local": {Entrypoint: []string{"printf", "<%s>\\n"}, Command: []string{"own"}}})})
	c.TuneKnobs(func(k *Knobs) { k.KeepEntrypoint, k.NoShell = true, true })
	output := func(command string) []string {
		return c.output(t, &godo.AppSpec{Name: "entry", Jobs: []*godo.AppJobSpec{job("main", command)}})
	}
	if got := output("'a b' c"); !slices.Equal(got, []string{"<a b>", "<c>"}) {
		t.Errorf("with a command: %q", got)
	}
	if got := output(""); !slices.Equal(got, []string{"<own>"}) {
		t.Errorf("without: %q", got)
	}
}

// FuzzWords splits as the shell does whatever the shell doesn't expand.
func FuzzWords(f *testing.F) {
	for _, seed := range []string{"a b", `'a b' "c d" e\ f`, `"\$x\"" ''`, "a\\\nb", `'it'\''s'`, `"`, `\`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := words(text)
		if err != nil || strings.ContainsAny(text, "$`*?[]~#&|;<>(){}!=^\x00\r\v\f") || len(text) > 200 {
			return
		}
		for _, r := range text {
			if r < ' ' && r != '\t' && r != '\n' || r > '~' {
				return
			}
		}
		if strings.Contains(strings.NewReplacer("\\\n", "").Replace(text), "\n") {
			return // to a shell a line is a command
		}
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", `printf '%s\0' -- `+text).Output()
		if err != nil {
			t.Skip(err)
		}
		want := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		if !slices.Equal(append([]string{"--"}, got...), want) {
			t.Errorf("%q is %q, to a shell %q", text, got, want)
		}
	})
}

// FuzzSealed opens only what was sealed.
func FuzzSealed(f *testing.F) {
	for _, seed := range []string{"", "EV[1:a:b]", "EV[", "EV[1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA:]", "plain"} {
		f.Add(seed)
	}
	v, err := newVault(newKey())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := v.open(text); err == nil && got != text {
			t.Errorf("%q opens to %q", text, got)
		}
		if got, err := v.open(v.seal(text)); err != nil || got != text {
			t.Errorf("%q sealed opens to %q, %v", text, got, err)
		}
	})
}

// TestPropose checks a spec and tells cost and name.
func TestPropose(t *testing.T) {
	c := newCloud(t, Options{})
	app, _ := c.create(t, "taken", job("main", "true"))
	propose := func(name, id string) *godo.AppProposeResponse {
		t.Helper()
		out, _, err := c.client.Apps.Propose(t.Context(), &godo.AppProposeRequest{AppID: id, Spec: &godo.AppSpec{Name: name, Jobs: []*godo.AppJobSpec{
			job("one", "true"), with(job("two", "true"), func(j *godo.AppJobSpec) { j.InstanceSizeSlug = "apps-s-1vcpu-1gb" })}}})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := propose("free", ""); !got.AppNameAvailable || got.AppNameSuggestion != "" || got.AppCost != 17 || got.Spec.Region != "nyc" {
		t.Errorf("a free name: %v", got)
	}
	if got := propose("taken", ""); got.AppNameAvailable || got.AppNameSuggestion != "taken-2" {
		t.Errorf("a taken name: %v", got)
	}
	if got := propose("taken", app.ID); !got.AppNameAvailable {
		t.Errorf("its own name: %v", got)
	}
	if list, _, err := c.client.Apps.List(t.Context(), nil); err != nil || len(list) != 1 {
		t.Errorf("a proposal makes apps: %v, %v", list, err)
	}
}

// TestCatalog lists regions, sizes and the account.
func TestCatalog(t *testing.T) {
	c := newCloud(t, Options{})
	regions, _, err := c.client.Apps.ListRegions(t.Context())
	if err != nil || len(regions) != 10 {
		t.Errorf("regions: %v, %v", regions, err)
	}
	sizes, _, err := c.client.Apps.ListInstanceSizes(t.Context())
	if err != nil || len(sizes) != 24 || sizes[0].USDPerSecond != "0.000002066799" || sizes[0].MemoryBytes != "536870912" {
		t.Errorf("sizes: %v, %v", sizes, err)
	}
	if one, _, err := c.client.Apps.GetInstanceSize(t.Context(), "apps-d-8vcpu-32gb"); err != nil || one.CPUs != "8" || one.USDPerMonth != "392.00" {
		t.Errorf("a size: %v, %v", one, err)
	}
	if account, _, err := c.client.Account.Get(t.Context()); err != nil || account.Status != "active" || account.UUID == "" {
		t.Errorf("the account: %v, %v", account, err)
	}
	if status, _, rule := c.call(t, http.MethodGet, "/v2/droplets", nil); status != 404 || rule != ruleRoute {
		t.Errorf("droplets: %d, rule %s", status, rule)
	}
}
