// Package cloudrun is the pocket Cloud Run, version 2 of its API: jobs with their
// executions and tasks, services with their revisions, and the operations that
// make them. Tasks and instances really run, and go through the states of the real
// ones. No request reaches a service: what counts is how many instances there are
// to be, which the traffic and the scaling say.
package cloudrun
