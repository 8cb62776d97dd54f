package digitalocean

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/digitalocean/godo"
)

// change returns a copy of an object with members changed; a path leads inwards
// by dots, into the first of a list, and nil takes the member out.
func change(base doc, path string, value any) doc {
	data, _ := json.Marshal(base)
	var out doc
	_ = json.Unmarshal(data, &out)
	at := out
	parts := strings.Split(path, ".")
	for _, p := range parts[:len(parts)-1] {
		if list, ok := at[p].([]any); ok {
			at = list[0].(doc)
		} else {
			at = at[p].(doc)
		}
	}
	if last := parts[len(parts)-1]; value == nil {
		delete(at, last)
	} else {
		at[last] = value
	}
	return out
}

// TestRules breaks every rule: each row of the table must have a case here, and
// be named by the refusal with its status.
func TestRules(t *testing.T) {
	c := newCloud(t, Options{})
	app, deployment := c.create(t, "there", job("main", "true"), cronJob("cron", "true", "0 0 1 1 *"))
	c.until(t, app.ID, deployment, godo.DeploymentPhase_Active)
	invocation, err := c.RunNow(app.ID, "cron")
	if err != nil {
		t.Fatal(err)
	}
	c.invocation(t, app.ID, invocation, godo.JOBINVOCATIONPHASE_Succeeded)

	good := doc{"spec": doc{"name": "new", "jobs": []doc{{"name": "main", "kind": "SCHEDULED", "schedule": doc{"cron": "0 0 * * *"}, "run_command": "true",
		"image": doc{"registry_type": "DOCKER_HUB", "registry": "library", "repository": "busybox", "tag": "local"}, "envs": []doc{{"key": "A", "value": "1"}}}}}}
	const jobs, img = "spec.jobs.", "spec.jobs.image."
	apps, one := "/v2/apps", "/v2/apps/"+app.ID
	dep, inv := one+"/deployments/"+deployment, one+"/job-invocations/"+invocation
	env := func(more doc) []doc {
		v := doc{"key": "A", "value": "1"}
		for k, x := range more {
			v[k] = x
		}
		return []doc{v}
	}

	untested := map[string]Rule{}
	for _, r := range Rules() {
		if _, twice := untested[r.ID]; twice {
			t.Errorf("rule %s stands twice", r.ID)
		}
		if !strings.HasPrefix(r.Doc, "https://") || r.Text == "" || (r.Status == 0) == (r.Test == "") {
			t.Errorf("rule %s wants a text, a page, and a status or a test: %+v", r.ID, r)
		}
		untested[r.ID] = r
	}
	rules := map[string]Rule{}
	for id, r := range untested {
		rules[id] = r
	}
	for _, k := range []struct {
		rule, method, path string
		body               any
	}{
		{ruleRoute, "PATCH", one, nil},
		{ruleRoute, "POST", one + "/jobs/cron/invocations", doc{}}, // there is no call that starts one
		{ruleQuery, "GET", apps + "?name=x", nil},
		{ruleQuery, "GET", apps + "?page=1&page=2", nil},
		{ruleQuery, "GET", dep + "/logs?type=RUN&follow=maybe", nil},
		{ruleQuery, "GET", dep + "/logs?type=RUN&tail_lines=few", nil},
		{ruleQuery, "GET", dep + "/logs?type=RUN&pod_connection_timeout=5", nil},
		{ruleBody, "POST", apps, ""},
		{ruleBody, "POST", apps, "{"},
		{ruleBody, "POST", apps, "{} {}"},
		{ruleUnknown, "POST", apps, change(good, "spec.jobs.comand", "x")},
		{ruleUnknown, "POST", apps, change(good, "Spec", doc{})},
		{ruleUnknown, "POST", apps, change(good, img+"deploy_on_push", doc{"on": true})},
		{ruleUnknown, "POST", one + "/deployments", doc{"rebuild": true}},
		{ruleType, "POST", apps, change(good, "spec.name", 7)},
		{ruleType, "POST", apps, change(good, "spec.jobs", doc{})},
		{ruleType, "POST", apps, change(good, "spec.jobs", []any{nil})},
		{ruleType, "POST", apps, change(good, jobs+"envs", []any{nil})},
		{ruleType, "POST", apps, change(good, jobs+"instance_count", "1")},
		{ruleType, "POST", apps, change(good, jobs+"instance_count", 1.5)},
		{ruleType, "POST", apps, change(good, jobs+"run_command", []string{"true"})},
		{ruleType, "POST", apps, []string{}},
		{rulePage, "GET", apps + "?page=0", nil},
		{rulePage, "GET", apps + "?per_page=201", nil},
		{rulePage, "GET", one + "/deployments?per_page=x", nil},
		{ruleApp, "GET", apps + "/nosuch", nil},
		{ruleApp, "GET", one + "?name=other", nil},
		{ruleApp, "PUT", apps + "/nosuch", good},
		{ruleApp, "DELETE", apps + "/nosuch", nil},
		{ruleApp, "POST", apps + "/propose", change(good, "app_id", "nosuch")},
		{ruleDeployment, "GET", one + "/deployments/nosuch", nil},
		{ruleDeployment, "POST", one + "/deployments/nosuch/cancel", nil},
		{ruleDeployment, "GET", one + "/jobs/cron/invocations/" + invocation + "/logs?type=JOB_INVOCATION&deployment_id=other", nil},
		{ruleInvocation, "GET", one + "/job-invocations/nosuch", nil},
		{ruleInvocation, "GET", inv + "?job_name=main", nil},
		{ruleInvocation, "GET", one + "/jobs/main/invocations/" + invocation + "/logs?type=JOB_INVOCATION", nil},
		{ruleSize, "GET", apps + "/tiers/instance_sizes/huge", nil},

		{ruleSpec, "POST", apps, doc{}},
		{ruleSpec, "PUT", one, doc{"spec": nil}},
		{ruleName, "POST", apps, change(good, "spec.name", nil)},
		{ruleName, "POST", apps, change(good, "spec.name", "a")},
		{ruleName, "POST", apps, change(good, "spec.name", "Upper")},
		{ruleName, "POST", apps, change(good, "spec.name", "1st")},
		{ruleName, "POST", apps, change(good, "spec.name", "end-")},
		{ruleName, "POST", apps, change(good, "spec.name", strings.Repeat("a", 33))},
		{ruleNameTaken, "POST", apps, change(good, "spec.name", "there")},
		{ruleRegion, "POST", apps, change(good, "spec.region", "moon")},
		{ruleComponents, "POST", apps, change(good, "spec.jobs", nil)},
		{ruleCompName, "POST", apps, change(good, jobs+"name", "a_b")},
		{ruleCompTwice, "POST", apps, change(good, "spec.jobs", slices.Repeat(good["spec"].(doc)["jobs"].([]doc), 2))},
		{ruleUnsupported, "POST", apps, change(good, "spec.services", []doc{{"name": "web"}})},
		{ruleUnsupported, "POST", apps, change(good, "spec.vpc", doc{"id": "x"})},
		{ruleUnsupported, "POST", apps, change(good, jobs+"log_destinations", []doc{{"name": "x"}})},
		{ruleUnsupported, "POST", apps, change(change(good, jobs+"image", nil), jobs+"git", doc{"branch": "main"})},
		{ruleKind, "POST", apps, change(good, jobs+"kind", "EPHEMERAL")},
		{ruleSchedule, "POST", apps, change(good, jobs+"kind", "PRE_DEPLOY")},
		{ruleSchedule, "POST", apps, change(good, jobs+"schedule", nil)},
		{ruleCron, "POST", apps, change(good, jobs+"schedule.cron", "hourly")},
		{ruleTimeZone, "POST", apps, change(good, jobs+"schedule.time_zone", "Moon/Tycho")},
		{ruleTimeZone, "POST", apps, change(good, jobs+"schedule.time_zone", "Local")},
		{ruleTimeout, "POST", apps, change(good, jobs+"timeout", "1 hour")},
		{ruleTimeout, "POST", apps, change(good, jobs+"timeout", "0s")},
		{ruleGrace, "POST", apps, change(good, jobs+"termination", doc{"grace_period_seconds": 601})},
		{ruleGrace, "POST", apps, change(good, jobs+"termination", doc{"grace_period_seconds": -1})},
		{ruleSlug, "POST", apps, change(good, jobs+"instance_size_slug", "huge")},
		{ruleCount, "POST", apps, change(good, jobs+"instance_count", 2)},
		{ruleSource, "POST", apps, change(good, jobs+"image", nil)},
		{ruleSource, "POST", apps, change(good, jobs+"github", doc{"repo": "a/b", "branch": "main"})},
		{ruleRegistryType, "POST", apps, change(good, img+"registry_type", nil)},
		{ruleRegistryType, "POST", apps, change(good, img+"registry_type", "QUAY")},
		{ruleRegistry, "POST", apps, change(good, img+"registry", nil)},
		{ruleRegistry, "POST", apps, change(good, img+"registry_type", "DOCR")},
		{ruleRepository, "POST", apps, change(good, img+"repository", "")},
		{ruleTagDigest, "POST", apps, change(good, img+"digest", "sha256:0")},
		{ruleDeployOnPush, "POST", apps, change(good, img+"deploy_on_push", doc{"enabled": true})},
		{ruleEnvKey, "POST", apps, change(good, jobs+"envs", env(doc{"key": "1A"}))},
		{ruleEnvKey, "POST", apps, change(good, jobs+"envs", env(doc{"key": "A-B"}))},
		{ruleEnvTwice, "POST", apps, change(good, jobs+"envs", slices.Repeat(env(nil), 2))},
		{ruleEnvTwice, "POST", apps, change(good, "spec.envs", slices.Repeat(env(nil), 2))},
		{ruleEnvScope, "POST", apps, change(good, jobs+"envs", env(doc{"scope": "ALWAYS"}))},
		{ruleEnvType, "POST", apps, change(good, jobs+"envs", env(doc{"type": "HIDDEN"}))},
		{ruleSealed, "POST", apps, change(good, jobs+"envs", env(doc{"type": "SECRET", "value": "EV[1:zqiRIeaaYK/NqctZDYzy6t0pTrtRDez8:wqGpZRrsKN5nPhWQrS479cfBiXT0WQ==]"}))},
		{ruleSealed, "POST", apps, change(good, img+"registry_credentials", "EV[nonsense")},
		{ruleCancelDone, "POST", dep + "/cancel", nil},
		{ruleCancelDone, "POST", inv + "/cancel", nil},
		{ruleLogType, "GET", dep + "/logs", nil},
		{ruleLogType, "GET", dep + "/logs?type=JOB_INVOCATION", nil},
		{ruleLogType, "GET", one + "/jobs/cron/invocations/" + invocation + "/logs?type=RUN", nil},
		{ruleLogNone, "GET", dep + "/logs?type=BUILD", nil},
		{ruleLogNone, "GET", dep + "/components/cron/logs?type=RUN", nil},
		{ruleLogComponent, "GET", one + "/components/nosuch/logs?type=RUN", nil},
		{ruleLogURL, "GET", archivePath + "?token=x", nil},
		{ruleLogURL, "GET", livePath, nil},
	} {
		status, reply, rule := c.call(t, k.method, k.path, k.body)
		if rule != k.rule || status != rules[k.rule].Status || reply["id"] != idOf(status) || reply["message"] == "" || reply["request_id"] == "" {
			t.Errorf("%s: %s %s got %d, rule %q, %v", k.rule, k.method, k.path, status, rule, reply)
		}
		delete(untested, k.rule)
	}
	// These need a cloud of another making, and have tests of their own.
	for _, elsewhere := range []string{ruleToken, ruleScope, ruleRateHour, ruleRateMinute} {
		delete(untested, elsewhere)
	}
	for id, r := range untested {
		if r.Status != 0 {
			t.Errorf("rule %s has no case", id)
		} else if !hasTest(t, r.Test) {
			t.Errorf("rule %s names a test %s that isn't here", id, r.Test)
		}
	}
	if status, reply, _ := c.call(t, http.MethodPost, apps, good); status != 200 {
		t.Errorf("unchanged, the spec is refused: %v", reply)
	}
}

// hasTest looks for a test in this package's files.
func hasTest(t *testing.T, name string) bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(data, []byte("func "+name+"(t *testing.T)"))
	})
}

// FuzzRead takes from a body nothing but what the types have.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{"spec":{"name":"a","jobs":[{"name":"b","envs":[{"key":"K","value":"v"}]}]}}`, `{"spec":null}`, `{"spec":{"jobs":[null]}}`,
		`{"spec":{"name":1}}`, `[]`, `null`, `{"project_id":"x","Spec":{}}`, `{"spec":{"jobs":[{"instance_count":1e400}]}}`} {
		f.Add([]byte(seed))
	}
	s, err := New(Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	f.Fuzz(func(t *testing.T, body []byte) {
		var in godo.AppCreateRequest
		if read(body, &in) != nil {
			return
		}
		// What was taken can be written and taken again.
		out, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var again godo.AppCreateRequest
		if e := read(out, &again); e != nil {
			t.Errorf("%s isn't taken again: %v", out, e)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if e := s.admit(in.Spec); e == nil {
			if e := s.admit(in.Spec); e != nil {
				t.Errorf("an admitted spec is refused: %v", e)
			}
		}
	})
}
