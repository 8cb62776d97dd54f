// Package cloudlogging is the pocket Cloud Logging: entries as Cloud Run makes
// them of a container's output, and entries.list with the query language as far
// as it makes sense for them.
package cloudlogging
