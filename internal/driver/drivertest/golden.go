package drivertest

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Offline opens a provider that reaches nothing, for what needs no cloud: always
// the same owner and ledger. Change adds to the config.
func Offline[P sdk.Provider](t testing.TB, d sdk.Driver, credentials map[string]string, config, change map[string]any) P {
	t.Helper()
	config = maps.Clone(config)
	maps.Copy(config, change)
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Open(t.Context(), sdk.OpenRequest{Name: "prod", Config: raw, Credentials: credentials, Clock: sdk.SystemClock(),
		Owner: "ann@laptop", LedgerID: "ledger"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p.(P)
}

// Launch prepares the second attempt of a run that is always the same.
func Launch(t testing.TB, p sdk.JobRunner, spec sdk.JobSpec) sdk.Launch {
	t.Helper()
	r := sdk.PrepareJobRequest{Spec: spec, Attempt: 2, Expires: time.Unix(2e9, 0).UTC()}
	for id, text := range map[*sdk.ID]string{&r.RunID: "01jgfjja00eayvsy0000000001", &r.AttemptID: "01jgfjja00eayvsy0000000002"} {
		var err error
		if *id, err = sdk.ParseID(text); err != nil {
			t.Fatal(err)
		}
	}
	l, err := p.PrepareJob(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// GoldenRequest checks that a launch has the request in testdata/NAME.json, which
// update rewrites, and that it is the same once the driver has decoded and encoded
// it.
func GoldenRequest[R any](t *testing.T, update bool, name string, l sdk.Launch, decode func(json.RawMessage) (R, error)) {
	t.Helper()
	if len(l.Problems) > 0 {
		t.Fatalf("refused: %s", sdk.JoinProblems(l.Problems))
	}
	var got bytes.Buffer
	if err := json.Indent(&got, l.Request, "", "\t"); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	file := filepath.Join("testdata", name+".json")
	if update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the request differs from %s (go test -update rewrites it):\n%s", file, got.String())
	}
	req, err := decode(l.Request)
	if err != nil {
		t.Fatal(err)
	}
	again, err := sdk.EncodeCanonical(req)
	if err != nil || !bytes.Equal(again, l.Request) {
		t.Errorf("reading and writing it changes it (%v): %s", err, again)
	}
}
