package noexec

import (
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// TestWhy has texts as users reported them, and as the runtimes' sources write them.
func TestWhy(t *testing.T) {
	for text, want := range map[string]string{
		// https://github.com/aws/amazon-ecs-cli/issues/1136
		`CannotStartContainerError: Error response from daemon: OCI runtime create failed: container_linux.go:380: starting container process caused: exec: "python": executable file not found in $PATH: unknown`: sdk.ExecNotFound,
		// https://github.com/aws/amazon-ecs-agent/issues/2954
		`CannotStartContainerError: ResourceInitializationError: failed to create new container runtime task: OCI runtime create failed: container_linux.go:370: starting container process caused: exec: "/opt/sonarqube/bin/run.sh": stat /opt/sonarqube/bin/run.sh: no such file or direct`: sdk.ExecNotFound,
		// https://github.com/broadinstitute/cromwell/issues/4604
		`CannotStartContainerError: Error response from daemon: OCI runtime create failed: container_linux.go:348: starting container process caused "exec: \"gzipdata\": executable file not found in $PATH": unknown`: sdk.ExecNotFound,
		// https://github.com/minio/minio/issues/6583, of Azure Container Instances
		`Failed to start container with id c664 with error: rpc error: code = 2 desc failed to start container "c664": Error response from daemon: {"message":"invalid header field value \"oci runtime error: container_linux.go:247: starting container process caused \\\"exec: \\\\\\\"minio server start --quiet\\\\\\\": executable file not found in $PATH\\\"\\n\""}`: sdk.ExecNotFound,
		// https://github.com/Unstructured-IO/unstructured-api/issues/354, of Cloud Run
		`terminated: Application failed to start: failed to load /home/notebook-user/scripts/app-start.sh: exec format error`: sdk.ExecNotExecutable,
		`Application failed to start: failed to load /app/run: no such file or directory`:                                     sdk.ExecNotFound,
		`Application failed to start: error finding executable "x" in PATH [/bin /usr/bin]: no such file or directory`:        sdk.ExecNotFound,
		// https://github.com/aws/eks-pod-identity-agent/issues/75, of a kubelet
		`failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: exec: "/go-runner": stat /go-runner: no such file or directory: unknown`: sdk.ExecNotFound,
		`runc create failed: unable to start container process: exec: "/data": permission denied: unknown`: sdk.ExecNotExecutable,
		`runc create failed: unable to start container process: exec: "/etc": is a directory: unknown`:     sdk.ExecNotExecutable,
		`exec /app/run: exec format error`:                                               sdk.ExecNotExecutable,
		"crun: executable file `foo` not found in $PATH: No such file or directory: OCI": sdk.ExecNotFound,
		// Reasons that are about something else, or cut off before they say what.
		`Essential container in task exited`: "",
		`CannotStartContainerError: failed to create task for container: exec: "/usr/local/bin/_entrypoint.sh": stat /usr/loca`:            "",
		`OCI runtime create failed: runc create failed: unable to start container process: error mounting "/x": no such file or directory`: "",
		`chdir to cwd ("/w") set in config.json failed: no such file or directory`:                                                         "",
		`unable to find user nobody2: no matching entries in passwd file`:                                                                  "",
		"": "",
	} {
		if got := Why(text); got != want {
			t.Errorf("got %q, want %q: %s", got, want, text)
		}
	}
}

func FuzzWhy(f *testing.F) {
	f.Add(`exec: "x": executable file not found in $PATH`)
	f.Fuzz(func(t *testing.T, text string) {
		switch got := Why(text); got {
		case "", sdk.ExecNotFound, sdk.ExecNotExecutable:
		default:
			t.Errorf("%q", got)
		}
	})
}
