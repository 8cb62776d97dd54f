package digitalocean

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testwait"
)

// TestTokens lets in who has the right token and scope.
func TestTokens(t *testing.T) {
	c := newCloud(t, Options{Tokens: map[string][]string{"all": nil, "reader": {"app:read"}}})
	status := func(token string, call func(*godo.Client) error) int {
		err := call(c.as(t, token))
		var e *godo.ErrorResponse
		if errors.As(err, &e) {
			return e.Response.StatusCode
		}
		if err != nil {
			t.Fatal(err)
		}
		return 200
	}
	list := func(client *godo.Client) error { _, _, err := client.Apps.List(t.Context(), nil); return err }
	create := func(client *godo.Client) error {
		_, _, err := client.Apps.Create(t.Context(), &godo.AppCreateRequest{Spec: &godo.AppSpec{Name: "app", Jobs: []*godo.AppJobSpec{job("main", "true")}}})
		return err
	}
	if got := []int{status("all", list), status("all", create), status("reader", list), status("reader", create), status("other", list), status("", list)}; !slices.Equal(got, []int{200, 200, 200, 403, 401, 401}) {
		t.Errorf("the calls got %v", got)
	}
	calls := c.Calls().Calls("apps_create")
	if !strings.Contains(string(calls[1].Reply), `"id":"forbidden"`) || !strings.Contains(string(calls[1].Reply), "app:create") {
		t.Errorf("the refusal is %s", calls[1].Reply)
	}
}

// TestLimits counts calls by the minute and by the hour.
func TestLimits(t *testing.T) {
	var offset atomic.Int64
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := newCloud(t, Options{Now: func() time.Time { return start.Add(time.Duration(offset.Load())) }})
	call := func() (*http.Response, int) {
		_, resp, err := c.client.Apps.ListRegions(t.Context())
		if err != nil && resp == nil {
			t.Fatal(err)
		}
		left, err := strconv.Atoi(resp.Header.Get("ratelimit-remaining"))
		if err != nil {
			t.Fatal(err)
		}
		return resp.Response, left
	}
	if resp, left := call(); resp.StatusCode != 200 || left != 4999 || resp.Header.Get("ratelimit-limit") != "5000" {
		t.Errorf("without limits: %d, %v", left, resp.Header)
	}
	c.SetLimits(Limits{PerHour: 5, PerMinute: 3})
	for i := range 3 {
		if resp, left := call(); resp.StatusCode != 200 || left != 4-i || resp.Header.Get("ratelimit-reset") != strconv.FormatInt(start.Add(time.Hour).Unix(), 10) {
			t.Errorf("call %d: %d, %v", i, left, resp.Header)
		}
	}
	offset.Add(int64(20 * time.Second))
	if resp, _ := call(); resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "40" || resp.Header.Get(RuleHeader) != ruleRateMinute {
		t.Errorf("beyond the minute's: %d, %v", resp.StatusCode, resp.Header)
	}
	offset.Store(int64(time.Minute))
	call()
	call()
	offset.Store(int64(3 * time.Minute))
	if resp, left := call(); resp.StatusCode != 429 || left != 0 || resp.Header.Get("Retry-After") != "" || resp.Header.Get(RuleHeader) != ruleRateHour {
		t.Errorf("beyond the hour's: %d, %v", resp.StatusCode, resp.Header)
	}
	offset.Store(int64(time.Hour))
	if resp, left := call(); resp.StatusCode != 200 || left != 2 {
		t.Errorf("an hour later: %d, %d left", resp.StatusCode, left)
	}
	if APILimits() != (Limits{5000, 250}) {
		t.Error("the documented limits changed")
	}
}

// TestFaults loses a reply, refuses calls and slows one down.
func TestFaults(t *testing.T) {
	c := newCloud(t, Options{})
	spec := &godo.AppCreateRequest{Spec: &godo.AppSpec{Name: "lost", Jobs: []*godo.AppJobSpec{job("main", "true")}}}
	c.Faults().Add(fault.Rule{Action: "apps_create", Count: 1, Effect: fault.Effect{Drop: true}})
	if _, _, err := c.client.Apps.Create(t.Context(), spec); err == nil {
		t.Fatal("the reply arrived")
	}
	// The app is there, found by its name; the same call again makes no other.
	list, _, err := c.client.Apps.List(t.Context(), nil)
	if err != nil || len(list) != 1 || list[0].Spec.Name != "lost" {
		t.Fatal(list, err)
	}
	var e *godo.ErrorResponse
	if _, _, err := c.client.Apps.Create(t.Context(), spec); !errors.As(err, &e) || e.Response.StatusCode != 409 {
		t.Errorf("again: %v", err)
	}
	c.TuneKnobs(func(k *Knobs) { k.NameTaken = 422 })
	if _, _, err := c.client.Apps.Create(t.Context(), spec); !errors.As(err, &e) || e.Response.StatusCode != 422 {
		t.Errorf("again, by the knob: %v", err)
	}
	c.Faults().Add(fault.Rule{Action: "apps_get", Count: 1, Effect: fault.Effect{Refuse: &fault.Refusal{Status: 503, RetryAfter: time.Second}}})
	if _, _, err := c.client.Apps.Get(t.Context(), list[0].ID); !errors.As(err, &e) || e.Response.StatusCode != 503 || e.Response.Header.Get("Retry-After") != "1" {
		t.Errorf("refused: %v", err)
	}
	c.Faults().Add(fault.Rule{Action: "apps_*", Count: 1, Effect: fault.Effect{Refuse: Throttle()}})
	if _, _, err := c.client.Apps.Get(t.Context(), list[0].ID); !errors.As(err, &e) || e.Response.StatusCode != 429 {
		t.Errorf("throttled: %v", err)
	}
	if n := c.Calls().Count("apps_create"); n != 3 {
		t.Errorf("%d creates are counted", n)
	}
}

