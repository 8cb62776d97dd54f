package batch

import (
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/sdk"
)

// TestPage: the kind's page names every right that is needed, every state of a
// job and every reason that one may end with.
func TestPage(t *testing.T) {
	data, err := os.ReadFile("../../../docs/drivers/aws-batch.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
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
	for _, s := range Driver().Schemes {
		want = append(want, "secret://"+s+"/")
	}
	for _, w := range want {
		if !strings.Contains(page, w) {
			t.Errorf("docs/drivers/aws-batch.md doesn't name %s", w)
		}
	}
}
