package providertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func contractChecks() []Check {
	return []Check{
		{Name: "info", Doc: "Info is constant, complete and legal, and a second process has the same identity.", run: checkInfo},
		{Name: "capabilities", Doc: "A provider can do what its driver declares, and nothing else.", run: checkCapabilities},
		{Name: "check", Doc: "Check passes on a backend that works, and names what it looked at.", run: checkCheck},
		{Name: "config-unknown-member", Doc: "Open refuses a member of the config that the schema doesn't name.", run: checkConfigUnknown},
		{Name: "support-table", Doc: "Every field of JobSpec has a row, and what the table refuses PrepareJob refuses, all at once.", run: checkSupport},
		{Name: "prepare-deterministic", Doc: "PrepareJob gives the same launch for the same request, and it survives its encoding.", run: checkPrepareDeterministic},
		{Name: "prepare-changes-nothing", Doc: "PrepareJob leaves nothing on the backend.", run: checkPrepareNothing},
		{Name: "problems-at-once", Doc: "Everything that is wrong with a spec comes at once, with field and value.", run: checkProblems},
		{Name: "nul-refused", Doc: "A NUL byte is refused wherever it stands.", run: checkNUL},
		{Name: "options-unknown-member", Doc: "An unknown option is refused, with the nearest name.", run: checkOptions},
		{Name: "unset-or-set", Doc: "Only what was set is refused: an unset field is fitted to the backend.", run: checkUnset},
		{Name: "image", Doc: "A backend without images refuses one.", run: checkImage},
		{Name: "handle-round-trip", Doc: "Handles are small, canonical and survive their encoding.", run: checkHandle},
		{Name: "fresh-process", Doc: "A handle works in another process, and jobs go on when a provider is closed.", run: checkFresh},
		{Name: "foreign-identity", Doc: "What belongs to another provider is refused with FailedPrecondition.", run: checkForeign},
		{Name: "newer-version", Doc: "A handle or launch of a newer version is FailedPrecondition.", run: checkNewer},
	}
}

func checkInfo(s *suite, t T) {
	a, b := s.p.Info(), s.p.Info()
	if !reflect.DeepEqual(a, b) {
		t.Errorf("Info changed between two calls: %+v, %+v", a, b)
	}
	if s.h.Driver.Kind != "" && a.Kind != s.h.Driver.Kind {
		t.Errorf("kind is %q, the driver's is %q", a.Kind, s.h.Driver.Kind)
	}
	if a.Kind == "" || a.Name == "" || a.Identity.Kind != a.Kind {
		t.Errorf("name %q, kind %q or identity %s is empty or doesn't fit", a.Name, a.Kind, a.Identity)
	}
	if got := s.reopen(t).Info(); got.Identity != a.Identity {
		t.Errorf("another process has the identity %s, this one %s", got.Identity, a.Identity)
	}
	g := a.Guarantees
	legal := func(name string, ok bool, v any) {
		if !ok {
			t.Errorf("guarantee %s has the value %v, which is none", name, v)
		}
	}
	legal("Submit.By", slices.Contains([]sdk.SubmitBy{sdk.SubmitByToken, sdk.SubmitByName, sdk.SubmitBySearch, sdk.SubmitByNothing}, g.Submit.By), g.Submit.By)
	legal("Submit.TokenWindow", (g.Submit.By == sdk.SubmitByToken) == (g.Submit.TokenWindow > 0), g.Submit.TokenWindow)
	legal("Argv", slices.Contains([]sdk.ArgvGuarantee{sdk.ArgvExact, sdk.ArgvSubstituting, sdk.ArgvOneList, sdk.ArgvOneString}, g.Argv), g.Argv)
	legal("ExitCode", slices.Contains([]sdk.ExitCodeGuarantee{sdk.ExitCodeProcess, sdk.ExitCodePlatform, sdk.ExitCodeAbsent}, g.ExitCode), g.ExitCode)
	legal("Logs.Fidelity", slices.Contains([]sdk.LogFidelity{sdk.LogBytes, sdk.LogLines, sdk.LogStructured}, g.Logs.Fidelity), g.Logs.Fidelity)
	legal("Logs.Settle", g.Logs.EndProven || g.Logs.Settle.Quiet > 0 && g.Logs.Settle.Max >= g.Logs.Settle.Quiet, g.Logs.Settle)
	legal("Grace", !g.Grace.Supported || g.Grace.Min <= g.Grace.Default && g.Grace.Default <= g.Grace.Max && g.Grace.Max > 0, g.Grace)
	legal("Deadline", !g.Deadline.Native || g.Deadline.Min <= g.Deadline.Max && g.Deadline.Max > 0, g.Deadline)
	legal("Secrets", slices.Contains([]sdk.SecretDelivery{"", sdk.SecretReference, sdk.SecretSealed, sdk.SecretFile, sdk.SecretProcessEnv, sdk.SecretVisibleEnv}, g.Secrets), g.Secrets)
	for _, m := range g.Stdin {
		legal("Stdin", m == sdk.StdinAttached || m == sdk.StdinSpooled, m)
	}
}

