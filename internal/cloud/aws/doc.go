// Package aws is what the drivers of AWS share: a session with its credentials,
// time-outs and classes of errors, the account that it belongs to, budgets for
// calls, and what ARNs and tags may hold.
//
// The vendor's own retries are off for every call: the engine repeats reads, and
// a call that makes something is repeated only under a launch's resubmit rule.
// Nothing is read from the process's environment; with ambient credentials the
// vendor's chain reads files, profiles and metadata services by itself.
package aws
