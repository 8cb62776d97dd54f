// Package gcp is what the drivers of Google Cloud share: credentials and
// connections, the classes of errors, budgets of calls, labels, and a reader of
// Cloud Logging that serves many jobs with one query.
//
// It uses Google's generated messages and gRPC stubs without the client layer on
// top: that layer repeats calls by its own rules, and costs every start of the
// program some milliseconds.
package gcp