func checkCapabilities(s *suite, t T) {
	if s.h.Driver.Open == nil {
		t.Skipf("the harness has no Driver")
	}
	declared := slices.Sorted(slices.Values(s.h.Driver.Capabilities))
	if can := slices.Sorted(slices.Values(sdk.CapabilityNames(s.p))); !slices.Equal(declared, can) {
		t.Errorf("the driver declares %v, the provider can do %v", declared, can)
	}
}

func checkCheck(s *suite, t T) {
	res, err := s.p.Check(t.Context(), sdk.CheckRequest{})
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	if len(res.Items) == 0 {
		t.Errorf("nothing was looked at")
	}
	for _, it := range res.Items {
		if it.Name == "" || !it.OK && it.Remedy == "" {
			t.Errorf("item %+v has no name, or fails without a remedy", it)
		}
	}
}

func checkConfigUnknown(s *suite, t T) {
	if s.h.Driver.Open == nil {
		t.Skipf("the harness has no Driver")
	}
	const member = "windlass_no_such_member"
	p, err := s.h.Driver.Open(t.Context(), sdk.OpenRequest{Name: "test", Config: json.RawMessage(`{"` + member + `":"1"}`),
		Clock: sdk.SystemClock(), IDs: s.ids, Owner: "test", LedgerID: s.ids.NewID().String(), StateDir: t.TempDir()})
	if err == nil {
		_ = p.Close()
	}
	if !errors.Is(err, sdk.InvalidArgument) || !strings.Contains(fmt.Sprint(err), member) {
		t.Errorf("open with the unknown member %s: got %v, want InvalidArgument that names it", member, err)
	}
}

// samples has a value other than the zero value for each field.
func samples() map[string]func(s *sdk.JobSpec) {
	grace := time.Second
	return map[string]func(s *sdk.JobSpec){
		"name":                 func(s *sdk.JobSpec) { s.Name = "some-name" },
		"image":                func(s *sdk.JobSpec) { s.Image = "busybox:1" },
		"entrypoint":           func(s *sdk.JobSpec) { s.Entrypoint = sdk.Argv{"true"} },
		"args":                 func(s *sdk.JobSpec) { s.Args = sdk.Argv{"true"} },
		"image_entrypoint":     func(s *sdk.JobSpec) { s.ImageEntrypoint = sdk.Argv{"true"} },
		"env":                  func(s *sdk.JobSpec) { s.Env = sdk.Env{"A": "b"} },
		"secrets":              func(s *sdk.JobSpec) { s.Secrets = map[string]sdk.SecretRef{"S": "secret://env/S"} },
		"workdir":              func(s *sdk.JobSpec) { s.Workdir = "/" },
		"user":                 func(s *sdk.JobSpec) { s.User = "1234" },
		"cpu":                  func(s *sdk.JobSpec) { s.CPU = 1000 },
		"memory":               func(s *sdk.JobSpec) { s.Memory = 1 << 30 },
		"gpu":                  func(s *sdk.JobSpec) { s.GPU = 1 },
		"ephemeral_storage":    func(s *sdk.JobSpec) { s.EphemeralStorage = 1 << 30 },
		"pids":                 func(s *sdk.JobSpec) { s.PIDs = 100 },
		"timeout":              func(s *sdk.JobSpec) { s.Timeout = time.Hour },
		"start_timeout":        func(s *sdk.JobSpec) { s.StartTimeout = time.Hour },
		"grace":                func(s *sdk.JobSpec) { s.Grace = &grace },
		"retries":              func(s *sdk.JobSpec) { s.Retries = 1 },
		"labels":               func(s *sdk.JobSpec) { s.Labels = map[string]string{"team": "a"} },
		"network":              func(s *sdk.JobSpec) { s.Network = "some-network" },
		"mounts":               func(s *sdk.JobSpec) { s.Mounts = []sdk.Mount{{Type: sdk.MountTmpfs, Target: "/scratch"}} },
		"files":                func(s *sdk.JobSpec) { s.Files = []sdk.InputFile{{Path: "/tmp/in", Data: []byte("x")}} },
		"stdin":                func(s *sdk.JobSpec) { s.Stdin = sdk.StdinSpooled },
		"profile":              func(s *sdk.JobSpec) { s.Profile = sdk.ProfileStrict },
		"ttl":                  func(s *sdk.JobSpec) { s.TTL = time.Hour },
		"allow_visible_secret": func(s *sdk.JobSpec) { s.AllowVisibleSecret = true },
	}
}