// TestConsistency shows new things late, and deleted ones long.
func TestConsistency(t *testing.T) {
	c := newCloud(t, Options{})
	const delay = 150 * time.Millisecond
	c.TuneKnobs(func(k *Knobs) {
		k.ListDelay, k.GetDelay, k.DeploymentDelay, k.InvocationDelay, k.DeleteDelay = delay, delay, 2*delay, delay, delay
		k.DeployInvocations = true
	})
	app, id := c.create(t, "late", job("main", "true"))
	if list, _, err := c.client.Apps.List(t.Context(), nil); err != nil || len(list) != 0 {
		t.Errorf("the list shows it at once: %v, %v", list, err)
	}
	if status, _, rule := c.call(t, http.MethodGet, "/v2/apps/"+app.ID, nil); status != 404 || rule != ruleApp {
		t.Errorf("it is found at once: %d", status)
	}
	testwait.Until(t, long, "app", func() bool {
		_, _, err := c.client.Apps.Get(t.Context(), app.ID)
		return err == nil
	})
	if status, _, rule := c.call(t, http.MethodGet, "/v2/apps/"+app.ID+"/deployments/"+id, nil); status != 404 || rule != ruleDeployment {
		t.Errorf("the deployment is found at once: %d", status)
	}
	testwait.Until(t, long, "deployment and invocation", func() bool {
		deployments, _, err1 := c.client.Apps.ListDeployments(t.Context(), app.ID, nil)
		invocations, _, err2 := c.client.Apps.ListJobInvocations(t.Context(), app.ID, nil)
		return errors.Join(err1, err2) == nil && len(deployments) == 1 && len(invocations) == 1
	})
	if _, err := c.client.Apps.Delete(t.Context(), app.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.client.Apps.Get(t.Context(), app.ID); err != nil {
		t.Errorf("it is gone at once: %v", err)
	}
	testwait.Until(t, long, "end of the app", func() bool {
		_, _, err := c.client.Apps.Get(t.Context(), app.ID)
		return err != nil
	})
}

// TestPages walks through a list.
func TestPages(t *testing.T) {
	c := newCloud(t, Options{})
	for _, name := range []string{"aa", "bb", "cc", "dd", "ee"} {
		c.create(t, name, job("main", "true"))
	}
	walk := func(per int) (pages int, names []string) {
		opts := &godo.ListOptions{PerPage: per}
		for {
			list, resp, err := c.client.Apps.List(t.Context(), opts)
			if err != nil || resp.Meta.Total != 5 {
				t.Fatal(resp.Meta, err)
			}
			pages++
			for _, a := range list {
				names = append(names, a.Spec.Name)
			}
			if resp.Links.IsLastPage() {
				return pages, names
			}
			page, err := resp.Links.CurrentPage()
			if err != nil {
				t.Fatal(err)
			}
			opts.Page = page + 1
		}
	}
	all := []string{"ee", "dd", "cc", "bb", "aa"}
	if pages, names := walk(2); pages != 3 || !slices.Equal(names, all) {
		t.Errorf("by two: %d pages, %v", pages, names)
	}
	if pages, names := walk(0); pages != 1 || !slices.Equal(names, all) {
		t.Errorf("by default: %d pages, %v", pages, names)
	}
	c.TuneKnobs(func(k *Knobs) { k.PageSize = 1 })
	if pages, names := walk(200); pages != 5 || !slices.Equal(names, all) {
		t.Errorf("by the knob: %d pages, %v", pages, names)
	}
	if _, reply, _ := c.call(t, http.MethodGet, "/v2/apps?page=9", nil); len(reply["apps"].([]any)) != 0 {
		t.Errorf("beyond the end: %v", reply)
	}
}

// TestClock dates all by the cloud's own clock.
func TestClock(t *testing.T) {
	c := newCloud(t, Options{Now: func() time.Time { return time.Now().Add(3 * time.Hour) }})
	app, id := c.create(t, "clock", job("main", "echo x"))
	d := c.until(t, app.ID, id, godo.DeploymentPhase_Active)
	if off := time.Until(d.CreatedAt); off < 2*time.Hour || off > 4*time.Hour {
		t.Errorf("the deployment was made %s from now", off)
	}
	_, resp, err := c.client.Apps.Get(t.Context(), app.ID)
	if err != nil {
		t.Fatal(err)
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err != nil || time.Until(date) < 2*time.Hour {
		t.Errorf("the reply is of %v, %v", date, err)
	}
}

// TestState starts a second server on what the first left.
func TestState(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state")
	first := newCloud(t, Options{State: folder})
	main := job("main", "echo $S")
	main.Envs = []*godo.AppVariableDefinition{{Key: "S", Value: "hush", Type: godo.AppVariableType_Secret}}
	ended, id := first.create(t, "ended", main, cronJob("cron", "echo run", "0 0 1 1 *"))
	first.until(t, ended.ID, id, godo.DeploymentPhase_Active)
	invocation, err := first.RunNow(ended.ID, "cron")
	if err != nil {
		t.Fatal(err)
	}
	first.invocation(t, ended.ID, invocation, godo.JOBINVOCATIONPHASE_Succeeded)
	runs, id2 := first.create(t, "runs", job("main", "echo ready; exec sleep 60"))
	first.awaitLine(t, runs.ID, id2, "ready")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(folder, stateFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the state is %v, %v", info, err)
	}

	second := newCloud(t, Options{State: folder})
	if d := second.deployment(t, ended.ID, id); d.Phase != godo.DeploymentPhase_Active || step(d, "deploy", "components", "main").Status != "SUCCESS" {
		t.Errorf("the ended deployment is %v", d)
	}
	if d := second.deployment(t, runs.ID, id2); d.Phase != godo.DeploymentPhase_Error {
		t.Errorf("the deployment that ran is %v", d)
	}
	if got := texts(second.archive(t, ended.ID, id, "main")); !slices.Equal(got, []string{"hush"}) {
		t.Errorf("the log is %q", got)
	}
	second.invocation(t, ended.ID, invocation, godo.JOBINVOCATIONPHASE_Succeeded)
	if again, err := second.RunNow(ended.ID, "cron"); err != nil {
		t.Error(err)
	} else {
		second.invocation(t, ended.ID, again, godo.JOBINVOCATIONPHASE_Succeeded)
	}
	// Its secrets can still be opened.
	updated, _, err := second.client.Apps.Update(t.Context(), ended.ID, &godo.AppUpdateRequest{Spec: ended.Spec})
	if err != nil {
		t.Fatal(err)
	}
	second.until(t, ended.ID, updated.PendingDeployment.ID, godo.DeploymentPhase_Active)
	if got := texts(second.archive(t, ended.ID, updated.PendingDeployment.ID, "main")); !slices.Equal(got, []string{"hush"}) {
		t.Errorf("the log is %q", got)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, stateFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{State: folder}); err == nil || !strings.Contains(err.Error(), stateFile) {
		t.Errorf("a broken state: %v", err)
	}
}

// TestDocker runs jobs in an engine, with their images and memory limits.
func TestDocker(t *testing.T) {
	host := testneed.Docker(t)
	executor, err := run.NewDocker(host)
	if err != nil {
		t.Fatal(err)
	}
	c := newCloud(t, Options{Executor: executor})
	app, id := c.create(t, "docker", job("main", "cat /etc/passwd | head -n 1; echo $0"))
	c.until(t, app.ID, id, godo.DeploymentPhase_Active)
	if got := texts(c.archive(t, app.ID, id, "main")); len(got) != 2 || !strings.HasPrefix(got[0], "root:") || got[1] != "/bin/sh" {
		t.Errorf("the log is %q", got)
	}
	app, id = c.create(t, "nosuch", with(job("main", "true"), func(j *godo.AppJobSpec) { j.Image.Tag = "nosuch" }))
	d := c.until(t, app.ID, id, godo.DeploymentPhase_Error)
	if s := step(d, "deploy", "components", "main"); s.Reason.Code != "" || !strings.Contains(s.Reason.Message, "could not be pulled: busybox:nosuch") {
		t.Errorf("the reason is %v", s.Reason)
	}
	c.TuneKnobs(func(k *Knobs) { k.NoShell = true })
	app, id = c.create(t, "noexec", job("main", "/nosuch"))
	d = c.until(t, app.ID, id, godo.DeploymentPhase_Error)
	if s := step(d, "deploy", "components", "main"); s.Reason.Code != codeExec {
		t.Errorf("the reason is %v", s.Reason)
	}
}
