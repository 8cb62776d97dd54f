package cli

import (
	"strings"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/credential"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/internal/resource"
	"github.com/windlass-run/windlass/internal/runner"
	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/internal/step"
	"github.com/windlass-run/windlass/sdk"
)

// Entry explains one stable error ID.
type Entry struct {
	// ID is the stable name.
	ID string
	// Title is what went wrong, Cause why that happens, Remedy what to do.
	Title, Cause, Remedy string
}

// IDs of this package's own errors.
const (
	idUsage       = "cli.usage"
	idInterrupted = "cli.interrupted"
	idRefused     = "run.refused"
	idAmbiguous   = "run.ambiguous"
	idDetach      = "run.detach-needs-keeper"
	idNoCommand   = "run.no-command"
	idNoConfirm   = "cli.needs-confirmation"
	idWaitTimeout = "wait.timeout"
	idNoRun       = "run.not-found"
	idNothingHere = "cli.no-engine"
	idChangeOpen  = "row.open"
	idNoLedger    = "ledger.none"
	idNeedFullID  = "run.needs-full-id"
	idNoRerun     = "run.no-rerun"
	idNoInput     = "run.no-input"
	idNoToken     = "runner.no-token"
)

// Catalog returns the explanation of every error ID that this program gives.
func Catalog() []Entry {
	entries := []Entry{
		{idUsage, "The command was called wrongly.",
			"A flag is unknown, lacks its value or has one that doesn't fit, or an argument is missing.",
			"Read the command's own help with --help. The flags of run follow docker run where it has one."},
		{idInterrupted, "The command was interrupted.",
			"Ctrl-C, SIGTERM or a closed terminal ended it. The first one cancels an attached run and waits for proof that it is gone; the second leaves at once.",
			"windlass ps -a shows what became of the run; windlass cancel RUN ends it."},
		{idRefused, "The job was refused before launch.",
			"Something that was set explicitly can't be honoured by the provider. Windlass says so before anything starts, instead of dropping it.",
			"Change or leave out each field that is named. windlass provider describe NAME lists what the provider supports, and windlass run --dry-run shows what would be sent."},
		{idDetach, "A detached run needs a keeper.",
			"With WINDLASS_KEEPER=off no background process may hold the run, so the command has to stay until the job has ended.",
			"Leave out -d, or unset WINDLASS_KEEPER."},
		{idNoCommand, "There is nothing to run.",
			"Neither a command nor an image was given.",
			"Name a command behind --, as in: windlass run -- echo hello. Or name an image: windlass run --image busybox -- echo hello."},
		{idNoConfirm, "The command wants to be asked for explicitly.",
			"It would destroy something that can't be had back.",
			"Repeat it with the flag that the message names, or do what it says instead."},
		{idWaitTimeout, "The run hadn't ended when the wait's own time-out passed.",
			"windlass wait --timeout bounds the waiting and leaves the run alone, so nothing is known yet about its end. It is never a success.",
			"Wait again, look with windlass status RUN, or end the run with windlass cancel RUN."},
		{idNothingHere, "This build can't do that.",
			"The program was built without the part that the command needs.",
			"Use a complete build: go build ./cmd/windlass."},
	}
	entries = append(entries, runEntries()...)
	entries = append(entries, storeEntries()...)
	entries = append(entries, stepEntries()...)
	entries = append(entries, resourceEntries()...)
	entries = append(entries, systemEntries()...)
	entries = append(entries, svcEntries()...)
	for _, list := range [][]config.Explanation{config.Explanations(), credential.Explanations(), pluginhost.Explanations()} {
		for _, x := range list {
			entries = append(entries, Entry{x.ID, x.What, x.Why, x.Do})
		}
	}
	for _, x := range secret.Explanations() {
		entries = append(entries, Entry{x.ID, x.What, x.Why, x.Do})
	}
	for _, x := range runner.Explanations() {
		entries = append(entries, Entry{x.ID, x.What, x.Why, x.Do})
	}
	return append(entries, codeEntries()...)
}

