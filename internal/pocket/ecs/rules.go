package ecs

import (
	"iter"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// The IDs of the rules.
const (
	ruleUnsupported         = "ecs-unsupported"
	ruleCluster             = "ecs-cluster"
	ruleClusterInactive     = "ecs-cluster-inactive"
	ruleClusterName         = "ecs-cluster-name"
	ruleClusterTasks        = "ecs-cluster-tasks"
	ruleClusters100         = "ecs-describe-clusters-100"
	ruleMaxResults          = "ecs-max-results"
	ruleNextToken           = "ecs-next-token"
	ruleTagCount            = "ecs-tag-count"
	ruleTagKey              = "ecs-tag-key"
	ruleTagPrefix           = "ecs-tag-prefix"
	ruleTagTwice            = "ecs-tag-twice"
	ruleTagARN              = "ecs-tag-arn"
	ruleTagGone             = "ecs-tag-resource"
	ruleFamily              = "ecs-family"
	ruleContainers          = "ecs-containers"
	ruleContainers10        = "ecs-containers-10"
	ruleContainerTwice      = "ecs-container-twice"
	ruleContainerName       = "ecs-container-name"
	ruleImage               = "ecs-image"
	ruleEssential           = "ecs-essential"
	ruleMemory              = "ecs-container-memory"
	ruleStopTimeout         = "ecs-stop-timeout"
	ruleSecretsRole         = "ecs-secrets-role"
	ruleSecretTwice         = "ecs-secret-twice"
	ruleLogDriver           = "ecs-log-driver"
	ruleLogRole             = "ecs-log-role"
	ruleLogGroup            = "ecs-log-group"
	ruleLogPrefix           = "ecs-log-prefix"
	ruleLogOption           = "ecs-log-option"
	ruleLogMode             = "ecs-log-mode"
	ruleLogCreate           = "ecs-log-create-group"
	ruleDependsOn           = "ecs-depends-on"
	ruleCPU                 = "ecs-cpu"
	ruleTaskMemory          = "ecs-memory"
	ruleFargateSize         = "ecs-fargate-size"
	ruleFargateNetwork      = "ecs-fargate-network"
	ruleFargateCPU          = "ecs-fargate-cpu"
	ruleFargateMemory       = "ecs-fargate-memory"
	ruleFargateIPC          = "ecs-fargate-ipc"
	ruleFargatePID          = "ecs-fargate-pid"
	ruleFargatePlacement    = "ecs-fargate-placement"
	ruleFargatePrivileged   = "ecs-fargate-privileged"
	ruleFargateSum          = "ecs-fargate-sum"
	ruleStorage             = "ecs-ephemeral-storage"
	ruleDefinition          = "ecs-definition"
	ruleRevision            = "ecs-revision"
	ruleDescribeDefinition  = "ecs-describe-definition"
	ruleDeregisterRevision  = "ecs-deregister-revision"
	ruleDeregisterInactive  = "ecs-deregister-inactive"
	ruleDelete10            = "ecs-delete-10"
	ruleFamilyLock          = "ecs-family-lock"
	ruleCount               = "ecs-count"
	ruleTokenForm           = "ecs-token-form"
	ruleTokenConflict       = "ecs-token-conflict"
	ruleStartedBy           = "ecs-started-by"
	ruleLaunchOrStrategy    = "ecs-launch-or-strategy"
	rulePropagate           = "ecs-propagate-service"
	rulePlacementCount      = "ecs-placement-count"
	ruleOverridesSize       = "ecs-overrides-size"
	ruleOverrideName        = "ecs-override-name"
	ruleOverrideTwice       = "ecs-override-twice"
	ruleOverrideSecret      = "ecs-override-secret"
	ruleInactive            = "ecs-inactive"
	ruleExecRole            = "ecs-exec-role"
	ruleCompatible          = "ecs-compatible"
	rulePlatform            = "ecs-platform"
	rulePlatformStorage     = "ecs-platform-storage"
	rulePlatformEC2         = "ecs-platform-ec2"
	ruleFargateRunPlacement = "ecs-fargate-run-placement"
	ruleNoInstances         = "ecs-no-instances"
	ruleStrategy20          = "ecs-strategy-20"
	ruleStrategyProvider    = "ecs-strategy-provider"
	ruleStrategyBase        = "ecs-strategy-base"
	ruleStrategyMixed       = "ecs-strategy-mixed"
	ruleStrategyWeight      = "ecs-strategy-weight"
	ruleNetwork             = "ecs-network"
	ruleNetworkForbidden    = "ecs-network-forbidden"
	ruleSubnets             = "ecs-subnets"
	ruleSecurityGroups      = "ecs-security-groups"
	ruleSubnetID            = "ecs-subnet-id"
	ruleGroupID             = "ecs-security-group-id"
	rulePublicIP            = "ecs-public-ip"
	ruleTasksEmpty          = "ecs-describe-tasks-empty"
	ruleTasks100            = "ecs-describe-tasks-100"
	ruleTaskARN             = "ecs-task-cluster"
	ruleStartedByAlone      = "ecs-started-by-alone"
	ruleFamilyOrService     = "ecs-family-or-service"
	ruleServiceGone         = "ecs-service"
	ruleServiceInactive     = "ecs-service-inactive"
	ruleServiceTwice        = "ecs-service-twice"
	ruleServiceName         = "ecs-service-name"
	ruleServiceDefinition   = "ecs-service-definition"
	ruleServiceToken        = "ecs-service-token"
	ruleServiceScaled       = "ecs-service-scaled"
	ruleServices10          = "ecs-describe-services-10"
	ruleDesired             = "ecs-desired-count"
	rulePercent             = "ecs-percent"
	ruleClusterServices     = "ecs-cluster-services"
	ruleExecInteractive     = "ecs-exec-interactive"
	ruleExecTask            = "ecs-exec-task"
	ruleExecEnabled         = "ecs-exec-enabled"
	ruleExecContainer       = "ecs-exec-container"
	ruleExecAgent           = "ecs-exec-agent"
	ruleStopReason          = "ecs-stop-reason"
	ruleStopGone            = "ecs-stop-task"
)

const (
	api   = "https://docs.aws.amazon.com/AmazonECS/latest/APIReference/"
	guide = "https://docs.aws.amazon.com/AmazonECS/latest/developerguide/"

	client           = "ClientException"
	invalidParameter = "InvalidParameterException"
)

// Rules returns what the service refuses beyond its model, each with the page
// that says so.
func Rules() awsjson.Rules {
	return awsjson.Rules{
		row(ruleUnsupported, client, "What the pocket cloud can't do is refused, never overlooked: volumes, environment files, health checks, restart policies, GPUs, links, FireLens, load balancers and discovery of services, daemons, other deployments than ROLLING, Windows.", api+"API_ContainerDefinition.html"),
		row(ruleCluster, "ClusterNotFoundException", "The cluster must exist.", api+"API_RunTask.html"),
		row(ruleClusterInactive, "ClusterNotFoundException", "A deleted cluster takes no tasks.", api+"API_DeleteCluster.html"),
		row(ruleClusterName, invalidParameter, "A cluster's name has up to 255 letters, numbers, hyphens and underscores.", api+"API_CreateCluster.html"),
		row(ruleClusterTasks, "ClusterContainsTasksException", "A cluster with active tasks can't be deleted.", api+"API_DeleteCluster.html"),
		row(ruleClusters100, invalidParameter, "DescribeClusters takes up to 100 clusters.", api+"API_DescribeClusters.html"),
		row(ruleMaxResults, invalidParameter, "maxResults lies between 1 and 100.", api+"API_ListTasks.html"),
		row(ruleNextToken, invalidParameter, "nextToken is one that the same listing gave.", api+"API_ListTasks.html"),
		row(ruleTagCount, invalidParameter, "A resource has up to 50 tags.", api+"API_Tag.html"),
		row(ruleTagKey, invalidParameter, "A tag has a key.", api+"API_Tag.html"),
		row(ruleTagPrefix, invalidParameter, "The prefix aws: is reserved.", api+"API_Tag.html"),
		row(ruleTagTwice, invalidParameter, "Each tag key is unique.", api+"API_Tag.html"),
		row(ruleTagARN, invalidParameter, "Tags are set by the resource's ARN.", api+"API_TagResource.html"),
		row(ruleTagGone, "ResourceNotFoundException", "The tagged resource must exist.", api+"API_TagResource.html"),
		row(ruleFamily, client, "A family's name has up to 255 letters, numbers, hyphens and underscores.", api+"API_RegisterTaskDefinition.html"),
		row(ruleContainers, client, "A definition has containers.", api+"API_RegisterTaskDefinition.html"),
		row(ruleContainers10, client, "A definition has up to 10 containers.", guide+"service-quotas.html"),
		row(ruleContainerTwice, client, "Containers' names are unique.", api+"API_ContainerDefinition.html"),
		row(ruleContainerName, client, "A container's name has up to 255 letters, numbers, hyphens and underscores.", api+"API_ContainerDefinition.html"),
		row(ruleImage, client, "A container has an image, of up to 255 characters.", api+"API_ContainerDefinition.html"),
		row(ruleEssential, client, "At least one container is essential.", api+"API_ContainerDefinition.html"),
		row(ruleMemory, client, "Without the task's memory each container has memory or memoryReservation; memory is at least 4 MiB, and not below memoryReservation.", api+"API_ContainerDefinition.html"),
		row(ruleStopTimeout, client, "stopTimeout is up to 120 seconds on Fargate.", api+"API_ContainerDefinition.html"),
		row(ruleSecretsRole, client, "Secrets need an execution role.", guide+"secrets-envvar-secrets-manager.html"),
		row(ruleSecretTwice, client, "A secret's name is no other variable's.", api+"API_Secret.html"),
		row(ruleLogDriver, client, "Fargate has the log drivers awslogs, splunk and awsfirelens.", api+"API_LogConfiguration.html"),
		row(ruleLogRole, client, "awslogs on Fargate needs an execution role.", guide+"specify-log-config.html"),
		row(ruleLogGroup, client, "awslogs needs awslogs-group and awslogs-region.", api+"API_LogConfiguration.html"),
		row(ruleLogPrefix, client, "awslogs on Fargate needs awslogs-stream-prefix.", api+"API_LogConfiguration.html"),
		row(ruleLogOption, client, "awslogs knows no other options than its own.", api+"API_LogConfiguration.html"),
		row(ruleLogMode, client, "mode is blocking or non-blocking; max-buffer-size belongs to non-blocking.", api+"API_LogConfiguration.html"),
		row(ruleLogCreate, client, "awslogs-create-group is true or false.", api+"API_LogConfiguration.html"),
		row(ruleDependsOn, client, "dependsOn names containers of the definition, without a cycle.", api+"API_ContainerDependency.html"),
		row(ruleCPU, client, "The task's cpu is a number of units, or of vCPU.", api+"API_RegisterTaskDefinition.html"),
		row(ruleTaskMemory, client, "The task's memory is a number of MiB, or of GB.", api+"API_RegisterTaskDefinition.html"),
		row(ruleFargateSize, client, "Fargate has certain pairs of cpu and memory only.", guide+"task-cpu-memory-error.html"),
		row(ruleFargateNetwork, client, "Fargate needs network mode awsvpc.", api+"API_RegisterTaskDefinition.html"),
		row(ruleFargateCPU, client, "Fargate needs the task's cpu.", api+"API_RegisterTaskDefinition.html"),
		row(ruleFargateMemory, client, "Fargate needs the task's memory.", api+"API_RegisterTaskDefinition.html"),
		row(ruleFargateIPC, client, "Fargate has no ipcMode.", api+"API_RegisterTaskDefinition.html"),
		row(ruleFargatePID, client, "Fargate has no pidMode but task.", api+"API_RegisterTaskDefinition.html"),
		row(ruleFargatePlacement, client, "Fargate has no placement constraints.", guide+"fargate-tasks-services.html"),
		row(ruleFargatePrivileged, client, "Fargate has no privileged containers.", api+"API_ContainerDefinition.html"),
		row(ruleFargateSum, client, "Containers fit into the task's cpu and memory.", api+"API_ContainerDefinition.html"),
		row(ruleStorage, client, "Ephemeral storage has 21 to 200 GiB.", api+"API_EphemeralStorage.html"),
		row(ruleDefinition, client, "RunTask's definition must exist.", api+"API_RunTask.html"),
		row(ruleRevision, client, "A revision is a number.", api+"API_RunTask.html"),
		row(ruleDescribeDefinition, client, "The definition must exist.", api+"API_DescribeTaskDefinition.html"),
		row(ruleDeregisterRevision, client, "DeregisterTaskDefinition names a revision.", api+"API_DeregisterTaskDefinition.html"),
		row(ruleDeregisterInactive, client, "An INACTIVE definition can't be deregistered again.", api+"API_DeregisterTaskDefinition.html"),
		row(ruleDelete10, invalidParameter, "DeleteTaskDefinitions takes 1 to 10 definitions.", api+"API_DeleteTaskDefinitions.html"),
		row(ruleFamilyLock, client, "One revision of a family is made at a time (knob RegisterTakes).", "https://github.com/aws/containers-roadmap/issues/685"),
		row(ruleCount, invalidParameter, "RunTask starts 1 to 10 tasks.", api+"API_RunTask.html"),
		row(ruleTokenForm, invalidParameter, "clientToken has up to 64 characters from 33 to 126.", api+"ECS_Idempotency.html"),
		row(ruleTokenConflict, "ConflictException", "Within its life (24 hours, or the tasks' and an hour) a clientToken stands for one set of parameters of one cluster; the same call again returns the same tasks.", api+"ECS_Idempotency.html"),
		row(ruleStartedBy, invalidParameter, "startedBy has up to 128 letters, numbers, hyphens, slashes and underscores.", api+"API_RunTask.html"),
		row(ruleLaunchOrStrategy, invalidParameter, "Launch type and capacity provider strategy exclude each other.", api+"API_RunTask.html"),
		row(rulePropagate, invalidParameter, "RunTask doesn't propagate tags of a service.", api+"API_RunTask.html"),
		row(rulePlacementCount, invalidParameter, "Up to 10 placement constraints and 5 strategies.", api+"API_RunTask.html"),
		row(ruleOverridesSize, invalidParameter, "Overrides have up to 8,192 characters as JSON.", api+"API_RunTask.html"),
		row(ruleOverrideName, invalidParameter, "An override's container is one of the definition.", api+"API_ContainerOverride.html"),
		row(ruleOverrideTwice, invalidParameter, "A container has one override.", api+"API_ContainerOverride.html"),
		row(ruleOverrideSecret, client, "A secret's variable can't be overridden.", api+"API_Secret.html"),
		row(ruleInactive, client, "An INACTIVE definition runs no new tasks.", api+"API_DeregisterTaskDefinition.html"),
		row(ruleExecRole, invalidParameter, "enableExecuteCommand needs a task role.", api+"API_RunTask.html"),
		row(ruleCompatible, invalidParameter, "A definition runs on Fargate only if it is made for it.", api+"API_TaskDefinition.html"),
		row(rulePlatform, "PlatformUnknownException", "The platform version exists: LATEST, 1.4.0 or 1.3.0.", guide+"platform-fargate.html"),
		row(rulePlatformStorage, invalidParameter, "More ephemeral storage needs platform version 1.4.0.", api+"API_EphemeralStorage.html"),
		row(rulePlatformEC2, invalidParameter, "Only Fargate has platform versions.", api+"API_RunTask.html"),
		row(ruleFargateRunPlacement, client, "Fargate has no placement constraints and strategies.", guide+"fargate-tasks-services.html"),
		row(ruleNoInstances, invalidParameter, "Launch type EC2 needs container instances.", api+"API_RunTask.html"),
		row(ruleStrategy20, invalidParameter, "A strategy has up to 20 capacity providers.", api+"API_RunTask.html"),
		row(ruleStrategyProvider, invalidParameter, "A strategy's capacity providers belong to the cluster.", api+"API_CapacityProviderStrategyItem.html"),
		row(ruleStrategyBase, invalidParameter, "One capacity provider of a strategy may have a base.", api+"API_CapacityProviderStrategyItem.html"),
		row(ruleStrategyMixed, invalidParameter, "A strategy doesn't mix Fargate with others.", guide+"cluster-capacity-providers.html"),
		row(ruleStrategyWeight, invalidParameter, "Of several capacity providers one has a weight.", api+"API_CapacityProviderStrategyItem.html"),
		row(ruleNetwork, invalidParameter, "Network mode awsvpc needs a network configuration.", api+"API_RunTask.html"),
		row(ruleNetworkForbidden, invalidParameter, "Other network modes have no network configuration.", api+"API_RunTask.html"),
		row(ruleSubnets, invalidParameter, "1 to 16 subnets.", api+"API_AwsVpcConfiguration.html"),
		row(ruleSecurityGroups, invalidParameter, "Up to 5 security groups.", api+"API_AwsVpcConfiguration.html"),
		row(ruleSubnetID, invalidParameter, "A subnet's ID is subnet- and 8 or 17 hexadecimal digits.", api+"API_AwsVpcConfiguration.html"),
		row(ruleGroupID, invalidParameter, "A security group's ID is sg- and 8 or 17 hexadecimal digits.", api+"API_AwsVpcConfiguration.html"),
		row(rulePublicIP, invalidParameter, "Only Fargate assigns public addresses.", api+"API_AwsVpcConfiguration.html"),
		row(ruleTasksEmpty, invalidParameter, "DescribeTasks names tasks.", api+"API_DescribeTasks.html"),
		row(ruleTasks100, invalidParameter, "DescribeTasks takes up to 100 tasks.", api+"API_DescribeTasks.html"),
		row(ruleTaskARN, invalidParameter, "A task's ARN is of the cluster that is meant.", api+"API_DescribeTasks.html"),
		row(ruleStartedByAlone, invalidParameter, "startedBy is the only filter of a ListTasks that has it.", api+"API_ListTasks.html"),
		row(ruleFamilyOrService, invalidParameter, "family and serviceName exclude each other.", api+"API_ListTasks.html"),
		row(ruleServiceGone, "ServiceNotFoundException", "The service must exist.", api+"API_UpdateService.html"),
		row(ruleServiceInactive, "ServiceNotActiveException", "A deleted service isn't changed.", api+"API_UpdateService.html"),
		row(ruleServiceTwice, invalidParameter, "An active service's name is unique in its cluster, but for CreateService with the same clientToken.", api+"API_CreateService.html"),
		row(ruleServiceName, invalidParameter, "A service's name has up to 255 letters, numbers, hyphens and underscores.", api+"API_CreateService.html"),
		row(ruleServiceDefinition, invalidParameter, "A service of the controller ECS has a task definition.", api+"API_CreateService.html"),
		row(ruleServiceToken, invalidParameter, "CreateService's clientToken has up to 36 characters from 33 to 126.", api+"API_CreateService.html"),
		row(ruleServiceScaled, invalidParameter, "A service that is scaled above 0 is deleted by force alone.", api+"API_DeleteService.html"),
		row(ruleServices10, invalidParameter, "DescribeServices takes 1 to 10 services.", api+"API_DescribeServices.html"),
		row(ruleDesired, invalidParameter, "desiredCount of a REPLICA service is 0 or more.", api+"API_CreateService.html"),
		row(rulePercent, invalidParameter, "maximumPercent is 100 or more, and above minimumHealthyPercent.", api+"API_DeploymentConfiguration.html"),
		row(ruleClusterServices, "ClusterContainsServicesException", "A cluster with active services can't be deleted.", api+"API_DeleteCluster.html"),
		row(ruleExecInteractive, invalidParameter, "ExecuteCommand is interactive alone.", api+"API_ExecuteCommand.html"),
		row(ruleExecTask, invalidParameter, "ExecuteCommand's task runs.", api+"API_ExecuteCommand.html"),
		row(ruleExecEnabled, invalidParameter, "ExecuteCommand needs a task that was started with enableExecuteCommand.", guide+"ecs-exec.html"),
		row(ruleExecContainer, invalidParameter, "ExecuteCommand's container is one of the task's, and needs naming where there are several.", api+"API_ExecuteCommand.html"),
		row(ruleExecAgent, "TargetNotConnectedException", "The agent is connected some time after the container's start (knob AgentDelay).", api+"API_ExecuteCommand.html"),
		row(ruleStopReason, invalidParameter, "StopTask's reason has up to 1,024 characters.", api+"API_StopTask.html"),
		row(ruleStopGone, invalidParameter, "StopTask's task must exist.", api+"API_StopTask.html"),

		behaviour("ecs-states", "A task goes through PROVISIONING, PENDING, ACTIVATING, RUNNING, DEACTIVATING, STOPPING, DEPROVISIONING and STOPPED.", guide+"task-lifecycle-explanation.html", "TestStates"),
		behaviour("ecs-stop", "StopTask sends TERM, and KILL after stopTimeout, 30 seconds by default; a second one changes nothing.", api+"API_StopTask.html", "TestStopTask"),
		behaviour("ecs-essential-ends", "The end of an essential container ends the task; that of another doesn't.", api+"API_ContainerDefinition.html", "TestSidecars"),
		behaviour("ecs-start-failure", "A task that can't start is STOPPED with TaskFailedToStart, the reason, and no exit code.", guide+"stopped-task-error-codes.html", "TestStartFailures"),
		behaviour("ecs-memory-kill", "A container beyond its memory ends with 137 and OutOfMemoryError (in Docker, or by a mishap; a process has no limit).", guide+"stopped-task-error-codes.html", "TestDocker"),
		behaviour("ecs-token", "RunTask with the same clientToken and parameters gives the same tasks, for 24 hours or until an hour after their end, within one cluster.", api+"ECS_Idempotency.html", "TestToken"),
		behaviour("ecs-failures", "RunTask may answer 200 with failures and no task.", guide+"api_failures_messages.html", "TestF1Failures"),
		behaviour("ecs-missing", "A new task may be MISSING, in no list, or without containers for a while (knobs).", api+"API_RunTask.html", "TestF3Consistency"),
		behaviour("ecs-listing", "ListTasks shows the tasks that are to be RUNNING unless told otherwise; startedBy alone shows no others.", api+"API_ListTasks.html", "TestF12Listing"),
		behaviour("ecs-deployment", "A change of a service's shape is a new deployment: PRIMARY at once, COMPLETED with all its tasks RUNNING and none of older ones meant to run, even while those still stop. A change of the count makes none.", api+"API_Deployment.html", "TestF94ServiceDeployment"),
		behaviour("ecs-breaker", "With the circuit breaker a deployment is FAILED after three failed tasks, or half of what is wanted, and rolled back if told so.", guide+"deployment-circuit-breaker.html", "TestServiceCircuitBreaker"),
		behaviour("ecs-exec", "ExecuteCommand opens a session whose data channel is a websocket; the command is split into words, and runs on a terminal.", guide+"ecs-exec.html", "TestExecuteCommand"),
		behaviour("ecs-hour", "A stopped task is shown for an hour.", api+"API_DescribeTasks.html", "TestF12Listing"),
		behaviour("ecs-revisions", "A family's revisions are numbered from 1, and no number comes again; the family alone means the newest ACTIVE one.", api+"API_RegisterTaskDefinition.html", "TestDefinitions"),
		behaviour("ecs-tags", "RunTask's tags win over the definition's; enableECSManagedTags adds the cluster's name.", guide+"ecs-using-tags.html", "TestTags"),
		behaviour("ecs-secrets", "valueFrom takes ARNs of Secrets Manager with key, stage and version, and names or ARNs of parameters.", api+"API_Secret.html", "TestValueFrom"),
	}
}

func row(id, code, text, doc string) awsjson.Rule {
	return awsjson.Rule{ID: id, Code: code, Text: text, Doc: doc}
}

func behaviour(id, text, doc, test string) awsjson.Rule {
	return awsjson.Rule{ID: id, Text: text, Doc: doc, Test: test}
}

// refuse makes the error of a rule that was broken.
func refuse(rule, format string, args ...any) *awsjson.Error {
	return Rules().Refuse(rule, format, args...)
}

// unsupported refuses what only the pocket cloud can't do.
func unsupported(what string) *awsjson.Error {
	return refuse(ruleUnsupported, "The pocket cloud doesn't offer %s.", what)
}

func keys[V any](m map[string]V) iter.Seq[string] {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
