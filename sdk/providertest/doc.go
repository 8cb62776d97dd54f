// Package providertest is the behavioural conformance suite for backends: what
// a driver promises through [sdk.Driver], its guarantees and its capabilities,
// is tried on the backend itself.
//
// A driver's test builds a [Harness] and calls [Run]:
//
//	func TestConformance(t *testing.T) {
//		providertest.Run(t, providertest.Harness{
//			Driver: mydriver.Driver(),
//			Open:   func(t providertest.T) sdk.Provider { ... },
//			Behave: func(t providertest.T, b providertest.Behaviour) (sdk.JobSpec, error) { ... },
//			...
//		})
//	}
//
// What drivers are found to forget: PrepareJob itself calls sdk.ValidateSpec and
// checks the options by their schema, since its problems decide; whatever takes
// a handle checks it by JobHandle.Check, JobStatuses for each item; calls look at
// their context before they do anything; CancelJob and CleanupJob succeed on
// what is gone, and JobStatus says NotFound; a log that isn't there yet is empty.
//
// Checks are chosen by the provider's capabilities and guarantees. A check that
// a backend can't pass is waived only where one of its declared guarantees says
// that it can't, and a waived check that passes is a failure.
//
// The package imports the standard library and sdk alone.
package providertest
