//go:build !linux

package local

import "testing"

func mountSmall(t *testing.T, _ string) { t.Skip("needs a tmpfs") }
