package ecs

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/resourcetest"
)

// resourceWorld is a pocket cloud with a harness for its types.
func resourceWorld(t *testing.T) (*world, map[string]resourcetest.Harness) {
	w := newWorld(t, pocket.Options{Clusters: []string{"prod"}}, nil)
	ids := sdk.NewIDSource(sdk.SystemClock())
	open := func(t testing.TB) sdk.Provider {
		p, err := Driver().Open(t.Context(), w.Request())
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	return w, map[string]resourcetest.Harness{
		typeLogGroup: {
			Driver: Driver(), Type: typeLogGroup, Open: open,
			Name:     func() string { return "/wl/" + ids.NewID().Short() },
			Config:   json.RawMessage(`{"retention_days":7,"tags":{"team":"a","old":"x"}}`),
			Changed:  json.RawMessage(`{"tags":{"team":"b"}}`),
			Replaced: json.RawMessage(`{"retention_days":7,"class":"INFREQUENT_ACCESS","tags":{"team":"a","old":"x"}}`),
			Foreign:  json.RawMessage(`{}`),
			Forge: func(t testing.TB, name string) {
				p := w.Open()
				if _, err := p.logs.CreateLogGroup(t.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &name}); err != nil {
					t.Fatal(err)
				}
			},
			LoseReply: func(_ testing.TB, v sdk.ResourceVerb) {
				action := map[sdk.ResourceVerb]string{sdk.VerbCreate: "logs:CreateLogGroup", sdk.VerbDelete: "logs:DeleteLogGroup"}[v]
				w.cloud.Faults().Add(fault.Rule{Action: action, Count: 1, Effect: fault.Effect{Drop: true}})
			},
		},
		typeCluster: {
			Driver: Driver(), Type: typeCluster, Open: open,
			Existing: sdk.ResourceRef{Name: "prod", Type: typeCluster},
			Config:   json.RawMessage(`{"capacity_providers":["FARGATE_SPOT","FARGATE"]}`),
		},
	}
}

// TestResources runs the suite of resources on the pocket cloud.
func TestResources(t *testing.T) {
	_, hs := resourceWorld(t)
	for typ, h := range hs {
		t.Run(typ, func(t *testing.T) { resourcetest.Run(t, h) })
	}
}

// TestHalfMadeLogGroup: where the call that follows the making of a group fails, the
// error proves nothing, and the same change again finishes it.
func TestHalfMadeLogGroup(t *testing.T) {
	w, _ := resourceWorld(t)
	d, _ := sdk.Of(sdk.Provider(w.Open()), sdk.Resources())
	ids := sdk.NewIDSource(sdk.SystemClock())
	op := ids.NewID()
	create := func() (sdk.CreateResourceResult, error) {
		return d.CreateResource(t.Context(), sdk.CreateResourceRequest{OpID: op,
			Spec: sdk.ResourceSpec{Name: "half", Type: typeLogGroup, Config: json.RawMessage(`{"retention_days":7}`)}})
	}
	w.cloud.Faults().Add(fault.Rule{Action: "logs:PutRetentionPolicy", Count: 1,
		Effect: fault.Effect{Refuse: &fault.Refusal{Status: http.StatusBadRequest, Code: "OperationAbortedException", Message: "another operation goes on"}}})
	if _, err := create(); err == nil || sdk.IsClear(err) {
		t.Errorf("a half made group: %v", err)
	}
	res, err := create()
	if err != nil || !strings.Contains(string(res.Output.Outputs), `"retention_days":7`) {
		t.Errorf("the same again: %s, %v", res.Output.Outputs, err)
	}
	// An update whose last call fails isn't on record.
	w.cloud.Faults().Add(fault.Rule{Action: "logs:TagResource", Count: 1, Effect: fault.Effect{Reset: true}})
	ref := sdk.ResourceRef{Name: "half", Type: typeLogGroup}
	_, err = d.UpdateResource(t.Context(), sdk.UpdateResourceRequest{OpID: ids.NewID(), Ref: ref, Spec: sdk.ResourceSpec{Name: "half", Type: typeLogGroup}})
	if err == nil || sdk.IsClear(err) {
		t.Errorf("a half done update: %v", err)
	}
	got, err := d.ReadResource(t.Context(), sdk.ReadResourceRequest{Ref: ref})
	if err != nil || got.OpID != op || strings.Contains(string(got.Output.Outputs), `"retention_days":7`) {
		t.Errorf("read %+v, %v", got, err)
	}
}

