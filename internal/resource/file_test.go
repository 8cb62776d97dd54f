package resource_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/resource"
	"github.com/windlass-run/windlass/sdk"
)

const good = `resources:
  - name: backend
    type: docker.network
    provider: docker
    config: {labels: {team: a}, n: 1.5}
  - name: data
    type: docker.volume
    provider: docker
    size: large
    hints: {cpu: "2", memory: 1Gi, storage: 10Gi}
    depends_on: [backend]
`

func TestParse(t *testing.T) {
	f, err := resource.Parse("r.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Entries) != 2 {
		t.Fatalf("entries %+v", f.Entries)
	}
	a, b := f.Entries[0], f.Entries[1]
	if a.Provider != "docker" || a.Spec.Name != "backend" || a.Spec.Type != "docker.network" || string(a.Spec.Config) != `{"labels":{"team":"a"},"n":1.5}` {
		t.Errorf("first %+v", a)
	}
	if b.Spec.Size != "large" || b.Spec.Hints != (sdk.ResourceHints{CPU: "2", Memory: "1Gi", Storage: "10Gi"}) || len(b.Spec.DependsOn) != 1 || b.Spec.Config != nil {
		t.Errorf("second %+v", b)
	}
	got, err := f.Choose([]string{"data"})
	if err != nil || len(got) != 1 || got[0].Spec.Name != "data" {
		t.Errorf("choose: %+v, %v", got, err)
	}
	if _, err := f.Choose([]string{"dat"}); !errors.Is(err, sdk.NotFound) || !strings.Contains(err.Error(), `did you mean "data"`) {
		t.Errorf("choose what isn't there: %v", err)
	}
}

// TestProblems come all at once, each with its place.
func TestProblems(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"- a", `r.yaml:1:1: a file of resources is a mapping with resources:, this is a list`},
		{"{}", "r.yaml:1:1: has no resources"},
		{"resources: []", "r.yaml:1:1: resources: is empty"},
		{"resources: {}", "r.yaml:1:1: resources: wants a list, has a mapping"},
		{"resource:\n  - x", "r.yaml:1:1: resource: is not known (did you mean \"resources\"?); here may stand resources|r.yaml:2:5: resources[0]: a resource is a mapping with name, type, provider and config, this is text"},
		{"resources:\n  - nam: a\n    type: 3\n    config: []\n    depends_on: [b, 1]\n", `r.yaml:2:5: resources[0].nam: is not known (did you mean "name"?); here may stand name, type, provider, config, size, hints, depends_on|` +
			`r.yaml:2:5: resources[0]: has no provider|r.yaml:3:5: resources[0].type: wants text, has a whole number; put it in quotes|` +
			`r.yaml:4:5: resources[0].config: wants a mapping, has a list|r.yaml:5:18: resources[0].depends_on[0]: no resource before this one is called "b"|` +
			`r.yaml:5:21: resources[0].depends_on[1]: wants a name, has a whole number; put it in quotes`},
		{"resources:\n  - {name: a, type: t, provider: p}\n  - {name: a, type: u, provider: p, hints: {cpus: \"1\"}}\n",
			`r.yaml:3:12: resources[1].name: the resource on line 2 is called "a" too|r.yaml:3:45: resources[1].hints.cpus: is not known (did you mean "cpu"?); here may stand cpu, memory, storage`},
		{"resources:\n  - {name: a, type: t, provider: p, depends_on: [b, a, c]}\n  - {name: b, type: t, provider: p}\n",
			`r.yaml:2:50: resources[0].depends_on[0]: "b" stands below this one, and the file's order is the order of making: move it up|` +
				`r.yaml:2:53: resources[0].depends_on[1]: a resource can't depend on itself|r.yaml:2:56: resources[0].depends_on[2]: no resource before this one is called "c"`},
		{"resources:\n  - {name: '', type: t, provider: p}\n", "r.yaml:2:12: resources[0].name: is empty"},
		{"a: b: c", "r.yaml:1:"},
		{strings.Repeat(" ", 300<<10), "r.yaml: is larger than 256 KiB"},
	} {
		_, err := resource.Parse("r.yaml", []byte(c.in))
		var got []string
		for _, p := range config.ProblemsOf(err) {
			got = append(got, p.String())
		}
		if !errors.Is(err, sdk.InvalidArgument) || !strings.HasPrefix(strings.Join(got, "|"), c.want) {
			t.Errorf("%.80q:\n%s\nwant\n%s", c.in, strings.Join(got, "\n"), c.want)
		}
	}
}

