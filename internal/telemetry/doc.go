// Package telemetry makes one stream of what is measured of live workloads, and
// of what happens to them, on any number of providers: samples of each instance,
// counts of each workload, and events.
//
// Units are fixed: CPU in thousandths of a core, memory and network in bytes.
// What a provider doesn't tell is nil, and never zero.
//
// Memory is bounded, whatever the providers say and however slow the reader is: of
// samples and counts that wait to be read the newest of each instance is kept, of
// events so many, and what was lost is an item of its own.
package telemetry
