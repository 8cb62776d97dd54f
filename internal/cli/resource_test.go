package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// keeping is a world whose resources are those of a fake cloud, through a real engine.
type keeping struct {
	*world
	cloud *fake.Cloud
}

func newKeeping(t *testing.T) *keeping {
	k := &keeping{world: newWorld(t), cloud: fake.NewCloud(fake.Options{})}
	k.file("windlass.yaml", "providers:\n  shelf: {kind: fake}\n")
	return k
}

func (k *keeping) file(name, text string) {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// on replaces the factory's drivers and session.
func (k *keeping) on(f *Factory) {
	d := fake.NewDriver(k.cloud, fake.Settings{})
	f.Drivers = func() []sdk.Driver { return append(testDrivers(), d) }
	f.OpenSession = func(ctx context.Context, r SessionRequest) (*Session, error) {
		p, err := d.Open(ctx, sdk.OpenRequest{Name: "shelf", Owner: "me", LedgerID: r.Store.ID(), StateDir: k.dir})
		if err != nil {
			return nil, err
		}
		logs, err := joblog.Open(filepath.Join(r.StateDir, "logs"), joblog.Options{})
		if err != nil {
			return nil, err
		}
		shelf := one{control.Backend{Name: "shelf", Provider: p, Driver: &d}}
		e, err := control.New(ctx, control.Options{Store: r.Store, Logs: logs, Providers: shelf, StateDir: r.StateDir, Owner: "me", Actor: r.Config.Actor})
		if err != nil {
			return nil, err
		}
		return &Session{Store: r.Store, Engine: e, Providers: shelf, Close: e.Close}, nil
	}
}

// one is the only provider.
type one struct{ b control.Backend }

func (o one) Backend(_ context.Context, name string) (control.Backend, error) {
	if name != o.b.Name {
		return control.Backend{}, sdk.Errorf(sdk.NotFound, "open provider", "no provider %q", name)
	}
	return o.b, nil
}

func (o one) BackendFor(ctx context.Context, r ledger.Run) (control.Backend, error) {
	return o.Backend(ctx, r.Provider)
}

func (o one) Names() []string { return []string{o.b.Name} }

// res runs windlass resource VERB -f r.yaml and wants a code.
func (k *keeping) res(code int, args ...string) string {
	k.t.Helper()
	args = append([]string{"resource", args[0], "-f", "r.yaml"}, args[1:]...)
	if got := k.runIn(k.t.Context(), k.on, args...); got != code {
		k.t.Fatalf("windlass %s: exit %d, want %d\nstdout: %s\nstderr: %s", strings.Join(args, " "), got, code, k.out.String(), k.err.String())
	}
	return k.out.String()
}

func (k *keeping) rows() int {
	k.t.Helper()
	if k.runIn(k.t.Context(), k.on, "ledger", "log", "--json") != 0 {
		return 0 // there is none yet
	}
	return len(decode[[]RunView](k.t, k.out.String()))
}

const shelfFile = `resources:
  - name: first
    type: fake.box
    provider: shelf
    config: {label: a, wood: oak, key: canary-key}
  - name: second
    type: fake.box
    provider: shelf
    config: {items: 2}
    depends_on: [first]
`

// TestResourceCommands walks through all verbs as a user does, with every JSON
// document held against the published schema.
func TestResourceCommands(t *testing.T) {
	k := newKeeping(t)
	k.file("r.yaml", shelfFile)
	all := ""
	see := func(out string) string { all += out + k.err.String(); return out }

	if out := see(k.res(ExitFaults, "diff")); !strings.Contains(out, "fake.box first on shelf: create") {
		t.Errorf("diff: %s", out)
	}
	out := see(k.res(0, "apply", "--dry-run", "--json"))
	validate(t, out)
	if plans := decode[[]ResourcePlanView](t, out); len(plans) != 2 || plans[1].Action != "create" || k.rows() != 0 {
		t.Errorf("dry run: %s, %d rows", out, k.rows())
	}
	if out := see(k.res(0, "apply")); !strings.Contains(out, "fake.box first on shelf: create, box-") || !strings.Contains(out, "second on shelf: create") || k.rows() != 2 {
		t.Errorf("apply: %s, %d rows", out, k.rows())
	}
	if out := see(k.res(0, "diff")); strings.Count(out, ": nothing") != 2 {
		t.Errorf("diff: %s", out)
	}
	if out := see(k.res(0, "read")); !strings.Contains(out, "MADE BY") || strings.Count(out, " me ") != 2 {
		t.Errorf("read: %s", out)
	}
	out = see(k.res(0, "read", "--json"))
	validate(t, out)
	views := decode[[]ResourceView](t, out)
	if len(views) != 2 || !views[0].Found || views[0].Owner != "me" || views[0].Change == "" || !strings.Contains(string(views[0].Outputs), `"label"`) {
		t.Errorf("read: %s", out)
	}
	k.file("r.yaml", strings.Replace(shelfFile, "label: a", "label: b", 1))
	if out := see(k.res(ExitFaults, "diff", "first")); !strings.Contains(out, `label: "a" -> "b"`) || strings.Contains(out, "second") {
		t.Errorf("diff: %s", out)
	}
	out = see(k.res(0, "apply", "--json"))
	validate(t, out)
	if v := decode[[]ResourceChangeView](t, out); v[0].Action != "update" || len(v[0].Rows) != 1 || v[1].Action != "nothing" || len(v[1].Rows) != 0 {
		t.Errorf("apply: %s", out)
	}
	k.file("r.yaml", strings.Replace(shelfFile, "oak", "elm", 1))
	k.res(ExitWindlass, "apply")
	if e := see(k.err.String()); !strings.Contains(e, "another is needed in the place of fake.box first; nothing was changed") || !strings.Contains(e, "resource.replace") || k.rows() != 3 {
		t.Errorf("apply of a replacement: %s, %d rows", e, k.rows())
	}
	if out := see(k.res(0, "apply", "--yes")); !strings.Contains(out, "replace") {
		t.Errorf("apply --yes: %s", out)
	}
	if out := see(k.res(0, "scale", "second=4")); !strings.Contains(out, "second on shelf: scale") {
		t.Errorf("scale: %s", out)
	}
	k.file("r.yaml", strings.Replace(shelfFile, "items: 2", "label: "+fake.SickLabel, 1))
	k.res(0, "apply", "--yes")
	out = see(k.res(ExitFaults, "health", "--json"))
	validate(t, out)
	if v := decode[[]ResourceHealthView](t, out); !v[0].Healthy || v[1].Healthy || v[1].Message == "" {
		t.Errorf("health: %s", out)
	}
	out = see(k.res(0, "troubleshoot", "second", "--message", "it jams", "--json"))
	validate(t, out)
	if v := decode[[]ResourceTroubleView](t, out); len(v) != 1 || len(v[0].Diagnostics) != 1 || v[0].Diagnostics[0].Detail != "it jams" {
		t.Errorf("troubleshoot: %s", out)
	}
	if out := see(k.res(0, "troubleshoot")); !strings.Contains(out, "first on shelf: nothing found") || !strings.Contains(out, "second on shelf: 1 finding") {
		t.Errorf("troubleshoot: %s", out)
	}
	k.res(ExitWindlass, "delete")
	if e := see(k.err.String()); !strings.Contains(e, "2 resources would be deleted, with what is in them\n") || !strings.Contains(e, "--yes") {
		t.Errorf("delete without --yes: %s", e)
	}
	if out := see(k.res(0, "delete", "--dry-run")); !strings.Contains(out, "first") {
		t.Errorf("delete --dry-run: %s", out)
	}
	out = see(k.res(0, "delete", "--yes", "--json"))
	validate(t, out)
	if v := decode[[]ResourceChangeView](t, out); len(v) != 2 || v[0].Name != "second" || v[1].Name != "first" {
		t.Errorf("delete: %s", out)
	}
	if out := see(k.res(ExitFaults, "read")); strings.Count(out, "not there") != 2 {
		t.Errorf("read what is gone: %s", out)
	}
	k.res(ExitFaults, "health")
	if strings.Contains(all, "canary") {
		t.Error("a sensitive value was shown")
	}
	if k.runIn(t.Context(), k.on, "ledger", "log", "--events", "--json") != 0 || strings.Contains(k.out.String(), "canary") {
		t.Error("a sensitive value stands in the ledger")
	}
	if k.runIn(t.Context(), k.on, "ledger", "verify") != 0 {
		t.Errorf("ledger verify: %s%s", k.out.String(), k.err.String())
	}
}

// TestResourceMistakes: what is wrong is told with its place before anything is opened
// or changed.
func TestResourceMistakes(t *testing.T) {
	k := newKeeping(t)
	for text, want := range map[string]string{
		"resources:\n  - {name: a, type: fake.bxo, provider: shelf}\n":                             `r.yaml:2:21: resources[0].type: "fake.bxo" is no type of fake (did you mean "fake.box"?)`,
		"resources:\n  - {name: a, type: fake.box, provider: shelff}\n":                            `r.yaml:2:41: resources[0].provider: no provider is called "shelff" (did you mean "shelf"?)`,
		"resources:\n  - name: a\n    type: fake.box\n    provider: shelf\n    config: {lable: x}": `r.yaml:5:14: resources[0].config.lable: is not known (did you mean "label"?)`,
		"resources:\n  - name: a\n\ttype: x\n":                                                     "r.yaml:3:1:",
	} {
		k.file("r.yaml", text)
		k.res(ExitWindlass, "apply", "--json")
		validate(t, k.out.String())
		var env struct{ Error ErrorBody }
		if err := json.Unmarshal([]byte(k.out.String()), &env); err != nil || env.Error.ID != "resource.file" || !strings.Contains(env.Error.Message, want) {
			t.Errorf("%s\ngave %s, %v; want %s", text, k.out.String(), err, want)
		}
	}
	k.file("r.yaml", shelfFile)
	for _, args := range [][]string{{"read", "tird"}, {"scale", "third=1"}} {
		k.res(ExitWindlass, args...)
		if e := k.err.String(); !strings.Contains(e, "r.yaml has no") || !strings.Contains(e, "first, second") {
			t.Errorf("%v: %s", args, e)
		}
	}
	for _, args := range [][]string{{"scale"}, {"scale", "first"}, {"scale", "first=-1"}, {"scale", "first=x"}, {"scale", "first=1", "first=2"}} {
		k.res(ExitUsage, args...)
	}
	if got := k.runIn(t.Context(), k.on, "resource", "read"); got != ExitUsage || !strings.Contains(k.err.String(), "-f is missing") {
		t.Errorf("without -f: exit %d, %s", got, k.err.String())
	}
	if _, err := os.Stat(k.state); err == nil {
		t.Error("a mistake made a ledger")
	}
}

// TestResourceChecksAllFirst: what is wrong anywhere in the file, or is known to be
// refused, is told all at once with its place, and nothing is done before.
func TestResourceChecksAllFirst(t *testing.T) {
	k := newKeeping(t)
	if err := k.cloud.ForgeResource("theirs"); err != nil {
		t.Fatal(err)
	}
	k.file("r.yaml", "resources:\n"+
		"  - {name: good, type: fake.box, provider: shelf}\n"+
		"  - {name: sized, type: fake.box, provider: shelf, size: large}\n"+
		"  - {name: hinted, type: fake.box, provider: shelf, hints: {cpu: \"2\"}}\n")
	for _, verb := range []string{"diff", "apply"} {
		k.res(ExitWindlass, verb)
		for _, want := range []string{"resources: 2 problems", "r.yaml:3:58: resources[1].size: a box has no size", "r.yaml:4:", "resources[2]", "windlass explain resource.file"} {
			if e := k.err.String(); !strings.Contains(e, want) {
				t.Errorf("%s lacks %q: %s", verb, want, e)
			}
		}
	}
	// A name that was chosen hides nothing of what the whole file is checked for.
	k.file("r.yaml", "resources:\n  - {name: good, type: fake.box, provider: shelf}\n  - {name: bad, type: fake.bix, provider: shelf}\n")
	k.res(ExitWindlass, "apply", "good")
	if e := k.err.String(); !strings.Contains(e, "r.yaml:3:23: resources[1].type") {
		t.Errorf("apply of one: %s", e)
	}
	k.file("r.yaml", "resources:\n"+
		"  - {name: good, type: fake.box, provider: shelf}\n"+
		"  - {name: theirs, type: fake.box, provider: shelf, config: {items: 2}}\n"+
		"  - {name: nowhere, type: fake.place, provider: shelf}\n")
	if out := k.res(ExitFaults, "diff"); !strings.Contains(out, "theirs on shelf: update") || !strings.Contains(out, "apply would refuse it: is there, and wasn't made by windlass resource") ||
		!strings.Contains(out, "nowhere on shelf: create") || !strings.Contains(out, "apply would refuse it: there is no create of fake.place") {
		t.Errorf("diff: %s", out)
	}
	out := k.res(ExitFaults, "diff", "--json")
	validate(t, out)
	if v := decode[[]ResourcePlanView](t, out); len(v) != 3 || len(v[0].Refused) != 0 || len(v[1].Refused) != 1 || len(v[2].Refused) != 1 {
		t.Errorf("diff: %s", out)
	}
	k.res(ExitWindlass, "apply", "--yes")
	for _, want := range []string{"apply resources: 2 problems", "r.yaml:3:12: resources[1].name", "r.yaml:4:", "resources[2].type", "windlass explain resource.refused"} {
		if e := k.err.String(); !strings.Contains(e, want) {
			t.Errorf("apply lacks %q: %s", want, e)
		}
	}
	if n := k.cloud.Calls(fake.OpCreateResource) + k.cloud.Calls(fake.OpUpdateResource); n != 0 || k.rows() != 0 {
		t.Errorf("%d calls, %d rows", n, k.rows())
	}
}

// TestResourceDeleteJudgesAllFirst: where one of a file may not be deleted, none is, and
// all of that is told with its place.
func TestResourceDeleteJudgesAllFirst(t *testing.T) {
	k := newKeeping(t)
	if err := k.cloud.ForgeResource("theirs"); err != nil {
		t.Fatal(err)
	}
	k.file("r.yaml", "resources:\n  - {name: ours, type: fake.box, provider: shelf}\n")
	k.res(0, "apply")
	n := k.rows()
	k.file("r.yaml", "resources:\n  - {name: theirs, type: fake.box, provider: shelf}\n  - {name: home, type: fake.place, provider: shelf}\n"+
		"  - {name: gone, type: fake.box, provider: shelf}\n  - {name: ours, type: fake.box, provider: shelf}\n")
	k.res(ExitWindlass, "delete", "--yes")
	for _, want := range []string{"delete resources: 2 problems", "r.yaml:2:12: resources[0].name: \"theirs\" is there, and wasn't made by windlass resource", "r.yaml:3:24: resources[1].type: there is no delete of fake.place",
		"windlass explain resource.refused"} {
		if e := k.err.String(); !strings.Contains(e, want) {
			t.Errorf("delete lacks %q: %s", want, e)
		}
	}
	if k.cloud.Calls(fake.OpDeleteResource) != 0 || k.rows() != n {
		t.Errorf("%d calls, %d rows, were %d", k.cloud.Calls(fake.OpDeleteResource), k.rows(), n)
	}
	if out := k.res(0, "delete", "--yes", "ours", "gone"); !strings.Contains(out, "ours on shelf: delete") || !strings.Contains(out, "gone on shelf: nothing") {
		t.Errorf("delete of the rest: %s", out)
	}
}

// TestResourceRows: what the ledger has of a resource reads as what it is, no job.
func TestResourceRows(t *testing.T) {
	k := newKeeping(t)
	k.file("r.yaml", "resources:\n  - {name: good, type: fake.box, provider: shelf}\n")
	row := decode[[]ResourceChangeView](t, k.res(0, "apply", "--json"))[0].Rows[0]
	k.cloud.Inject(fake.Fault{Op: fake.OpDeleteResource, Kind: fake.FaultError, Status: 412})
	k.res(ExitWindlass, "delete", "--yes")
	status := func(id string, args ...string) string {
		t.Helper()
		if got := k.runIn(t.Context(), k.on, append([]string{"status", id}, args...)...); got != 0 {
			t.Fatalf("status: exit %d: %s", got, k.err.String())
		}
		return k.out.String()
	}
	text := status(row)
	for _, want := range []string{"It was done.", "resource.create fake.box/good", "windlass ledger log --target fake.box/good", "windlass resource diff -f FILE good"} {
		if !strings.Contains(text, want) {
			t.Errorf("status lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "process") || strings.Contains(text, "code") || strings.Contains(text, "rerun") {
		t.Errorf("status reads like a job's:\n%s", text)
	}
	out := status(row, "--json")
	validate(t, out)
	if v := decode[RunView](t, out); v.Exit != nil || v.ExitCode != nil {
		t.Errorf("it has an exit code: %s", out)
	}
	if got := k.runIn(t.Context(), k.on, "ledger", "log"); got != 0 || !strings.Contains(k.out.String(), "failed (refused)") || strings.Contains(k.out.String(), "RUN") {
		t.Errorf("ledger log: exit %d\n%s", got, k.out.String())
	}
	// Nothing to delete is nothing on record.
	k.res(0, "delete", "--yes")
	n := k.rows()
	if out := k.res(0, "delete", "--yes"); !strings.Contains(out, "good on shelf: nothing") || k.rows() != n {
		t.Errorf("delete of nothing: %s, %d rows, were %d", out, k.rows(), n)
	}
}

// TestResourceFailureStops: the first failure ends it, says what was done before, and
// leaves what follows alone.
func TestResourceFailureStops(t *testing.T) {
	k := newKeeping(t)
	k.file("r.yaml", shelfFile+"  - {name: third, type: fake.box, provider: shelf}\n")
	k.cloud.Inject(fake.Fault{Op: fake.OpCreateResource, Kind: fake.FaultError, Status: 412, Nth: 2})
	k.res(ExitWindlass, "apply")
	if e := k.err.String(); !strings.Contains(e, "1 of 3 were done before the failure") || !strings.Contains(e, "fake.box second") {
		t.Errorf("%s", e)
	}
	if n := k.cloud.Calls(fake.OpCreateResource); n != 2 {
		t.Errorf("%d calls, want that of the first and the refused one", n)
	}
	// A lost call is told as one that proves nothing.
	k.file("r.yaml", "resources:\n  - {name: third, type: fake.box, provider: shelf}\n")
	k.cloud.Inject(fake.Fault{Op: fake.OpCreateResource, Kind: fake.FaultReset})
	k.res(ExitWindlass, "apply", "--json")
	validate(t, k.out.String())
	if !strings.Contains(k.out.String(), "resource.unconfirmed") {
		t.Errorf("%s", k.out.String())
	}
	if n := k.cloud.Calls(fake.OpCreateResource); n != 3 {
		t.Errorf("%d calls", n)
	}
}

// TestResourceInterrupt: Ctrl-C during a change lets that end, tells it, and begins no
// other; it is spoken of once.
func TestResourceInterrupt(t *testing.T) {
	k := newKeeping(t)
	k.file("r.yaml", shelfFile)
	ctx, leave := context.WithCancelCause(t.Context())
	defer leave(nil)
	entered, release := k.cloud.Block(fake.OpCreateResource)
	defer release()
	done := make(chan int, 1)
	go func() { done <- k.runIn(ctx, k.on, "resource", "apply", "-f", "r.yaml") }()
	<-entered
	leave(errInterrupted)
	release()
	if code := <-done; code != ExitInterrupted {
		t.Errorf("exit %d", code)
	}
	if out := k.out.String(); !strings.Contains(out, "first on shelf: create, box-") || strings.Contains(out, "second") {
		t.Errorf("stdout: %s", out)
	}
	said := k.err.String()
	for _, want := range []string{"Ctrl-C again leaves at once", "1 of 2 were done before it was interrupted\n", "windlass: interrupted\n"} {
		if strings.Count(said, want) != 1 {
			t.Errorf("not once %q: %s", want, said)
		}
	}
	if k.rows() != 1 {
		t.Errorf("%d rows", k.rows())
	}
	if views := decode[[]ResourceView](t, k.res(ExitFaults, "read", "--json")); !views[0].Found || views[1].Found {
		t.Errorf("read: %s", k.out.String())
	}
}

// TestResourceInterruptTellsTheRefusal: how the change under way ended is told beside the
// interruption, to people in lines and to programs in the one object.
func TestResourceInterruptTellsTheRefusal(t *testing.T) {
	for _, flag := range []string{"", "--json"} {
		t.Run(flag, func(t *testing.T) {
			k := newKeeping(t)
			k.file("r.yaml", shelfFile)
			ctx, leave := context.WithCancelCause(t.Context())
			defer leave(nil)
			entered, release := k.cloud.Block(fake.OpCreateResource)
			defer release()
			done := make(chan int, 1)
			args := slices.DeleteFunc([]string{"resource", "apply", "-f", "r.yaml", flag}, func(s string) bool { return s == "" })
			go func() { done <- k.runIn(ctx, k.on, args...) }()
			<-entered
			leave(errInterrupted)
			if err := k.cloud.ForgeResource("first"); err != nil {
				t.Fatal(err)
			}
			release()
			if code := <-done; code != ExitInterrupted {
				t.Errorf("exit %d", code)
			}
			if flag == "" {
				if e := k.err.String(); strings.Count(e, "windlass: interrupted\n") != 1 || !strings.Contains(e, "fake.box first: create resource: ") || !strings.Contains(e, "409") {
					t.Errorf("stderr: %s", e)
				}
				return
			}
			validate(t, k.out.String())
			var got Envelope
			if err := json.Unmarshal([]byte(k.out.String()), &got); err != nil || got.Error == nil {
				t.Fatalf("%v: %s", err, k.out.String())
			}
			if b := got.Error; b.ID != idInterrupted || b.Code != "Canceled" || !strings.HasPrefix(b.Message, "interrupted: fake.box first: create resource: ") ||
				!strings.Contains(b.Message, "409") || b.Provider != "shelf" {
				t.Errorf("%+v", b)
			}
		})
	}
}

type writerFunc func(p []byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

// TestResourceWithoutAnAnswer: a provider that lets a command wait is spoken of, once.
func TestResourceWithoutAnAnswer(t *testing.T) {
	k := newKeeping(t)
	k.file("r.yaml", shelfFile)
	_, release := k.cloud.Block(fake.OpReadResource)
	defer release()
	done := make(chan int, 1)
	go func() {
		done <- k.runIn(t.Context(), func(f *Factory) {
			k.on(f)
			f.quietTime = 20 * time.Millisecond
			told := f.Streams.Err
			f.Streams.Err = writerFunc(func(p []byte) (int, error) {
				if strings.Contains(string(p), "hasn't answered yet") {
					release()
				}
				return told.Write(p)
			})
		}, "resource", "read", "-f", "r.yaml")
	}()
	if code := testwait.Receive(t, soon, "end", done); code != ExitFaults {
		t.Errorf("exit %d", code)
	}
	if e := k.err.String(); !strings.Contains(e, "fake.box first: shelf hasn't answered yet; each question to it has 30s (its call_timeout)") {
		t.Errorf("stderr: %s", e)
	}
}
