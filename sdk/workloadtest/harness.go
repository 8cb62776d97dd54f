package workloadtest

import (
	"time"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// T is the part of *testing.T that the suite uses.
type T = providertest.T

// Harness is what a driver's test brings to the suite. Open, Make and Changes are
// required. All functions are safe for concurrent use.
type Harness struct {
	// Open opens a provider on the backend. The suite closes it.
	Open func(t T) sdk.Provider
	// Reopen opens the same configuration as another process would; nil uses Open.
	Reopen func(t T) sdk.Provider
	// Make makes a workload of its own with so many replicas, not through the
	// provider, waits until they serve, and removes it when the test is over.
	Make func(t T, replicas int) sdk.WorkloadPath
	// Changes counts the mutating calls about a workload that the backend ever
	// carried out, Make's included. It doesn't look through the provider.
	Changes func(t T, path sdk.WorkloadPath) int
	// Spec returns a workload that isn't there yet and comes up, with one replica;
	// nil leaves out what starts from a spec. It is removed when the test is over.
	Spec func(t T) (sdk.WorkloadPath, sdk.DeploymentSpec)
	// Broken returns one whose image can't be pulled; nil leaves its check out.
	Broken func(t T) (sdk.WorkloadPath, sdk.DeploymentSpec)
	// Absent is a path in the kind's form under which there is nothing.
	Absent sdk.WorkloadPath
	// Autoscale puts an autoscaler over a workload; nil leaves its checks out.
	Autoscale func(t T, path sdk.WorkloadPath, minimum, maximum int)
	// Commands say what the backend's instances understand; a nil one leaves its
	// checks out.
	Commands Commands
	// Line returns a text that each of an instance's outputs has once it is up,
	// also when it was restarted; nil leaves the checks of output out.
	Line func(instance string) string
	// Faults are hooks into the server side. Each missing hook leaves its checks
	// out.
	Faults Faults
	// Eventually bounds each wait for something that must happen; zero is 60 s.
	// Poll is the time between two looks; zero is 50 ms.
	Eventually, Poll time.Duration
	// Only limits the run to checks of these names; empty is all.
	Only []string
}

// Commands are what an exec runs.
type Commands struct {
	// Exit ends with a code.
	Exit func(code int) sdk.Argv
	// Print writes texts to stdout and stderr and ends with 0.
	Print func(stdout, stderr string) sdk.Argv
	// Cat copies its input to stdout until its end and ends with 0.
	Cat func() sdk.Argv
	// Args writes each of these arguments as "arg HEX" on a line of stdout.
	Args func(args ...string) sdk.Argv
	// Env writes "env NAME HEX" or "env NAME unset" of a variable.
	Env func(name string) sdk.Argv
	// Hang goes on until it is left.
	Hang func() sdk.Argv
}

// Op names a method of a provider at whose calls faults are put, after the method.
type Op string

// Faults are hooks into the server side, or into a proxy before it. They hit the
// provider that Open returns.
type Faults struct {
	// LoseReply lets the next call of op be carried out, and cuts the connection
	// before the reply.
	LoseReply func(t T, op Op)
	// Refuse cuts the connection before the server has done anything.
	Refuse func(t T, op Op)
	// Throttle lets the next n calls of op fail with the backend's answer for too
	// many calls.
	Throttle func(t T, op Op, n int)
	// Calls counts the calls of op that reached the server; it shows retries.
	Calls func(t T, op Op) int
}