func checkSupport(s *suite, t T) {
	rows := map[string]sdk.FieldSupport{}
	for _, r := range s.h.Driver.Support {
		if _, twice := rows[r.Field]; twice {
			t.Errorf("field %s has two rows", r.Field)
		}
		rows[r.Field] = r
	}
	all, refused := s.spec(t, Do()), []string{}
	for field, set := range samples() {
		row, ok := rows[field]
		delete(rows, field)
		switch {
		case !ok:
			t.Errorf("field %s has no row", field)
		case row.Values == "" && row.Refused == "":
			t.Errorf("field %s: the row says neither what is honoured nor why nothing is", field)
		case row.Values == "":
			spec := s.spec(t, Do())
			set(&spec)
			if !namesField(s.problems(t, spec), field) {
				t.Errorf("field %s: the table refuses it, PrepareJob doesn't", field)
			}
			set(&all)
			refused = append(refused, field)
		}
	}
	slices.Sort(refused)
	together := s.problems(t, all)
	for _, field := range refused {
		if !namesField(together, field) {
			t.Errorf("field %s: PrepareJob refuses it alone, and not beside %s", field, strings.Join(refused, ", "))
		}
	}
	for field := range rows {
		if field != "options" {
			t.Errorf("row %s: JobSpec has no such field", field)
		}
	}
}

