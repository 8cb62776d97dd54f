package price

import (
	"math"
	"net/url"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func at(min int) time.Time { return time.Date(2026, 1, 2, 3, min, 0, 0, time.UTC) }

// TestOf: what is known of a price is told, and what isn't is not.
func TestOf(t *testing.T) {
	size := func(class string, milli, mib, disk int64) sdk.OwnedSize {
		return sdk.OwnedSize{Class: class, CPU: milli, Memory: mib << 20, Disk: disk * gib}
	}
	for _, c := range []struct {
		name, kind string
		o          sdk.OwnedObject
		want       string
	}{
		{"a task that runs", "aws-ecs", sdk.OwnedObject{Type: "task", Live: true, Started: at(0), Size: size("FARGATE", 1000, 2048, 20)}, "about $0.05/h, $0.02 so far"},
		{"a large one", "aws-ecs", sdk.OwnedObject{Type: "task", Live: true, Started: at(0).Add(-239*time.Hour - 30*time.Minute), Size: size("FARGATE", 16000, 122880, 200)}, "about $1.20/h, $288.25 so far"},
		{"on ARM", "aws-ecs", sdk.OwnedObject{Type: "task", Live: true, Size: size("FARGATE/ARM64", 1000, 2048, 0)}, "about $0.04/h"},
		{"not pulled yet", "aws-ecs", sdk.OwnedObject{Type: "task", Live: true, Size: size("FARGATE", 250, 512, 0)}, "about $0.01/h"},
		{"the shortest time", "aws-ecs", sdk.OwnedObject{Type: "task", Started: at(0), Ended: at(0).Add(time.Second), Size: size("FARGATE", 16000, 122880, 0)}, "about $0.02 in all"},
		{"spot", "aws-ecs", sdk.OwnedObject{Type: "task", Live: true, Started: at(0), Size: size("FARGATE_SPOT", 1000, 2048, 0)}, ""},
		{"an instance", "aws-ecs", sdk.OwnedObject{Type: "task", Live: true, Started: at(0), Size: size("EC2", 1000, 2048, 0)}, ""},
		{"no size", "aws-ecs", sdk.OwnedObject{Type: "task", Live: true, Started: at(0), Size: size("FARGATE", 0, 0, 0)}, ""},
		{"half a size", "aws-ecs", sdk.OwnedObject{Type: "task", Live: true, Started: at(0), Size: size("FARGATE", 1000, 0, 0)}, ""},
		{"a definition", "aws-ecs", sdk.OwnedObject{Type: "task-definition", Shared: true, Live: true}, "nothing"},
		{"a job of AWS Batch", "aws-batch", sdk.OwnedObject{Type: "job", Live: true, Size: size("FARGATE", 1000, 2048, 0)}, "about $0.05/h"},
		{"its definition", "aws-batch", sdk.OwnedObject{Type: "job-definition", Shared: true}, "nothing"},
		{"a job of Cloud Run", "gcp-cloudrun", sdk.OwnedObject{Type: "job", Live: true, Started: at(15), Size: size("", 1000, 512, 0)}, "about $0.07/h, $0.02 so far"},
		{"one that ended", "gcp-cloudrun", sdk.OwnedObject{Type: "job", Started: at(0), Ended: at(1), Size: size("", 1000, 512, 0)}, "about $0.0011 in all"},
		{"one that never ran", "gcp-cloudrun", sdk.OwnedObject{Type: "job", Size: size("", 1000, 512, 0)}, "nothing more"},
		{"a group of Azure's", "azure-aci", sdk.OwnedObject{Type: "container-group", Live: true, Size: size("", 1000, 1536, 0)}, "about $0.05/h"},
		{"an app", "digitalocean", sdk.OwnedObject{Type: "app", Live: true, Started: at(0), Size: size("apps-s-1vcpu-0.5gb", 0, 0, 0)}, "about $0.0074/h, $0.0037 so far"},
		{"an app of an unknown size", "digitalocean", sdk.OwnedObject{Type: "app", Live: true, Size: size("apps-x", 1000, 1024, 0)}, ""},
		{"a container here", "docker", sdk.OwnedObject{Type: "container", Live: true, Started: at(0)}, ""},
		{"a process", "local", sdk.OwnedObject{Type: "process", Live: true}, ""},
	} {
		e, ok := Of(c.kind, c.o, at(30))
		if got := e.String(); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%s: %q, %t; want %q", c.name, got, ok, c.want)
		}
	}
}

// TestTable: each row can be found by one object alone, and says where and from
// what page.
func TestTable(t *testing.T) {
	seen := map[[3]string]bool{}
	for _, r := range Table() {
		key := [3]string{r.Kind, r.Type, r.Class}
		if seen[key] || r.Kind == "" || r.Type == "" || r.Region == "" {
			t.Errorf("row %+v", r)
		}
		seen[key] = true
		if u, err := url.Parse(r.Source); err != nil || u.Scheme != "https" {
			t.Errorf("%v has the source %q", key, r.Source)
		}
		for _, sum := range []float64{r.Flat, r.Core, r.GiB, r.DiskGiB, r.DiskFree} {
			if sum < 0 {
				t.Errorf("%v has a price below 0", key)
			}
		}
		if (r.Core > 0) != (r.GiB > 0) || r.Flat > 0 && r.Core > 0 {
			t.Errorf("%v is priced by size in part: %+v", key, r)
		}
	}
	if _, err := time.Parse(time.DateOnly, Date); err != nil {
		t.Error(err)
	}
}

// TestAppsByTheSecond: a size's hour is 3,600 of the seconds that the API tells.
func TestAppsByTheSecond(t *testing.T) {
	second := map[string]float64{"apps-s-1vcpu-0.5gb": 0.000002066799, "apps-d-8vcpu-32gb": 0.000162037037}
	found := 0
	for _, r := range Table() {
		if s, ok := second[r.Class]; ok {
			found++
			if math.Abs(r.Flat-3600*s) > 1e-7 {
				t.Errorf("%s: %g an hour, %g by seconds", r.Class, r.Flat, 3600*s)
			}
		}
	}
	if found != len(second) {
		t.Errorf("%d of %d sizes", found, len(second))
	}
}

// TestAbout: a sum that is too small to tell is under one, and not about under it.
func TestAbout(t *testing.T) {
	for sum, want := range map[float64]string{0: "about $0", 0.00001: "under $0.0001", 1.2: "about $1.20"} {
		if got := About(sum); got != want {
			t.Errorf("%g is %s, want %s", sum, got, want)
		}
	}
	tiny := 0.00001
	for want, e := range map[string]Estimate{"under $0.0001/h, under $0.0001 so far": {Hourly: tiny, Total: &tiny}, "under $0.0001/h": {Hourly: tiny}, "under $0.0001 in all": {Total: &tiny}} {
		if got := e.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestDollars(t *testing.T) {
	for sum, want := range map[float64]string{0: "$0", 0.00001: "under $0.0001", 0.00744: "$0.0074", 0.01: "$0.01", 1.2: "$1.20", 1234.5: "$1234.50"} {
		if got := Dollars(sum); got != want {
			t.Errorf("%g is %s, want %s", sum, got, want)
		}
	}
}
