// Package workloadtest is the behavioural conformance suite for live workloads:
// what a driver promises through its workload capabilities and
// [sdk.WorkloadGuarantees] is tried on the backend itself.
//
// A driver's test builds a [Harness] and calls [Run]. Checks are chosen by the
// provider's capabilities; where a guarantee promises less, the check asks for
// less, so there are no waivers.
//
// The package imports the standard library, sdk and providertest alone.
package workloadtest
