package cli

import (
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// TestRunRemedy: a run that didn't start in time has the remedy of what kept it.
func TestRunRemedy(t *testing.T) {
	for message, want := range map[string]string{
		"did not start within 5m0s: image_pull: ImagePullBackOff: denied": "check the image's name, and the provider's credentials",
		"did not start within 5m0s: unschedulable: 0/3 nodes":             "wait, ask for less, or use another provider; or raise --start-timeout",
		"did not start within 5m0s: queued":                               "raise --start-timeout, or look for",
		"did not start within 5m0s: pulling the image":                    "raise --start-timeout, or look for",
		"did not start within 5m0s":                                       "raise --start-timeout, or look for",
		"no room within the start time-out: image_pull: x":                "raise --start-timeout, or look for",
	} {
		if got := runRemedy(ledger.Run{Reason: sdk.ReasonStartTimeout, Message: message}); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", message, got)
		}
	}
	if got := runRemedy(ledger.Run{Reason: sdk.ReasonTimedOut, Message: "did not start within 5m0s: image_pull"}); got != reasonRemedy(sdk.ReasonTimedOut) {
		t.Error(got)
	}
}