// runEntries explains the errors about runs.
func runEntries() []Entry {
	return []Entry{
		{idNoRun, "There is no such run.",
			"The ledger of this state folder has no run with that ID, suffix or name.",
			"windlass ps -a lists the runs. A run that another machine submitted is reached by its labels: windlass status --on PROVIDER RUN-ID."},
		{idAmbiguous, "Several runs fit.",
			"A suffix of an ID fits more than one run, or a name more than one that is open. Of ended runs of a name the newest is meant.",
			"Give more of the ID, or all of it: windlass ps -a -q prints full IDs."},
		{"run.key-conflict", "The idempotency key is taken.",
			"A key stands for one job on one provider, and this one belongs to a run with another.",
			"Use another key, or give the same job and provider to attach to the run that has it."},
		{control.ErrIDNoCancel, "The provider can't end jobs.",
			"Its plugin doesn't serve IaCProviderJobCanceler, so that Ctrl-C, windlass cancel and a time-out would end nothing.",
			"Use a plugin that does. With --allow-no-cancel the job runs all the same, to its own end."},
		{"run.open", "The run hasn't ended.",
			"What a run left can be removed only when nothing is left to do for it.",
			"Wait for it, or windlass rm --force RUN, which cancels it first."},
		{idChangeOpen, "The change goes on.",
			"A change of a resource or a workload is one call of the provider, made by a command that still waits for its outcome or whose outcome can't be told at the moment. It is no run, and can't be called off.",
			"windlass wait ROW tells how it ended. Where the provider will never tell, windlass abandon ROW --reason WHY closes the row."},
		{control.ErrNothingKept, "The row has nothing that could be removed.",
			"windlass rm removes the captured output of runs and recorded sessions, and what runs kept on their providers. A change of a resource or a workload leaves its record alone, which is the audit.",
			"windlass resource delete deletes a resource. windlass ledger prune cuts old records."},
		{"run.not-unknown", "Only an unknown run can be abandoned.",
			"Abandoning ends a record whose truth can't be found out. This run's state is known.",
			"windlass cancel RUN ends it."},
		{"run.not-on-provider", "The provider has nothing of that run.",
			"No object there carries the run's label. It may have been cleaned up, may be another provider's, or may be so new that it isn't listed yet.",
			"Check the provider and the ID. windlass provider describe NAME says how long a new object may stay unseen."},
		{idNeedFullID, "A full ID is needed.",
			"With --on there is no ledger in which a short ID could be looked up.",
			"Give all 26 characters, as windlass run -d and ps -q print them."},
		{idNoRerun, "The record doesn't hold a whole job.",
			"Only runs that this ledger's windlass run submitted can be run again: what was adopted came without its job.",
			"Write the job out with windlass run."},
		{idNoInput, "The first run's input isn't kept.",
			"Standard input is passed on or spooled for one run, and removed with it.",
			"Give it again: windlass rerun -i RUN < FILE."},
		{"queue.full", "The run waits for its turn.",
			"The provider has as many runs as max_in_flight allows, or as it takes itself. One that has ended counts until what it made is removed.",
			"It starts by itself when a place is free, first in first out. windlass status RUN names a run whose clean-up fails: mend that, or remove what it made by hand. Raise max_in_flight of the provider, or cancel a run that is no longer needed."},
		{"keeper.not-started", "The keeper didn't start.",
			"The background process that looks after runs could not be started, or doesn't answer on its socket.",
			"Read keeper.log in the state folder. WINDLASS_KEEPER=off does without: commands then stay until their run is done."},
	}
}

