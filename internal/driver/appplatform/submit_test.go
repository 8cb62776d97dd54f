package appplatform

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/do"
	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/digitalocean"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// mutations are the calls by which the driver changes something.
func mutations() []drivertest.Mutation {
	return []drivertest.Mutation{
		{Action: "apps_create", Op: providertest.OpRunJob},
		{Action: "apps_cancel_deployment", Op: providertest.OpCancelJob},
		{Action: "apps_delete", Op: providertest.OpCleanupJob},
	}
}

func calm(t testing.TB) *drivertest.World[*provider] { return newWorld(t, pocket.Options{}, nil).World }

func unavailable() *fault.Refusal {
	return &fault.Refusal{Status: http.StatusServiceUnavailable, Message: "Server Error"}
}

// TestNoRetriesOfTheClient: a call that changes something is sent once, whatever
// becomes of its reply. godo's own client would repeat it.
func TestNoRetriesOfTheClient(t *testing.T) {
	drivertest.SendsOnce(t, calm, mutations(), map[string]*fault.Refusal{"unavailable": unavailable(), "throttled": pocket.Throttle()})
}

// TestLostReplies: what lost its reply is done once, and done when asked again.
func TestLostReplies(t *testing.T) { drivertest.OutlivesLostReplies(t, calm, mutations()) }

// TestCancelledCalls: what is cancelled returns at once.
func TestCancelledCalls(t *testing.T) { drivertest.EndsWithItsContext(t, calm, mutations()) }

// TestLostReplyRunsOnce: a launch whose reply was lost is found by its name, on
// whichever page of the list, and sent by several processes at once makes one app.
func TestLostReplyRunsOnce(t *testing.T) {
	t.Parallel()
	for name, knobs := range map[string]pocket.Knobs{
		"conflict":         {PageSize: 2},
		"other status":     {NameTaken: http.StatusUnprocessableEntity},
		"yet another":      {NameTaken: http.StatusBadRequest},
		"slow deployments": {DeploymentDelay: 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pocket.Options{}, nil)
			p := w.Open()
			w.cloud.TuneKnobs(func(k *pocket.Knobs) { knobs.Pace, *k = k.Pace, knobs })
			l := w.Plan(p, shell(w.Mark("first")+"; sleep 100"))
			h := w.Run(p, l)
			for range 3 { // they push the launch's app off the first page
				w.Run(p, w.Plan(p, shell("true")))
			}
			res, err := w.Open().RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
			if err != nil || !res.Adopted || res.Handle.ID != h.ID {
				t.Errorf("sent again: %+v, %v", res, err)
			}
			w.OneJobPerLaunch("apps_create")
			if n := w.Marked("first"); n != 1 {
				t.Errorf("the first job ran %d times", n)
			}
		})
	}
}

// TestLateList: a launch whose app exists and isn't listed yet is in doubt, never
// absent, for as long as the platform calls its name taken.
func TestLateList(t *testing.T) {
	w := newWorld(t, pocket.Options{}, map[string]any{"visible_within": "1ms"})
	p := w.Open()
	l := w.Plan(p, shell("sleep 100"))
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.ListDelay = time.Hour })
	h := w.Run(p, l)
	find := func() sdk.FindOutcome {
		res, err := p.FindJobs(t.Context(), sdk.FindJobsRequest{Launch: &l, SentAt: time.Now().Add(-time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		return res.Outcome
	}
	if got := find(); got != sdk.FindNotVisible {
		t.Errorf("unlisted: %s", got)
	}
	_, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
	if sdk.IsClear(err) || !sdk.IsRetryable(err) {
		t.Errorf("sent again: %v, want an error that isn't clear", err)
	}
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.ListDelay = 0 })
	if got := find(); got != sdk.FindFound {
		t.Errorf("listed: %s", got)
	}
	if res, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); err != nil || !res.Adopted || res.Handle.ID != h.ID {
		t.Errorf("sent again: %+v, %v", res, err)
	}
	never := w.Plan(p, shell("true"))
	if res, err := p.FindJobs(t.Context(), sdk.FindJobsRequest{Launch: &never, SentAt: time.Now().Add(-time.Minute)}); err != nil || res.Outcome != sdk.FindAbsent {
		t.Errorf("never sent: %+v, %v", res, err)
	}
}

