package gcp

// Operations returns what is offered of each API, by the name of its service in
// the protocol. All else of these services is refused with UNIMPLEMENTED.
func Operations() map[string][]string {
	return map[string][]string{
		"google.cloud.run.v2.Jobs":       {"CreateJob", "DeleteJob", "GetJob", "ListJobs", "RunJob", "TestIamPermissions", "UpdateJob"},
		"google.cloud.run.v2.Executions": {"CancelExecution", "DeleteExecution", "GetExecution", "ListExecutions"},
		"google.cloud.run.v2.Tasks":      {"GetTask", "ListTasks"},
		"google.cloud.run.v2.Services":   {"CreateService", "DeleteService", "GetService", "ListServices", "TestIamPermissions", "UpdateService"},
		"google.cloud.run.v2.Revisions":  {"DeleteRevision", "GetRevision", "ListRevisions"},
		"google.longrunning.Operations":  {"CancelOperation", "DeleteOperation", "GetOperation", "ListOperations", "WaitOperation"},
		"google.logging.v2.LoggingServiceV2": {
			"ListLogEntries"},
		"google.monitoring.v3.MetricService": {"ListTimeSeries"},
		"google.container.v1.ClusterManager": {"GetCluster", "ListClusters"},
		"google.cloud.secretmanager.v1.SecretManagerService": {"AccessSecretVersion", "AddSecretVersion", "CreateSecret", "DeleteSecret", "DestroySecretVersion", "DisableSecretVersion",
			"EnableSecretVersion", "GetSecret", "GetSecretVersion", "ListSecretVersions", "ListSecrets", "TestIamPermissions", "UpdateSecret"},
	}
}
