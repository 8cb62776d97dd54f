package launch_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/driver/launch"
	"github.com/windlass-run/windlass/sdk"
)

// TestAllAtOnce: what no backend takes, what the table refuses and what the options
// lack stand side by side.
func TestAllAtOnce(t *testing.T) {
	d := launch.New(sdk.JobSpec{User: "u", Retries: -1, CPU: 250, Profile: sdk.ProfileStrict, Args: sdk.Argv{"\xff"}, Env: sdk.Env{"A": "\xff"}, Workdir: "w", Options: []byte(`{"zon": "1"}`)},
		[]sdk.FieldSupport{{Field: "user", Refused: "no users"}})
	var o struct{ Zone string }
	d.Options(sdk.Schema{Fields: []sdk.SchemaField{{Name: "zone", Type: sdk.TypeString}}}, &o)
	d.Image("X")
	d.Permissive("X")
	d.Workdir()
	d.TextArgv("X")
	d.TextEnv("X")
	d.Wrong("cpu", "whole cores")
	d.Within("options", []sdk.Problem{{Field: "subnet", Message: "is missing"}})
	var fields []string
	for _, p := range d.Problems {
		fields = append(fields, p.Field)
	}
	if want := []string{"retries", "user", "options.zon", "image", "profile", "workdir", "args[0]", "env.A", "cpu", "options.subnet"}; !slices.Equal(fields, want) {
		t.Errorf("got %q, want %q", fields, want)
	}
	if !d.Has("cpu") || !d.Has("env") || !d.Has("args") || d.Has("retrie") || d.Has("memory") {
		t.Error("a field has, or lacks, a problem")
	}
	if text := sdk.JoinProblems(d.Problems); !strings.Contains(text, `cpu "250": whole cores`) || !strings.Contains(text, `user "u": no users`) {
		t.Errorf("%s", text)
	}
}

func TestCommand(t *testing.T) {
	some, none := sdk.Argv{"a", "b"}, sdk.Argv{}
	for name, c := range map[string]struct {
		s           sdk.JobSpec
		entry, args []string
		problem     string
	}{
		"unset":                     {},
		"args":                      {s: sdk.JobSpec{Args: some}, args: some},
		"both":                      {s: sdk.JobSpec{Entrypoint: sdk.Argv{"e"}, Args: some}, entry: []string{"e"}, args: some},
		"cleared entrypoint":        {s: sdk.JobSpec{Entrypoint: none, Args: some}, entry: []string{"a"}, args: []string{"b"}},
		"cleared args":              {s: sdk.JobSpec{Args: none, ImageEntrypoint: some}, entry: some},
		"cleared args of who knows": {s: sdk.JobSpec{Args: none}, problem: "can't clear"},
		"nothing":                   {s: sdk.JobSpec{Entrypoint: none, Args: none}, problem: "nothing is left"},
		"nothing in the image":      {s: sdk.JobSpec{Args: none, ImageEntrypoint: none}, problem: "nothing is left"},
	} {
		d := launch.New(c.s, nil)
		entry, args := d.Command("X")
		if !slices.Equal(entry, c.entry) || !slices.Equal(args, c.args) || c.problem == "" != (len(d.Problems) == 0) || !strings.Contains(sdk.JoinProblems(d.Problems), c.problem) {
			t.Errorf("%s: %q %q, %s", name, entry, args, sdk.JoinProblems(d.Problems))
		}
	}
}

func TestReader(t *testing.T) {
	self := sdk.Identity{Kind: "k", Account: "a"}
	r := launch.Reader[string]{Provider: "p", Identity: self, Decode: func(raw json.RawMessage) (s string, err error) { return s, json.Unmarshal(raw, &s) }}
	good := sdk.Launch{V: 1, Identity: self, Request: []byte(`"x"`)}
	if got, err := r.ToSend("run job", good); got != "x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, ok, err := r.Read("find job", sdk.Launch{V: 1, Identity: self}); ok || err != nil {
		t.Errorf("without a request: %t, %v", ok, err)
	}
	change := func(f func(*sdk.Launch)) sdk.Launch { l := good; f(&l); return l }
	for want, l := range map[string]sdk.Launch{
		"no request":   change(func(l *sdk.Launch) { l.Request = nil }),
		"has problems": change(func(l *sdk.Launch) { l.Problems = []sdk.Problem{{Field: "f", Message: "m"}} }),
		"read the":     change(func(l *sdk.Launch) { l.Request = []byte("{}") }),
		"version":      change(func(l *sdk.Launch) { l.V = 9 }),
		"belongs to":   change(func(l *sdk.Launch) { l.Identity.Account = "b" }),
	} {
		if _, err := r.ToSend("run job", l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
