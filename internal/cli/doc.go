// Package cli is the command line: it turns flags into requests to the engine,
// and what the engine says into text, JSON and an exit code.
//
// Each command stands in a file of its own, with an options struct whose run
// function tests replace. A Factory gives commands what they need, each thing
// opened when it is first asked for, so that `windlass version` opens nothing.
// The exit codes stand in exit.go, the explained errors in catalog.go. The
// package never imports a driver: the composition root brings them.
package cli
