package control

import "github.com/windlass-run/windlass/sdk"

// OperationClass says what an operation of a provider is, by the decision tree of
// ADR 0030.
type OperationClass string

// The classes. ClassRead changes nothing. ClassJob makes what ends by itself.
// ClassWorkload acts on one workload that runs, at once. ClassProvisioning makes or
// removes what others depend on, with a plan.
const (
	ClassRead         OperationClass = "read"
	ClassJob          OperationClass = "job"
	ClassWorkload     OperationClass = "workload"
	ClassProvisioning OperationClass = "provisioning"
)

// Operation is a method of a capability with its class.
type Operation struct {
	Capability, Method string
	Class              OperationClass
	// Action is that of its row in the ledger; empty where it has none of its own.
	Action string
}

// Operations returns the table of all operations that a provider can have: the only
// place that says which class one has.
func Operations() []Operation {
	op := func(capability, method string, class OperationClass) Operation {
		return Operation{Capability: capability, Method: method, Class: class}
	}
	live := func(capability, method, action string) Operation {
		return Operation{Capability: capability, Method: method, Class: ClassWorkload, Action: action}
	}
	jobs, resources := sdk.Runner().String(), sdk.Resources().String()
	return []Operation{
		op(jobs, "PrepareJob", ClassRead), op(jobs, "RunJob", ClassJob), op(jobs, "JobStatus", ClassRead),
		op(sdk.Finder().String(), "FindJobs", ClassRead),
		op(sdk.Canceler().String(), "CancelJob", ClassJob),
		op(sdk.Cleaner().String(), "CleanupJob", ClassJob),
		op(sdk.Logger().String(), "JobLogs", ClassRead),
		op(sdk.Batcher().String(), "JobStatuses", ClassRead),
		op(sdk.Watcher().String(), "WatchJobs", ClassRead),
		op(sdk.Lister().String(), "ListOwned", ClassRead), op(sdk.Lister().String(), "RemoveOwned", ClassJob),
		op(sdk.Renewer().String(), "RenewExpiry", ClassJob),

		op(resources, "CreateResource", ClassProvisioning), op(resources, "UpdateResource", ClassProvisioning),
		op(resources, "DeleteResource", ClassProvisioning), op(resources, "ScaleResource", ClassProvisioning),
		op(resources, "ReadResource", ClassRead), op(resources, "DiffResource", ClassRead), op(resources, "HealthCheckResource", ClassRead),
		op(resources, "SensitiveKeys", ClassRead),
		op(sdk.Troubleshooting().String(), "TroubleshootResource", ClassRead),

		op(sdk.Workloads().String(), "ListWorkloads", ClassRead),
		op(sdk.WorkloadStates().String(), "WorkloadStatus", ClassRead),
		live(sdk.WorkloadStarts().String(), "StartWorkload", actionStart),
		live(sdk.WorkloadStops().String(), "StopWorkload", actionStop),
		live(sdk.WorkloadScales().String(), "ScaleWorkload", actionScale),
		live(sdk.WorkloadRestarts().String(), "RestartWorkload", actionRestart),
		live(sdk.WorkloadConfigs().String(), "ApplyConfig", actionConfig),
		live(sdk.WorkloadExecs().String(), "ExecWorkload", actionExec),
		op(sdk.WorkloadLogs().String(), "TailLogs", ClassRead),
		op(sdk.WorkloadMetrics().String(), "StreamMetrics", ClassRead),
	}
}
