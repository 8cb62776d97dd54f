package digitalocean

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/testwait"
)

// cronJob is a job that runs by a schedule.
func cronJob(name, command, cron string) *godo.AppJobSpec {
	return with(job(name, command), func(j *godo.AppJobSpec) {
		j.Kind, j.Schedule = godo.AppJobSpecKind_Scheduled, &godo.AppJobSpecSchedule{Cron: cron}
	})
}

// TestSchedule runs a scheduled job as invocations.
func TestSchedule(t *testing.T) {
	c := newCloud(t, Options{})
	app, id := c.create(t, "nightly", cronJob("backup", "echo saved", "45 13 30 4 *"), cronJob("broken", "exit 1", "0 0 1 1 *"), cronJob("slow", "echo ready; exec sleep 60", "0 0 1 1 *"))
	c.until(t, app.ID, id, godo.DeploymentPhase_Active)
	start := func(name string) string {
		t.Helper()
		i, err := c.RunNow(app.ID, name)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	good := start("backup")
	got := c.invocation(t, app.ID, good, godo.JOBINVOCATIONPHASE_Succeeded)
	if got.JobName != "backup" || got.DeploymentID != id || got.Trigger.Type != godo.JOBINVOCATIONTRIGGERTYPE_Manual || got.StartedAt.Before(got.CreatedAt) || got.CompletedAt.Before(got.StartedAt) {
		t.Errorf("the invocation is %v", got)
	}
	c.invocation(t, app.ID, start("broken"), godo.JOBINVOCATIONPHASE_Failed)
	slow := start("slow")
	c.invocation(t, app.ID, slow, godo.JOBINVOCATIONPHASE_Running)
	skipped := start("slow")
	c.invocation(t, app.ID, skipped, godo.JOBINVOCATIONPHASE_Skipped)
	if i, _, err := c.client.Apps.CancelJobInvocation(t.Context(), app.ID, slow, &godo.CancelJobInvocationOptions{JobName: "slow"}); err != nil || i.ID != slow {
		t.Errorf("cancel: %v, %v", i, err)
	}
	c.invocation(t, app.ID, slow, godo.JOBINVOCATIONPHASE_Canceled)
	c.Strike(Mishap{Stage: StageSkip, Count: 1})
	c.invocation(t, app.ID, start("backup"), godo.JOBINVOCATIONPHASE_Skipped)

	list, resp, err := c.client.Apps.ListJobInvocations(t.Context(), app.ID, &godo.ListJobInvocationsOptions{JobNames: []string{"slow", "broken"}, DeploymentID: id, PerPage: 2})
	if err != nil || len(list) != 2 || list[0].ID != skipped || resp.Meta.Total != 3 || resp.Links.IsLastPage() {
		t.Errorf("the list is %v, %v", list, err)
	}
	logs, _, err := c.client.Apps.GetJobInvocationLogs(t.Context(), app.ID, good, &godo.GetJobInvocationLogsOptions{JobName: "backup"})
	if err != nil || len(logs.HistoricURLs) != 1 {
		t.Fatal(logs, err)
	}
	if _, text := c.get(t, logs.HistoricURLs[0]); !strings.HasSuffix(text, " saved\n") || !strings.HasPrefix(text, "backup ") {
		t.Errorf("the log is %q", text)
	}
	if status, _, rule := c.call(t, http.MethodGet, "/v2/apps/"+app.ID+"/jobs/slow/invocations/"+skipped+"/logs?type=JOB_INVOCATION", nil); status != 400 || rule != ruleLogNone {
		t.Errorf("the log of a skipped invocation answers %d, rule %s", status, rule)
	}
	if _, err := c.RunNow(app.ID, "nosuch"); err == nil {
		t.Error("a job that isn't there runs")
	}
}

// TestScheduleByTime starts a job when its time has come, in its zone.
func TestScheduleByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Options{Executor: run.NewScripted(func(run.Spec) run.Play { return run.Play{} })})
		if err != nil {
			t.Fatal(err)
		}
		spec := &godo.AppSpec{Name: "app", Jobs: []*godo.AppJobSpec{cronJob("job", "true", "30 1 * * *")}}
		spec.Jobs[0].Schedule.TimeZone = "Europe/Berlin"
		s.mu.Lock()
		if e := s.admit(spec); e != nil {
			t.Fatal(e)
		}
		a := &app{ID: "id", Spec: spec, born: time.Now()}
		s.apps = append(s.apps, a)
		s.startDeployment(a, "manual", s.byUser(""))
		s.mu.Unlock()
		began := time.Now().UTC() // midnight
		time.Sleep(49 * time.Hour)
		s.mu.Lock()
		var at []time.Duration
		for _, i := range a.Invocations {
			at = append(at, i.View.CreatedAt.Sub(began))
			if i.View.Phase != godo.JOBINVOCATIONPHASE_Succeeded || i.View.Trigger.Scheduled.Schedule.TimeZone != "Europe/Berlin" {
				t.Errorf("the invocation is %v", i.View)
			}
		}
		s.mu.Unlock()
		if want := []time.Duration{30 * time.Minute, 24*time.Hour + 30*time.Minute, 48*time.Hour + 30*time.Minute}; !slices.Equal(at, want) {
			t.Errorf("it ran after %v", at)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestF45DeployInvocations shows a deployment's jobs as invocations, those that
// never run as SKIPPED.
func TestF45DeployInvocations(t *testing.T) {
	c := newCloud(t, Options{})
	c.TuneKnobs(func(k *Knobs) { k.DeployInvocations = true })
	phases := func(app string) map[string]godo.JobInvocationPhase {
		list, _, err := c.client.Apps.ListJobInvocations(t.Context(), app, nil)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]godo.JobInvocationPhase{}
		for _, i := range list {
			out[i.JobName] = i.Phase
		}
		return out
	}
	app, id := c.create(t, "good", job("main", "true"), with(job("rescue", "true"), kind(godo.AppJobSpecKind_FailedDeploy)))
	c.until(t, app.ID, id, godo.DeploymentPhase_Active)
	if got := phases(app.ID); got["main"] != "SUCCEEDED" || got["rescue"] != "SKIPPED" {
		t.Errorf("the invocations are %v", got)
	}
	app, id = c.create(t, "bad", job("main", "exit 1"), with(job("later", "true"), kind(godo.AppJobSpecKind_PostDeploy)))
	c.until(t, app.ID, id, godo.DeploymentPhase_Error)
	if got := phases(app.ID); got["main"] != "FAILED" || got["later"] != "SKIPPED" {
		t.Errorf("the invocations are %v", got)
	}
	app, id = c.create(t, "stopped", job("main", "echo ready; exec sleep 60"))
	c.awaitLine(t, app.ID, id, "ready")
	list, _, err := c.client.Apps.ListJobInvocations(t.Context(), app.ID, nil)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if _, _, err := c.client.Apps.CancelJobInvocation(t.Context(), app.ID, list[0].ID, nil); err != nil {
		t.Error(err)
	}
	c.invocation(t, app.ID, list[0].ID, godo.JOBINVOCATIONPHASE_Canceled)
	c.until(t, app.ID, id, godo.DeploymentPhase_Error)
}

