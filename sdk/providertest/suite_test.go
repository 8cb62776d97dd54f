package providertest

import (
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// mistake is a broken backend and the checks that must fail for it, and no
// others.
type mistake struct {
	name  string
	fails string
	broken
	settings fake.Settings
	knobs    fake.Knobs
	driver   func(d *sdk.Driver)
}

func (m mistake) harness() Harness {
	c := fake.NewCloud(fake.Options{Record: true, Knobs: m.knobs})
	d := fake.NewDriver(c, m.settings)
	if m.driver != nil {
		m.driver(&d)
	}
	mu, mem, nth := &sync.Mutex{}, map[string]int{}, 0
	h := FakeHarness(c, d)
	open := h.Open
	h.Open = func(t T) sdk.Provider {
		b := m.broken
		nth++
		b.good, b.cloud, b.mu, b.mem, b.nth = open(t), c, mu, mem, nth
		return &b
	}
	return h
}

// failedChecks returns the names of the checks that failed.
func failedChecks(r *recorder) []string {
	var out []string
	for _, sub := range r.subs {
		if sub.Failed() {
			out = append(out, strings.TrimPrefix(sub.name, "suite/"))
		}
	}
	slices.Sort(out)
	return out
}

// TestBrokenBackends gives the suite backends with one mistake each.
func TestBrokenBackends(t *testing.T) {
	covered := map[string]bool{}
	for _, m := range mistakes() {
		want := strings.Fields(m.fails)
		slices.Sort(want)
		for _, name := range want {
			covered[name] = true
		}
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := m.harness()
				if testing.Short() {
					h.Only = want
				}
				r := record(t, h)
				// What a mistake leaked ends too.
				time.Sleep(2 * time.Hour)
				if got := failedChecks(r); !slices.Equal(got, want) {
					t.Errorf("failed: %q, want %q\n%s", got, want, r.text())
				}
			})
		})
	}
	for _, c := range Checks() {
		if !covered[c.Name] {
			t.Errorf("no broken backend shows that check %s can fail", c.Name)
		}
	}
}

func settings(change func(g *sdk.Guarantees)) fake.Settings {
	g := fake.BestGuarantees()
	change(&g)
	return fake.Settings{Guarantees: &g}
}

func mistakes() []mistake {
	return slices.Concat(contractMistakes(), specMistakes(), stateMistakes(), submitMistakes(), cancelMistakes(), cleanupMistakes(),
		logMistakes(), otherMistakes())
}

// TestStandardLibraryAlone keeps the dependencies of plugin authors to none.
func TestStandardLibraryAlone(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./...").Output()
	if err != nil {
		t.Skipf("go list: %v", err)
	}
	for _, p := range strings.Fields(string(out)) {
		if p != "github.com/windlass-run/windlass/sdk" && !strings.HasPrefix(p, "github.com/windlass-run/windlass/sdk/providertest") {
			t.Errorf("%s is imported; standard library only", p)
		}
	}
}