// namesField reports whether a problem is about a field or a part of it.
func namesField(ps []sdk.Problem, field string) bool {
	return slices.ContainsFunc(ps, func(p sdk.Problem) bool {
		rest, ok := strings.CutPrefix(p.Field, field)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

func checkPrepareDeterministic(s *suite, t T) {
	r := s.request(s.spec(t, Do(Print("x"))))
	r.Spec.Env = sdk.Env{"A": "1", "B": "2", "C": "3"}
	r.Spec.Labels = map[string]string{"x": "1", "y": "2"}
	var first []byte
	for i := range 5 {
		l := s.prepareAny(t, r)
		b, err := l.Encode()
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		if i == 0 {
			first = b
			s.checkLaunch(t, r, l, b)
		}
		if !bytes.Equal(b, first) {
			t.Fatalf("launch %d differs:\n%s\n%s", i+1, first, b)
		}
	}
}

func (s *suite) checkLaunch(t T, r sdk.PrepareJobRequest, l sdk.Launch, encoded []byte) {
	t.Helper()
	again, err := sdk.DecodeLaunch(encoded)
	if err != nil {
		t.Fatalf("decode the launch: %v", err)
	}
	if b, err := again.Encode(); err != nil || !bytes.Equal(b, encoded) {
		t.Errorf("the launch changed in its encoding (%v):\n%s\n%s", err, encoded, b)
	}
	if l.V != sdk.LaunchVersion || l.Kind != s.info.Kind || l.Identity != s.info.Identity {
		t.Errorf("version %d, kind %q or identity %s is not the provider's", l.V, l.Kind, l.Identity)
	}
	if l.RunID != r.RunID || l.AttemptID != r.AttemptID || l.Attempt != r.Attempt || !l.Expires.Equal(r.Expires) || l.Stdin != r.Spec.Stdin {
		t.Errorf("run, attempt, number, expiry or stdin is not the request's: %s", encoded)
	}
	if l.Owner == "" || l.LedgerID == "" {
		t.Errorf("owner or ledger is empty")
	}
	if l.Resubmit.By != s.g.Submit.By || l.Resubmit.Window != s.g.Submit.TokenWindow {
		t.Errorf("resubmit rule %+v doesn't fit the guarantee %+v", l.Resubmit, s.g.Submit)
	}
	if (l.Token != "") != (s.g.Submit.By == sdk.SubmitByToken) {
		t.Errorf("token %q doesn't fit submit by %s", l.Token, s.g.Submit.By)
	}
	if s.g.Submit.By == sdk.SubmitByName && len(l.Names) == 0 {
		t.Errorf("submit is by name, and the launch names nothing")
	}
}

func checkPrepareNothing(s *suite, t T) {
	key := s.ids.NewID().String()
	l := s.prepare(t, s.spec(t, Do(Mark(key))))
	if left := s.leftovers(t, l); len(left) > 0 {
		t.Errorf("prepare left %s", strings.Join(left, ", "))
	}
	if n := s.h.Marks(t, key); n != 0 {
		t.Errorf("prepare ran the job %d times", n)
	}
}

func checkProblems(s *suite, t T) {
	spec := s.spec(t, Do())
	spec.Memory = -7
	spec.Env = sdk.Env{"BAD=NAME": "x"}
	spec.Stdin = "sideways"
	spec.Retries = 100000
	ps := s.problems(t, spec)
	for field, value := range map[string]string{"memory": "-7", "env": "BAD=NAME", "stdin": "sideways", "retries": "100000"} {
		if !slices.ContainsFunc(ps, func(p sdk.Problem) bool { return p.Field == field && p.Value == value && p.Message != "" }) {
			t.Errorf("no problem with field %s and value %q among: %s", field, value, sdk.JoinProblems(ps))
		}
	}
}

func checkNUL(s *suite, t T) {
	const nul = "a\x00b"
	for field, set := range map[string]func(s *sdk.JobSpec){
		"args":       func(s *sdk.JobSpec) { s.Args = sdk.Argv{"true", nul} },
		"entrypoint": func(s *sdk.JobSpec) { s.Entrypoint = sdk.Argv{"true", nul} },
		"env":        func(s *sdk.JobSpec) { s.Env = sdk.Env{"A": nul} },
		"name":       func(s *sdk.JobSpec) { s.Name = nul },
		"workdir":    func(s *sdk.JobSpec) { s.Workdir = "/" + nul },
		"user":       func(s *sdk.JobSpec) { s.User = nul },
		"labels":     func(s *sdk.JobSpec) { s.Labels = map[string]string{"a": nul} },
	} {
		spec := s.spec(t, Do())
		set(&spec)
		if !namesField(s.problems(t, spec), field) {
			t.Errorf("NUL in %s is not refused", field)
		}
	}
}

func checkOptions(s *suite, t T) {
	spec := s.spec(t, Do())
	member, near := "windlass_no_such_option", ""
	if fs := s.h.Driver.Options.Fields; len(fs) > 0 {
		near = fs[0].Name
		member = near + "x"
	}
	var m map[string]json.RawMessage
	if len(spec.Options) > 0 {
		if err := json.Unmarshal(spec.Options, &m); err != nil {
			t.Fatalf("the harness's options: %v", err)
		}
	}
	if m == nil {
		m = map[string]json.RawMessage{}
	}
	m[member] = json.RawMessage(`"1"`)
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatalf("encode options: %v", err)
	}
	spec.Options = raw
	ps := s.problems(t, spec)
	i := slices.IndexFunc(ps, func(p sdk.Problem) bool {
		return strings.HasPrefix(p.Field, "options") && strings.Contains(p.Field, member)
	})
	if i < 0 {
		t.Fatalf("unknown option %s is not refused: %s", member, sdk.JoinProblems(ps))
	}
	if near != "" && !strings.Contains(ps[i].Message, near) {
		t.Errorf("unknown option %s: the message doesn't name %s: %s", member, near, ps[i].Message)
	}
}

func checkUnset(s *suite, t T) {
	spec := s.spec(t, Do())
	if ps := s.problems(t, spec); len(ps) > 0 {
		t.Errorf("a spec with nothing set is refused: %s", sdk.JoinProblems(ps))
	}
	grace := func(d time.Duration) []sdk.Problem {
		sp := spec
		sp.Grace = &d
		return s.problems(t, sp)
	}
	g := s.g.Grace
	if !g.Supported {
		if !namesField(grace(0), "grace") {
			t.Errorf("grace 0s is set and not refused, though no grace is supported")
		}
		return
	}
	for _, d := range []time.Duration{g.Min, g.Max} {
		if ps := grace(d); namesField(ps, "grace") {
			t.Errorf("grace %s is within %s to %s and refused: %s", d, g.Min, g.Max, sdk.JoinProblems(ps))
		}
	}
	if !namesField(grace(g.Max+time.Second), "grace") {
		t.Errorf("grace %s is beyond %s and not refused", g.Max+time.Second, g.Max)
	}
	if g.Min > 0 && !namesField(grace(g.Min-1), "grace") {
		t.Errorf("grace %s is below %s and not refused", g.Min-1, g.Min)
	}
}

func checkImage(s *suite, t T) {
	if !s.g.NoImage {
		t.Skipf("the backend runs images")
	}
	spec := s.spec(t, Do())
	spec.Image = "busybox:1"
	if !namesField(s.problems(t, spec), "image") {
		t.Errorf("an image is not refused")
	}
}
