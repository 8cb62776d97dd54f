package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/ledger"
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

// TestF84DebugBundleHoldsNoSecret plants one in each place where people and programs put
// them, and looks for it in every part: none is in a bundle, in no form.
func TestF84DebugBundleHoldsNoSecret(t *testing.T) {
	w := newWorld(t)
	planted := map[string]string{}
	plant := func(where string) string {
		planted[where] = "canary+" + strings.ReplaceAll(where, " ", "/") + "=42"
		return planted[where]
	}
	w.seed(func(s *scripted) {
		message := plant("a message of the engine")
		id := s.add("local", sdk.JobSpec{V: 1, Name: plant("a name"), Image: plant("an image"), Args: sdk.Argv{"sh", "-c", plant("an argument")}, Env: sdk.Env{"X": plant("a job's variable")},
			Labels: map[string]string{"l": plant("a label")}}, plant("a key"))
		s.start(id)
		s.finish(id, sdk.StateFailed, sdk.ReasonFailedToStart, ledger.Change{Message: &message, Raw: map[string]string{"Status": plant("the engine's words")}})
	})
	w.env["A_TOKEN"], w.env["HTTPS_PROXY"] = plant("a variable"), "http://me:"+plant("a proxy's password")+"@proxy.example:3128"
	text := "plugins:\n  theirs: {path: /bin/theirs, env: [A_TOKEN], config: {deep: {list: [" + plant("a plugin's config") + "]}}}\n" +
		"providers:\n  stage: {kind: theirs, config: {token: " + plant("a plugin's provider") + "}}\n  odd: {kind: hidden, config: {open: fine, password: " + plant("a sensitive setting") + "}}\n" +
		"runners:\n  far: {address: '127.0.0.1:1', token_env: A_TOKEN}\n"
	log := "level=WARN msg=\"a plugin said\" text=\""
	for _, where := range []string{"a plugin's config", "a plugin's provider", "a sensitive setting", "a variable"} {
		log += planted[where] + " " + base64.StdEncoding.EncodeToString([]byte(planted[where])) + " "
	}
	if err := errors.Join(os.WriteFile(filepath.Join(w.dir, "windlass.yaml"), []byte(text), 0o600), os.WriteFile(filepath.Join(w.state, "keeper.log"), []byte(log+"\"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	sensitive := func(f *Factory) {
		f.Drivers = func() []sdk.Driver {
			d := testDrivers()[1]
			d.Kind = "hidden"
			d.Config = sdk.Schema{Fields: []sdk.SchemaField{{Name: "open", Type: sdk.TypeString, Doc: "Open."}, {Name: "password", Type: sdk.TypeString, Sensitive: true, Doc: "Hidden."}}}
			return append(testDrivers(), d)
		}
	}
	if code := w.runIn(t.Context(), sensitive, "debug", "bundle", "-o", "b.tar.gz", "--json"); code != 0 {
		t.Fatalf("exit %d: %s", code, w.err.String())
	}
	validate(t, w.out.String())
	for part, text := range unpackBundle(t, filepath.Join(w.dir, "b.tar.gz")) {
		if strings.Contains(text, "could not be had") {
			t.Errorf("%s: %s", part, text)
		}
		for where, secret := range planted {
			for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), strings.ReplaceAll(secret, "+", "%2B")} {
				if strings.Contains(text, form) {
					t.Errorf("%s has %s: %s", part, where, form)
				}
			}
		}
		if strings.Contains(text, "canary") {
			t.Errorf("%s has a part of one:\n%s", part, text)
		}
		if part == "config.json" && !strings.Contains(text, "fine") {
			t.Errorf("what isn't hidden is gone: %s", text)
		}
	}
}

// TestDebugBundleAsJSON: the list and the archive are told in the envelope.
func TestDebugBundleAsJSON(t *testing.T) {
	w, _ := seeded(t)
	var v struct{ Data BundleView }
	out := w.ok("debug", "bundle", "--list", "--json")
	validate(t, out)
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Data.File != "" || len(v.Data.Parts) < 8 {
		t.Errorf("%v: %s", err, out)
	}
	out = w.ok("debug", "bundle", "--json", "-o", "b.tar.gz")
	validate(t, out)
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Data.File != filepath.Join(w.dir, "b.tar.gz") {
		t.Fatalf("%v: %s", err, out)
	}
	parts := unpackBundle(t, v.Data.File)
	for _, p := range v.Data.Parts {
		if len(parts[p.Name]) != p.Bytes || p.What == "" {
			t.Errorf("%+v, and it has %d bytes", p, len(parts[p.Name]))
		}
	}
	w.fails(ExitWindlass, "debug", "bundle", "--json", "-o", "b.tar.gz")
	validate(t, w.out.String())
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
