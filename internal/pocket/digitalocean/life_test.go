package digitalocean

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/testwait"
)

// TestPhases watches an app of one job from its making to its end.
func TestPhases(t *testing.T) {
	c := newCloud(t, Options{})
	slow := 40 * time.Millisecond
	c.SetKnobs(Knobs{Pace: Pace{PendingBuild: slow, Building: slow, PendingDeploy: slow, Initialize: slow, Finalize: slow}})
	app, id := c.create(t, "phases", job("main", "echo hello"))
	if app.PendingDeployment.Phase != godo.DeploymentPhase_PendingBuild || app.ActiveDeployment != nil || app.InProgressDeployment != nil || app.Region.Slug != "nyc" || app.TierSlug != "basic" {
		t.Errorf("the new app is %v", app)
	}
	var seen []string
	testwait.Until(t, long, "ACTIVE", func() bool {
		phase := string(c.deployment(t, app.ID, id).Phase)
		if len(seen) == 0 || seen[len(seen)-1] != phase {
			seen = append(seen, phase)
		}
		return phase == "ACTIVE"
	})
	// A quick eye may miss one, but none comes out of order.
	order := []string{"PENDING_BUILD", "BUILDING", "PENDING_DEPLOY", "DEPLOYING", "ACTIVE"}
	last := -1
	for _, phase := range seen {
		if i := slices.Index(order, phase); i <= last {
			t.Errorf("the phases were %v", seen)
		} else {
			last = i
		}
	}
	d := c.deployment(t, app.ID, id)
	for _, path := range [][]string{{"build"}, {"build", "initialize"}, {"build", "components", "main"}, {"deploy"}, {"deploy", "initialize"}, {"deploy", "components", "main"}, {"deploy", "finalize"}} {
		if s := step(d, path...); s == nil || s.Status != godo.DeploymentProgressStepStatus_Success || s.StartedAt.IsZero() || s.EndedAt.Before(s.StartedAt) {
			t.Errorf("step %v is %v", path, s)
		}
	}
	if p := d.Progress; p.TotalSteps != 5 || p.SuccessSteps != 5 || d.Jobs[0].Name != "main" || d.Cause == "" {
		t.Errorf("the deployment is %v", d)
	}
	now, _, err := c.client.Apps.Get(t.Context(), app.ID)
	if err != nil || now.ActiveDeployment.ID != id || now.PendingDeployment != nil || now.LastDeploymentActiveAt.IsZero() {
		t.Errorf("the app is %v, %v", now, err)
	}
}

// TestJobOrder runs jobs before a deployment, after it, and for a failed one.
func TestJobOrder(t *testing.T) {
	c := newCloud(t, Options{})
	file := filepath.Join(t.TempDir(), "order")
	write := func(name string, more string) string { return "echo " + name + " >>" + file + more }
	jobs := func(ending string) []*godo.AppJobSpec {
		return []*godo.AppJobSpec{
			with(job("on-failure", write("failed", "")), kind(godo.AppJobSpecKind_FailedDeploy)),
			with(job("after", write("post", "")), kind(godo.AppJobSpecKind_PostDeploy)),
			job("first", write("pre1", "")),
			job("second", write("pre2", ending)),
		}
	}
	app, id := c.create(t, "order", jobs("")...)
	c.until(t, app.ID, id, godo.DeploymentPhase_Active)
	bad, id := c.create(t, "disorder", jobs("; exit 3")...)
	d := c.until(t, bad.ID, id, godo.DeploymentPhase_Error)
	data, err := os.ReadFile(file)
	if want := "pre1\npre2\npost\npre1\npre2\nfailed\n"; err != nil || string(data) != want {
		t.Errorf("the jobs wrote %q, want %q; %v", data, want, err)
	}
	for name, want := range map[string]godo.DeploymentProgressStepStatus{"first": "SUCCESS", "second": "ERROR", "after": "PENDING", "on-failure": "SUCCESS"} {
		if got := step(d, "deploy", "components", name).Status; got != want {
			t.Errorf("the step of %s is %s, want %s", name, got, want)
		}
	}
}

// TestF45StepCounts shows what misleads those who count steps or wait for an
// address.
func TestF45StepCounts(t *testing.T) {
	c := newCloud(t, Options{})
	app, id := c.create(t, "counts", job("main", "true"), with(job("rescue", "true"), kind(godo.AppJobSpecKind_FailedDeploy)))
	d := c.until(t, app.ID, id, godo.DeploymentPhase_Active)
	if p := d.Progress; p.SuccessSteps == p.TotalSteps || p.PendingSteps != 1 || p.ErrorSteps != 0 || step(d, "deploy", "components", "rescue").Status != "PENDING" {
		t.Errorf("the progress is %v", p)
	}
	if now, _, err := c.client.Apps.Get(t.Context(), app.ID); err != nil || now.LiveURL != "" || now.DefaultIngress != "" {
		t.Errorf("the app is %v, %v", now, err)
	}
}

