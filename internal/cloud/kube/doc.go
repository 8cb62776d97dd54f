// Package kube is what the drivers on Kubernetes share: finding a cluster by
// kubeconfig or from within, its API over plain HTTP with the vendor's own
// transport and types, names and labels, a budget of calls, and errors.
//
// client-go's typed clients aren't used: they bring every API group and their
// own retries. What a driver needs is a few verbs on a few kinds, each sent once.
package kube
