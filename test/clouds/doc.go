// Package clouds drives jobs on pocket clouds through the engine, with a real
// ledger and log store: what a driver and the engine keep only together.
package clouds
