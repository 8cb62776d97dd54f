package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/sdk"
)

// TestF84ErrorsAreRedacted: whatever a driver's error holds, no secret value is
// said, to people or in JSON, and the code, the remedy and the name stay.
func TestF84ErrorsAreRedacted(t *testing.T) {
	var red secret.Redactor
	red.Know(sdk.NewSecretValue([]byte(`canary "quoted" value`)))
	leak := errors.New(`header canary "quoted" value, again as ` + fmt.Sprintf("%q", `canary "quoted" value`))
	for name, err := range map[string]error{
		"plain":    leak,
		"coded":    &sdk.Error{Code: sdk.Unavailable, Op: "call", Provider: "p", ID: "x.y", Remedy: `not canary "quoted" value`, Err: leak},
		"run":      &runError{sdk.ID{15: 1}, fmt.Errorf("wait: %w", leak)},
		"joined":   errors.Join(leak, leak),
		"problems": &control.ProblemsError{Provider: "p", Problems: []sdk.Problem{{Field: "f", Value: `canary "quoted" value`, Message: leak.Error()}}},
		"usage":    &usageError{code: 2, command: "windlass ps", err: leak},
	} {
		var out, errs bytes.Buffer
		s := &Streams{Out: &out, Err: &errs, Redact: red.Redact}
		writeError(s, err)
		if werr := writeJSONError(s, err); werr != nil {
			t.Fatal(werr)
		}
		s.note("noted: %v", err)
		for _, text := range []string{out.String(), errs.String()} {
			if strings.Contains(text, "canary") || !strings.Contains(text, sdk.Redacted) {
				t.Errorf("%s: %s", name, text)
			}
		}
		if name == "run" && !strings.Contains(out.String(), sdk.ID{15: 1}.String()) {
			t.Errorf("the run is gone: %s", out.String())
		}
		if name == "coded" && !strings.Contains(out.String(), "x.y") {
			t.Errorf("the name is gone: %s", out.String())
		}
	}
}
