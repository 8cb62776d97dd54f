package gcp

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/testneed"
)

// gcloud is Google's own command line against a pocket cloud.
type gcloud struct {
	program, url, home string
}

func newGcloud(t *testing.T, url string) *gcloud {
	t.Helper()
	if testing.Short() {
		t.Skip("gcloud is slow: left out by -short")
	}
	g := &gcloud{program: testneed.Program(t, "gcloud"), url: url, home: t.TempDir()}
	if err := os.WriteFile(filepath.Join(g.home, "token"), []byte("pocket"), 0o600); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *gcloud) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), g.program, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "CLOUDSDK_") && !strings.HasPrefix(v, "GOOGLE_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "CLOUDSDK_CONFIG="+g.home, "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE="+filepath.Join(g.home, "token"), "CLOUDSDK_CORE_PROJECT="+Project,
		"CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING="+g.url+"/", "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER="+g.url+"/", "CLOUDSDK_CORE_DISABLE_PROMPTS=1", "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING=1",
		"CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK=1")
	return cmd
}

func (g *gcloud) run(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := g.command(t, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	if err != nil {
		var text string
		if e, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Output returns it bare
			text = string(e.Stderr)
		}
		t.Fatalf("gcloud %s: %v: %s", strings.Join(args, " "), err, text)
	}
	return string(out)
}

// TestGcloud lets a client that nobody here wrote read logs and secrets.
func TestGcloud(t *testing.T) {
	c := newCloud(t, Options{Token: "pocket"})
	g := newGcloud(t, c.url)
	c.create(t, "one", jobOf("sh", "-c", `echo first; echo '{"severity":"ERROR","message":"second","n":2}'; echo third >&2`))
	e := c.ended(t, "one", nil)

	var entries []struct {
		TextPayload, LogName, Severity, InsertID string
		JSONPayload                              doc
		Resource                                 struct {
			Type   string
			Labels map[string]string
		}
	}
	out := g.run(t, "", "logging", "read", `resource.type="cloud_run_job" AND resource.labels.job_name="one" AND labels."run.googleapis.com/execution_name"="`+short(e.Name)+`" AND NOT log_id("run.googleapis.com/varlog/system")`,
		"--order=asc", "--format=json", "--limit=10")
	if err := json.Unmarshal([]byte(out), &entries); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var texts []string
	for _, e := range entries {
		text := e.TextPayload
		if e.JSONPayload != nil {
			text = e.Severity + ":" + e.JSONPayload["message"].(string)
		}
		texts = append(texts, text+"@"+short(e.LogName))
		if e.InsertID == "" || e.Resource.Type != "cloud_run_job" || e.Resource.Labels["location"] != Location || e.Resource.Labels["project_id"] != Project {
			t.Errorf("an entry is %+v", e)
		}
	}
	if len(texts) != 3 || !strings.Contains(strings.Join(texts, "\n"), "first@run.googleapis.com%2Fstdout\n") || !strings.Contains(strings.Join(texts, "\n"), "ERROR:second@run.googleapis.com%2Fstdout") ||
		!strings.Contains(strings.Join(texts, "\n"), "third@run.googleapis.com%2Fstderr") {
		t.Errorf("logging read gave %q", texts)
	}
	if out := g.run(t, "", "logging", "read", "severity>=ERROR", "--format=value(jsonPayload.message)"); out != "second\n" {
		t.Errorf("logging read of errors gave %q", out)
	}

	g.run(t, "hush", "secrets", "create", "db", "--data-file=-", "--replication-policy=automatic")
	if out := g.run(t, "", "secrets", "versions", "access", "latest", "--secret=db"); out != "hush" {
		t.Errorf("the secret is %q", out)
	}
	g.run(t, "louder", "secrets", "versions", "add", "db", "--data-file=-")
	if out := g.run(t, "", "secrets", "versions", "access", "1", "--secret=db"); out != "hush" {
		t.Errorf("version 1 is %q", out)
	}
	if out, err := g.command(t, "secrets", "versions", "access", "7", "--secret=db").CombinedOutput(); err == nil || !strings.Contains(string(out), "NOT_FOUND") {
		t.Errorf("a version that isn't there: %v: %s", err, out)
	}
}