// TestLogGroupConfigs: what CloudWatch Logs can't do is refused before it is asked.
func TestLogGroupConfigs(t *testing.T) {
	w, _ := resourceWorld(t)
	d, _ := sdk.Of(sdk.Provider(w.Open()), sdk.Resources())
	for config, field := range map[string]string{
		`{"retention_days":2}`:             "config.retention_days",
		`{"class":"COLD"}`:                 "config.class",
		`{"tags":{"aws:x":"y"}}`:           "config.tags.aws:x",
		`{"tags":{"windlass-owner":"me"}}`: "config.tags.windlass-owner",
		`{"tags":{"k":"` + "\x00" + `"}}`:  "config",
		`{"retention":7}`:                  "config.retention",
	} {
		_, err := d.CreateResource(t.Context(), sdk.CreateResourceRequest{OpID: sdk.NewIDSource(sdk.SystemClock()).NewID(),
			Spec: sdk.ResourceSpec{Name: "never", Type: typeLogGroup, Config: json.RawMessage(config)}})
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != sdk.InvalidArgument || !strings.HasPrefix(e.Field, field) {
			t.Errorf("%q: %v", config, err)
		}
	}
	for _, name := range []string{"a b", "ü", "aws/mine", strings.Repeat("x", 513)} {
		_, err := d.CreateResource(t.Context(), sdk.CreateResourceRequest{OpID: sdk.NewIDSource(sdk.SystemClock()).NewID(), Spec: sdk.ResourceSpec{Name: name, Type: typeLogGroup}})
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != sdk.InvalidArgument || e.Field != "name" {
			t.Errorf("%.20q: %v", name, err)
		}
	}
	// All that is wrong is told at once, by a comparison with nothing too.
	_, err := d.DiffResource(t.Context(), sdk.DiffResourceRequest{Current: sdk.ResourceOutput{Type: typeLogGroup, Outputs: json.RawMessage("{}")},
		Desired: sdk.ResourceSpec{Name: "a b", Type: typeLogGroup, Size: "large", Config: json.RawMessage(`{"retention_days":2,"tags":{"aws:x":"y"}}`)}})
	var ps sdk.Problems
	if !errors.As(err, &ps) || len(ps) != 4 || sdk.CodeOf(err) != sdk.InvalidArgument {
		t.Errorf("all at once: %v", err)
	}
	if n := len(w.cloud.Calls().Calls("logs:CreateLogGroup")); n != 0 {
		t.Errorf("%d calls", n)
	}
}

// TestManyLogGroups finds a group behind the first page of those that begin alike.
func TestManyLogGroups(t *testing.T) {
	w, _ := resourceWorld(t)
	p := w.Open()
	for i := range 55 {
		name := "app-" + string(rune('0'+i/10)) + string(rune('0'+i%10))
		if _, err := p.logs.CreateLogGroup(t.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &name}); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]sdk.Code{"app-54": 0, "app-": sdk.NotFound, "app-5": sdk.NotFound} {
		if _, err := p.ReadResource(context.WithoutCancel(t.Context()), sdk.ReadResourceRequest{Ref: sdk.ResourceRef{Name: name, Type: typeLogGroup}}); sdk.CodeOf(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCluster compares what is named alone, and tells a cluster that is gone.
func TestCluster(t *testing.T) {
	w, _ := resourceWorld(t)
	p := w.Open()
	ref := sdk.ResourceRef{Name: "prod", Type: typeCluster}
	got, err := p.ReadResource(t.Context(), sdk.ReadResourceRequest{Ref: ref})
	if err != nil || got.Output.Status != clusterActive || !strings.HasSuffix(got.Output.ProviderID, "cluster/prod") {
		t.Fatalf("read %+v, %v", got, err)
	}
	d, err := p.DiffResource(t.Context(), sdk.DiffResourceRequest{Current: got.Output, Desired: sdk.ResourceSpec{Name: "prod", Type: typeCluster,
		Config: json.RawMessage(`{"capacity_providers":["FARGATE"],"tags":{"team":"a"}}`)}})
	if err != nil || !d.NeedsUpdate || len(d.Changes) != 2 {
		t.Errorf("diff %+v, %v", d, err)
	}
	_, err = p.DeleteResource(t.Context(), sdk.DeleteResourceRequest{OpID: sdk.NewIDSource(sdk.SystemClock()).NewID(), Ref: ref})
	if !errors.Is(err, sdk.Unimplemented) || !strings.Contains(err.Error(), "provisioned") {
		t.Errorf("delete: %v", err)
	}
}