// TestForeignName: an app that has the launch's name and isn't the launch's is
// neither adopted nor touched.
func TestForeignName(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	l := w.Plan(p, shell("sleep 100"))
	w.Run(w.Open(func(r *sdk.OpenRequest) { r.Owner = "somebody" }), l)
	forged := l
	forged.Owner, forged.LedgerID = "somebody", "else"
	_, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: forged})
	if !errors.Is(err, sdk.AlreadyExists) {
		t.Errorf("got %v, want AlreadyExists", err)
	}
}

// TestF14Names: names of apps are legal and distinct for distinct attempts.
func TestF14Names(t *testing.T) {
	ids, seen := sdk.NewIDSource(sdk.SystemClock()), map[string]bool{}
	for range 1000 {
		name := do.AppName(ids.NewID())
		if len(name) > do.MaxAppName || !form(`^[a-z][a-z0-9-]{0,30}[a-z0-9]$`)().MatchString(name) || seen[name] {
			t.Fatalf("name %q", name)
		}
		seen[name] = true
	}
	w := newWorld(t, pocket.Options{}, nil)
	w.Owner = "Team Ω " + strings.Repeat("long", 30)
	p := w.Open()
	spec := shell("true")
	spec.Name, spec.Labels = strings.Repeat("Name ", 40), map[string]string{"team": "α", "a b": ""}
	l := w.Plan(p, spec)
	h := w.Run(p, l)
	res, err := p.FindJobs(t.Context(), sdk.FindJobsRequest{RunID: l.RunID, Owner: w.Owner})
	if err != nil || len(res.Jobs) != 1 || res.Jobs[0].Owner != w.Owner || res.Jobs[0].Handle.ID != h.ID {
		t.Errorf("found %+v, %v", res, err)
	}
}

// TestF12SearchesSeeEnded: what has ended is found as well as what runs.
func TestF12SearchesSeeEnded(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	for name, script := range map[string]string{"ended well": "true", "failed": "exit 3", "running": "sleep 100"} {
		l := w.Plan(p, shell(script))
		h := w.Run(p, l)
		if name != "running" {
			w.Ended(p, h)
		}
		res, err := p.FindJobs(t.Context(), sdk.FindJobsRequest{Launch: &l, SentAt: time.Now()})
		if err != nil || res.Outcome != sdk.FindFound || res.Jobs[0].Handle.ID != h.ID || res.Jobs[0].Handle.Metadata[keyDeployment] != h.Metadata[keyDeployment] {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
}

// TestF16Room: a refusal for too many calls is waited for. That an account has too
// many apps shows only when the app is deployed.
func TestF16Room(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	w.WaitsForRoom(p, func() func() {
		return w.cloud.Faults().Add(fault.Rule{Action: "apps_create", Effect: fault.Effect{Refuse: pocket.Throttle()}})
	}, sdk.ReasonQuota, "")
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.MaxApps = 1 })
	st := w.Ended(p, w.Run(p, w.Plan(p, shell("true"))))
	if st.State != sdk.StateFailed || st.Reason != sdk.ReasonQuota || st.Launches != 0 {
		t.Errorf("beyond the account's apps: %s, %s: %s", st.State, st.Reason, st.Message)
	}
	if n := p.Info().MaxInFlight; n != 1000 {
		t.Errorf("max_apps is not what the provider says: %d", n)
	}
}

