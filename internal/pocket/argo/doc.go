// Package argo is Argo Workflows on a pocket cluster, for tests: the Workflow's API
// with its rules, a controller that makes the pod of a Workflow of one container and
// tells of it as Argo's does, Argo's executor around the container, and Argo Server's
// REST API on the same Workflows.
//
// Types and rules are Argo's published ones, each with the address of its source. A
// member that Argo doesn't know is refused.
package argo
