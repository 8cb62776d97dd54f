// Package gsecrets is the pocket Secret Manager: secrets with automatic or
// chosen replication, their versions and payloads. Payloads are kept in memory.
package gsecrets
