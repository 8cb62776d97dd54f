//go:build linux

package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
)

// TestMissingParameter: what only the platform can know of a secret comes with the
// secret's reference, and with the platform's words; what can be known before is
// refused before launch.
func TestMissingParameter(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	cloud, err := pocket.New(pocket.Options{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(cloud)
	t.Cleanup(func() {
		web.Close()
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	role := "arn:aws:iam::" + pocket.Account + ":role/execution"
	config := fmt.Sprintf(`providers:
  aws-ecs: {kind: aws-ecs, credentials: pocket, poll_interval: 100ms, config: {endpoint: "%[1]s", region: %[2]s, subnets: [subnet-0123456789abcdef0], execution_role: "%[3]s", log_quiet: 500ms}}
  aws-batch: {kind: aws-batch, credentials: pocket, poll_interval: 100ms, config: {endpoint: "%[1]s", region: %[2]s, queue: default, execution_role: "%[3]s", log_quiet: 500ms}}
`, web.URL, pocket.Region, role)
	if err := os.WriteFile(filepath.Join(p.dir, "windlass.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"aws-ecs", "aws-batch"} {
		for scheme, words := range map[string][]string{
			"aws-ssm": {"ResourceInitializationError", "(KEY is secret://aws-ssm/prod/none)"},
			"aws-sm":  {"refused before launch", `secrets.KEY "secret://aws-sm/prod/none"`, "has no secret"},
		} {
			cmd := p.command("run", "--on", kind, "--image", "busybox:local", "--secret", "KEY=secret://"+scheme+"/prod/none", "--", "true")
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != 125 {
				t.Errorf("%s, %s: exit %d", kind, scheme, code)
			}
			for _, w := range words {
				if !strings.Contains(string(out), w) {
					t.Errorf("%s, %s: %q isn't in %s", kind, scheme, w, out)
				}
			}
		}
	}
}
