package argo

import (
	"testing"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
)

// TestPage: the page names what the driver takes, and the rights that it needs.
func TestPage(t *testing.T) {
	words := []string{"log_stall", "archive_logs", "executor_service_account", "instance_id", "ca_file", "ARGO_TOKEN", emptyName}
	for _, r := range rights() {
		resource := r.Resource
		if r.Sub != "" {
			resource += "/" + r.Sub
		}
		words = append(words, resource)
	}
	drivertest.PageNames(t, Driver(), words...)
}
