package providertest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func TestWaivers(t *testing.T) {
	noCode := settings(func(g *sdk.Guarantees) { g.ExitCode = sdk.ExitCodeAbsent })
	lost := states(func(_ *broken, _ sdk.JobHandle, st *sdk.JobStatusResult) { st.ExitCode = nil })
	for _, c := range []struct {
		name   string
		m      mistake
		waiver Waiver
		says   string // empty: passes
	}{
		{"justified", mistake{settings: noCode}, Waiver{"exit-codes", "ExitCode", "none"}, ""},
		{"no guarantee says so", mistake{broken: lost}, Waiver{"exit-codes", "ExitCode", "none"}, "not justified"},
		{"another guarantee", mistake{settings: noCode}, Waiver{"exit-codes", "Argv", "none"}, "not justified"},
		{"never waivable", mistake{settings: noCode}, Waiver{"cancel-running", "ExitCode", "none"}, "not justified"},
		{"no such check", mistake{}, Waiver{"nothing", "ExitCode", "none"}, "no check is called so"},
		{"no longer needed", mistake{settings: settings(func(g *sdk.Guarantees) { g.Argv = sdk.ArgvSubstituting })},
			Waiver{"argv", "Argv", "it substitutes"}, "no longer needed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := c.m.harness()
				h.Waivers, h.Only = []Waiver{c.waiver}, []string{"info"}
				if c.waiver.Check != "nothing" {
					h.Only = []string{c.waiver.Check}
				}
				r := record(t, h)
				switch text := r.text(); {
				case c.says == "" && r.Failed():
					t.Errorf("failed: %s", text)
				case c.says != "" && (!r.Failed() || !strings.Contains(text, c.says)):
					t.Errorf("failed %t with %q, want %q", r.Failed(), text, c.says)
				}
			})
		})
	}
}

// TestSlowReads: reads that take longer than a log is to be quiet for are no reason
// to take what the first of them brought for the whole log.
func TestSlowReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mistake{settings: settings(func(g *sdk.Guarantees) {
			g.Logs.EndProven, g.Logs.Settle = false, sdk.LogSettle{Quiet: time.Second, Max: time.Minute}
		}), broken: broken{
			logs: func(b *broken, ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
				n := b.count("read " + r.Handle.ID)
				return func(yield func(sdk.LogItem, error) bool) {
					time.Sleep(3 * time.Second) //sleep: virtual, and what is slow
					for it, err := range need(b.good, sdk.Logger()).JobLogs(ctx, r) {
						if n < 2 && it.Entry != nil && bytes.Contains(it.Entry.Data, []byte("ur\n")) {
							continue
						}
						if !yield(it, err) {
							return
						}
					}
				}
			}}}
		h := m.harness()
		h.Only = []string{"log-text", "concurrent"}
		if r := record(t, h); r.Failed() {
			t.Error(r.text())
		}
	})
}

// TestCannot lets a harness refuse a behaviour with and without a reason.
func TestCannot(t *testing.T) {
	for _, c := range []struct {
		settings fake.Settings
		fails    bool
	}{
		{fake.Settings{}, true},
		{settings(func(g *sdk.Guarantees) { g.ExitCode = sdk.ExitCodeAbsent }), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := mistake{settings: c.settings}.harness()
			behave := h.Behave
			h.Only = []string{"signal"}
			h.Behave = func(t T, b Behaviour) (sdk.JobSpec, error) {
				for _, s := range b.Steps {
					if s.Do == ActSignal {
						return sdk.JobSpec{}, fmt.Errorf("no signals: %w", ErrCannot)
					}
				}
				return behave(t, b)
			}
			if r := record(t, h); r.Failed() != c.fails {
				t.Errorf("failed %t, want %t: %s", r.Failed(), c.fails, r.text())
			}
		})
	}
}

func TestHarnessIncomplete(t *testing.T) {
	for name, h := range map[string]Harness{
		"nothing":       {},
		"unknown check": func() Harness { h := mistake{}.harness(); h.Only = []string{"x"}; return h }(),
		"no secrets":    func() Harness { h := mistake{}.harness(); h.Secrets, h.Only = nil, []string{"info"}; return h }(),
		"no runner": func() Harness {
			h := mistake{settings: fake.Settings{Capabilities: []string{"JobLogger"}}}.harness()
			return h
		}(),
	} {
		if r := record(t, h); !r.Failed() {
			t.Errorf("%s: the suite passes", name)
		}
	}
}

func TestCanary(t *testing.T) {
	c := Canary(`s3cr"et<` + "\n>é0123456789")
	for _, hidden := range []string{
		"x" + string(c) + "y",
		`{"a":"s3cr\"et\u003c\n\u003eé0123456789"}`,
		"YWJjczNjciJldDwKPsOpMDEyMzQ1Njc4OQ==",
		"YWJzM2NyImV0PAo+w6kwMTIzNDU2Nzg5",
		"YXMzY3IiZXQ8Cj7DqTAxMjM0NTY3ODk=",
		"733363722265743c0a3ec3a930313233343536373839",
		"s3cr%22et%3C%0A%3E%C3%A90123456789",
	} {
		if !c.In([]byte(hidden)) {
			t.Errorf("not found in %q", hidden)
		}
	}
	if c.In([]byte("czNjciJldDw nothing of the kind s3cr")) {
		t.Error("found where it is not")
	}
}

func TestChecksAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Checks() {
		if seen[c.Name] || c.Name == "" || !strings.HasSuffix(c.Doc, ".") || c.run == nil {
			t.Errorf("check %q is there twice or not described", c.Name)
		}
		seen[c.Name] = true
		for _, n := range c.Needs {
			if !sdk.Has(mistake{}.harness().Open(testingT{t}), n) {
				t.Errorf("check %s needs %s, which is no capability", c.Name, n)
			}
		}
	}
}
