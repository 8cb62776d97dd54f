package cloudlogging

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a time that tests move.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// newService returns a service whose clock stands still.
func newService() (*Service, *clock) {
	c := &clock{now: epoch}
	return New(Options{Project: gapi.Project{ID: "p-project", Number: "123456"}, Now: c.Now}), c
}

func source() Source {
	return Source{Location: "europe-west1", Job: "job", Execution: "job-abcde", Task: 0, Attempt: 0, Instance: "i"}
}
