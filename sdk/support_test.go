package sdk_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// TestRefused: what a table refuses is refused wherever it is set, all at once,
// with its value as the job holds it.
func TestRefused(t *testing.T) {
	grace := 5 * time.Second
	s := sdk.JobSpec{User: "-1", Workdir: "/w", GPU: -1, EphemeralStorage: 3 << 29, Grace: &grace, Stdin: sdk.StdinSpooled, ImageEntrypoint: sdk.Argv{},
		Memory: 1, Mounts: []sdk.Mount{{Target: "/a"}, {Target: "/b"}}, Files: []sdk.InputFile{{Path: "/c"}}}
	var table []sdk.FieldSupport
	for _, field := range []string{"user", "workdir", "gpu", "ephemeral_storage", "grace", "stdin", "image_entrypoint", "mounts", "files", "pids", "name", "ttl"} {
		table = append(table, sdk.FieldSupport{Field: field, Refused: "no " + field})
	}
	table = append(table, sdk.FieldSupport{Field: "memory", Values: "some"})
	got := sdk.JoinProblems(sdk.Refused(s, table))
	want := strings.Join([]string{`user "-1": no user`, `workdir "/w": no workdir`, `ephemeral_storage "1610612736": no ephemeral_storage`, `grace "5s": no grace`, `stdin "spooled": no stdin`,
		`mounts[0] "/a": no mounts`, `mounts[1] "/b": no mounts`, `files[0] "/c": no files`}, "; ")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, p := range sdk.Refused(s, table) {
		if p.Code != sdk.Unimplemented {
			t.Errorf("%s: %s", p, p.Code)
		}
	}
}

// TestRefusedFieldByField: a table that refuses everything refuses every field that is
// set, and none that isn't.
func TestRefusedFieldByField(t *testing.T) {
	grace := time.Second
	s := sdk.JobSpec{Name: "n", Image: "i", Entrypoint: sdk.Argv{"e"}, Args: sdk.Argv{"a"}, ImageEntrypoint: sdk.Argv{"x"}, Env: sdk.Env{"A": ""},
		Secrets: map[string]sdk.SecretRef{"S": "secret://env/S"}, Workdir: "/w", User: "u", CPU: 1, Memory: 1, GPU: 1, EphemeralStorage: 1, PIDs: 1, Timeout: 1, StartTimeout: 1,
		Grace: &grace, Retries: 1, Labels: map[string]string{"l": ""}, Network: "n", Mounts: []sdk.Mount{{Target: "/m"}}, Files: []sdk.InputFile{{Path: "/f"}},
		Stdin: sdk.StdinSpooled, Profile: sdk.ProfileStrict, TTL: 1, AllowVisibleSecret: true}
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "v" || name == "options" { // the version, and what a schema checks
			continue
		}
		if v.Field(i).IsZero() {
			t.Errorf("this test doesn't set %s", name)
		}
		table := []sdk.FieldSupport{{Field: name, Refused: "no"}}
		if ps := sdk.Refused(s, table); len(ps) != 1 || !strings.HasPrefix(ps[0].Field, name) {
			t.Errorf("%s is set: %v", name, ps)
		}
		if ps := sdk.Refused(sdk.JobSpec{}, table); len(ps) != 0 {
			t.Errorf("%s isn't set: %v", name, ps)
		}
	}
}

func TestSizesAsText(t *testing.T) {
	for want, got := range map[string]string{"2": sdk.CPUText(2000), "250m": sdk.CPUText(250), "1500m": sdk.CPUText(1500), "2Gi": sdk.MemoryText(2 << 30),
		"1536Mi": sdk.MemoryText(3 << 29), "1000": sdk.MemoryText(1000)} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestUnknownMember: the known members are listed, the nearest first.
func TestUnknownMember(t *testing.T) {
	s := sdk.Schema{Fields: []sdk.SchemaField{{Name: "region", Type: sdk.TypeString}, {Name: "zone", Type: sdk.TypeString}, {Name: "subnet", Type: sdk.TypeString}}}
	for raw, want := range map[string]string{
		`{"subnets":"x"}`: `options.subnets: is not known (did you mean "subnet"?); here may stand subnet, `,
		`{"q":"x"}`:       `options.q: is not known; here may stand zone, `,
	} {
		if got := sdk.JoinProblems(s.Validate("options", []byte(raw))); !strings.HasPrefix(got, want) || !strings.Contains(got, "region") {
			t.Errorf("%s: %s", raw, got)
		}
	}
	if got := sdk.JoinProblems(sdk.Schema{}.Validate("options", []byte(`{"q":1}`))); got != "options.q: is not known" {
		t.Errorf("%s", got)
	}
}

// TestLaunchCheck: a launch of another provider, or of a newer version, isn't sent.
func TestLaunchCheck(t *testing.T) {
	self := sdk.Identity{Kind: "k", Account: "a"}
	if err := (sdk.Launch{V: 1, Identity: self}).Check("run job", self); err != nil {
		t.Error(err)
	}
	for _, l := range []sdk.Launch{{V: sdk.LaunchVersion + 1, Identity: self}, {V: 1, Identity: sdk.Identity{Kind: "k", Account: "b"}}} {
		if err := l.Check("run job", self); sdk.CodeOf(err) != sdk.FailedPrecondition {
			t.Errorf("%+v: %v", l, err)
		}
	}
}
