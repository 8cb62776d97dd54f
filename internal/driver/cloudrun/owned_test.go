package cloudrun

import (
	"testing"

	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/sdk"
)

// TestOwnedSize: what a job costs by is read from the job, and what can't be read
// is unknown.
func TestOwnedSize(t *testing.T) {
	for _, c := range []struct {
		cpu, memory string
		want        sdk.OwnedSize
	}{
		{"1", "512Mi", sdk.OwnedSize{CPU: 1000, Memory: 512 << 20}},
		{"4000m", "2Gi", sdk.OwnedSize{CPU: 4000, Memory: 2 << 30}},
		{"2", "1G", sdk.OwnedSize{CPU: 2000, Memory: 1e9}},
		{"", "", sdk.OwnedSize{}},
		{"two", "-1Mi", sdk.OwnedSize{}},
		{"1e3", "9999999999999Gi", sdk.OwnedSize{}},
	} {
		j := &runpb.Job{Template: &runpb.ExecutionTemplate{Template: &runpb.TaskTemplate{Containers: []*runpb.Container{
			{Resources: &runpb.ResourceRequirements{Limits: map[string]string{"cpu": c.cpu, "memory": c.memory}}}}}}}
		if got := sizeOf(j); got != c.want {
			t.Errorf("%q, %q: %+v, want %+v", c.cpu, c.memory, got, c.want)
		}
	}
	if got := sizeOf(&runpb.Job{}); got != (sdk.OwnedSize{}) {
		t.Errorf("an empty job: %+v", got)
	}
}
