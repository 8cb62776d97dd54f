package appplatform

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/cloud/registry"
	pocket "github.com/windlass-run/windlass/internal/pocket/digitalocean"
	"github.com/windlass-run/windlass/sdk"
)

// TestRegistryTellsTheEntrypoint: where the image's own entry point has to be known
// its registry is asked, as the user that App Platform is given; an answer is kept
// with the launch, and none is a refusal that says what to do.
func TestRegistryTellsTheEntrypoint(t *testing.T) {
	w := newWorld(t, pocket.Options{}, map[string]any{"registry": "ours"})
	w.Secrets.Set("LOGIN", []byte("me:canary-registry-token"))
	w.Secrets.Set("NO_LOGIN", []byte("canary-registry-token"))
	p := w.Open()
	const login, noLogin = `{"registry_credentials":"secret://env/LOGIN"}`, `{"registry_credentials":"secret://env/NO_LOGIN"}`
	for name, c := range map[string]struct {
		image, options string
		args, entry    sdk.Argv
		answer         sdk.Argv
		err            error
		as             string // the user that the registry sees
		want           string // the run command, or words of the refusal
		asked          int
	}{
		"public":               {image: "team/app:1", args: sdk.Argv{"x"}, answer: sdk.Argv{"/entry", "-i"}, want: "'/entry' '-i' 'x'", asked: 1},
		"private":              {image: "ghcr.io/team/app:1", options: login, args: sdk.Argv{"x"}, answer: sdk.Argv{"/entry"}, as: "me", want: "'/entry' 'x'", asked: 1},
		"without any":          {image: "app", args: sdk.Argv{"x"}, answer: sdk.Argv{}, want: "'x'", asked: 1},
		"cleared arguments":    {image: "app", args: sdk.Argv{}, answer: sdk.Argv{"/entry"}, want: "'/entry'", asked: 1},
		"nothing left":         {image: "app", args: sdk.Argv{}, answer: sdk.Argv{}, want: "nothing is left to run", asked: 1},
		"for users alone":      {image: "app", args: sdk.Argv{"x"}, err: registry.ErrLogin, want: "name a user in registry_credentials", asked: 1},
		"gone":                 {image: "app", args: sdk.Argv{"x"}, err: errors.New("404 MANIFEST_UNKNOWN"), want: "404 MANIFEST_UNKNOWN; give image_entrypoint", asked: 1},
		"the account's own":    {image: "registry.digitalocean.com/ours/app", args: sdk.Argv{"x"}, want: "without a login of its own; give image_entrypoint"},
		"with another problem": {image: "team/app:1", options: `{"region":"New York"}`, args: sdk.Argv{"x"}, err: errors.New("404 MANIFEST_UNKNOWN"), want: "404 MANIFEST_UNKNOWN; give image_entrypoint", asked: 1},
		"no such registry":     {image: "quay.io/team/app:1", args: sdk.Argv{"x"}, want: "not from quay.io"},
		"own entry point":      {image: "app", args: sdk.Argv{"x"}, entry: sdk.Argv{"/mine"}, want: "'/mine' 'x'"},
		"the image's command":  {image: "app"},
		"no USER:TOKEN":        {image: "team/app:1", options: noLogin, args: sdk.Argv{"x"}, want: "doesn't read USER:TOKEN"},
	} {
		asked, as := 0, ""
		p.entrypoint = func(_ context.Context, image string, login registry.Login) (sdk.Argv, error) {
			asked, as = asked+1, login.Username
			if image != c.image {
				t.Errorf("%s: %s was asked for", name, image)
			}
			return c.answer, c.err
		}
		ids := sdk.NewIDSource(sdk.SystemClock())
		l, err := p.PrepareJob(t.Context(), sdk.PrepareJobRequest{RunID: ids.NewID(), AttemptID: ids.NewID(), Attempt: 1,
			Spec: sdk.JobSpec{Image: c.image, Args: c.args, Entrypoint: c.entry, Options: []byte(c.options)}})
		got := sdk.JoinProblems(l.Problems)
		if err != nil {
			got = err.Error()
		} else if len(l.Problems) == 0 {
			r, err := decodeRequest(l.Request)
			if err != nil {
				t.Fatal(err)
			}
			got = r.App.Spec.Jobs[0].RunCommand
			if told := l.Read[readEntrypoint] != ""; told != (asked > 0) {
				t.Errorf("%s: the launch keeps %v", name, l.Read)
			}
		}
		if asked != c.asked || as != c.as || c.want == "" && got != "" || !strings.Contains(got, c.want) || strings.Contains(got, "canary") {
			t.Errorf("%s: %s; asked %d times as %q", name, got, asked, as)
		}
	}
	w.Unseen("canary-registry-token")
}

// TestStoppedWhileTheRegistryIsAsked: a person who leaves has no refused job.
func TestStoppedWhileTheRegistryIsAsked(t *testing.T) {
	p := newWorld(t, pocket.Options{}, nil).Open()
	ctx, cancel := context.WithCancel(t.Context())
	p.entrypoint = func(ctx context.Context, _ string, _ registry.Login) (sdk.Argv, error) {
		cancel()
		return nil, ctx.Err()
	}
	ids := sdk.NewIDSource(sdk.SystemClock())
	l, err := p.PrepareJob(ctx, sdk.PrepareJobRequest{RunID: ids.NewID(), AttemptID: ids.NewID(), Attempt: 1, Spec: sdk.JobSpec{Image: "app", Args: sdk.Argv{"x"}}})
	if sdk.CodeOf(err) != sdk.Canceled || slices.ContainsFunc(l.Problems, func(p sdk.Problem) bool { return p.Field == "image_entrypoint" }) {
		t.Errorf("%v, %s", err, sdk.JoinProblems(l.Problems))
	}
}
