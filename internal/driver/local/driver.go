// Package local runs jobs as processes of this machine.
//
// Each attempt has a folder below the provider's state folder and a supervisor,
// this program started once more, that holds the job in a session of its own
// and outlives everybody else. The folder is the backend: any process of the
// same user reads the job's state there, and nothing else is asked.
//
// A job ends with its own process, as a container does. Whatever it started and
// left behind is killed then, also what moved to another session.
package local

import (
	"context"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Kind is the name of this backend.
const Kind = "local"

const (
	defaultGrace = 10 * time.Second
	maxGrace     = 24 * time.Hour
	maxDeadline  = 10 * 365 * 24 * time.Hour
	// defaultMaxOutput bounds a job's output file. The log that is shown has
	// bounds of its own; this one keeps a disk from filling unseen.
	defaultMaxOutput = 1 << 30
	minMaxOutput     = 64 << 10
	minMemory        = 1 << 20
)

// What the job finds in its environment, by which it can be told.
const (
	attemptVariable = "WINDLASS_ATTEMPT"
	runVariable     = "WINDLASS_RUN"
)

// Driver returns the driver.
func Driver() sdk.Driver {
	return sdk.Driver{
		Kind:         Kind,
		Doc:          "Processes of this machine, each under a supervisor that outlives its submitter.",
		Config:       configSchema(),
		Options:      optionsSchema(),
		Capabilities: capabilities(),
		Guarantees:   guarantees(),
		Support:      support(),
		Schemes:      []string{"env", "file"},
		Open: func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
			return open(ctx, r)
		},
	}
}

func guarantees() sdk.Guarantees {
	return sdk.Guarantees{
		Submit:         sdk.SubmitGuarantee{By: sdk.SubmitByName},
		Found:          sdk.FoundGuarantee{Consistent: true},
		Argv:           sdk.ArgvExact,
		ExitCode:       sdk.ExitCodeProcess,
		Logs:           sdk.LogGuarantee{Fidelity: sdk.LogBytes, Apart: true, EndProven: true, Live: true},
		CancelReadBack: true,
		Grace:          sdk.GraceGuarantee{Supported: true, Max: maxGrace, Default: defaultGrace},
		Deadline:       sdk.DeadlineGuarantee{Native: true, Max: maxDeadline},
		Secrets:        sdk.SecretProcessEnv,
		Ambient:        true,
		NoImage:        true,
		Stdin:          []sdk.StdinMode{sdk.StdinAttached, sdk.StdinSpooled},
	}
}

func configSchema() sdk.Schema {
	return sdk.Schema{
		Doc: "Jobs on this machine.",
		Fields: []sdk.SchemaField{
			{Name: "max_output", Type: sdk.TypeInt, Default: "1073741824", Min: minMaxOutput, Max: 1 << 50,
				Doc: "Bytes of output that are kept of a job; what comes behind is counted and dropped."},
			{Name: "cgroup", Type: sdk.TypeString, Default: "auto", Enum: []string{"auto", "off"},
				Doc: "Whether jobs are put into control groups where that is possible; a limit needs one in any case."},
		},
	}
}

func optionsSchema() sdk.Schema {
	return sdk.Schema{
		Doc: "A job on this machine.",
		Fields: []sdk.SchemaField{
			{Name: "max_output", Type: sdk.TypeInt, Min: minMaxOutput, Max: 1 << 50,
				Doc: "Bytes of output that are kept, in place of the provider's setting."},
		},
	}
}

func support() []sdk.FieldSupport {
	const (
		noContainer = "a local job is a process of this machine, not a container"
		useDocker   = "; use a provider of kind docker"
	)
	return []sdk.FieldSupport{
		{Field: "name", Values: "any"},
		{Field: "image", Refused: noContainer + useDocker},
		{Field: "entrypoint", Values: "any; its arguments stand before args"},
		{Field: "args", Values: "a command of one word or more, any bytes but NUL; the program is looked for in the job's PATH"},
		{Field: "image_entrypoint", Refused: noContainer},
		{Field: "env", Values: "any bytes but NUL; WINDLASS_ATTEMPT and WINDLASS_RUN are ours"},
		{Field: "secrets", Values: "each is the variable of its name in the process's environment, and in no file"},
		{Field: "workdir", Values: "a folder of this machine; unset is the submitter's"},
		{Field: "user", Values: "NAME, UID, NAME:GROUP or UID:GID where windlass runs as root, else oneself"},
		{Field: "cpu", Values: "0.01 cores or more, where a control group can be made"},
		{Field: "memory", Values: "1 MiB or more, where a control group can be made; no swap is added"},
		{Field: "pids", Values: "any, where a control group can be made"},
		{Field: "gpu", Refused: "a process of this machine sees all of its devices" + useDocker},
		{Field: "ephemeral_storage", Refused: "the disk of a process can't be bounded"},
		{Field: "timeout", Values: "any; the supervisor ends the job by itself at 1.1 times it"},
		{Field: "start_timeout", Values: "any"},
		{Field: "grace", Values: "0 to 24h"},
		{Field: "retries", Values: "any"},
		{Field: "labels", Values: "any"},
		{Field: "network", Values: "host, which is what a process has; all else is refused"},
		{Field: "mounts", Refused: noContainer + useDocker},
		{Field: "files", Refused: "a file would be written into this machine's own folders; write it before the run"},
		{Field: "stdin", Values: "attached, spooled"},
		{Field: "profile", Values: "permissive, which is what a process has; strict and standard are refused"},
		{Field: "ttl", Values: "an expiry that `windlass reap` goes by; nothing here removes a job by itself"},
		{Field: "allow_visible_secret", Values: "no effect: no secret is visible"},
		{Field: "options", Values: "max_output"},
	}
}
