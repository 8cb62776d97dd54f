// Package cloudrun is the pocket Cloud Run, version 2 of its API, as far as jobs
// go: jobs, executions, tasks and the operations that make them. Tasks really
// run, and go through the states of the real ones.
package cloudrun