// TestJobFailures tells ends apart as far as the platform does.
func TestJobFailures(t *testing.T) {
	c := newCloud(t, Options{})
	for name, k := range map[string]struct {
		command string
		words   bool
		code    string
	}{
		"exit-three":   {"exit 3", false, codeExit},
		"killed":       {"kill -9 $$", false, codeExit},
		"no-program":   {"/no/such/program", true, codeExec},
		"unclosed":     {"echo 'a", true, codeExec},
		"shell-cannot": {"/no/such/program", false, codeExit},
	} {
		c.TuneKnobs(func(knobs *Knobs) { knobs.NoShell = k.words })
		app, id := c.create(t, name, job("main", k.command))
		d := c.until(t, app.ID, id, godo.DeploymentPhase_Error)
		s := step(d, "deploy", "components", "main")
		if s.Status != "ERROR" || s.Reason == nil || s.Reason.Code != k.code || s.Reason.Message == "" || d.Progress.ErrorSteps != 1 {
			t.Errorf("%s: the step is %v", name, s)
		}
	}
}

// TestImagePull fails a job whose image isn't there in words alone, which name it.
func TestImagePull(t *testing.T) {
	c := newCloud(t, Options{Executor: run.NewScripted(func(run.Spec) run.Play {
		return run.Play{Start: &run.StartError{Phase: run.Pull, Text: "manifest unknown"}}
	})})
	app, id := c.create(t, "pull", job("main", "true"))
	d := c.until(t, app.ID, id, godo.DeploymentPhase_Error)
	s := step(d, "deploy", "components", "main")
	if s.Reason == nil || s.Reason.Code != "" || !strings.Contains(s.Reason.Message, "could not be pulled: busybox:") || !strings.Contains(s.Reason.Message, "manifest unknown") {
		t.Errorf("the reason is %v", s.Reason)
	}
}

// TestTimeout ends a job that takes too long.
func TestTimeout(t *testing.T) {
	c := newCloud(t, Options{})
	app, id := c.create(t, "timeout", with(job("main", "echo begun; exec sleep 60"), func(j *godo.AppJobSpec) { j.Timeout = "50ms" }))
	d := c.until(t, app.ID, id, godo.DeploymentPhase_Error)
	if s := step(d, "deploy", "components", "main"); s.Reason.Code != "" || s.Reason.Message == "" {
		t.Errorf("the reason is %v", s.Reason)
	}
}

// TestCancel ends a deployment's job by TERM, or by KILL after its grace.
func TestCancel(t *testing.T) {
	c := newCloud(t, Options{})
	for name, k := range map[string]struct {
		command string
		grace   int32
		log     string
	}{
		"polite":   {`trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done`, 0, "bye"},
		"stubborn": {`trap '' TERM; echo ready; while :; do sleep 0.01; done`, 1, "ready"},
	} {
		app, id := c.create(t, name, with(job("main", k.command), func(j *godo.AppJobSpec) {
			if k.grace > 0 {
				j.Termination = &godo.AppJobSpecTermination{GracePeriodSeconds: k.grace}
			}
		}))
		c.awaitLine(t, app.ID, id, "ready")
		if status, reply, _ := c.call(t, http.MethodPost, "/v2/apps/"+app.ID+"/deployments/"+id+"/cancel", nil); status != 200 || reply["deployment"].(doc)["phase"] != "DEPLOYING" {
			t.Fatalf("%s: cancel answers %d %v", name, status, reply)
		}
		c.until(t, app.ID, id, godo.DeploymentPhase_Canceled)
		if lines := c.archive(t, app.ID, id, "main"); !strings.HasSuffix(lines[len(lines)-1], " "+k.log) {
			t.Errorf("%s: the log is %q", name, lines)
		}
		if status, _, rule := c.call(t, http.MethodPost, "/v2/apps/"+app.ID+"/deployments/"+id+"/cancel", nil); status != 400 || rule != ruleCancelDone {
			t.Errorf("%s: a second cancel answers %d, rule %s", name, status, rule)
		}
	}
}

// awaitLine waits until a job has written a line.
func (c *cloud) awaitLine(t testing.TB, app, id, want string) {
	t.Helper()
	c.until(t, app, id, godo.DeploymentPhase_Deploying)
	logs, _, err := c.client.Apps.GetLogs(t.Context(), app, id, "", godo.AppLogTypeRun, false, -1)
	if err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, long, "line "+want, func() bool {
		_, text := c.get(t, logs.LiveURL)
		return strings.Contains(text, " "+want+"\n")
	})
}

