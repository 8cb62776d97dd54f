package batch

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/sdk"
)

// TestOwnedSize: what a job costs by is read from the job, and what it doesn't
// tell is unknown.
func TestOwnedSize(t *testing.T) {
	needs := func(vcpu, mib string) []types.ResourceRequirement {
		return []types.ResourceRequirement{{Type: types.ResourceTypeVcpu, Value: &vcpu}, {Type: types.ResourceTypeMemory, Value: &mib}, {Type: types.ResourceTypeGpu, Value: new("1")}}
	}
	fargate := []types.PlatformCapability{types.PlatformCapabilityFargate}
	for name, c := range map[string]struct {
		job  types.JobDetail
		want sdk.OwnedSize
	}{
		"nothing":      {},
		"no container": {types.JobDetail{PlatformCapabilities: fargate}, sdk.OwnedSize{Class: "FARGATE"}},
		"Fargate": {types.JobDetail{PlatformCapabilities: fargate, Container: &types.ContainerDetail{ResourceRequirements: needs("0.25", "512"), EphemeralStorage: &types.EphemeralStorage{SizeInGiB: new(int32(21))}}},
			sdk.OwnedSize{CPU: 250, Memory: 512 << 20, Disk: 21 << 30, Class: "FARGATE"}},
		"ARM": {types.JobDetail{PlatformCapabilities: fargate, Container: &types.ContainerDetail{ResourceRequirements: needs("4", "8192"), RuntimePlatform: &types.RuntimePlatform{CpuArchitecture: new("ARM64")}}},
			sdk.OwnedSize{CPU: 4000, Memory: 8 << 30, Class: "FARGATE/ARM64"}},
		"instance": {types.JobDetail{PlatformCapabilities: []types.PlatformCapability{types.PlatformCapabilityEc2}, Container: &types.ContainerDetail{ResourceRequirements: needs("odd", "")}}, sdk.OwnedSize{Class: "EC2"}},
	} {
		if got := sizeOf(c.job); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
