package config

import (
	"path/filepath"
	"testing"
)

// BenchmarkLoad reads a file of a usual size: it is on the path of every
// command.
func BenchmarkLoad(b *testing.B) {
	dir := b.TempDir()
	path := filepath.Join(dir, FileName)
	writeFile(b, path, "default_provider: prod\nproviders:\n  prod: {kind: docker, poll_interval: 1s, config: {host: tcp://x}}\n  other: {kind: docker}\nretention: {logs: 14d}\n")
	e := Environ()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load(b.Context(), LoadRequest{Env: e, Dir: dir}); err != nil {
			b.Fatal(err)
		}
	}
}
