//go:build !linux

package sqlite_test

import "testing"

func readOnlyMount(t testing.TB, _ string) { t.Skip("needs a read-only mount") }