// TestUnknownInvocation hides the phase of a running invocation for a while.
func TestUnknownInvocation(t *testing.T) {
	c := newCloud(t, Options{})
	app, id := c.create(t, "fog", cronJob("job", "true", "0 0 1 1 *"))
	c.until(t, app.ID, id, godo.DeploymentPhase_Active)
	c.Strike(Mishap{Stage: StageUnknown, After: 50 * time.Millisecond})
	i, err := c.RunNow(app.ID, "job")
	if err != nil {
		t.Fatal(err)
	}
	c.invocation(t, app.ID, i, godo.JOBINVOCATIONPHASE_Unknown)
	c.invocation(t, app.ID, i, godo.JOBINVOCATIONPHASE_Succeeded)
}

// TestCron reads schedules and finds their next times.
func TestCron(t *testing.T) {
	from := time.Date(2026, 2, 27, 12, 34, 56, 0, time.UTC) // a Friday
	for text, want := range map[string]string{
		"* * * * *":         "2026-02-27 12:35",
		"0 * * * *":         "2026-02-27 13:00",
		"*/15 9-17 * * *":   "2026-02-27 12:45",
		"45 13 30 4 *":      "2026-04-30 13:45",
		"0 0 29 2 *":        "2028-02-29 00:00",
		"0 0 * * 0":         "2026-03-01 00:00",
		"0 0 * * 7":         "2026-03-01 00:00",
		"0 0 * * mon-wed":   "2026-03-02 00:00",
		"0 0 13 * FRI":      "2026-03-06 00:00", // either
		"10,50 4/6 * jan *": "2027-01-01 04:10",
		"0 0 31 2 *":        "",
	} {
		c, err := parseCron(text)
		if err != nil {
			t.Error(err)
			continue
		}
		at, ok := c.next(from)
		if got := at.Format("2006-01-02 15:04"); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "* * * *", "* * * * * *", "60 * * * *", "-1 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *", "*/0 * * * *", "a * * * *", "1,, * * * *", "* * * ja *", "+1 * * * *", "* * * anf *"} {
		if _, err := parseCron(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	// Where clocks go forward at midnight, that midnight is none.
	zone, err := time.LoadLocation("Africa/Cairo")
	if err != nil {
		t.Fatal(err)
	}
	c, err := parseCron("30 12 1 5 *")
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := c.next(time.Date(2026, 4, 20, 0, 0, 0, 0, zone)); !ok || at.Format("01-02 15:04") != "05-01 12:30" {
		t.Errorf("in Cairo it is %v", at)
	}
}

// FuzzCron finds times that match.
func FuzzCron(f *testing.F) {
	for _, seed := range []string{"* * * * *", "0 0 29 2 *", "*/5 1-3,7 * JAN-MAR mon", "59 23 31 12 7"} {
		f.Add(seed)
	}
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCron(text)
		if err != nil {
			return
		}
		at, ok := c.next(from)
		if ok && (!at.After(from) || c.minute&(1<<at.Minute()) == 0 || c.hour&(1<<at.Hour()) == 0 || !c.dayMatches(at) || at.Second() != 0) {
			t.Errorf("%q gives %v", text, at)
		}
	})
}

// TestRunningAtClose ends what runs with the server.
func TestRunningAtClose(t *testing.T) {
	c := newCloud(t, Options{})
	app, id := c.create(t, "open", job("main", "trap '' TERM; echo ready; while :; do sleep 0.01; done"))
	c.awaitLine(t, app.ID, id, "ready")
	other, id2 := c.create(t, "cron", cronJob("job", "exec sleep 60", "0 0 1 1 *"))
	c.until(t, other.ID, id2, godo.DeploymentPhase_Active)
	i, err := c.RunNow(other.ID, "job")
	if err != nil {
		t.Fatal(err)
	}
	c.invocation(t, other.ID, i, godo.JOBINVOCATIONPHASE_Running)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if d := c.deployment(t, app.ID, id); d.Phase != godo.DeploymentPhase_Error {
		t.Errorf("the deployment is %s", d.Phase)
	}
	testwait.Until(t, long, "failed invocation", func() bool {
		got, _, err := c.client.Apps.GetJobInvocation(t.Context(), other.ID, i, nil)
		return err == nil && got.Phase == godo.JOBINVOCATIONPHASE_Failed
	})
	if _, _, err := c.client.Apps.CreateDeployment(t.Context(), app.ID); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a closed cloud deploys: %v", err)
	}
}
