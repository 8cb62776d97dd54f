package sdk_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]sdk.Target{
		"laptop/web":                     {Provider: "laptop", Path: "web"},
		"prod/shop/Deployment/api":       {Provider: "prod", Path: "shop/Deployment/api"},
		"run/europe-west1/api":           {Provider: "run", Path: "europe-west1/api"},
		"prod/räume/Deployment/ä":        {Provider: "prod", Path: "räume/Deployment/ä"},
		"prod/a.b:c@d/" + "x" + "#?=&+,": {Provider: "prod", Path: "a.b:c@d/x#?=&+,"},
	} {
		got, err := sdk.ParseTarget(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q: %+v (%s), %v", text, got, got, err)
		}
	}
	for _, text := range []string{"", "web", "/web", "prod/", "prod//web", "prod/a/", "prod/../x", "prod/./x", "./x", "prod/a b", "prod/a\tb", "prod/a\x00", "pr od/x",
		"prod/\xff", "prod/\u2028", "prod/\uFFFD", "prod/" + strings.Repeat("x", sdk.MaxTarget)} {
		got, err := sdk.ParseTarget(text)
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != sdk.InvalidArgument || e.ID != "svc.bad-target" || !got.IsZero() {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestJoinPath(t *testing.T) {
	p, err := sdk.JoinPath("shop", "Deployment", "api")
	if err != nil || p != "shop/Deployment/api" || p.Name() != "api" || len(p.Segments()) != 3 {
		t.Errorf("%q, %v", p, err)
	}
	for _, segs := range [][]string{{}, {""}, {"a", ""}, {"a/b", "c"}, {"..", "c"}} {
		if p, err := sdk.JoinPath(segs...); !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("%q: %q, %v", segs, p, err)
		}
	}
}

func TestTargetAsText(t *testing.T) {
	want := sdk.Target{Provider: "prod", Path: "a/b"}
	b, err := json.Marshal(map[string]sdk.Target{"t": want})
	if err != nil || string(b) != `{"t":"prod/a/b"}` {
		t.Fatalf("%s, %v", b, err)
	}
	var got map[string]sdk.Target
	if err := json.Unmarshal(b, &got); err != nil || got["t"] != want {
		t.Errorf("%+v, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`{"t":"prod"}`), &got); err == nil {
		t.Error("half a target is read")
	}
	if _, err := json.Marshal(sdk.Target{Provider: "a/b", Path: "c"}); err == nil {
		t.Error("a target that can't be read again is written")
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"prod/a/b", "x", "/", "a/../b", "prod/ü", "prod/a b", "\xff/\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := sdk.ParseTarget(s)
		if err != nil {
			if !errors.Is(err, sdk.InvalidArgument) || !got.IsZero() {
				t.Fatalf("%q: %+v, %v", s, got, err)
			}
			return
		}
		again, err := sdk.ParseTarget(got.String())
		if got.String() != s || err != nil || again != got {
			t.Fatalf("%q: read as %q, and again as %+v, %v", s, got, again, err)
		}
		p, err := sdk.JoinPath(got.Path.Segments()...)
		if err != nil || p != got.Path {
			t.Fatalf("%q: joined as %q, %v", s, p, err)
		}
	})
}