// archive reads a job's historic log, without the part before the text.
func (c *cloud) archive(t testing.TB, app, id, component string) []string {
	t.Helper()
	logs, _, err := c.client.Apps.GetLogs(t.Context(), app, id, component, godo.AppLogTypeRun, true, -1)
	if err != nil || logs.LiveURL != "" || len(logs.HistoricURLs) != 1 {
		t.Fatalf("the logs are %v, %v", logs, err)
	}
	status, text := c.get(t, logs.HistoricURLs[0])
	if status != 200 {
		t.Fatalf("the archive answers %d", status)
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// TestDelete ends what runs, and leaves nothing.
func TestDelete(t *testing.T) {
	c := newCloud(t, Options{})
	app, id := c.create(t, "doomed", job("main", "echo ready; exec sleep 60"))
	c.awaitLine(t, app.ID, id, "ready")
	if _, err := c.client.Apps.Delete(t.Context(), app.ID); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "/deployments", "/deployments/" + id, "/job-invocations"} {
		if status, _, rule := c.call(t, http.MethodGet, "/v2/apps/"+app.ID+path, nil); status != 404 || rule != ruleApp {
			t.Errorf("%s of a deleted app answers %d, rule %s", path, status, rule)
		}
	}
	if _, err := c.client.Apps.Delete(t.Context(), app.ID); err == nil {
		t.Error("a second delete succeeds")
	}
	c.create(t, "doomed", job("main", "true")) // the name is free
}

// TestSupersede puts a new deployment in the place of one that runs, and of one
// that is active.
func TestSupersede(t *testing.T) {
	c := newCloud(t, Options{})
	app, first := c.create(t, "again", job("main", "echo ready; exec sleep 60"))
	c.awaitLine(t, app.ID, first, "ready")
	updated, _, err := c.client.Apps.Update(t.Context(), app.ID, &godo.AppUpdateRequest{Spec: &godo.AppSpec{Name: "again", Jobs: []*godo.AppJobSpec{job("main", "true")}}})
	if err != nil || updated.PendingDeployment == nil {
		t.Fatal(updated, err)
	}
	second := updated.PendingDeployment.ID
	c.until(t, app.ID, first, godo.DeploymentPhase_Superseded)
	c.until(t, app.ID, second, godo.DeploymentPhase_Active)
	third, _, err := c.client.Apps.CreateDeployment(t.Context(), app.ID)
	if err != nil || third.PreviousDeploymentID != second {
		t.Fatal(third, err)
	}
	c.until(t, app.ID, third.ID, godo.DeploymentPhase_Active)
	c.until(t, app.ID, second, godo.DeploymentPhase_Superseded)
	list, _, err := c.client.Apps.ListDeployments(t.Context(), app.ID, nil)
	if err != nil || len(list) != 3 || list[0].ID != third.ID || list[2].ID != first {
		t.Errorf("the deployments are %v, %v", list, err)
	}
}

// TestMaintain runs a job a second time, as the platform may.
func TestMaintain(t *testing.T) {
	c := newCloud(t, Options{})
	file := filepath.Join(t.TempDir(), "runs")
	app, id := c.create(t, "twice", job("main", "echo run >>"+file))
	c.until(t, app.ID, id, godo.DeploymentPhase_Active)
	again, err := c.Maintain(app.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d := c.until(t, app.ID, again, godo.DeploymentPhase_Active); d.CauseDetails.Type != godo.DeploymentCauseDetailsType_Maintenance || d.PreviousDeploymentID != id {
		t.Errorf("the deployment is %v", d)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "run\nrun\n" {
		t.Errorf("it ran %q, %v", data, err)
	}
	for kind, want := range map[string]int{"MANUAL": 1, "MAINTENANCE": 1, "MANUAL&deployment_types=MAINTENANCE": 2, "AUTOSCALED": 0} {
		if _, reply, _ := c.call(t, http.MethodGet, "/v2/apps/"+app.ID+"/deployments?deployment_types="+kind, nil); len(reply["deployments"].([]any)) != want {
			t.Errorf("of type %s: %v", kind, reply)
		}
	}
	if _, err := c.Maintain("nosuch"); err == nil {
		t.Error("an app that isn't there is maintained")
	}
}

// TestMishaps strikes deployments and jobs at every stage.
func TestMishaps(t *testing.T) {
	c := newCloud(t, Options{})
	for name, k := range map[string]struct {
		mishap Mishap
		step   []string
		code   string
	}{
		"build":    {Mishap{Stage: StageBuild}, []string{"build", "components", "main"}, codeBuild},
		"internal": {Mishap{Stage: StageInternal}, []string{"deploy", "initialize"}, codeInternal},
		"oom":      {Mishap{Stage: StageOOM, After: 20 * time.Millisecond}, []string{"deploy", "components", "main"}, codeMemory},
		"host":     {Mishap{Stage: StageHost}, []string{"deploy", "components", "main"}, codeInternal},
		"other":    {Mishap{Stage: StageHost, Code: "Other", Message: "m"}, []string{"deploy", "components", "main"}, "Other"},
	} {
		k.mishap.Count, k.mishap.App = 1, name
		remove := c.Strike(k.mishap)
		app, id := c.create(t, name, job("main", "exec sleep 60"))
		d := c.until(t, app.ID, id, godo.DeploymentPhase_Error)
		if s := step(d, k.step...); s.Status != "ERROR" || s.Reason.Code != k.code {
			t.Errorf("%s: the step is %v", name, s)
		}
		remove()
	}
	c.Strike(Mishap{Stage: StagePlace, App: "nowhere"})
	app, id := c.create(t, "nowhere", job("main", "true"))
	c.until(t, app.ID, id, godo.DeploymentPhase_PendingDeploy)
	if status, _, _ := c.call(t, http.MethodPost, "/v2/apps/"+app.ID+"/deployments/"+id+"/cancel", nil); status != 200 {
		t.Error("cancel answers", status)
	}
	c.until(t, app.ID, id, godo.DeploymentPhase_Canceled)

	c.Strike(Mishap{Stage: StageUnknown, App: "fog", After: 50 * time.Millisecond})
	app, id = c.create(t, "fog", job("main", "true"))
	c.until(t, app.ID, id, godo.DeploymentPhase_Unknown)
	c.until(t, app.ID, id, godo.DeploymentPhase_Active)

	c.TuneKnobs(func(k *Knobs) { k.MaxApps = 1 })
	app, id = c.create(t, "many", job("main", "true"))
	d := c.until(t, app.ID, id, godo.DeploymentPhase_Error)
	if s := step(d, "build", "initialize"); s.Reason.Code != codeExhausted {
		t.Errorf("beyond the limit the step is %v", s)
	}
}

// TestManyAtOnce makes, watches and deletes many apps at the same time: none
// sees another's.
func TestManyAtOnce(t *testing.T) {
	c := newCloud(t, Options{Executor: run.NewScripted(func(s run.Spec) run.Play {
		name := s.Name[:strings.Index(s.Name, "-main-")]
		return run.Play{Stdout: []byte(name + "\n"), For: time.Millisecond, Exit: run.Exit{Code: len(name) % 2}}
	})})
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			name := "app" + strings.Repeat("x", i%2) + "-" + strconv.Itoa(10+i)
			app, _, err := c.client.Apps.Create(t.Context(), &godo.AppCreateRequest{Spec: &godo.AppSpec{Name: name, Jobs: []*godo.AppJobSpec{job("main", "true")}}})
			if err != nil {
				t.Error(err)
				return
			}
			id := app.PendingDeployment.ID
			for {
				d, _, err := c.client.Apps.GetDeployment(t.Context(), app.ID, id)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Phase == godo.DeploymentPhase_Active || d.Phase == godo.DeploymentPhase_Error {
					if failed := d.Phase == godo.DeploymentPhase_Error; failed != (len(name)%2 == 1) {
						t.Errorf("%s is %s", name, d.Phase)
					}
					break
				}
			}
			if _, err := c.client.Apps.Delete(t.Context(), app.ID); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list, _, err := c.client.Apps.List(t.Context(), nil); err != nil || len(list) != 0 {
		t.Errorf("%d apps are left, %v", len(list), err)
	}
}

// TestScripted plays jobs without processes.
func TestScripted(t *testing.T) {
	var got run.Spec
	c := newCloud(t, Options{Executor: run.NewScripted(func(s run.Spec) run.Play {
		got = s
		if strings.HasPrefix(s.Name, "pull") {
			return run.Play{Start: &run.StartError{Phase: run.Create, Text: "no such network"}}
		}
		return run.Play{Stdout: []byte("a\n"), Exit: run.Exit{OOM: true, Code: 137}}
	})})
	app, id := c.create(t, "pull", job("main", "true"))
	d := c.until(t, app.ID, id, godo.DeploymentPhase_Error)
	if s := step(d, "deploy", "components", "main"); s.Reason.Code != codeInternal {
		t.Errorf("the reason is %v", s.Reason)
	}
	app, id = c.create(t, "memory", with(job("main", ""), func(j *godo.AppJobSpec) { j.InstanceSizeSlug = "apps-s-1vcpu-1gb" }))
	d = c.until(t, app.ID, id, godo.DeploymentPhase_Error)
	if s := step(d, "deploy", "components", "main"); s.Reason.Code != codeMemory {
		t.Errorf("the reason is %v", s.Reason)
	}
	if got.MemoryMiB != 1024 || got.Image != "busybox:local" || got.Entrypoint != nil {
		t.Errorf("the container is %+v", got)
	}
}
