package client_test

import (
	"context"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/providertest"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSuite runs the contract's own suite on the fake through the wire, on a socket.
func TestSuite(t *testing.T) {
	c := fake.NewCloud(fake.Options{Record: true})
	providertest.Run(t, providertest.FakeHarness(c, plugintest.Through(t, fake.NewDriver(c, fake.Settings{BatchMax: 7}))))
}

// weakness are the checks that go by what a backend guarantees. The others were tried on
// the best of backends.
func weakness() []string {
	return []string{"info", "prepare-deterministic", "unset-or-set", "argv", "exit-codes", "exit-code-evidence", "signal", "deadline",
		"run-twice", "lost-reply", "lost-request", "find-absent", "find-found", "find-run", "find-hidden", "cancel-running", "cancel-grace",
		"log-text", "log-bytes", "log-apart", "log-end", "log-follow", "secret-delivered", "secret-visible"}
}

// TestSuiteOnWeakBackends runs the suite on backends that guarantee less, through the
// wire, in virtual time.
func TestSuiteOnWeakBackends(t *testing.T) {
	for _, w := range providertest.WeakFakes() {
		t.Run(w.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := w.Harness(func(d sdk.Driver) sdk.Driver { return plugintest.ThroughPipe(t, d) })
				if !testneed.WholeWireSuite() {
					h.Only = weakness()
				}
				providertest.RunFlat(t, h)
			})
		})
	}
}

// TestAbsentIsNil wants what a plugin doesn't name not to be there.
func TestAbsentIsNil(t *testing.T) {
	d := plugintest.Through(t, fake.NewDriver(fake.NewCloud(fake.Options{}), fake.Settings{Capabilities: []string{"JobRunner", "JobLogger"}}))
	p, err := d.Open(context.WithoutCancel(t.Context()), sdk.OpenRequest{Name: "fake", Owner: "me", StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, row := range sdk.Capabilities() {
		if got, want := sdk.Has(p, row.Name), row.Name == "JobRunner" || row.Name == "JobLogger"; got != want {
			t.Errorf("%s is there: %v", row.Name, got)
		}
	}
	if _, ok := sdk.Of(p, sdk.Canceler()); ok {
		t.Error("a canceler is there")
	}
}
