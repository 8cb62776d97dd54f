// Package sandbox is what a sandboxed execution is, and where it can run: the
// security profiles, and the exec environments by their names.
//
// An environment either goes through the engine, and then has a row in the
// ledger (Jobs), or is a remote runner, which keeps the ledger at its own side.
// Whatever it is, every value that was set is honoured or refused before
// anything is started, and an end is told only on evidence.
package sandbox
