package drivertest

import (
	"testing"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// wireChecks are what a plugin's wire can spoil for a driver by what that driver's own
// values are, each with how. What it does to all alike (streams that are left, calls that
// are cancelled, secrets that are asked for) the fake and local are tried by, whole.
var wireChecks = map[string]string{
	"info":                   "guarantees and identity are converted, and are what all else is chosen by",
	"check":                  "items and remedies are converted",
	"config-unknown-member":  "the config is passed on as it is, and Open's error keeps code, field and words",
	"support-table":          "the table, the schemas and the problems of a spec are converted field by field",
	"prepare-deterministic":  "a launch is converted, and must have the same hash on both sides",
	"problems-at-once":       "problems keep field and value",
	"nul-refused":            "text with a NUL reaches the driver, which refuses it",
	"options-unknown-member": "options are passed on as they are",
	"unset-or-set":           "what is unset isn't zero",
	"handle-round-trip":      "a handle is converted, and must stay canonical",
	"fresh-process":          "a second plugin process takes the first one's handle",
	"foreign-identity":       "the code says that it isn't there or that it isn't ours",
	"newer-version":          "a version that the wire doesn't know passes to the driver",
	"argv-bytes":             "arguments are bytes, text is UTF-8",
	"env":                    "values are bytes",
	"files":                  "an empty file isn't no file",
	"stdin":                  "input is a stream of the launch, which goes on behind its result",
	"lost-reply":             "an unclear error stays one",
	"throttled":              "ResourceExhausted stays retryable, and apart from gRPC's own",
	"find-found":             "labels, IDs and times are converted",
	"exit-code-evidence":     "no exit code isn't code 0",
	"log-text":               "entries, their ends of line and the stream's end are converted",
	"batch":                  "items are aligned, errors among them",
	"watch":                  "events come as they happen",
	"owned-list":             "objects are converted",
	"secret-missing":         "the host's error comes back through the driver",
}

// OverWire runs the suite on a driver with a plugin's wire between, on a socket: of the
// checks those that a wire can spoil, besides more; all of them where testneed.WireEnv says so.
// harness makes the harness, and opens providers of what through makes of the driver.
func OverWire(t *testing.T, harness func(through func(sdk.Driver) sdk.Driver) providertest.Harness, more ...string) {
	t.Helper()
	h := harness(func(d sdk.Driver) sdk.Driver { return plugintest.Through(t, d) })
	if !testneed.WholeWireSuite() {
		h.Only = more
		for name := range wireChecks {
			h.Only = append(h.Only, name)
		}
	}
	providertest.Run(t, h)
}
