package joblog

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

const captureEnv = "JOBLOG_TEST_CAPTURE"

func TestMain(m *testing.M) {
	if os.Getenv(captureEnv) != "" {
		captureUntilKilled()
		return
	}
	goleak.VerifyTestMain(m)
}
