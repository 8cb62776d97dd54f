package iac

import (
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// settleMost is how many quiet windows a drain takes at most.
const settleMost = 10

// foundWithin is how long a new job that the plugin calls unknown isn't lost: backends
// behind it may be slow to show what they made.
const foundWithin = time.Minute

// guarantees is what the wire lets a host promise, whatever plugin is behind it.
//
//   - Submit: a launch has no key, and no search finds what it made.
//   - Found: for how long a new job may be unknown to its own plugin isn't said.
//   - ExitCode: a number beside a state; where the plugin has it from isn't said.
//   - Logs: chunks from the beginning, without lines, times or cursors, and without a
//     proof that nothing follows; a plugin may give them when the job is over.
//   - CancelReadBack: CancelJob answers nothing, and a state is the plugin's word.
//   - Grace and Deadline: there are fields, and nothing says who heeds them.
//   - KeepsEnded: no call removes a job.
func guarantees(quiet time.Duration) sdk.Guarantees {
	return sdk.Guarantees{
		Submit:     sdk.SubmitGuarantee{By: sdk.SubmitByNothing},
		Found:      sdk.FoundGuarantee{Within: foundWithin},
		Argv:       sdk.ArgvOneString,
		ExitCode:   sdk.ExitCodePlatform,
		Logs:       sdk.LogGuarantee{Fidelity: sdk.LogLines, Looks: true, Settle: sdk.LogSettle{Quiet: quiet, Max: settleMost * quiet}},
		KeepsEnded: true,
		Secrets:    sdk.SecretReference,
	}
}

// lacks begins the refusal of what the wire has no field for.
const lacks = "the published plugin wire has no field for it, so that it would be dropped; "

const noLabels = lacks + "use variables"

// support is the table of fields; cancels says whether the plugin ends jobs.
func support(cancels bool) []sdk.FieldSupport {
	timeout := sdk.FieldSupport{Field: "timeout", Values: "any; up to an hour the plugin is told too"}
	start := sdk.FieldSupport{Field: "start_timeout", Values: "any"}
	if !cancels {
		timeout.Values = "up to an hour; the plugin is told, and nothing else ends the job"
		start = sdk.FieldSupport{Field: "start_timeout", Refused: "this plugin can't cancel jobs, so that nothing would end one that doesn't start; leave it out"}
	}
	return []sdk.FieldSupport{
		{Field: "name", Values: "any; the plugin gets a name of ours, which no other attempt has"},
		{Field: "image", Values: "any; required"},
		{Field: "entrypoint", Values: "unset, empty or a list in UTF-8; it begins the command"},
		{Field: "args", Values: "unset or a list in UTF-8. With entrypoint, or image_entrypoint, it becomes one line that a shell reads back as these words"},
		{Field: "image_entrypoint", Values: "goes before args where entrypoint is unset; the plugin's backend may drop the image's own"},
		{Field: "env", Values: "names of letters, digits and _, but for those that shells change; values in UTF-8"},
		{Field: "secrets", Values: "references alone, which the plugin resolves; a variable each"},
		{Field: "workdir", Refused: lacks + "set it in the image, or change the folder in the command"},
		{Field: "user", Refused: lacks + "set it in the image"},
		{Field: "cpu", Refused: lacks + "set the size in the plugin's own configuration"},
		{Field: "memory", Refused: lacks + "set the size in the plugin's own configuration"},
		{Field: "gpu", Refused: lacks + "set the size in the plugin's own configuration"},
		{Field: "ephemeral_storage", Refused: lacks + "set the size in the plugin's own configuration"},
		{Field: "pids", Refused: lacks + "leave it out"},
		timeout,
		start,
		{Field: "grace", Refused: "the published plugin wire can't prove that it is kept; leave it out"},
		{Field: "retries", Values: "any"},
		{Field: "labels", Refused: noLabels},
		{Field: "network", Refused: lacks + "set it in the plugin's own configuration"},
		{Field: "mounts", Refused: lacks + "put the data into the image, or fetch it in the job"},
		{Field: "files", Refused: lacks + "put them into the image, or fetch them in the job"},
		{Field: "stdin", Refused: lacks + "put the input into the image, or fetch it in the job"},
		{Field: "profile", Values: "permissive: the plugin's own settings. Others are refused"},
		{Field: "ttl", Refused: lacks + "how long a job is kept is the plugin's own"},
		{Field: "allow_visible_secret", Values: "not needed: values never leave the plugin's side"},
	}
}
