//go:build unix

package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

func tokenSpec(retries int, words ...string) sdk.JobSpec {
	s := spec(append([]string{"secret", "T", ";"}, words...)...)
	s.Secrets, s.Retries = map[string]sdk.SecretRef{"T": "secret://env/TOKEN"}, retries
	return s
}

// TestOwnSecrets: the same reference means another value to each command, also
// for the attempts that the keeper makes long after.
func TestOwnSecrets(t *testing.T) {
	w := newWorld(t)
	w.serve(func(o *Options) { o.Home = &Origin{Dir: "/", Env: [][]byte{[]byte("TOKEN=of-the-keeper")}} })
	ids := map[string]sdk.ID{}
	for _, who := range []string{"alice", "bob"} {
		e := w.engine("TOKEN=of-" + who)
		id := w.submit(e, tokenSpec(1, "gate", ";", "exit", "1"))
		w.handOver(e, w.client("TOKEN=of-"+who), id)
		ids[who] = id
	}
	// One who has no such variable, and comes last.
	if err := w.client("CRED=newest").Offer(w.ctx()); err != nil {
		t.Fatal(err)
	}
	for who, id := range ids {
		w.expect(w.finished(id), sdk.StateFailed, sdk.ReasonNonzeroExit)
		if got, want := w.output(id), strings.Repeat("secret T "+sum("of-"+who)+"\n", 2); got != want {
			t.Errorf("%s's: %q, want %q", who, got, want)
		}
	}
}

// TestSecretsAreGone: a keeper that was restarted has no values, and takes none
// from whoever comes: the run says so and what to do.
func TestSecretsAreGone(t *testing.T) {
	for name, s := range map[string]sdk.JobSpec{"retry": tokenSpec(1, "gate", ";", "exit", "1")} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			first := w.serve(func(o *Options) { o.Home = &Origin{Dir: "/", Env: [][]byte{[]byte("TOKEN=of-the-keeper")}} })
			e := w.engine("TOKEN=right")
			id := w.submit(e, s)
			w.handOver(e, w.client("TOKEN=right"), id)
			if err := first.end(t); err != nil {
				t.Fatal(err)
			}
			w.serve(func(o *Options) { o.Home = &Origin{Dir: "/", Env: [][]byte{[]byte("TOKEN=of-the-keeper")}} })
			if err := w.client("TOKEN=wrong").Offer(w.ctx()); err != nil {
				t.Fatal(err)
			}
			r := w.finished(id)
			w.expect(r, sdk.StateFailed, sdk.ReasonCredentials)
			for _, part := range []string{"secret://env/TOKEN", "the value isn't here any more", "windlass rerun"} {
				if !strings.Contains(r.Message, part) {
					t.Errorf("%q doesn't say %q", r.Message, part)
				}
			}
			if got := w.output(id); got != "secret T "+sum("right")+"\n" {
				t.Errorf("output %q", got)
			}
			w.sound(id)
		})
	}
}

// TestRenewal: credentials that expire make runs unknown, and any command with
// the same provider identity renews them for the runs that are being driven.
func TestRenewal(t *testing.T) {
	for name, fresh := range map[string][]string{
		"same name":  {"CRED=new"},
		"other name": {"CRED=new", "NAMES=other,fake7"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.serve()
			e, c := w.engine("CRED=old"), w.client("CRED=old")
			id := w.submit(e, spec("lines", "50", ";", "gate", ";", "lines", "50", ";", "exit", "6"))
			w.running(id)
			w.handOver(e, c, id)
			w.refuse("old", true)
			r := w.until(id, "refusal shown", func(r ledger.Run) bool { return r.State == sdk.StateUnknown || r.State.Terminal() })
			w.expect(r, sdk.StateUnknown, sdk.ReasonCredentials)
			if !strings.Contains(r.Message, "the credentials old have expired") {
				t.Errorf("message %q", r.Message)
			}
			// One of another account, and one whose are expired too, help nobody.
			for _, vars := range [][]string{{"CRED=elsewhere", "NAMES=other"}, {"CRED=old", "X=1"}} {
				if err := w.client(vars...).Renew(w.ctx()); err != nil {
					t.Fatal(err)
				}
			}
			if r := w.run(id); r.State != sdk.StateUnknown {
				t.Errorf("state %s", r.State)
			}
			if err := w.client(fresh...).Renew(w.ctx()); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			r = w.finished(id)
			if d := time.Since(start); d > time.Minute {
				t.Errorf("the new credentials were used after %s", d)
			}
			w.expect(r, sdk.StateFailed, sdk.ReasonNonzeroExit)
			if got, want := w.output(id), strings.Repeat(numbered(50), 2); got != want {
				t.Errorf("output of %d bytes, want %d", len(got), len(want))
			}
			w.sound(id)
		})
	}
}