// TestF16Orphans: apps whose deletion failed are listed, on several pages, and the
// reaper's removal leaves none.
func TestF16Orphans(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.PageSize = 7 })
	p := w.Open()
	const n = 20
	remove := w.cloud.Faults().Add(fault.Rule{Action: "apps_delete", Effect: fault.Effect{Refuse: unavailable()}})
	for range n {
		h := w.Run(p, w.Plan(p, shell("true")))
		w.Ended(p, h)
		if _, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err == nil {
			t.Fatal("the clean-up succeeded")
		}
	}
	remove()
	list := func() (out []sdk.OwnedObject) {
		for o, err := range p.ListOwned(t.Context(), sdk.ListOwnedRequest{Owner: w.Owner}) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, o)
		}
		return out
	}
	w.Eventually("end of all deployments", func() bool {
		return !slices.ContainsFunc(list(), func(o sdk.OwnedObject) bool { return o.Live })
	})
	orphans := list()
	if len(orphans) != n {
		t.Fatalf("%d objects are listed, want %d", len(orphans), n)
	}
	for _, o := range orphans {
		if o.LedgerID != w.Ledger || o.Size != (sdk.OwnedSize{CPU: 1000, Memory: 512 * mib, Class: "apps-s-1vcpu-0.5gb"}) || o.Started.IsZero() || o.Ended.Before(o.Started) {
			t.Errorf("object %+v", o)
		}
		if _, err := p.RemoveOwned(t.Context(), sdk.RemoveOwnedRequest{Object: o}); err != nil {
			t.Error(err)
		}
	}
	if rest := list(); len(rest) != 0 {
		t.Errorf("%d objects are left", len(rest))
	}
}

// TestDeletionIsReadBack: a clean-up ends when the app is gone, and one whose
// reply was lost is success when it comes again.
func TestDeletionIsReadBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.DeleteDelay = 300 * time.Millisecond })
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("true")))
	w.Ended(p, h)
	res, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h})
	if err != nil || !slices.Equal(res.Removed, []string{"app " + h.ID}) {
		t.Fatalf("clean-up: %v, %v", res, err)
	}
	if _, err := p.app(t.Context(), "look", h.ID); !notFound(err) {
		t.Errorf("after the clean-up: %v, want NotFound", err)
	}
}

// TestF72CancelMany: a whole backlog is cancelled, each proven, while a third of the
// calls are refused.
func TestF72CancelMany(t *testing.T) {
	t.Parallel()
	const n = 40
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	handles := make([]sdk.JobHandle, n)
	drivertest.AtOnce(n, func(i int) { handles[i] = w.Run(p, w.Plan(p, shell("sleep 1000"))) })
	w.cloud.Faults().Add(fault.Rule{Action: "apps_cancel_deployment", Share: 0.3, Effect: fault.Effect{Refuse: pocket.Throttle()}})
	drivertest.AtOnce(n, func(i int) {
		w.Eventually("cancelled job", func() bool {
			res, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: handles[i]})
			if err != nil && !sdk.IsRetryable(err) {
				t.Error(err)
			}
			return res.Gone
		})
	})
	for i, h := range handles {
		if st := w.Status(p, h); st.State != sdk.StateCancelled {
			t.Errorf("job %d is %s", i, st.State)
		}
	}
}

// TestCheckNamesScopes: of a token's scopes each that is missing is told, and that
// alone; a token that doesn't say whose it is opens no provider.
func TestCheckNamesScopes(t *testing.T) {
	all := []string{"account:read", "app:read", "app:create", "app:update", "app:delete"}
	for _, lacks := range append([]string{""}, all...) {
		t.Run("without "+lacks, func(t *testing.T) {
			has := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == lacks })
			w := newWorld(t, pocket.Options{Tokens: map[string][]string{canary: has}}, nil)
			if lacks == "account:read" {
				_, err := Driver().Open(t.Context(), w.Request())
				if !errors.Is(err, sdk.PermissionDenied) || !strings.Contains(fmt.Sprint(err), lacks) {
					t.Errorf("open: %v", err)
				}
				return
			}
			res, err := w.Open().Check(t.Context(), sdk.CheckRequest{})
			if err != nil {
				t.Fatal(err)
			}
			var missing []string
			for _, it := range res.Items {
				if !it.OK {
					missing = append(missing, it.Name)
					if !strings.Contains(it.Remedy, lacks) {
						t.Errorf("the remedy is %q", it.Remedy)
					}
				}
			}
			if got := strings.Join(missing, " "); got != lacks || len(res.Items) != len(all) {
				t.Errorf("missing %q of %d", got, len(res.Items))
			}
		})
	}
}
