package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// TestHelpAndVersion: what people type first works, with and without dashes.
func TestHelpAndVersion(t *testing.T) {
	w := newWorld(t)
	for _, args := range [][]string{{"help"}, {"--help"}} {
		if out := w.ok(args...); !strings.Contains(out, "Jobs:") || strings.Contains(out, "Additional Commands") {
			t.Errorf("%v: %s", args, out)
		}
	}
	if a, b := w.ok("help", "ledger", "verify"), w.ok("ledger", "verify", "--help"); a != b || !strings.Contains(a, "windlass ledger verify") {
		t.Errorf("help:\n%s\n--help:\n%s", a, b)
	}
	for _, args := range [][]string{{"help", "rnu"}, {"rnu"}, {"rnu", "--json"}, {"help", "ledger", "foo"}} {
		if text := w.fails(ExitUsage, args...); !strings.Contains(text, "unknown command") {
			t.Errorf("%v: %s", args, text)
		}
	}
	want := w.ok("version")
	for _, flag := range []string{"--version", "-v"} {
		if out := w.ok(flag); out != want {
			t.Errorf("%s: %s", flag, out)
		}
	}
}

// TestSecretThatIsNotHere: a secret of this machine that isn't there is told of
// before there is a run.
func TestSecretThatIsNotHere(t *testing.T) {
	w := newWorld(t)
	w.engine.script = endsWith(sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
	w.env["EMPTY"] = ""
	for ref, want := range map[string]string{
		"secret://env/NOPE":   "secrets.T: the variable NOPE isn't set",
		"secret://env/EMPTY":  "secrets.T: ",
		"secret://file/nope":  "nope doesn't exist",
		"secret://file/nope/": "secrets.T: ",
	} {
		text := w.fails(ExitWindlass, "run", "--secret", "T="+ref, "--", "true")
		if !strings.Contains(text, want) || !strings.Contains(text, "to do: ") || !strings.Contains(text, "windlass explain secret.") {
			t.Errorf("%s: %s", ref, text)
		}
	}
	if len(w.engine.submitted) != 0 {
		t.Errorf("%d runs were made", len(w.engine.submitted))
	}
	if err := os.WriteFile(filepath.Join(w.dir, "key"), []byte("k"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.engine.logEnd = true
	w.ok("run", "--secret", "T=secret://file/key", "--", "true")
	// What it would do may be asked where the secret isn't.
	w.run("run", "--dry-run", "--secret", "T=secret://env/NOPE", "--", "true")
	if text := w.err.String(); strings.Contains(text, "isn't set") {
		t.Errorf("dry run: %s", text)
	}
}

// TestStatusOfRemovedOutput: what rm took isn't offered.
func TestStatusOfRemovedOutput(t *testing.T) {
	w, _ := seeded(t)
	if out := w.ok("status", "good"); strings.Contains(out, "removed") || !strings.Contains(out, "windlass logs ") {
		t.Errorf("%s", out)
	}
	w.engine.logErr = fmt.Errorf("read: %w", &sdk.Error{Code: sdk.NotFound, ID: joblog.ErrIDExpired, Op: "read log"})
	if out := w.ok("status", "good"); !strings.Contains(out, "Output     removed") || strings.Contains(out, "windlass logs ") {
		t.Errorf("%s", out)
	}
	out := w.ok("status", "--json", "good")
	validate(t, out)
	if !strings.Contains(out, `"output_removed": true`) {
		t.Errorf("%s", out)
	}
}

// TestOutcomeWords: the cause comes first and once.
func TestOutcomeWords(t *testing.T) {
	for want, r := range map[string]ledger.Run{
		": no such image": {Provider: "d", State: sdk.StateFailed, Reason: sdk.ReasonImagePull,
			Message: "run job: provider d: fetch the image: Error response from daemon: no such image"},
		": bind source path does not exist: /x": {Provider: "d", State: sdk.StateFailed, Reason: sdk.ReasonInvalidSpec,
			Message: "run job: provider d: Error response from daemon: bind source path does not exist: /x"},
		`: exec: "x": not found`: {State: sdk.StateFailed, Reason: sdk.ReasonInvalidSpec,
			Message: `failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "x": not found: unknown`},
		": the image could not be fetched: wrong name, missing rights or unreachable registry": {State: sdk.StateFailed, Reason: sdk.ReasonImagePull},
		": the execution time-out passed and the job was ended for it: ended by SIGTERM":       {State: sdk.StateFailed, Reason: sdk.ReasonTimedOut, Message: "ended by SIGTERM"},
	} {
		if got := outcomeWords(r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestRefusedAsTyped: values are shown as the flags take them.
func TestRefusedAsTyped(t *testing.T) {
	for want, p := range map[string]sdk.Problem{
		"0.5":    {Field: "cpu", Value: "500"},
		"1000":   {Field: "cpu", Value: "1000000"},
		"1g":     {Field: "memory", Value: "1073741824"},
		"1k":     {Field: "memory", Value: "1024"},
		"1500":   {Field: "memory", Value: "1500"},
		"1536m":  {Field: "memory", Value: "1610612736"},
		"2048":   {Field: "pids", Value: "2048"},
		"a lot":  {Field: "cpu", Value: "a lot"},
		"0":      {Field: "memory", Value: "0"},
		"0.0001": {Field: "cpu", Value: "0.0001"},
	} {
		if got := asTyped(p).Value; got != want {
			t.Errorf("%+v: got %q, want %q", p, got, want)
		}
	}
}

// TestGraceIsTold: whoever waits for a cancel is told how long the job may take to end,
// whichever the kind, by run and by cancel.
func TestGraceIsTold(t *testing.T) {
	w := newWorld(t)
	w.start(nil)
	open := func(context.Context, sdk.OpenRequest) (sdk.Provider, error) { return nil, errors.New("not here") }
	set := sdk.GraceGuarantee{Supported: true, Max: time.Hour, Default: 10 * time.Second}
	again := set
	again.Again = true
	w.f.Drivers = func() []sdk.Driver {
		return []sdk.Driver{{Kind: "docker", Open: open, Guarantees: sdk.Guarantees{Grace: set}},
			{Kind: "local", Open: open, Guarantees: sdk.Guarantees{Grace: sdk.GraceGuarantee{Default: 30 * time.Second}}},
			{Kind: "third", Open: open}, {Kind: "fourth", Open: open, Guarantees: sdk.Guarantees{Grace: again}}}
	}
	if err := os.WriteFile(filepath.Join(w.dir, "windlass.yaml"), []byte("providers:\n  mute: {kind: third}\n  twice: {kind: fourth}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own, err := sdk.JobSpec{Grace: new(7 * time.Second)}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		run  ledger.Run
		want string
	}{
		{ledger.Run{Provider: "docker"}, ", which takes up to 10s if it doesn't end when asked"},
		{ledger.Run{Provider: "docker", Spec: own}, ", which takes up to 7s if it doesn't end when asked"},
		{ledger.Run{Provider: "local"}, ", which takes up to 30s if it doesn't end when asked"},
		{ledger.Run{Provider: "twice"}, ", which takes up to 20s if it doesn't end when asked"},
		{ledger.Run{Provider: "twice", Spec: own}, ", which takes up to 14s if it doesn't end when asked"},
		{ledger.Run{Provider: "mute"}, ", which takes as long as mute gives a job that doesn't end when asked"},
		{ledger.Run{Provider: "nowhere"}, ""},
	} {
		if got := w.f.graceWords(c.run); got != c.want {
			t.Errorf("%s: %q, want %q", c.run.Provider, got, c.want)
		}
	}
}

// TestOwnLineOnTerminals: on a terminal what Windlass says begins a new line
// where the job's last one has no end. In a pipe nothing is added.
func TestOwnLineOnTerminals(t *testing.T) {
	for terminal, want := range map[bool]string{true: "abc\nwindlass: run ", false: "abcwindlass: run "} {
		w := newWorld(t)
		w.engine.script = func(s *scripted, id sdk.ID) {
			s.start(id)
			s.say(sdk.StreamStderr, "abc")
			s.finish(id, sdk.StateFailed, sdk.ReasonTimedOut, ledger.Change{})
		}
		if code := w.runIn(t.Context(), func(f *Factory) { f.Streams.ErrTerminal, f.Streams.NoColor = terminal, true }, "run", "--", "x"); code != ExitTimedOut {
			t.Errorf("exit %d", code)
		}
		if text := w.err.String(); !strings.Contains(text, want) {
			t.Errorf("terminal %t: %q lacks %q", terminal, text, want)
		}
	}
}

// TestPsListsRunsAlone: other actions are in the ledger's log.
func TestPsListsRunsAlone(t *testing.T) {
	w, ids := seeded(t)
	w.seed(func(s *scripted) {
		s.write(s.id(), ledger.NewEvent{Kind: ledger.KindRequested, Actor: "tester@here", Change: ledger.Change{V: 1, Requested: &ledger.Requested{
			Actor: "tester@here", Action: "cancel", Target: ids["good"].String(), Provider: "local", Identity: sdk.Identity{Kind: "local", Endpoint: "here"}}}})
	})
	for _, args := range [][]string{{"ps", "-a"}, {"ps", "-n", "9"}, {"ps"}} {
		if out := w.ok(args...); strings.Contains(out, ids["good"].String()) {
			t.Errorf("%v: %s", args, out)
		}
	}
	if out := w.ok("ps", "-q", "-n", "1"); out != ids["doubt"].String()+"\n" {
		t.Errorf("the newest run: %s", out)
	}
	if out := w.ok("ledger", "log"); !strings.Contains(out, "cancel") {
		t.Errorf("%s", out)
	}
	if out := w.ok(); !strings.Contains(out, "2 open; the last: "+ids["doubt"].Short()) {
		t.Errorf("%s", out)
	}
}