// TestRefreshedByTheSameCommand: what a vendor's chain finds may be new though
// the command's variables are the same.
func TestRefreshedByTheSameCommand(t *testing.T) {
	w := newWorld(t)
	w.serve()
	e, c := w.engine("CRED=chain"), w.client("CRED=chain")
	id := w.submit(e, spec("gate"))
	w.handOver(e, c, id)
	w.refuse("chain", true)
	w.until(id, "refusal shown", func(r ledger.Run) bool { return r.State == sdk.StateUnknown })
	w.refuse("chain", false)
	before := w.openNow()
	if err := c.Offer(w.ctx()); err != nil {
		t.Fatal(err)
	}
	w.expect(w.finished(id), sdk.StateSucceeded, sdk.ReasonCompleted)
	testwait.Until(t, patience, "end of the old ones", func() bool { return w.openNow() <= before })
}

// TestSubmitsWithItsOwn: what a run's own credentials may not do is not done
// with another's, unless they have expired.
func TestSubmitsWithItsOwn(t *testing.T) {
	w := newWorld(t)
	p := newPool(w.open, slog.New(slog.DiscardHandler))
	defer func() { _ = p.close(w.ctx()) }()
	run := ledger.Run{ID: sdk.ID{15: 9}, Provider: "fake", Identity: w.identity("fake")}
	if _, err := p.offer(w.ctx(), w.origin("CRED=mine", "TOKEN=mine"), false, run.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := p.offer(w.ctx(), w.origin("CRED=theirs", "TOKEN=theirs"), false); err != nil {
		t.Fatal(err)
	}
	back, err := p.BackendFor(w.ctx(), run)
	if err != nil {
		t.Fatal(err)
	}
	st := back.Provider.(*stable)
	var used []string
	call := func(fail map[string]error) (string, error) {
		used = nil
		return launch(w.ctx(), st, run.ID, func(ctx context.Context, _ sdk.JobRunner, from *surroundings) (string, error) {
			cred := strings.TrimPrefix(string(from.origin.Env[0]), "CRED=")
			used = append(used, cred)
			if err := fail[cred]; err != nil {
				return "", err
			}
			v, err := secret.NewResolver(secret.Elsewhere(), nil).ResolveSecret(ctx, "secret://env/TOKEN")
			return string(v.Reveal()), err
		})
	}
	if v, err := call(nil); v != "mine" || err != nil || len(used) != 1 || used[0] != "mine" {
		t.Errorf("resolved %q with %q, %v", v, used, err)
	}
	denied := sdk.Errorf(sdk.PermissionDenied, "run job", "not yours")
	if _, err := call(map[string]error{"mine": denied}); sdk.CodeOf(err) != sdk.PermissionDenied || len(used) != 1 {
		t.Errorf("denied, and then tried %q: %v", used, err)
	}
	expired := sdk.Errorf(sdk.Unauthenticated, "run job", "expired")
	if v, err := call(map[string]error{"mine": expired}); v != "mine" || err != nil || len(used) == 0 || used[len(used)-1] != "theirs" {
		t.Errorf("expired: resolved %q with %q, %v", v, used, err)
	}
	// A run whose command isn't known any more resolves nothing.
	run.ID = sdk.ID{15: 10}
	if v, err := call(nil); err == nil {
		t.Errorf("a stranger's run got %q", v)
	}
}

// TestDeniedCapability: what one command's credentials may not do, such as
// reading logs, another's may, while all else stays with the first.
func TestDeniedCapability(t *testing.T) {
	w := newWorld(t)
	p := newPool(w.open, slog.New(slog.DiscardHandler))
	defer func() { _ = p.close(w.ctx()) }()
	run := ledger.Run{ID: sdk.ID{15: 9}, Provider: "fake", Identity: w.identity("fake")}
	for _, cred := range []string{"able", "first"} {
		if _, err := p.offer(w.ctx(), w.origin("CRED="+cred), false); err != nil {
			t.Fatal(err)
		}
	}
	back, err := p.BackendFor(w.ctx(), run)
	if err != nil {
		t.Fatal(err)
	}
	st := back.Provider.(*stable)
	use := func(c sdk.Capability[sdk.JobCleaner], denied string, code sdk.Code) (used []string, err error) {
		for {
			src, err := st.pick(w.ctx(), c.String(), sdk.ID{}, sdk.ID{}, nil)
			if err != nil {
				return used, err
			}
			cred := strings.TrimPrefix(string(src.from.origin.Env[0]), "CRED=")
			used = append(used, cred)
			src.release()
			if cred != denied {
				st.judge(src, c.String(), nil)
				return used, nil
			}
			if !st.judge(src, c.String(), sdk.Errorf(code, "clean", "no")) || len(used) > 3 {
				return used, nil
			}
		}
	}
	if used, err := use(sdk.Cleaner(), "first", sdk.PermissionDenied); err != nil || strings.Join(used, " ") != "first able" {
		t.Errorf("used %q, %v", used, err)
	}
	// The next clean-up doesn't try it again, and other calls stay with it.
	if used, err := use(sdk.Cleaner(), "first", sdk.PermissionDenied); err != nil || strings.Join(used, " ") != "able" {
		t.Errorf("used %q, %v", used, err)
	}
	src, err := st.pick(w.ctx(), "JobLogger", sdk.ID{}, sdk.ID{}, nil)
	if err != nil || string(src.from.origin.Env[0]) != "CRED=first" {
		t.Errorf("other calls moved: %v", err)
	}
	src.release()
	// Expired ones serve nothing any more.
	st.judge(src, "JobLogger", sdk.Errorf(sdk.Unauthenticated, "logs", "expired"))
	if src, err = st.pick(w.ctx(), "JobBatcher", sdk.ID{}, sdk.ID{}, nil); err != nil || string(src.from.origin.Env[0]) != "CRED=able" {
		t.Errorf("expired ones are still used: %v", err)
	}
	src.release()
	if !p.refusals() {
		t.Error("no refusals are known")
	}
}

// outdating is surroundings whose plugin may have another program now.
type outdating struct {
	Opened
	since *atomic.Bool
}

func (o outdating) Outdated() []string {
	if o.since.Load() {
		return []string{"fake"}
	}
	return nil
}

// TestUpgradedPluginIsTakenUp: surroundings whose plugin has another program now are opened
// again at the next use, but not while a run is driven on it; those of other kinds keep
// nothing.
func TestUpgradedPluginIsTakenUp(t *testing.T) {
	w := newWorld(t)
	var changed []*atomic.Bool
	p := newPool(func(ctx context.Context, o Origin) (Opened, error) {
		opened, err := w.open(ctx, o)
		changed = append(changed, &atomic.Bool{})
		return outdating{opened, changed[len(changed)-1]}, err
	}, slog.New(slog.DiscardHandler))
	defer func() { _ = p.close(w.ctx()) }()
	var held atomic.Bool
	p.holds = func(id sdk.ID) bool { return held.Load() && id == sdk.ID{15: 9} }
	offer := func(wantNews bool, wantOpen int) {
		t.Helper()
		news, err := p.offer(w.ctx(), w.origin("CRED=mine"), false, sdk.ID{15: 9})
		if err != nil || news != wantNews {
			t.Errorf("news %v, %v", news, err)
		}
		testwait.Until(t, patience, "what is open", func() bool { return w.openNow() == wantOpen })
	}
	run := ledger.Run{ID: sdk.ID{15: 9}, Provider: "fake", Identity: w.identity("fake")}
	serving := func() *surroundings {
		t.Helper()
		b, err := p.BackendFor(w.ctx(), run)
		if err != nil {
			t.Fatal(err)
		}
		src, err := b.Provider.(*stable).pick(w.ctx(), "", sdk.ID{}, sdk.ID{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		src.release()
		return src.from
	}
	offer(true, 1)
	first := serving()
	offer(false, 1)
	held.Store(true)
	changed[0].Store(true)
	offer(false, 1)
	if serving() != first {
		t.Error("the provider of a run that is driven has moved")
	}
	held.Store(false)
	offer(true, 1)
	if len(changed) != 2 || serving() == first {
		t.Errorf("opened %d times, still the first", len(changed))
	}
	// Nobody has to come for it.
	changed[1].Store(true)
	if !p.renew(w.ctx()) || p.renew(w.ctx()) {
		t.Error("it isn't opened again once")
	}
	serving()
	offer(false, 1)
	// A run of another kind keeps nothing.
	held.Store(true)
	p.used[run.ID].id.Kind = "docker"
	changed[2].Store(true)
	if !p.renew(w.ctx()) {
		t.Error("a run of another kind keeps it")
	}
}

func (w *world) identity(account string) sdk.Identity {
	w.t.Helper()
	o, err := w.open(w.ctx(), w.origin())
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = o.Close() }()
	b, err := o.Backend(w.ctx(), account)
	if err != nil {
		w.t.Fatal(err)
	}
	return b.Info().Identity
}

// TestProviderThatCanNotBeOpened: its runs are shown as unknown, with the
// reason, and driven on once a command comes whose surroundings are good. Nobody
// fills the ledger meanwhile.
func TestProviderThatCanNotBeOpened(t *testing.T) {
	for name, vars := range map[string][]string{
		"bad config":  {"FAULT=provider"},
		"no provider": {"NAMES=other"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			e := w.engine()
			id := w.submit(e, spec("lines", "20", ";", "gate", ";", "lines", "20", ";", "exit", "5"))
			w.running(id)
			if err := e.Close(w.ctx()); err != nil {
				t.Fatal(err)
			}
			k := w.serve(idle(time.Minute))
			if err := w.client(vars...).Offer(w.ctx()); err != nil {
				t.Fatal(err)
			}
			r := w.until(id, "run that nobody drives", func(r ledger.Run) bool { return r.State == sdk.StateUnknown || r.State.Terminal() })
			w.expect(r, sdk.StateUnknown, sdk.ReasonCredentials)
			want := map[string]string{"bad config": "config.host is not known", "no provider": `no provider is called "fake"`}[name]
			if !strings.Contains(r.Message, want) || !strings.Contains(r.Message, "nobody drives it") {
				t.Errorf("message %q", r.Message)
			}
			events := w.run(id).Events
			for range 5 { // each look finds the same
				if err := w.client(append(vars, fmt.Sprint("N=", time.Now()))...).Offer(w.ctx()); err != nil {
					t.Fatal(err)
				}
			}
			testwait.Until(t, patience, "released run", func() bool { return w.run(id).Holder.IsZero() })
			if n := w.run(id).Events; n != events {
				t.Errorf("%d more events", n-events)
			}
			if k.over() {
				t.Fatal("the keeper is gone")
			}
			if err := w.client().Offer(w.ctx()); err != nil {
				t.Fatal(err)
			}
			w.expect(w.finished(id), sdk.StateFailed, sdk.ReasonNonzeroExit)
			if got := w.output(id); got != strings.Repeat(numbered(20), 2) {
				t.Errorf("output %q", got)
			}
			w.sound(id)
		})
	}
}

// TestBrokenConfigIsRefused: a command whose configuration the keeper can't read
// is told so, and keeps its run.
func TestBrokenConfigIsRefused(t *testing.T) {
	w := newWorld(t)
	w.serve()
	e, c := w.engine(), w.client("FAULT=config")
	id := w.submit(e, spec("gate"))
	err := c.Take(w.ctx(), id)
	if sdk.CodeOf(err) != sdk.InvalidArgument || !strings.Contains(err.Error(), "windlass.yaml:3:1") {
		t.Errorf("got %v", err)
	}
	w.expect(w.finished(id), sdk.StateSucceeded, sdk.ReasonCompleted)
	if r := w.run(id); r.Holder != e.HolderID() {
		t.Errorf("held by %s", r.Holder)
	}
}

// TestBrokenProviderHoldsUpNone: runs of one that hangs wait for it alone, whether it
// is handed over before or after the one that works.
func TestBrokenProviderHoldsUpNone(t *testing.T) {
	for _, order := range []string{"hangs first", "hangs last"} {
		t.Run(order, func(t *testing.T) { brokenProvider(t, order == "hangs last") })
	}
}

func brokenProvider(t *testing.T, last bool) {
	w := newWorld(t)
	e := w.engine("NAMES=fake,slow")
	stuck := w.submitOn(e, "slow", spec("hang"))
	id := w.submit(e, spec("gate"))
	w.running(stuck)
	if err := e.Close(w.ctx()); err != nil {
		t.Fatal(err)
	}
	w.serve()
	offers := [][]string{{"NAMES=slow", "FAULT=provider-hangs"}, {"NAMES=fake"}}
	if last {
		slices.Reverse(offers)
	}
	for _, o := range offers {
		if err := w.client(o...).Offer(w.ctx()); err != nil {
			t.Fatal(err)
		}
	}
	w.expect(w.finished(id), sdk.StateSucceeded, sdk.ReasonCompleted)
	if r := w.run(stuck); r.State.Terminal() {
		t.Errorf("the other is %s", r.State)
	}
}

// TestPoolForgets: surroundings that no run needs are closed, but for a few; a
// changed configuration is another's surroundings.
func TestPoolForgets(t *testing.T) {
	w := newWorld(t)
	p := newPool(w.open, slog.New(slog.DiscardHandler))
	run := ledger.Run{ID: sdk.ID{15: 1}, Provider: "fake", Identity: w.identity("fake")}
	base := w.openNow()
	if _, err := p.offer(w.ctx(), w.origin("CRED=bound"), false, run.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := p.BackendFor(w.ctx(), run); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		o := w.origin("CRED=idle")
		o.Stamp = fmt.Sprint(i)
		news, err := p.offer(w.ctx(), o, false)
		if !news || err != nil {
			t.Fatal(news, err)
		}
		if news, err = p.offer(w.ctx(), o, false); news || err != nil {
			t.Errorf("opened twice: %v", err)
		}
	}
	if n := w.openNow() - base; n != 21 {
		t.Errorf("%d are open", n)
	}
	open := true
	settle := func(want int) {
		t.Helper()
		p.prune(nil, func(sdk.ID) bool { return open })
		testwait.Until(t, patience, "pruned pool", func() bool { return w.openNow()-base == want })
	}
	settle(1 + spareSurroundings)
	if known := p.known(); len(known) != 1+spareSurroundings || len(known[0].Runs) != 1 || known[0].Runs[0] != run.ID {
		t.Errorf("known: %v", known)
	}
	open = false
	settle(spareSurroundings)
	if err := p.close(w.ctx()); err != nil || w.openNow() != base {
		t.Errorf("%d stay open, %v", w.openNow()-base, err)
	}
	if _, err := p.offer(w.ctx(), w.origin(), false); sdk.CodeOf(err) != sdk.Unavailable {
		t.Errorf("offered to one that is closed: %v", err)
	}
	if _, err := p.BackendFor(w.ctx(), run); err == nil {
		t.Error("opened in one that is closed")
	}
}

// TestStableHasWhatTheDriverHas: it implements every capability that there is,
// and claims those of its driver alone.
func TestStableHasWhatTheDriverHas(t *testing.T) {
	w := newWorld(t)
	p := newPool(w.open, slog.New(slog.DiscardHandler))
	defer func() { _ = p.close(w.ctx()) }()
	st := p.stable(ledger.Run{Provider: "fake", Identity: w.identity("fake")})
	for _, row := range sdk.Capabilities() {
		if !reflect.TypeOf(st).Implements(row.Type()) {
			t.Errorf("the wrapper lacks %s", row.Name)
		}
		if sdk.Has(st, row.Name) {
			t.Errorf("it has %s before anything is open", row.Name)
		}
	}
	if _, err := p.offer(w.ctx(), w.origin(), false); err != nil {
		t.Fatal(err)
	}
	if _, err := p.BackendFor(w.ctx(), ledger.Run{Provider: "fake", Identity: st.id}); err != nil {
		t.Fatal(err)
	}
	for _, row := range sdk.Capabilities() {
		if !sdk.Has(st, row.Name) {
			t.Errorf("it hides %s", row.Name)
		}
	}
	st.can["JobBatcher"] = false
	if sdk.Has(st, "JobBatcher") {
		t.Error("it claims what its driver lacks")
	}
	if in := st.Info(); in.Identity != st.id || in.Name != "fake" || in.Kind != "fake" || in.Guarantees.Secrets == "" {
		t.Errorf("info %+v", in)
	}
}

// TestSurroundingsStayInMemory looks for what commands handed over in every file
// of the state folder, while runs go on and after the end.
func TestSurroundingsStayInMemory(t *testing.T) {
	w := newWorld(t)
	vars := []string{"TOKEN=canary-token-0123456789", "CRED=canary-credential-0123456789", "OTHER=canary-other-0123456789"}
	c := w.client(vars...)
	w.spawned(c)
	e := w.engine(vars...)
	s := tokenSpec(1, "gate", ";", "exit", "1")
	id := w.submit(e, s)
	w.handOver(e, c, id)
	w.running(id)
	w.refuse("canary-credential-0123456789", true)
	w.until(id, "refusal shown", func(r ledger.Run) bool { return r.State == sdk.StateUnknown || r.State.Terminal() })
	w.noCanary("canary-token", "canary-other")
	w.refuse("canary-credential-0123456789", false)
	if err := c.Offer(w.ctx()); err != nil {
		t.Fatal(err)
	}
	w.finished(id)
	w.noCanary("canary-token", "canary-other")
	if s := fmt.Sprintf("%v %+v %#v %s %q", c.Origin, c.Origin, c.Origin, c.Origin, Bound{Origin: c.Origin}); strings.Contains(s, "canary") {
		t.Errorf("an origin prints its environment: %s", s)
	}
}

// TestF84RefusalIsLogged: what a backend says of credentials that it refuses is
// logged without them, and without anything else of the surroundings.
func TestF84RefusalIsLogged(t *testing.T) {
	w := newWorld(t)
	w.serve()
	const cred, token, other = "canary-credential-0123456789", "canary-token-0123456789", "canary-other-0123456789"
	vars := []string{"TOKEN=" + token, "CRED=" + cred, "OTHER=" + other}
	e, c := w.engine(vars...), w.client(vars...)
	id := w.submit(e, tokenSpec(0, "hang"))
	w.running(id)
	w.handOver(e, c, id)
	w.refuse(cred, true)
	w.until(id, "refusal shown", func(r ledger.Run) bool { return r.State == sdk.StateUnknown })
	testwait.Until(t, patience, "line of the refusal", func() bool { return strings.Contains(w.lines.String(), "credentials refused") })
	for _, canary := range []string{cred, token, other} {
		for _, f := range forms(canary) {
			if strings.Contains(w.lines.String(), f) {
				t.Errorf("the log holds %q as %q:\n%s", canary, f, w.lines)
			}
		}
	}
	w.refuse(cred, false)
	if err := c.Renew(w.ctx()); err != nil {
		t.Fatal(err)
	}
	if err := e.Cancel(w.ctx(), control.CancelRequest{Run: id, Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	w.finished(id)
}

// TestF84LeakyDriver: an error that holds a secret's value is recorded, logged
// and answered without it.
func TestF84LeakyDriver(t *testing.T) {
	w := newWorld(t)
	w.serve()
	const canary = "canary-leak-91c7d05e2f"
	vars := []string{"TOKEN=" + canary}
	e := w.engine(vars...)
	s := tokenSpec(1, "gate", ";", "exit", "1")
	id := w.submit(e, s)
	w.handOver(e, w.client(append(vars, "FAULT=leak")...), id)
	r := w.finished(id)
	w.expect(r, sdk.StateFailed, sdk.ReasonInvalidSpec)
	if !strings.Contains(r.Message, "bad header "+sdk.Redacted) || strings.Contains(r.Message, "canary") {
		t.Errorf("message %q", r.Message)
	}
	w.noCanary(canary)
	for _, f := range forms(canary) {
		if strings.Contains(w.lines.String(), f) {
			t.Errorf("the log holds it as %q:\n%s", f, w.lines)
		}
	}
}

// noCanary looks through every file of the state folder, and its name.
func (w *world) noCanary(canaries ...string) {
	w.t.Helper()
	err := filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a temporary file that is in place by now
		}
		if err != nil || strings.HasPrefix(path, w.backends.dir) {
			return err // the backends' own folder stands for another machine
		}
		var b []byte
		if d.Type().IsRegular() {
			if b, err = os.ReadFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		for _, c := range canaries {
			for _, f := range forms(c) {
				if strings.Contains(string(b), f) || strings.Contains(path, f) {
					w.t.Errorf("%s holds %q as %q", path, c, f)
				}
			}
		}
		return nil
	})
	if err != nil {
		w.t.Error(err)
	}
}