// resourceEntries explains the errors of resources.
func resourceEntries() []Entry {
	return []Entry{
		{resource.ErrFile, "A file of resources isn't what it should be.",
			"It is no YAML, has a key or a value that a resource can't have, or names a type or provider that isn't there. The message has the file, line and column of each problem. Nothing was changed.",
			"Mend what is named. docs/resources.md describes each key, docs/providers.md each type's config."},
		{control.ErrResourceReplace, "Another resource is needed in the place of this one.",
			"The provider can't change what differs in a resource that is there. Deleting it takes what is in it, a volume's data among it.",
			"windlass resource apply --yes deletes it and makes another. Or make one under another name, and move what is in it."},
		{control.ErrResourceUnconfirmed, "Nothing says whether the change was made.",
			"The reply was lost, and what is there now doesn't prove it: the call may still arrive, or somebody else may have changed the same thing. It is never sent again by itself.",
			"Look with windlass resource read and diff, and apply again: what is as wanted is left alone."},
		{control.ErrResourceRefused, "The provider wouldn't make this change.",
			"Its type has no such change, or what is there was made by somebody else, or belongs to another owner. No call was made, and nothing was changed.",
			"The message says which. windlass provider describe shows what each type can do; what others made is changed where it was made."},
		{control.ErrResourceBusy, "Another change of the same resource goes on.",
			"Changes of one resource come one after the other. The message names who began the one that goes on.",
			"Wait for it and repeat the command. windlass ledger log --target TYPE/NAME shows the changes."},
	}
}

// stepEntries explains the errors of steps and where they run.
func stepEntries() []Entry {
	return []Entry{
		{step.ErrFile, "A step file isn't what it should be.",
			"It is no YAML, or has a key or a value that a step can't have. The message has the file, line and column of each problem. Nothing was started.",
			"Mend what is named. windlass step schema prints the schema for an editor; docs/exec-environments.md describes each key."},
		{step.ErrTemplate, "A template of a step can't be filled in.",
			"It doesn't parse, names a step that isn't before it, or uses a value that isn't there: an exit code that is null, or output that is longer than what templates may use.",
			"Mend the template. has .steps.NAME \"KEY\" asks whether a value is there."},
		{sandbox.ErrRefused, "An environment refuses what a step sets.",
			"Something that the step sets can't be honoured there. Windlass says so before anything starts, instead of dropping it.",
			"Change or leave out each field that is named, or choose another exec_env. docs/exec-environments.md has the table of fields."},
		{sandbox.ErrNoEnvironment, "No environment has that name.",
			"exec_env is one of local-docker, ephemeral and provider-ephemeral, or the name of a remote runner.",
			"Add the runner under runners: in windlass.yaml, or mend the name."},
		{sandbox.ErrNoPlace, "The environment lacks its provider.",
			"ephemeral needs a provider of kind argo, by argo_module where there are several; provider-ephemeral needs provider: and a name that is configured.",
			"windlass provider ls lists the providers. Add one under providers: in windlass.yaml."},
		{step.ErrBackend, "A step's backend can't be asked whether it takes the step.",
			"Before the first step starts, every step's backend is asked. This one doesn't answer, or isn't configured as it should be; the message has its words. Nothing was started.",
			"See to it that the backend is there, which windlass provider check tells, or leave the step out."},
		{idNoToken, "The token for a remote runner isn't here.",
			"The runner's entry in windlass.yaml names a variable by token_env, and that variable is unset or empty.",
			"Set it to the token that the runner's file of clients has."},
	}
}

