// Package fake is a backend without processes: a deterministic "cloud" whose
// jobs follow a script. It serves the tests of the engine and of the
// conformance suite, and, as kind `fake`, the tests of Windlass's users.
//
// A [Cloud] is the server side. It keeps its jobs in memory, or in a folder
// that several processes share. What a job has done at a time is worked out
// from the script, the time at which it was accepted and what came from
// outside (a cancel, the end of stdin). So no process needs to live for a job
// to go on, and a restart loses nothing.
//
// Knobs and faults make the cloud misbehave as real ones do.
package fake
