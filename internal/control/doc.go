// Package control is the engine: the only writer of run state and the only
// caller of providers. The command line, steps and a later server all call it.
//
// A run goes intent, submitting, submitted, running, ended, drained, cleaned
// (docs/state-machine.md); every transition is one durable write of the ledger
// before the world is told of it. An Engine drives the runs that its holder
// has claimed, under a lease with a fencing token, and picks up those of
// holders that died. Only evidence ends a run: a failed call, a closed stream
// or a time-out of ours does not.
package control
