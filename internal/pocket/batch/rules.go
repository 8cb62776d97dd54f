package batch

import "github.com/windlass-run/windlass/internal/pocket/awsjson"

// The IDs of the rules.
const (
	ruleUnsupported      = "batch-unsupported"
	ruleQueue            = "batch-queue"
	ruleQueueDisabled    = "batch-queue-disabled"
	ruleMaxResults       = "batch-max-results"
	ruleNextToken        = "batch-next-token"
	ruleTagPrefix        = "batch-tag-prefix"
	ruleTagCount         = "batch-tag-count"
	ruleTagARN           = "batch-tag-arn"
	ruleTagGone          = "batch-tag-resource"
	ruleName             = "batch-definition-name"
	ruleType             = "batch-type"
	ruleContainer        = "batch-container"
	ruleImage            = "batch-image"
	ruleDefinitionSize   = "batch-definition-size"
	ruleEnvironment      = "batch-environment"
	ruleResources        = "batch-resources"
	ruleResourceTwice    = "batch-resource-twice"
	ruleVCPU             = "batch-vcpu"
	ruleMemory           = "batch-memory"
	ruleFargateSize      = "batch-fargate-size"
	ruleFargateRole      = "batch-fargate-role"
	ruleFargateOld       = "batch-fargate-deprecated"
	ruleFargateOnly      = "batch-fargate-only"
	ruleFargateNever     = "batch-fargate-never"
	ruleStorage          = "batch-ephemeral-storage"
	ruleLogDriver        = "batch-log-driver"
	ruleLogOption        = "batch-log-option"
	ruleSecretsRole      = "batch-secrets-role"
	ruleSecretTwice      = "batch-secret-twice"
	ruleAttempts         = "batch-attempts"
	ruleTimeout          = "batch-timeout"
	rulePlatforms        = "batch-platforms"
	rulePriority         = "batch-priority"
	ruleDeregister       = "batch-deregister"
	ruleDefinitions100   = "batch-describe-definitions-100"
	ruleJobName          = "batch-job-name"
	ruleDefinition       = "batch-definition"
	ruleInactive         = "batch-inactive"
	ruleRevision         = "batch-revision"
	rulePayload          = "batch-payload"
	ruleCommandEmpty     = "batch-command-empty"
	ruleOverrideSecret   = "batch-override-secret"
	ruleShare            = "batch-share"
	rulePlatform         = "batch-platform"
	ruleJobs100          = "batch-describe-jobs-100"
	ruleListOne          = "batch-list-one"
	ruleFilterOne        = "batch-filter-one"
	ruleFilterName       = "batch-filter-name"
	ruleFilterValue      = "batch-filter-value"
	ruleTerminateReason  = "batch-terminate-reason"
	ruleTerminateMissing = "batch-terminate-missing"
	ruleClosed           = "batch-closed"
)

const (
	api   = "https://docs.aws.amazon.com/batch/latest/APIReference/"
	guide = "https://docs.aws.amazon.com/batch/latest/userguide/"

	client = "ClientException"
)

