//go:build !linux

package sqlite_test

import (
	"testing"
	"time"
)

func cpuTime() time.Duration { return 0 }

func readOnlyMount(t testing.TB, _ string) { t.Skip("needs a read-only mount") }
