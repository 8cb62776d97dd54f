package sandbox

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// full sets every field.
func full() Exec {
	return Exec{Name: "x", Image: "img", Command: sdk.Argv{"a"}, ImageEntrypoint: sdk.Argv{}, AllowVisibleSecret: true, Env: sdk.Env{"A": "1"}, Secrets: map[string]sdk.SecretRef{"T": "secret://env/T"},
		Mounts: []sdk.Mount{{Type: sdk.MountVolume, Source: "v", Target: "/v"}}, Tmpfs: []sdk.Mount{{Type: sdk.MountTmpfs, Target: "/t"}},
		WorkDir: "/w", Memory: 1 << 20, CPU: 100, Timeout: time.Second, StartTimeout: time.Hour, TTL: time.Minute, Network: "none", Profile: sdk.ProfileStandard}
}

// TestEveryFieldReachesTheJob: no field of an execution is left out of Fields or
// of the job.
func TestEveryFieldReachesTheJob(t *testing.T) {
	e := full()
	v := reflect.ValueOf(e)
	if n := v.NumField() - 1; n != len(Fields()) { // all but Name
		t.Errorf("%d fields, %d in the table", n, len(Fields()))
	}
	for _, f := range Fields() {
		if !e.IsSet(f) || (Exec{}).IsSet(f) {
			t.Errorf("%s: set %v, unset %v", f, e.IsSet(f), (Exec{}).IsSet(f))
		}
	}
	s := e.Spec(e.Profile)
	want := sdk.JobSpec{V: 1, Name: "x", Image: "img", Args: e.Command, ImageEntrypoint: sdk.Argv{}, AllowVisibleSecret: true, Env: e.Env, Secrets: e.Secrets, Mounts: slices.Concat(e.Mounts, e.Tmpfs),
		Workdir: "/w", Memory: 1 << 20, CPU: 100, Timeout: time.Second, StartTimeout: time.Hour, TTL: time.Minute, Network: "none", Profile: sdk.ProfileStandard}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("%+v", s)
	}
	if ps := e.Validate(); len(ps) > 0 {
		t.Errorf("%v", ps)
	}
}

func TestFieldNames(t *testing.T) {
	for job, want := range map[string]string{"args[1]": "command[1]", "workdir": "work_dir", "memory": "memory_limit", "cpu": "cpu_limit",
		"profile": "security_profile", "mounts[0].source": "mounts[0].source", "mounts[1]": "tmpfs[0]", "mounts[2].size": "tmpfs[1].size",
		"env.args": "env.args", "secrets.T": "secrets.T", "image": "image", "mounts": "mounts", "mounts[x]": "mounts[x]", "": ""} {
		if got := Field(job, 1); got != want {
			t.Errorf("%s: %s, want %s", job, got, want)
		}
	}
}

func FuzzField(f *testing.F) {
	for _, s := range []string{"args[1]", "mounts[0].source", "mounts[7]x", "mounts[", ".", "cpu"} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, s string, mounts int) {
		if got := Field(s, mounts); s != "" && got == "" {
			t.Errorf("%q vanishes", s)
		}
	})
}

// TestF84ReferencesAreNoValues: a reference that stands under env is refused: one
// environment would pass it on as text, another resolve it.
func TestF84ReferencesAreNoValues(t *testing.T) {
	ps := Exec{Image: "i", Env: sdk.Env{"T": "secret://env/T"}}.Validate()
	if len(ps) != 1 || ps[0].Field != "env.T" || !strings.Contains(ps[0].Message, "under secrets") {
		t.Errorf("%v", ps)
	}
}

// TestSupportRefuses: what a driver refuses as a whole is refused before it is
// asked.
func TestSupportRefuses(t *testing.T) {
	j := &jobs{Jobs: &Jobs{}, name: ProviderEphemeral, provider: Provider{Name: "p", Support: []sdk.FieldSupport{
		{Field: "network", Refused: "it has none"}, {Field: "mounts", Refused: "no folders"}, {Field: "cpu", Values: "1 or 2"}}}}
	var got []string
	for _, p := range j.Check(full()) {
		got = append(got, p.Field)
	}
	if want := []string{"mounts", "tmpfs", "network"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if ps := j.Check(Exec{}); len(ps) != 1 || ps[0].Field != "image" {
		t.Errorf("no image: %v", ps)
	}
	j.provider.NoImage = true
	if ps := j.Check(Exec{}); len(ps) > 0 {
		t.Errorf("programs need no image: %v", ps)
	}
}

// TestSpecNames: the names of JobSpec's fields are those that drivers declare.
func TestSpecNames(t *testing.T) {
	known := map[string]bool{}
	st := reflect.TypeFor[sdk.JobSpec]()
	for i := range st.NumField() {
		tag, _, _ := strings.Cut(st.Field(i).Tag.Get("json"), ",")
		known[tag] = true
	}
	for _, f := range fields() {
		if !known[f.job] {
			t.Errorf("%s is %s, which no job has", f.name, f.job)
		}
	}
}