// Rules returns what the service refuses beyond its model, each with the page
// that says so.
func Rules() awsjson.Rules {
	return awsjson.Rules{
		row(ruleUnsupported, "What the pocket cloud can't do is refused, never overlooked: arrays, several nodes or containers, dependencies, EKS, consumable resources, conditions of retries, GPUs, volumes, exec, Windows.", api+"API_SubmitJob.html"),
		row(ruleQueue, "The job queue must exist.", api+"API_SubmitJob.html"),
		row(ruleQueueDisabled, "A disabled queue takes no jobs.", api+"API_JobQueueDetail.html"),
		row(ruleMaxResults, "maxResults is at least 1.", api+"API_ListJobs.html"),
		row(ruleNextToken, "nextToken is one that the same listing gave.", api+"API_ListJobs.html"),
		row(ruleTagPrefix, "The prefix aws: is reserved.", guide+"tag-resources.html"),
		row(ruleTagCount, "A resource has up to 50 tags.", guide+"tag-resources.html"),
		row(ruleTagARN, "Tags are set by the ARN of a job, a definition or a queue.", api+"API_TagResource.html"),
		row(ruleTagGone, "The tagged resource must exist.", api+"API_TagResource.html"),
		row(ruleName, "A definition's name has up to 128 letters, numbers, hyphens and underscores.", api+"API_RegisterJobDefinition.html"),
		row(ruleType, "A definition is of the type container or multinode.", api+"API_RegisterJobDefinition.html"),
		row(ruleContainer, "A definition of the type container has container properties.", api+"API_RegisterJobDefinition.html"),
		row(ruleImage, "A container has an image, of up to 255 letters, numbers and - _ : . / # @.", api+"API_ContainerProperties.html"),
		row(ruleDefinitionSize, "A definition has up to 24 KiB.", guide+"service_limits.html"),
		row(ruleEnvironment, "No variable's name starts with AWS_BATCH.", api+"API_ContainerProperties.html"),
		row(ruleResources, "A definition says how many vCPUs and how much memory.", api+"API_ResourceRequirement.html"),
		row(ruleResourceTwice, "Each resource is required once.", api+"API_ResourceRequirement.html"),
		row(ruleVCPU, "On instances a job has a whole number of vCPUs, at least one.", api+"API_ResourceRequirement.html"),
		row(ruleMemory, "Memory is a whole number of MiB, at least 4.", api+"API_ResourceRequirement.html"),
		row(ruleFargateSize, "Fargate has certain pairs of vCPUs and memory only.", api+"API_ResourceRequirement.html"),
		row(ruleFargateRole, "Fargate needs an execution role.", api+"API_ContainerProperties.html"),
		row(ruleFargateOld, "Fargate takes resourceRequirements, not vcpus and memory.", api+"API_ContainerProperties.html"),
		row(ruleFargateOnly, "Network, platform version, architecture and ephemeral storage are set on Fargate only.", api+"API_ContainerProperties.html"),
		row(ruleFargateNever, "Fargate has no privileged containers, ulimits and instance types.", api+"API_ContainerProperties.html"),
		row(ruleStorage, "Ephemeral storage has 21 to 200 GiB.", api+"API_EphemeralStorage.html"),
		row(ruleLogDriver, "Fargate has the log drivers awslogs and splunk.", api+"API_LogConfiguration.html"),
		row(ruleLogOption, "awslogs knows no other options than its own.", guide+"using_awslogs.html"),
		row(ruleSecretsRole, "Secrets need an execution role.", guide+"specifying-sensitive-data-secrets.html"),
		row(ruleSecretTwice, "A secret's name is no other variable's.", api+"API_Secret.html"),
		row(ruleAttempts, "A job has 1 to 10 attempts.", api+"API_RetryStrategy.html"),
		row(ruleTimeout, "A time-out is at least 60 seconds.", api+"API_JobTimeout.html"),
		row(rulePlatforms, "A definition is for one platform.", api+"API_RegisterJobDefinition.html"),
		row(rulePriority, "A scheduling priority lies between 0 and 9999.", api+"API_RegisterJobDefinition.html"),
		row(ruleDeregister, "DeregisterJobDefinition names a revision that exists.", api+"API_DeregisterJobDefinition.html"),
		row(ruleDefinitions100, "DescribeJobDefinitions takes up to 100 definitions, by ARN or NAME:REVISION.", api+"API_DescribeJobDefinitions.html"),
		row(ruleJobName, "A job's name has up to 128 letters, numbers, hyphens and underscores, and starts with a letter or number.", api+"API_SubmitJob.html"),
		row(ruleDefinition, "A job's definition must exist.", api+"API_SubmitJob.html"),
		row(ruleInactive, "An INACTIVE definition takes no jobs.", api+"API_DeregisterJobDefinition.html"),
		row(ruleRevision, "A revision is a number.", api+"API_SubmitJob.html"),
		row(rulePayload, "A SubmitJob has less than 30 KiB.", guide+"service_limits.html"),
		row(ruleCommandEmpty, "A command's override has no empty string.", api+"API_ContainerOverrides.html"),
		row(ruleOverrideSecret, "A secret's variable can't be overridden.", api+"API_Secret.html"),
		row(ruleShare, "A share identifier and a priority are for queues with a fair-share policy.", api+"API_SubmitJob.html"),
		row(rulePlatform, "A queue's compute environment is of the platform that the definition is for.", api+"API_RegisterJobDefinition.html"),
		row(ruleJobs100, "DescribeJobs takes up to 100 jobs.", api+"API_DescribeJobs.html"),
		row(ruleListOne, "ListJobs takes exactly one of queue, array job and multi-node job.", api+"API_ListJobs.html"),
		row(ruleFilterOne, "ListJobs takes one filter.", api+"API_ListJobs.html"),
		row(ruleFilterName, "A filter is JOB_NAME, JOB_DEFINITION, BEFORE_CREATED_AT or AFTER_CREATED_AT (SHARE_IDENTIFIER is not offered).", api+"API_ListJobs.html"),
		row(ruleFilterValue, "A filter has one value; a time is in milliseconds.", api+"API_ListJobs.html"),
		row(ruleTerminateReason, "A reason has 1 to 1024 characters.", api+"API_TerminateJob.html"),
		row(ruleTerminateMissing, "A job ID is one in form.", api+"API_TerminateJob.html"),
		{ID: ruleClosed, Code: "ServerException", Text: "A pocket cloud that is closed takes no jobs.", Doc: api + "CommonErrors.html"},

		behaviour("batch-states", "A job goes through SUBMITTED, (PENDING), RUNNABLE, STARTING and RUNNING to SUCCEEDED or FAILED.", guide+"job_states.html", "TestBatchStates"),
		behaviour("batch-no-token", "SubmitJob deduplicates nothing.", "https://github.com/aws/containers-roadmap/issues/2798", "TestBatchSubmitTwice"),
		behaviour("batch-parameters", "Ref::NAME in a command is replaced by the parameter, where there is one.", guide+"job_definition_parameters.html", "TestBatchParameters"),
		behaviour("batch-overrides", "A job whose overrides have more than 8,192 characters is taken, and fails.", "https://github.com/Netflix/metaflow/issues/1482", "TestBatchOverrides"),
		behaviour("batch-terminate", "TerminateJob ends a job in any state, by TERM and after 30 seconds KILL, as FAILED with its reason; it succeeds for what has ended.", api+"API_TerminateJob.html", "TestBatchTerminate"),
		behaviour("batch-cancel", "CancelJob ends a job that isn't STARTING yet, and succeeds for others without effect.", api+"API_CancelJob.html", "TestBatchTerminate"),
		behaviour("batch-deadline", "A job that runs for longer than its time-out is ended, and not tried again.", guide+"job_timeouts.html", "TestBatchDeadline"),
		behaviour("batch-retries", "A job that failed is tried again as often as its strategy says.", guide+"job_retries.html", "TestBatchRetries"),
		behaviour("batch-list", "ListJobs gives RUNNING jobs where it is told no status; with a filter it gives all, the newest first.", api+"API_ListJobs.html", "TestBatchList"),
		behaviour("batch-retention", "An ended job is forgotten after a day.", guide+"job_states.html", "TestBatchForgets"),
		behaviour("batch-log", "A job logs to /aws/batch/job, in the stream DEFINITION/default/TASK, unless its definition says otherwise.", guide+"using_awslogs.html", "TestBatchLog"),
		behaviour("batch-variables", "A job has AWS_BATCH_JOB_ID, AWS_BATCH_JOB_ATTEMPT, AWS_BATCH_JQ_NAME and AWS_BATCH_CE_NAME.", guide+"job_env_vars.html", "TestBatchParameters"),
		behaviour("batch-definitions", "Revisions are numbered from 1, and no number comes again; the name alone means the newest ACTIVE one.", api+"API_SubmitJob.html", "TestBatchDefinitions"),
	}
}

func row(id, text, doc string) awsjson.Rule {
	return awsjson.Rule{ID: id, Code: client, Text: text, Doc: doc}
}

func behaviour(id, text, doc, test string) awsjson.Rule {
	return awsjson.Rule{ID: id, Text: text, Doc: doc, Test: test}
}

// refuse makes the error of a rule that was broken, in the form that AWS Batch's
// own messages have.
func refuse(rule, format string, args ...any) *awsjson.Error {
	return Rules().Refuse(rule, "Error executing request, Exception : "+format, args...)
}

// unsupported refuses what only the pocket cloud can't do.
func unsupported(what string) *awsjson.Error {
	return refuse(ruleUnsupported, "The pocket cloud doesn't offer %s.", what)
}
