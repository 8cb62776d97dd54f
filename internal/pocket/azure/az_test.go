package azure

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testneed"
)

// az is Microsoft's own command line against a pocket cloud.
type az struct {
	program, url, home, ca string
}

func newAz(t *testing.T, c *cloud) *az {
	t.Helper()
	if testing.Short() {
		t.Skip("az is slow: left out by -short")
	}
	a := &az{program: testneed.Program(t, "az"), url: c.url, home: t.TempDir()}
	a.ca = filepath.Join(a.home, "ca.pem")
	if err := os.WriteFile(a.ca, c.CA(), 0o600); err != nil {
		t.Fatal(err)
	}
	a.run(t, "cloud", "register", "--name", "pocket", "--endpoint-resource-manager", c.url, "--endpoint-active-directory", c.url, "--endpoint-active-directory-resource-id", c.url,
		"--endpoint-active-directory-graph-resource-id", c.url, "--endpoint-management", c.url)
	a.run(t, "cloud", "set", "--name", "pocket")
	a.run(t, "login", "--identity")
	return a
}

func (a *az) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), a.program, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "AZURE_") && !strings.HasPrefix(v, "MSI_") && !strings.HasPrefix(v, "IDENTITY_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "AZURE_CONFIG_DIR="+a.home, "AZURE_CORE_COLLECT_TELEMETRY=no", "AZURE_CORE_ONLY_SHOW_ERRORS=yes", "AZURE_CORE_NO_COLOR=yes", "AZURE_CORE_INSTANCE_DISCOVERY=no",
		"REQUESTS_CA_BUNDLE="+a.ca, "WEBSOCKET_CLIENT_CA_BUNDLE="+a.ca, "MSI_ENDPOINT="+a.url+IdentityPath, "MSI_SECRET="+IdentitySecret, "APPSETTING_WEBSITE_SITE_NAME=pocket")
	return cmd
}

// run returns what a command printed.
func (a *az) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := a.command(t, args...).Output()
	if err != nil {
		var text string
		if e := (*exec.ExitError)(nil); errors.As(err, &e) {
			text = string(e.Stderr)
		}
		t.Fatalf("az %s: %v: %s", strings.Join(args, " "), err, text)
	}
	return string(out)
}

// json returns what a command printed as JSON.
func (a *az) json(t *testing.T, args ...string) any {
	t.Helper()
	out := a.run(t, append(args, "--output", "json")...)
	var v any
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("az %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return v
}

// TestAz lets a client that nobody here wrote go through a group's life.
func TestAz(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCloud(t, Options{})
	c.TuneKnobs(func(k *Knobs) { k.RetryAfter = time.Second })
	a := newAz(t, c)

	made := a.json(t, "container", "create", "--resource-group", ResourceGroup, "--name", "one", "--image", "busybox:local", "--restart-policy", "Never", "--cpu", "1", "--memory", "0.5",
		"--environment-variables", "WHO=you", "--secure-environment-variables", "PASS=hush", "--command-line", `sh -c 'echo "hello $WHO $PASS"; exit 3'`).(doc)
	if made["provisioningState"] != "Succeeded" || made["restartPolicy"] != "Never" || made["osType"] != "Linux" {
		t.Errorf("create gave %v", made)
	}
	c.until(t, "one", "Failed")
	show := a.json(t, "container", "show", "--resource-group", ResourceGroup, "--name", "one").(doc)
	view := show["containers"].([]any)[0].(doc)["instanceView"].(doc)
	state := view["currentState"].(doc)
	if show["instanceView"].(doc)["state"] != "Failed" || state["state"] != "Terminated" || state["exitCode"] != 3.0 || state["detailStatus"] != "Error" || view["restartCount"] != 0.0 {
		t.Errorf("show gave %v", show)
	}
	if out := a.run(t, "container", "logs", "--resource-group", ResourceGroup, "--name", "one"); out != "hello you hush\n\n" {
		t.Errorf("logs gave %q", out)
	}

	c.create(t, "two", job("sleep", "100"))
	c.until(t, "two", "Running")
	a.run(t, "container", "stop", "--resource-group", ResourceGroup, "--name", "two")
	c.until(t, "two", "Stopped")
	list := a.json(t, "container", "list", "--query", "[].[name, restartPolicy]").([]any)
	if len(list) != 2 || list[0].([]any)[0] != "one" || list[1].([]any)[0] != "two" {
		t.Errorf("list gave %v", list)
	}
	gone := a.json(t, "container", "delete", "--resource-group", ResourceGroup, "--name", "two", "--yes").(doc)
	if gone["name"] != "two" {
		t.Errorf("delete gave %v", gone)
	}
	if out, err := a.command(t, "container", "show", "--resource-group", ResourceGroup, "--name", "two").CombinedOutput(); err == nil || !strings.Contains(string(out), "(ResourceNotFound) The Resource 'Microsoft.ContainerInstance/containerGroups/two'") {
		t.Errorf("show of what is gone: %v: %s", err, out)
	}
	if out, err := a.command(t, "container", "create", "--resource-group", ResourceGroup, "--name", "Bad_Name", "--image", "x").CombinedOutput(); err == nil || !strings.Contains(string(out), "InvalidContainerGroupName") {
		t.Errorf("create of a bad name: %v: %s", err, out)
	}
}
