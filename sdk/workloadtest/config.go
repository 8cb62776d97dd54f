package workloadtest

import (
	"encoding/hex"

	"github.com/windlass-run/windlass/sdk"
)

func configChecks() []Check {
	c := []string{sdk.WorkloadConfigs().String()}
	return []Check{
		{Name: "config", Doc: "Settings are changed, replaced and removed, and reach the instances (F100).", Needs: c, run: checkConfig},
		{Name: "config-same", Doc: "Settings that are so already change nothing, and have the same revision.", Needs: c, run: checkConfigSame},
		{Name: "config-refused", Doc: "Settings that no process could take are refused.", Needs: c, run: checkConfigRefused},
	}
}

func (s *suite) configure(t T, path sdk.WorkloadPath, set map[string]string, unset ...string) sdk.ApplyConfigResult {
	t.Helper()
	r, err := need(t, s.p, sdk.WorkloadConfigs()).ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: s.op(path), Set: set, Unset: unset})
	if err != nil {
		t.Fatalf("config: %v", err)
	}
	if r.Revision == "" {
		t.Errorf("the settings have no revision")
	}
	return r
}

// sees waits until the workload's command sees a variable so; want nil is unset.
func (s *suite) sees(t T, path sdk.WorkloadPath, name string, want *string) {
	t.Helper()
	if s.h.Commands.Env == nil || !sdk.Has(s.p, sdk.WorkloadExecs().String()) {
		return
	}
	line := "env " + name + " unset\n"
	if want != nil {
		line = "env " + name + " " + hex.EncodeToString([]byte(*want)) + "\n"
	}
	s.eventually(t, "variable "+name+" as it was set", func() bool {
		out, _, r, err := s.exec(t, sdk.ExecWorkloadRequest{Op: s.op(path), Command: s.h.Commands.Env(name)})
		return err == nil && r.ExitCode != nil && *r.ExitCode == 0 && out == line
	})
}

func checkConfig(s *suite, t T) {
	path := s.h.Make(t, 2)
	was := s.settled(t, path, 2)
	one, two, other := "one", "two =\n\"x\"", "kept"
	first := s.configure(t, path, map[string]string{"SUITE_A": one, "SUITE_B": other})
	s.accepted(t, "config", first.Op, nil)
	st := s.settled(t, path, 2)
	if !fresh(was, st) || st.Image != was.Image {
		t.Errorf("after a change of settings the instances are %+v, before %+v", st.Instances, was.Instances)
	}
	s.sees(t, path, "SUITE_A", &one)
	second := s.configure(t, path, map[string]string{"SUITE_A": two})
	s.settled(t, path, 2)
	s.sees(t, path, "SUITE_A", &two)
	s.sees(t, path, "SUITE_B", &other)
	third := s.configure(t, path, nil, "SUITE_A", "SUITE_NEVER")
	s.settled(t, path, 2)
	s.sees(t, path, "SUITE_A", nil)
	s.sees(t, path, "SUITE_B", &other)
	if first.Revision == second.Revision || second.Revision == third.Revision || first.Revision == third.Revision {
		t.Errorf("different settings have the revisions %s, %s, %s", first.Revision, second.Revision, third.Revision)
	}
}

func checkConfigSame(s *suite, t T) {
	path := s.h.Make(t, 1)
	s.settled(t, path, 1)
	first := s.configure(t, path, map[string]string{"SUITE_A": "x"})
	st := s.settled(t, path, 1)
	before := s.h.Changes(t, path)
	for _, again := range []sdk.ApplyConfigResult{s.configure(t, path, map[string]string{"SUITE_A": "x"}), s.configure(t, path, nil, "SUITE_NEVER")} {
		if again.Op.Changed || again.Revision != first.Revision {
			t.Errorf("the same settings again: %+v, first %+v", again, first)
		}
	}
	s.unchanged(t, path, before, "the same settings again")
	if now := s.status(t, path); now.Generation != st.Generation {
		t.Errorf("the same settings made generation %s of %s", now.Generation, st.Generation)
	}
}

func checkConfigRefused(s *suite, t T) {
	path := s.h.Make(t, 1)
	before := s.h.Changes(t, path)
	for what, r := range map[string]sdk.ApplyConfigRequest{
		"nothing":            {},
		"a name with =":      {Set: map[string]string{"A=B": "x"}},
		"an empty name":      {Unset: []string{""}},
		"a NUL":              {Set: map[string]string{"A": "\x00"}},
		"set and unset":      {Set: map[string]string{"A": "x"}, Unset: []string{"A"}},
		"a value for secret": {Secrets: map[string]sdk.SecretRef{"A": "plain"}},
	} {
		r.Op = s.op(path)
		_, err := need(t, s.p, sdk.WorkloadConfigs()).ApplyConfig(t.Context(), r)
		refused(t, what, err, sdk.InvalidArgument)
	}
	s.unchanged(t, path, before, "refused settings")
}
