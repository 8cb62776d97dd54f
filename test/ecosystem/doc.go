// Package ecosystem lets the ecosystem's own code judge ours: its client calls our
// remote runner, and our step calls its server. Each side runs in a process of its own,
// since both register the same protocol names. It is a module apart, for tests alone:
// go test ./... in this folder, or make test-ecosystem.
package ecosystem
