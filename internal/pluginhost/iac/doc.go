// Package iac makes a plugin of the published ecosystem an sdk.Driver: one that knows
// nothing of windlass.provider.v1 and serves IaCProviderRequired and
// IaCProviderRunner, perhaps with IaCProviderJobCanceler.
//
// That wire says less than the contract. What it can't carry is refused before
// launch, value by value, and what it doesn't prove isn't claimed: docs/adr/0031 has
// the list. Nothing is ever sent twice, since a launch has no key there.
//
// IaCProviderLogCapture reads the output of what runs for long: it is a LogTailer of
// workloads, and serves no one-off job.
package iac
