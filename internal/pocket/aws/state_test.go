package aws

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// TestState starts a second server on what the first left: tasks, tokens,
// definitions, logs, secrets.
func TestState(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state")
	first := newCloud(t, Options{State: folder, Clusters: []string{"mine"}})
	arn := first.Secrets().Put("db", "hush")
	first.Parameters().Put("/p", "quiet")
	def := first.register(t, definition("kept", "echo", "line"))
	in := onFargate(def)
	in.ClientToken = sdk.String("one")
	ended := *first.run(t, in).TaskArn
	first.until(t, ended, "STOPPED")
	runs := *first.run(t, onFargate(first.register(t, definition("kept", "sleep", "60")))).TaskArn
	first.until(t, runs, "RUNNING")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(folder, stateFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the state is %v, %v", info, err)
	}

	second := newCloud(t, Options{State: folder})
	if got := second.describe(t, ended); *got.Containers[0].ExitCode != 0 || *got.LastStatus != "STOPPED" {
		t.Errorf("the ended task: %v", got)
	}
	if got := second.describe(t, runs); *got.LastStatus != "STOPPED" || got.StopCode != types.TaskStopCodeTerminationNotice {
		t.Errorf("the task that ran: %s, %s", *got.LastStatus, got.StopCode)
	}
	if got := second.lines(t, ended); !slices.Equal(got, []string{"line"}) {
		t.Errorf("log %q", got)
	}
	if again := *second.run(t, in).TaskArn; again != ended {
		t.Error("the token is forgotten")
	}
	if third := second.register(t, definition("kept", "true")); !strings.HasSuffix(third, "/kept:3") {
		t.Errorf("the next revision is %s", third)
	}
	for _, from := range []string{arn, "/p"} {
		if _, err := second.secret(from); err != nil {
			t.Error(err)
		}
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
	if err := os.WriteFile(filepath.Join(folder, stateFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{State: folder}); err == nil || !strings.Contains(err.Error(), stateFile) {
		t.Errorf("a broken state: %v", err)
	}
}