// storeEntries explains the errors of what is kept on disk.
func storeEntries() []Entry {
	return []Entry{
		{idNoLedger, "There is no ledger yet.",
			"The state folder has none; the first run makes it.",
			"windlass run -- echo hello makes one. WINDLASS_STATE names another state folder; windlass config show --origin says which one is used."},
		{"ledger.full", "The disk is full.",
			"No run starts without its row on disk, so new ones are refused. What runs goes on, and can be cancelled and recorded from a reserve.",
			"Free some space on the state folder's disk, for example with windlass rm --expired."},
		{"ledger.damaged", "The ledger's file is damaged.",
			"It isn't what was written: a bad disk, a copy of a file in use, or an edit.",
			"Copy the state folder before anything else. windlass ledger verify names what is wrong."},
		{"ledger.behind", "The ledger is behind the head that is kept beside it.",
			"Events that were there are gone: an old copy was put back, or the file was cut.",
			"Put the newest copy back. windlass ledger verify and export still read it as it is."},
		{"ledger.readonly", "The state folder can't be written to.",
			"Its permissions or its disk forbid writing, so no run can be recorded, and none is started. ps, status, logs, wait and ledger still read it as it is.",
			"Make it writable, or name another folder by WINDLASS_STATE."},
		{"ledger.busy", "Other processes keep the ledger busy.",
			"A transaction waited too long for its turn.",
			"Try again. If it stays so, look for a stopped windlass process."},
		{"ledger.io", "The disk failed.",
			"Reading or writing the ledger's file gave an error of the operating system.",
			"Check the disk and the file system; the message has the system's words."},
		{"ledger.newer", "A newer program wrote the ledger.",
			"Its schema is one that this program doesn't know, so it doesn't touch it.",
			"Use the version that the message names, or a newer one."},
		{"ledger.network", "The state folder lies on a network file system.",
			"Locks and syncs can't be relied on there, and the record would be at risk.",
			"Name a folder on a local disk by WINDLASS_STATE."},
		{"ledger.closed", "The ledger was closed.",
			"The command was ending while something was still to be written.",
			"Repeat it; windlass status RUN tells how the run stands."},
		{"logs.expired", "The output isn't kept any more.",
			"retention.logs, or windlass rm, let it go. The record of the run stays.",
			"Raise retention.logs for runs to come. The provider may still have its own copy."},
		{"logs.fenced", "Another process captures the output now.",
			"The run changed hands, and its former holder may not write any more.",
			"Nothing: the new holder captures everything anew."},
		{"logs.disk", "Output could not be kept.",
			"The disk is full or fails. The job goes on, and the run's log verdict says gap.",
			"Free some space on the state folder's disk."},
	}
}

// codeEntries explains the classes, for errors without an ID of their own.
func codeEntries() []Entry {
	texts := map[sdk.Code][3]string{
		sdk.Canceled:           {"The call was cancelled.", "Somebody ended it before it was done: an interrupt, or a cancel of the run.", "Repeat it if it is still wanted."},
		sdk.Unknown:            {"Something failed without a class.", "The error came from outside Windlass, and says no more than its text.", "Read the text; windlass doctor checks this machine and the providers."},
		sdk.InvalidArgument:    {"A value doesn't fit.", "A flag, a field of the configuration or a stored document is malformed or contradicts another.", "Correct the value that the message names."},
		sdk.DeadlineExceeded:   {"A call took too long.", "The provider didn't answer within call_timeout. That says nothing about the job: Windlass goes on asking.", "Check that the provider can be reached: windlass provider check NAME. Raise its call_timeout if it is slow."},
		sdk.NotFound:           {"It isn't there.", "A run, an image, a file or an object on the provider doesn't exist, or not any more.", "Check the name; windlass ps -a lists the runs."},
		sdk.AlreadyExists:      {"It exists already.", "A name or an idempotency key is taken. A key stands for one run and one spec.", "Use another key or name, or look at the run that has it."},
		sdk.PermissionDenied:   {"The permission is missing.", "The credentials are known and lack the right that the call needs.", "Grant the right that the message names; windlass provider check NAME tries each one."},
		sdk.ResourceExhausted:  {"There is no room.", "A quota, a rate limit, the provider's capacity or the disk is used up.", "Wait, raise the limit, or free some space."},
		sdk.FailedPrecondition: {"The state doesn't allow it.", "What was asked for needs something that isn't so at the moment: an engine that runs, a run that has ended, a newer program.", "Do what the message says first."},
		sdk.Aborted:            {"Somebody else was faster.", "Another process changed the same thing, or has taken over the run.", "Look at it again and repeat the command."},
		sdk.OutOfRange:         {"The place doesn't exist.", "A position in a log lies outside what is kept.", "Read from the start, or from a newer cursor."},
		sdk.Unimplemented:      {"The provider can't do that.", "Its kind lacks the capability or the feature.", "windlass provider describe NAME lists what it can do."},
		sdk.Internal:           {"This is a defect.", "Windlass or the provider broke a promise of its own.", "Please report it with the message and the file that windlass debug bundle writes."},
		sdk.Unavailable:        {"The provider can't be reached.", "The network, the engine or the service is down, or refuses connections.", "windlass provider check NAME and windlass doctor say what is missing. Runs that go on are taken up again by themselves."},
		sdk.DataLoss:           {"Stored data is damaged.", "A file of the state directory isn't what was written: a torn write, a bad disk or an edit.", "windlass ledger verify names what is wrong. Keep a copy before you repair anything."},
		sdk.Unauthenticated:    {"The credentials are missing, wrong or expired.", "The provider doesn't know who is calling.", "Set the variables that windlass provider describe NAME lists, or write credentials: ambient in its entry to use the vendor's own chain."},
	}
	var out []Entry
	for _, c := range sdk.Codes() {
		t := texts[c]
		out = append(out, Entry{idOfCode(c), t[0], t[1], t[2]})
	}
	return out
}

