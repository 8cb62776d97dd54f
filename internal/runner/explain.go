package runner

// The stable names of this package's errors, which `windlass explain` knows.
const (
	ErrClients  = "runner.clients"
	ErrNoDoor   = "runner.no-authentication"
	ErrTLS      = "runner.tls"
	ErrUnknown  = "runner.unauthenticated"
	ErrSecret   = "runner.secret-not-allowed"
	ErrFull     = "runner.full"
	ErrStopping = "runner.stopping"
	ErrUnfit    = "runner.unfit-provider"
	ErrBusy     = "runner.already-served"
	ErrNoCode   = "runner.no-exit-code"
	ErrOutput   = "runner.output-not-whole"
	ErrWire     = "runner.not-on-the-wire"
	ErrListen   = "runner.listen"
	ErrEnded    = "runner.job-ended"
	ErrReach    = "runner.unreachable"
	// ErrGivenUp: the caller itself ended the call.
	ErrGivenUp = "runner.given-up"
	// ErrNotFound and ErrNotExecutable are ends of a command, which a caller of ours
	// gets as 127 and 126.
	ErrNotFound      = "runner.command-not-found"
	ErrNotExecutable = "runner.command-not-executable"
)

// Explanation is what an error name of this package means.
type Explanation struct {
	ID string
	// What happened, Why it happens, which may be empty, and what to Do.
	What, Why, Do string
}

// Explanations returns what each error name of this package means, in order.
func Explanations() []Explanation {
	return []Explanation{
		{ErrClients, "The runner's file of clients doesn't fit.",
			"It maps names to token_env or token_file, profile, secrets and max_jobs; the message has the client and what is wrong.",
			"Mend what is named; docs/runner.md has an example."},
		{ErrNoDoor, "A runner can't tell who calls.",
			"It runs other machines' commands, so it doesn't start before it can.",
			"Give it --client-ca for certificates, or --clients with tokens, or both."},
		{ErrTLS, "A certificate, key or CA file of the runner or of its client can't be read or doesn't fit.",
			"All of them are PEM; the connection is TLS 1.3.",
			"Mend the file that is named; docs/runner.md shows how to make them."},
		{ErrUnknown, "The runner doesn't know who calls.",
			"It wants a certificate of its client CA, or a client's token, and the client's name in its file of clients where it has one.",
			"Give the runner's entry in windlass.yaml a cert and key, or token_env, that the runner knows."},
		{ErrSecret, "The runner doesn't give this client this secret.",
			"Its operator lists what each client may use under secrets: in the file of clients.",
			"Have it added there, or use another."},
		{ErrFull, "The runner has as many jobs as it takes, in all or from this client.",
			"Its operator bounds them by --max-jobs, and those of each client by max_jobs in the file of clients.",
			"Call again later, or have the bound raised."},
		{ErrStopping, "The runner is being stopped.",
			"It takes no more jobs and cancels those that it has.",
			"Call again when it is back."},
		{ErrUnfit, "The provider can't serve other machines.",
			"Its jobs would get the runner's own folder and environment.",
			"Serve one with containers, such as docker."},
		{ErrBusy, "Another runner serves this provider from the same state folder.",
			"One is enough: it takes several jobs at a time.",
			"Use that one, or name another state folder by WINDLASS_STATE."},
		{ErrNoCode, "The call of a remote runner ended without an exit code, so what became of the command isn't known.",
			"The connection broke, or the runner died: the command may have run, to its end or in part. It is never a success, and isn't sent again.",
			"The runner's own ledger tells: windlass ps -a on its machine."},
		{ErrOutput, "The job ended, and a part of its output didn't reach the caller.",
			"The wire can't say so beside an exit code, so the call fails.",
			"The runner's machine has what was kept: windlass logs RUN."},
		{ErrWire, "The remote runner's protocol has no place for this value.",
			"Nothing that was set is dropped in silence.",
			"Leave it out, or use another exec_env."},
		{ErrListen, "The runner can't listen at its address.",
			"Another program has the port, or the address isn't this machine's.",
			"Name another one with --listen."},
		{ErrEnded, "The job ended at the runner without an exit code of its own.",
			"It was cancelled there, its time-out passed, it never started, or it was lost: the message says which.",
			"The runner's own ledger has more: windlass ps -a on its machine."},
		{ErrReach, "The remote runner can't be reached: nothing of the call was sent.",
			"It is down, its address in windlass.yaml isn't its own, or the certificates of the two sides don't fit.",
			"See to that, and run the file again."},
		{ErrGivenUp, "The call of a remote runner was ended from here, by Ctrl-C or the step's time-out.",
			"A runner cancels the command when its caller leaves, and proves that at its own side: the protocol has no word of it.",
			"windlass ps -a on the runner's machine tells what became of the command."},
		{ErrNotFound, "The runner found no such command in the image.",
			"Nothing has run. At the caller the exit code is 127, as of a command on this machine.",
			"Correct the command's name, or take an image that has it."},
		{ErrNotExecutable, "The command is there and can't be executed.",
			"It is a folder, no program, or may not be executed. Nothing has run. At the caller the exit code is 126.",
			"Name a program, or make the file executable in the image."},
	}
}
