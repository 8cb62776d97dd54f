package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// unpackBundle returns the parts of a bundle by name.
func unpackBundle(t *testing.T, name string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimPrefix(h.Name, "windlass-debug/")] = string(data)
	}
}

// TestF84DebugBundle: no value of a variable, of a run's environment, of its arguments
// or of a provider's sensitive setting is in a bundle, in no form, wherever it stood.
func TestF84DebugBundle(t *testing.T) {
	w, ids := seeded(t)
	const token = "hunter2/canary+value"
	w.env["MY_TOKEN"] = token
	if err := os.WriteFile(filepath.Join(w.state, "keeper.log"), []byte("level=INFO msg=x token="+token+" b64="+base64.StdEncoding.EncodeToString([]byte(token))+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	listed := w.ok("debug", "bundle", "--list")
	if left, err := filepath.Glob(filepath.Join(w.dir, "windlass-debug-*")); err != nil || len(left) != 0 {
		t.Errorf("--list wrote %v, %v", left, err)
	}
	out := w.ok("debug", "bundle")
	name := strings.TrimSpace(out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:])
	st, err := os.Stat(name)
	if err != nil || st.Mode().Perm()&0o077 != 0 {
		t.Fatal(st, err)
	}
	parts := unpackBundle(t, name)
	for part, text := range parts {
		if !strings.Contains(listed, part) || !strings.Contains(out, part) {
			t.Errorf("%s isn't announced", part)
		}
		for _, secret := range []string{"hunter2", "canary", base64.StdEncoding.EncodeToString([]byte(token)), base64.StdEncoding.EncodeToString([]byte("canary"))} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q:\n%s", part, secret, text)
			}
		}
	}
	for part, want := range map[string]string{"version.json": "v1.2.3", "config.json": "retention.logs", "variables.txt": "MY_TOKEN", "doctor.json": "ledger",
		"runs.json": ids["bad"].String(), "events.txt": "requested", "keeper.log": "token=" + sdk.Redacted, "files.txt": "ledger.db"} {
		if !strings.Contains(parts[part], want) {
			t.Errorf("%s lacks %q:\n%s", part, want, parts[part])
		}
	}
	if text := w.fails(ExitWindlass, "debug", "bundle", "-o", name); !strings.Contains(text, "exists") {
		t.Errorf("a file that is there: %s", text)
	}
}

// TestDebugBundleOfWhatIsBroken: with a broken ledger and a broken configuration there
// is a bundle that says so.
func TestDebugBundleOfWhatIsBroken(t *testing.T) {
	w, _ := seeded(t)
	if err := os.WriteFile(filepath.Join(w.state, "ledger.db"), bytes.Repeat([]byte("garbage "), 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	big := bytes.Repeat([]byte("level=INFO msg=again\n"), 200_000)
	if err := os.WriteFile(filepath.Join(w.state, "keeper.log"), append(big, "the end\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	w.ok("debug", "bundle", "-o", "one.tar.gz")
	parts := unpackBundle(t, filepath.Join(w.dir, "one.tar.gz"))
	if text := parts["runs.json"]; !strings.Contains(text, "could not be had") {
		t.Errorf("runs.json: %s", text)
	}
	if text := parts["keeper.log"]; len(text) > bundlePartBytes+100 || !strings.HasSuffix(text, "the end\n") {
		t.Errorf("keeper.log has %d bytes", len(text))
	}
	if err := os.WriteFile(filepath.Join(w.dir, "windlass.yaml"), []byte("provders: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.ok("debug", "bundle", "-o", "two.tar.gz")
	parts = unpackBundle(t, filepath.Join(w.dir, "two.tar.gz"))
	if text := parts["config.json"]; !strings.Contains(text, "provders") {
		t.Errorf("config.json: %s", text)
	}
	if text := parts["files.txt"]; !strings.Contains(text, "ledger.db") {
		t.Errorf("files.txt: %s", text)
	}
}
