package batch

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/sdk"
)

// TestPage: the kind's page names every right that is needed, every state of a
// job and every reason that one may end with.
func TestPage(t *testing.T) {
	want := []string{"iam:PassRole", "sts:GetCallerIdentity", "batch:DescribeJobQueues"}
	for _, s := range types.JobStatus("").Values() {
		want = append(want, "`"+string(s)+"`")
	}
	for _, c := range offline(t, nil).probes() {
		want = append(want, c.action)
	}
	for _, c := range endings {
		_, reason, _ := strings.Cut(c.want, " ")
		if reason != string(sdk.ReasonCancelled) {
			want = append(want, reason)
		}
	}
	drivertest.PageNames(t, Driver(), want...)
}
