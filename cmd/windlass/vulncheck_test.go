//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/testneed"
)

// TestVulncheck asks a database of the test's own about a program of two lines: one
// vulnerability that it reaches, one that it doesn't, and no database at all.
func TestVulncheck(t *testing.T) {
	t.Parallel()
	testneed.Tool(t, "govulncheck")
	script, err := filepath.Abs("../../scripts/vulncheck")
	if err != nil {
		t.Fatal(err)
	}
	dir, db := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "go.mod"), "module example.org/reaches\n\ngo 1.26\n")
	write(filepath.Join(dir, "main.go"), "package main\n\nimport \"strings\"\n\nfunc main() { println(strings.ToTitle(\"x\")) }\n")
	write(filepath.Join(db, "index", "db.json"), `{"modified":"2026-01-01T00:00:00Z"}`)
	// reports makes the database know of one function.
	reports := func(symbol string) {
		const id = "GO-2026-9999"
		write(filepath.Join(db, "index", "modules.json"), `[{"path":"stdlib","vulns":[{"id":"`+id+`","modified":"2026-01-01T00:00:00Z"}]}]`)
		write(filepath.Join(db, "index", "vulns.json"), `[{"id":"`+id+`","modified":"2026-01-01T00:00:00Z"}]`)
		write(filepath.Join(db, "ID", id+".json"), fmt.Sprintf(`{"schema_version":"1.3.1","id":%q,"modified":"2026-01-01T00:00:00Z","published":"2026-01-01T00:00:00Z","summary":"made up by a test","database_specific":{"url":"https://example.org/9999"},
			"affected":[{"package":{"name":"stdlib","ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
			"ecosystem_specific":{"imports":[{"path":"strings","symbols":[%q]}]}}]}`, id, symbol))
	}
	check := func(db string) (string, int) {
		cmd := exec.CommandContext(t.Context(), "bash", script, ".")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "WINDLASS_VULNDB="+db)
		out, err := cmd.CombinedOutput()
		code := 0
		if exit := new(exec.ExitError); errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		return string(out), code
	}
	reports("ToTitle")
	if out, code := check("file://" + db); code != 3 || !strings.Contains(out, "GO-2026-9999") || !strings.Contains(out, "vulnerabilities that are reached") {
		t.Errorf("reached: exit %d\n%s", code, out)
	}
	reports("Title")
	if out, code := check("file://" + db); code != 0 || !strings.Contains(out, "nothing is known of .") {
		t.Errorf("not reached: exit %d\n%s", code, out)
	}
	gone := "file://" + filepath.Join(db, "gone")
	if out, code := check(gone); code != 1 || !strings.Contains(out, "no answer from "+gone) || !strings.Contains(out, "WINDLASS_VULNDB") {
		t.Errorf("no database: exit %d\n%s", code, out)
	}
}
