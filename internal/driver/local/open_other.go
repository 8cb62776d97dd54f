//go:build !linux && !darwin

package local

import (
	"context"
	"fmt"
	"runtime"

	"github.com/windlass-run/windlass/sdk"
)

// capabilities are none where no provider can be opened.
func capabilities() []string { return nil }

func open(_ context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
	return nil, &sdk.Error{Code: sdk.Unimplemented, Op: "open provider", Provider: r.Name,
		Remedy: "use a provider of kind docker, or run windlass on Linux (WSL counts)",
		Err:    fmt.Errorf("local jobs need sessions, process groups, signals and file locks, which windlass has no code for on %s", runtime.GOOS)}
}

// Supervise is for systems on which local jobs run; here it handles nothing.
func Supervise([]string) (handled bool, code int) { return false, 0 }

// Failpoints returns nothing.
func Failpoints() (submitter, held []string) { return nil, nil }