// TestCheck holds entries against their drivers, with places inside of the config.
func TestCheck(t *testing.T) {
	d := &sdk.Driver{Kind: "docker", Resources: []sdk.ResourceType{{Type: "docker.network", Config: sdk.Schema{Fields: []sdk.SchemaField{
		{Name: "driver", Type: sdk.TypeString, Enum: []string{"bridge"}}, {Name: "labels", Type: sdk.TypeMap},
		{Name: "pools", Type: sdk.TypeList, Elem: &sdk.SchemaField{Type: sdk.TypeObject, Fields: []sdk.SchemaField{{Name: "subnet", Type: sdk.TypeString}}}},
	}}}, {Type: "docker.volume", Problems: func(s sdk.ResourceSpec) []sdk.Problem {
		return []sdk.Problem{{Field: "size", Value: s.Size, Message: "isn't taken: docker.volume has no size"}}
	}}}}
	f, err := resource.Parse("r.yaml", []byte(`resources:
  - name: a
    type: docker.network
    provider: docker
    config:
      drivr: bridge
      pools:
        - subnet: 10.0.0.0/8
        - subnet: 7
  - {name: b, type: docker.netwrk, provider: docker}
  - {name: c, type: any, provider: unknown}
  - {name: d, type: any, provider: nope}
  - {name: e, type: docker.volume, provider: docker, size: m}
`))
	if err != nil {
		t.Fatal(err)
	}
	err = resource.Check(f, func(p string) (*sdk.Driver, error) {
		switch p {
		case "docker":
			return d, nil
		case "unknown":
			return nil, nil
		}
		return nil, errors.New("no provider is called so")
	})
	want := []string{
		`r.yaml:6:7: resources[0].config.drivr: is not known (did you mean "driver"?)`,
		`r.yaml:9:11: resources[0].config.pools[1].subnet: 7 wants text`,
		`r.yaml:10:21: resources[1].type: "docker.netwrk" is no type of docker (did you mean "docker.network"?); there are docker.network`,
		`r.yaml:12:36: resources[3].provider: no provider is called so`,
		`r.yaml:13:60: resources[4].size: "m" isn't taken: docker.volume has no size`,
	}
	ps := config.ProblemsOf(err)
	if len(ps) != len(want) {
		t.Fatalf("problems: %v", err)
	}
	for i, p := range ps {
		if !strings.HasPrefix(p.String(), want[i]) {
			t.Errorf("problem %d is %s, want %s", i, p, want[i])
		}
	}
}

// TestCheckFindsAllAtOnce: what is wrong with a file's shape, with types, with values and
// with names comes in one round, and nothing of it twice.
func TestCheckFindsAllAtOnce(t *testing.T) {
	schema := sdk.Schema{Fields: []sdk.SchemaField{{Name: "days", Type: sdk.TypeInt}, {Name: "class", Type: sdk.TypeString, Required: true}}}
	d := &sdk.Driver{Kind: "aws-ecs", Resources: []sdk.ResourceType{{Type: "aws.log_group", Config: schema, Problems: func(s sdk.ResourceSpec) []sdk.Problem {
		ps := schema.Validate("config", s.Config)
		if s.Name != "good" {
			ps = append(ps, sdk.Problem{Field: "name", Value: s.Name, Message: "is no name of a log group"})
		}
		return ps
	}}}}
	f, err := resource.Parse("r.yaml", []byte(`resources:
  - {name: good, type: aws.log_group, provider: ecs, config: []}
  - {name: bad name, type: aws.log_group, provider: ecs, config: {days: x, class: a}}
  - {nam: good, type: aws.log_grp, provider: ecs}
  - {type: aws.log_group, provider: ecs, config: {days: 1, class: 2}}
  - {name: last, type: 3, provider: nope}
`))
	if err == nil || len(f.Entries) != 5 {
		t.Fatalf("%+v, %v", f, err)
	}
	err = resource.Check(f, func(p string) (*sdk.Driver, error) {
		if p == "ecs" {
			return d, nil
		}
		return nil, errors.New("no provider is called so")
	})
	want := []string{
		`r.yaml:2:54: resources[0].config: wants a mapping`,
		`r.yaml:3:12: resources[1].name: "bad name" is no name of a log group`,
		`r.yaml:3:67: resources[1].config.days: "x" wants a whole number`,
		`r.yaml:4:6: resources[2].nam: is not known`,
		`r.yaml:4:11: resources[2].name: the resource on line 2 is called "good" too`,
		`r.yaml:4:23: resources[2].type: "aws.log_grp" is no type of aws-ecs`,
		`r.yaml:5:6: resources[3]: has no name`,
		`r.yaml:5:60: resources[3].config.class: 2 wants text`,
		`r.yaml:6:18: resources[4].type: wants text, has a whole number`,
		`r.yaml:6:37: resources[4].provider: no provider is called so`,
	}
	ps := config.ProblemsOf(err)
	if len(ps) != len(want) {
		t.Errorf("%d problems, want %d: %v", len(ps), len(want), err)
	}
	for i, p := range ps {
		if i >= len(want) || !strings.HasPrefix(p.String(), want[i]) {
			t.Errorf("problem %d is %s", i, p)
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "r.yaml"), []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"r.yaml", filepath.Join(dir, "r.yaml"), "-"} {
		f, err := resource.Read(t.Context(), path, dir, strings.NewReader(good))
		if err != nil || len(f.Entries) != 2 {
			t.Errorf("%s: %+v, %v", path, f, err)
		}
	}
	if _, err := resource.Read(t.Context(), "no.yaml", dir, nil); !errors.Is(err, sdk.NotFound) || strings.Contains(err.Error(), dir) {
		t.Errorf("a file that isn't there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in, out := io.Pipe()
	if _, err := resource.Read(ctx, "-", dir, in); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that ended: %v", err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add("resources: [{name: a, type: t, provider: p, config: {a: &x [1], b: *x}}]")
	f.Fuzz(func(t *testing.T, in string) {
		file, err := resource.Parse("r.yaml", []byte(in))
		if err != nil {
			if len(config.ProblemsOf(err)) == 0 {
				t.Fatalf("%q: %v", in, err)
			}
			return
		}
		for _, e := range file.Entries {
			if e.Spec.Name == "" || e.Spec.Type == "" || e.Provider == "" {
				t.Fatalf("%q gave %+v", in, e)
			}
		}
	})
}
