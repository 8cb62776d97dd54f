package step

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/sandbox"
)

// TestReservedNames: no remote runner may be called as an environment that is
// always there, or exec_env would mean two places.
func TestReservedNames(t *testing.T) {
	load := func(name string) error {
		dir := t.TempDir()
		text := "runners: {" + name + ": {address: 'h:1', token_env: T}}\n"
		if err := os.WriteFile(filepath.Join(dir, config.FileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := config.Load(t.Context(), config.LoadRequest{Env: config.EnvMap(nil), Dir: dir})
		return err
	}
	for _, name := range sandbox.Reserved() {
		if err := load(name); err == nil || !strings.Contains(err.Error(), "always there") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := load("far"); err != nil {
		t.Error(err)
	}
}
