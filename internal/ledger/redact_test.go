package ledger_test

import (
	"encoding/base64"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

func TestRedact(t *testing.T) {
	const canary = "c4n4ry-value"
	spec, err := sdk.JobSpec{Image: "app:1", Args: sdk.Argv{"--visible"}, Env: sdk.Env{"TOKEN": canary, "EMPTY": ""}, Labels: map[string]string{"team": "pay"},
		Secrets: map[string]sdk.SecretRef{"DB": "secret://env/DB"}, Files: []sdk.InputFile{{Path: "/etc/x", Data: []byte(canary)}},
		Options: json.RawMessage(`{"subnet":"net-1","list":["` + canary + `"],"deep":{"password":"` + canary + `","on":true,"n":17}}`)}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	launch := []byte(`{"attempt":1,"kind":"docker","request":{"Env":["TOKEN=` + canary + `"],"Image":"app:1"},"files":[{"path":"/etc/x","data":"` + base64.StdEncoding.EncodeToString([]byte(canary)) + `"}],"v":1}`)
	_, change, err := ledger.EncodeChange(ledger.Change{Requested: &ledger.Requested{Actor: "ann", Action: "run", Spec: spec}, Launched: &ledger.Launched{Launch: launch}})
	if err != nil {
		t.Fatal(err)
	}
	workload, err := sdk.DeploymentSpec{Name: "api", Image: "app:1", Env: sdk.Env{"TOKEN": canary}, Config: map[string]string{"LEVEL": canary},
		Secrets: map[string]sdk.SecretRef{"DB": "secret://env/DB"}, Options: json.RawMessage(`{"subnet":"net-1"}`)}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	deployed, err := sdk.EncodeCanonical(map[string]any{"deployment": json.RawMessage(workload), "replicas": 2})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		in     []byte
		redact func([]byte) []byte
		keep   []string
	}{
		"spec":       {spec, ledger.RedactSpec, []string{"app:1", "TOKEN", "EMPTY", "team", "pay", "secret://env/DB", "/etc/x", "subnet", "password", "true", base64.StdEncoding.EncodeToString([]byte("--visible"))}},
		"deployment": {deployed, ledger.RedactSpec, []string{"app:1", "TOKEN", "LEVEL", "subnet", "secret://env/DB", `"replicas":2`}},
		"settings": {[]byte(`{"set":{"LEVEL":"` + canary + `"},"secrets":{"DB":"secret://env/DB"},"unset":["OLD"]}`), ledger.RedactSpec,
			[]string{"LEVEL", "secret://env/DB", "OLD"}},
		"launch": {launch, ledger.RedactLaunch, []string{"docker", "Env", "/etc/x", `"attempt":1`}},
		"change": {change, ledger.RedactChange, []string{"ann", "run", "TOKEN", "docker", "app:1"}},
	} {
		before := string(tc.in)
		out := string(tc.redact(tc.in))
		if string(tc.in) != before {
			t.Errorf("%s: the argument was changed", name)
		}
		if !json.Valid([]byte(out)) {
			t.Errorf("%s: not JSON: %s", name, out)
		}
		for _, secret := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary)), "net-1"} {
			if strings.Contains(out, secret) {
				t.Errorf("%s: shows %s: %s", name, secret, out)
			}
		}
		for _, k := range append(tc.keep, sdk.Redacted) {
			if !strings.Contains(out, k) {
				t.Errorf("%s: lost %s: %s", name, k, out)
			}
		}
		if again := string(tc.redact([]byte(out))); again != out {
			t.Errorf("%s: a second time gives\n%s\nnot\n%s", name, again, out)
		}
	}
	for _, odd := range []string{"", "x", "[1]", `"` + canary + `"`, "null", "17"} {
		if out := string(ledger.RedactSpec([]byte(odd))); out != `"[redacted]"` {
			t.Errorf("%q becomes %s", odd, out)
		}
	}
	for _, odd := range []string{`{"env":"` + canary + `"}`, `{"files":{"data":"` + canary + `"}}`, `{"files":["` + canary + `"]}`, `{"options":"` + canary + `"}`} {
		if out := string(ledger.RedactSpec([]byte(odd))); strings.Contains(out, canary) {
			t.Errorf("%s becomes %s", odd, out)
		}
	}
	if out := string(ledger.RedactSpec([]byte(`{"set":null}`))); out != `{"set":null}` {
		t.Errorf("no settings become %s", out)
	}
	if ledger.RedactSpec(nil) != nil || ledger.RedactLaunch(nil) != nil {
		t.Error("nothing became something")
	}
}

func TestHeadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), ledger.HeadFile)
	if h, err := ledger.ReadHead(path); h != nil || err != nil {
		t.Errorf("no file: %v, %v", h, err)
	}
	want := ledger.Head{LedgerID: ledgerID, Count: 3, Hash: "abc"}
	for range 2 {
		if err := ledger.WriteHead(path, want); err != nil {
			t.Fatal(err)
		}
		want.Count++
	}
	want.Count--
	if h, err := ledger.ReadHead(path); err != nil || *h != want {
		t.Errorf("%v, %v", h, err)
	}
	if err := ledger.WriteHead(filepath.Join(path, "below"), want); err == nil {
		t.Error("written below a file")
	}
}
