package cloudrun

import (
	"google.golang.org/grpc/codes"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// The IDs of the rules.
const (
	ruleUnsupported   = "run-unsupported"
	ruleName          = "run-name"
	ruleLocation      = "run-location"
	ruleJobMissing    = "run-job-missing"
	ruleExecMissing   = "run-execution-missing"
	ruleTaskMissing   = "run-task-missing"
	ruleOpMissing     = "run-operation-missing"
	ruleOpCancel      = "run-operation-cancel"
	ruleOpRunning     = "run-operation-running"
	ruleJobID         = "run-job-id"
	ruleJobExists     = "run-job-exists"
	ruleJobs1000      = "run-jobs-1000"
	ruleExecutions    = "run-executions-1000"
	ruleJobRequired   = "run-job-required"
	ruleJobName       = "run-job-name"
	ruleEtag          = "run-etag"
	ruleDeleting      = "run-deleting"
	ruleToken         = "run-execution-token"
	ruleLabelCount    = "run-label-count"
	ruleLabel         = "run-label"
	ruleLabelSystem   = "run-label-system"
	ruleAnnotation    = "run-annotation"
	ruleLaunchStage   = "run-launch-stage"
	rulePreview       = "run-preview"
	ruleTaskCount     = "run-task-count"
	ruleParallelism   = "run-parallelism"
	ruleRetries       = "run-max-retries"
	ruleTimeout       = "run-timeout"
	ruleAccount       = "run-service-account"
	ruleGeneration    = "run-execution-environment"
	ruleContainers    = "run-containers"
	ruleContainerName = "run-container-name"
	ruleImage         = "run-image"
	rulePorts         = "run-ports"
	ruleServiceOnly   = "run-service-only"
	ruleArgs          = "run-args"
	ruleRetention     = "run-retention"
	ruleEnvCount      = "run-env-count"
	ruleEnvName       = "run-env-name"
	ruleEnvReserved   = "run-env-reserved"
	ruleEnvTwice      = "run-env-twice"
	ruleEnvLength     = "run-env-length"
	ruleSecretRef     = "run-secret-ref"
	ruleSecretMissing = "run-secret-missing"
	ruleLimitsKey     = "run-limits-key"
	ruleCPU           = "run-cpu"
	ruleMemory        = "run-memory"
	ruleCPUMemory     = "run-cpu-memory"
	ruleVolumeName    = "run-volume-name"
	ruleVolumeType    = "run-volume-type"
	ruleVolumeSecret  = "run-volume-secret"
	ruleMount         = "run-volume-mount"
	ruleVPC           = "run-vpc"
	ruleConnector     = "run-vpc-connector"
	ruleOverrideName  = "run-override-name"
	ruleOverrideArgs  = "run-override-args"
	ruleOverrideCount = "run-override-task-count"
	ruleOverrideTime  = "run-override-timeout"
	ruleFinished      = "run-execution-finished"
	rulePageSize      = "run-page-size"

	ruleServiceMissing  = "run-service-missing"
	ruleRevisionMissing = "run-revision-missing"
	ruleServiceID       = "run-service-id"
	ruleServiceName     = "run-service-name"
	ruleServiceExists   = "run-service-exists"
	ruleServiceRequired = "run-service-required"
	ruleMask            = "run-update-mask"
	ruleRevisionName    = "run-revision-name"
	ruleRevisionTaken   = "run-revision-taken"
	ruleRevisionServes  = "run-revision-serves"
	ruleScaling         = "run-scaling"
	ruleScalingMode     = "run-scaling-mode"
	ruleRequestTimeout  = "run-request-timeout"
	ruleConcurrency     = "run-concurrency"
	ruleTraffic         = "run-traffic"
	ruleTrafficRevision = "run-traffic-revision"
	ruleServicePort     = "run-service-port"
	ruleServiceCPU      = "run-service-cpu"
	ruleServiceMemory   = "run-service-memory"
)

const (
	jobRef     = "https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.jobs"
	execRef    = "https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.jobs.executions"
	taskRef    = "https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.jobs.executions.tasks"
	opRef      = "https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.operations"
	containers = "https://cloud.google.com/run/docs/reference/rest/v2/Container"
	taskTempl  = "https://cloud.google.com/run/docs/reference/rest/v2/TaskTemplate"
	serviceRef = "https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.services"
	revRef     = "https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.services.revisions"
	revTempl   = "https://cloud.google.com/run/docs/reference/rest/v2/RevisionTemplate"
	manual     = "https://cloud.google.com/run/docs/configuring/services/manual-scaling"
	templ      = "https://cloud.google.com/run/docs/reference/rest/v2/ExecutionTemplate"
	quotasDoc  = "https://cloud.google.com/run/quotas"
	jobsDoc    = "https://cloud.google.com/run/docs/create-jobs"
	labelsDoc  = "https://cloud.google.com/resource-manager/docs/creating-managing-labels"
	conf       = "https://cloud.google.com/run/docs/configuring/"
	contract   = "https://cloud.google.com/run/docs/container-contract"

	invalid = codes.InvalidArgument
)

// Rules returns what the service refuses, each with the page that says so.
func Rules() gapi.Table {
	return gapi.Table{
		{ID: ruleUnsupported, Code: codes.Unimplemented, Text: "What the pocket cloud can't do is refused, never overlooked: mounted volumes, GPUs, probes, sidecars, encryption keys, binary authorization, delayed executions, sandboxes, builds, meshes, deleted resources in lists.", Doc: containers},
		{ID: ruleName, Code: invalid, Text: "Names have the form of their resource.", Doc: jobRef},
		{ID: ruleLocation, Code: codes.NotFound, Text: "The location must be one where Cloud Run is; the pocket cloud has one.", Doc: "https://cloud.google.com/run/docs/locations"},
		{ID: ruleJobMissing, Code: codes.NotFound, Text: "The job must exist.", Doc: jobRef + "/get"},
		{ID: ruleExecMissing, Code: codes.NotFound, Text: "The execution must exist.", Doc: execRef + "/get"},
		{ID: ruleTaskMissing, Code: codes.NotFound, Text: "The task must exist.", Doc: taskRef + "/get"},
		{ID: ruleOpMissing, Code: codes.NotFound, Text: "The operation must exist.", Doc: opRef + "/get"},
		{ID: ruleOpCancel, Code: codes.Unimplemented, Text: "Operations can't be cancelled; executions can.", Doc: opRef},
		{ID: ruleOpRunning, Code: codes.FailedPrecondition, Text: "An operation that isn't done can't be deleted.", Doc: opRef + "/delete"},
		{ID: ruleJobID, Code: invalid, Text: "A job's ID has up to 49 lowercase letters, numerals and hyphens, begins with a letter and doesn't end with a hyphen.", Doc: jobsDoc},
		{ID: ruleJobExists, Code: codes.AlreadyExists, Text: "A job's ID is unique in its project and location.", Doc: jobRef + "/create"},
		{ID: ruleJobs1000, Code: codes.ResourceExhausted, Text: "A project has up to 1,000 jobs in a location.", Doc: quotasDoc},
		{ID: ruleExecutions, Code: codes.ResourceExhausted, Text: "A project has up to 1,000 running executions in a location.", Doc: quotasDoc},
		{ID: ruleJobRequired, Code: invalid, Text: "A job has a template with a template of its tasks.", Doc: jobRef},
		{ID: ruleJobName, Code: invalid, Text: "A job to be created has no name, or the one of parent and job_id.", Doc: jobRef + "/create"},
		{ID: ruleEtag, Code: codes.Aborted, Text: "An etag that is given is the current one.", Doc: jobRef + "/run"},
		{ID: ruleDeleting, Code: codes.FailedPrecondition, Text: "A job or service that is being deleted takes no changes and no executions.", Doc: jobRef + "/delete"},
		{ID: ruleToken, Code: invalid, Text: "Job name and execution token together are shorter than 63 characters, and the token is of a name's characters.", Doc: jobRef},
		{ID: ruleLabelCount, Code: invalid, Text: "A resource has up to 64 labels.", Doc: labelsDoc},
		{ID: ruleLabel, Code: invalid, Text: "A label's key and value have up to 63 lowercase letters, numerals, hyphens and underscores; the key begins with a letter.", Doc: labelsDoc},
		{ID: ruleLabelSystem, Code: invalid, Text: "Labels and annotations of the namespaces run.googleapis.com, cloud.googleapis.com, serving.knative.dev and autoscaling.knative.dev are rejected.", Doc: jobRef},
		{ID: ruleAnnotation, Code: invalid, Text: "Annotations keep to the syntax of Kubernetes and have 256 KiB together.", Doc: jobRef},
		{ID: ruleLaunchStage, Code: invalid, Text: "A launch stage is ALPHA, BETA or GA.", Doc: jobRef},
		{ID: rulePreview, Code: invalid, Text: "A time-out above 24 hours is a preview feature: the launch stage must be BETA.", Doc: conf + "task-timeout"},
		{ID: ruleTaskCount, Code: invalid, Text: "An execution has 1 to 10,000 tasks.", Doc: conf + "task-count"},
		{ID: ruleParallelism, Code: invalid, Text: "Parallelism lies between 0 and the number of tasks.", Doc: conf + "parallelism"},
		{ID: ruleRetries, Code: invalid, Text: "A task has 0 to 10 retries.", Doc: conf + "max-retries"},
		{ID: ruleTimeout, Code: invalid, Text: "A task's time-out lies between 1 second and 168 hours.", Doc: conf + "task-timeout"},
		{ID: ruleAccount, Code: invalid, Text: "A service account is an e-mail address.", Doc: conf + "jobs/service-identity"},
		{ID: ruleGeneration, Code: invalid, Text: "Jobs run in the second generation of the execution environment.", Doc: "https://cloud.google.com/run/docs/about-execution-environments"},
		{ID: ruleContainers, Code: invalid, Text: "A task has a container, and up to ten.", Doc: taskTempl},
		{ID: ruleContainerName, Code: invalid, Text: "A container's name is a DNS label, unique in its task.", Doc: containers},
		{ID: ruleImage, Code: invalid, Text: "A container has an image, named as images are.", Doc: containers},
		{ID: rulePorts, Code: invalid, Text: "A job's container has no ports.", Doc: contract},
		{ID: ruleServiceOnly, Code: invalid, Text: "Source code, base images and idle CPU are for services.", Doc: containers},
		{ID: ruleArgs, Code: invalid, Text: "A container has up to 1,000 arguments.", Doc: quotasDoc},
		{ID: ruleRetention, Text: "A job keeps its 1,000 newest completed executions.", Doc: quotasDoc},
		{ID: ruleEnvCount, Code: invalid, Text: "A container has up to 1,000 variables.", Doc: conf + "jobs/environment-variables"},
		{ID: ruleEnvName, Code: invalid, Text: "A variable has a name without an equals sign.", Doc: containers + "#EnvVar"},
		{ID: ruleEnvReserved, Code: invalid, Text: "The variables of the container contract are reserved.", Doc: conf + "jobs/environment-variables"},
		{ID: ruleEnvTwice, Code: invalid, Text: "A variable's name is unique in its container.", Doc: containers + "#EnvVar"},
		{ID: ruleEnvLength, Code: invalid, Text: "A variable's name and value have up to 32,768 characters each.", Doc: containers + "#EnvVar"},
		{ID: ruleSecretRef, Code: invalid, Text: "A secret is named by its ID or projects/*/secrets/*, and has a version.", Doc: containers + "#SecretKeySelector"},
		{ID: ruleSecretMissing, Code: invalid, Text: "The secret's version must exist when the job is deployed.", Doc: conf + "jobs/secrets"},
		{ID: ruleLimitsKey, Code: invalid, Text: "Limits are of cpu and memory, and of nvidia.com/gpu.", Doc: containers + "#ResourceRequirements"},
		{ID: ruleCPU, Code: invalid, Text: "A job's container has 1, 2, 4, 6 or 8 CPUs.", Doc: conf + "jobs/cpu"},
		{ID: ruleMemory, Code: invalid, Text: "A job's container has 512 MiB to 32 GiB of memory.", Doc: conf + "jobs/memory-limits"},
		{ID: ruleCPUMemory, Code: invalid, Text: "1 CPU goes up to 4 GiB, 2 to 8, 4 from 2 to 16, 6 from 4 to 24, 8 from 4 to 32.", Doc: conf + "jobs/cpu"},
		{ID: ruleVolumeName, Code: invalid, Text: "A volume's name is a DNS label, unique in its task.", Doc: taskTempl},
		{ID: ruleVolumeType, Code: invalid, Text: "A volume has a type.", Doc: containers + "#Volume"},
		{ID: ruleVolumeSecret, Code: invalid, Text: "A secret's volume names the secret; its items have a path and a version, its modes lie between 0 and 0777.", Doc: containers + "#SecretVolumeSource"},
		{ID: ruleMount, Code: invalid, Text: "A mount names a volume of the task and an absolute path without a colon, and no other has the same path.", Doc: containers + "#VolumeMount"},
		{ID: ruleVPC, Code: invalid, Text: "VPC access has a connector or one network interface with a network or subnetwork, never both.", Doc: "https://cloud.google.com/run/docs/reference/rest/v2/VpcAccess"},
		{ID: ruleConnector, Code: invalid, Text: "A connector is named projects/*/locations/*/connectors/*.", Doc: "https://cloud.google.com/run/docs/reference/rest/v2/VpcAccess"},
		{ID: ruleOverrideName, Code: invalid, Text: "An override names a container of the job, each once; a single container needs no name.", Doc: jobRef + "/run"},
		{ID: ruleOverrideArgs, Code: invalid, Text: "An override either clears arguments or sets them.", Doc: jobRef + "/run"},
		{ID: ruleOverrideCount, Code: invalid, Text: "An override's number of tasks is one that a job may have.", Doc: jobRef + "/run"},
		{ID: ruleOverrideTime, Code: invalid, Text: "An override's time-out is one that a job may have.", Doc: jobRef + "/run"},
		{ID: ruleFinished, Code: codes.FailedPrecondition, Text: "Only an execution that hasn't completed can be cancelled.", Doc: execRef + "/cancel"},
		{ID: ruleServiceMissing, Code: codes.NotFound, Text: "The service must exist.", Doc: serviceRef + "/get"},
		{ID: ruleRevisionMissing, Code: codes.NotFound, Text: "The revision must exist.", Doc: revRef + "/get"},
		{ID: ruleServiceID, Code: invalid, Text: "A service's ID has up to 49 lowercase letters, numerals and hyphens, begins with a letter and doesn't end with a hyphen.", Doc: serviceRef + "/create"},
		{ID: ruleServiceName, Code: invalid, Text: "A service to be created has no name.", Doc: serviceRef},
		{ID: ruleServiceExists, Code: codes.AlreadyExists, Text: "A service's ID is unique in its project and location.", Doc: serviceRef + "/create"},
		{ID: ruleServiceRequired, Code: invalid, Text: "A service has a template of its revisions.", Doc: serviceRef},
		{ID: ruleMask, Code: invalid, Text: "An update's mask names fields of a service.", Doc: serviceRef + "/patch"},
		{ID: ruleRevisionName, Code: invalid, Text: "A revision's name begins with that of its service.", Doc: revTempl},
		{ID: ruleRevisionTaken, Code: codes.AlreadyExists, Text: "A revision that is there can't be named for another template or scaling.", Doc: "https://github.com/googleapis/google-cloud-python/issues/14259"},
		{ID: ruleRevisionServes, Code: codes.FailedPrecondition, Text: "The latest revision, and one that gets traffic, can't be deleted.", Doc: revRef + "/delete"},
		{ID: ruleScaling, Code: invalid, Text: "Counts of instances aren't negative, a minimum isn't above the maximum.", Doc: serviceRef + "#ServiceScaling"},
		{ID: ruleScalingMode, Code: invalid, Text: "Manual scaling has a manual count alone, automatic scaling has none.", Doc: manual},
		{ID: ruleRequestTimeout, Code: invalid, Text: "A request's time-out lies between 1 second and 60 minutes.", Doc: conf + "request-timeout"},
		{ID: ruleConcurrency, Code: invalid, Text: "An instance takes 1 to 1,000 requests at a time.", Doc: conf + "concurrency"},
		{ID: ruleTraffic, Code: invalid, Text: "Traffic goes to the latest revision or a named one, 100 percent together.", Doc: serviceRef + "#TrafficTarget"},
		{ID: ruleTrafficRevision, Text: "Traffic to a revision that isn't there fails the service's routes, after the call.", Doc: serviceRef + "#TrafficTarget"},
		{ID: ruleServicePort, Code: invalid, Text: "A service's container has one port, named http1 or h2c.", Doc: containers + "#ContainerPort"},
		{ID: ruleServiceCPU, Code: invalid, Text: "A service's container has 1, 2, 4, 6 or 8 CPUs, or a part of one from 0.08.", Doc: conf + "services/cpu"},
		{ID: ruleServiceMemory, Code: invalid, Text: "A service's container has 128 MiB to 32 GiB of memory.", Doc: conf + "services/memory-limits"},
		{ID: rulePageSize, Code: invalid, Text: "A page size isn't negative.", Doc: jobRef + "/list"},
	}
}

func refuse(id, format string, args ...any) *gapi.Error { return Rules().Refuse(id, format, args...) }

func violation(id, field, format string, args ...any) *gapi.Error {
	return Rules().Invalid(id, field, format, args...)
}
