// Package kube is an API server of Kubernetes with a Job controller and a kubelet
// that really run the commands, for tests of what a real cluster won't do on
// demand: lost replies, watches that close, logs that are cut or rotated, two pods
// for a Job, evictions.
//
// It speaks JSON, watch and log streams for Jobs, Pods, Secrets, NetworkPolicies and
// access reviews of one namespace, built from Kubernetes' own types, and refuses what
// the API refuses. What can be shown on a real cluster is judged there, not here.
package kube