// findEntry returns the explanation of an ID.
func findEntry(id string) (Entry, bool) {
	for _, e := range Catalog() {
		if e.ID == id {
			return e, true
		}
	}
	return Entry{}, false
}

// runRemedy says what to do about a run. One that didn't start in time has the remedy of
// what kept it from starting, where that is told: more time seldom is one.
func runRemedy(r ledger.Run) string {
	switch why := control.PendingReason(r); why {
	case sdk.ReasonImagePull:
		return "check the image's name, and the provider's credentials for its registry; raise --start-timeout only for an image that takes so long to pull"
	case "", sdk.ReasonUnknown, sdk.ReasonQueued, sdk.ReasonStartTimeout:
	default:
		return reasonRemedy(why) + "; or raise --start-timeout"
	}
	return reasonRemedy(r.Reason)
}

// reasonRemedy says what to do about a run that has a reason.
func reasonRemedy(r sdk.Reason) string {
	switch r {
	case sdk.ReasonNonzeroExit, sdk.ReasonSignaled:
		return "read the output with windlass logs RUN"
	case sdk.ReasonOOMKilled:
		return "give the job more memory with --memory, or make it use less"
	case sdk.ReasonTimedOut:
		return "raise --timeout, or find out from windlass logs RUN why it takes so long"
	case sdk.ReasonImagePull:
		return "check the image's name, and that the provider may pull it"
	case sdk.ReasonInvalidSpec:
		return "correct what the provider's words name"
	case sdk.ReasonRefused:
		return "change what the message says stands against it, and ask again"
	case sdk.ReasonFailedToStart:
		return "read the provider's words; --retries lets it try again"
	case sdk.ReasonStartTimeout:
		return "raise --start-timeout, or look for what keeps the provider from starting it"
	case sdk.ReasonCapacity, sdk.ReasonUnschedulable:
		return "wait, ask for less, or use another provider"
	case sdk.ReasonQuota:
		return "raise the quota at the provider, or free some of it"
	case sdk.ReasonPreempted, sdk.ReasonEvicted, sdk.ReasonNodeLost, sdk.ReasonInfrastructure:
		return "repeat it with windlass rerun RUN; --retries does so by itself"
	case sdk.ReasonPermissionDenied:
		return "grant the right that the provider's words name; windlass provider check tries each one"
	case sdk.ReasonCredentials:
		return "renew the credentials: windlass status RUN hands them over while it goes on, windlass rerun RUN starts it again once it has failed"
	case sdk.ReasonQueued:
		return "wait for its turn, or end it with windlass cancel RUN"
	case sdk.ReasonSubmitUnconfirmed:
		return "look at the provider whether the job is there; windlass abandon RUN --reason WHY ends the record"
	case sdk.ReasonSupervisorLost, sdk.ReasonLost:
		return "look at what the job should have done, then windlass rerun RUN"
	case sdk.ReasonUnknown:
		return "windlass provider check tells whether the provider answers; windlass abandon RUN --reason WHY ends the record"
	}
	return ""
}

// forRun puts a run's short ID where a remedy says RUN.
func forRun(remedy string, id sdk.ID) string { return strings.ReplaceAll(remedy, "RUN", id.Short()) }
