package sdk

import "time"

// WorkloadGuarantees is what a driver can truly give for live workloads, and how
// it does what users can tell apart. The zero value promises least.
type WorkloadGuarantees struct {
	Ops OpGuarantee
	// Compares: the backend itself compares Expect.Generation at the change, so
	// that nothing can come between. Without it the driver reads right before.
	Compares bool
	Restart  RestartGuarantee
	Stop     StopGuarantee
	// Failures: DeploymentStatus.Failure has a reason that the backend gave.
	Failures bool
	Exec     ExecGuarantee
	// Warms is how long after an instance's start metrics may be warming.
	Warms time.Duration
}

// OpGuarantee says where an operation whose reply was lost can be found.
type OpGuarantee struct {
	By OpFoundBy
	// Within is when it is surely seen, counted from the send.
	Within time.Duration
}

// OpFoundBy is where OpID stays.
type OpFoundBy string

// OpOnObject: the last OpID stays on the workload; whether an earlier one was
// carried out can't be told. OpInHistory: every one stays for a while.
// OpNowhere: a lost reply can't be cleared up.
const (
	OpOnObject  OpFoundBy = "object"
	OpInHistory OpFoundBy = "history"
	OpNowhere   OpFoundBy = ""
)

// RestartGuarantee is what users see of a restart.
type RestartGuarantee string

// RestartRolling: instances are replaced one after another, and somebody always
// serves where there are two or more. RestartInPlace: each is stopped and
// started where it stands, and keeps its address. RestartReplaces: all end
// before new ones start, which may have another address.
const (
	RestartRolling  RestartGuarantee = "rolling"
	RestartInPlace  RestartGuarantee = "in_place"
	RestartReplaces RestartGuarantee = "replaces"
)

// StopGuarantee is what a stop is.
type StopGuarantee string

// StopStops: the backend has a state for it. StopZero: the count becomes zero,
// and what was there before is noted on the workload. StopForgets: the count is
// zero, and only the ledger knows what it was.
const (
	StopStops   StopGuarantee = "stops"
	StopZero    StopGuarantee = "zero"
	StopForgets StopGuarantee = ""
)

// ExecGuarantee is what an exec is worth.
type ExecGuarantee struct {
	// ExitCode: the backend tells the command's own.
	ExitCode bool
	// Argv is what becomes of the command's words.
	Argv ArgvGuarantee
	// Stdin: the command can be given input, and sees its end.
	Stdin bool
	// Terminal: the command can have a terminal. Apart: without one, stdout and
	// stderr can be told apart.
	Terminal, Apart bool
	// Signals: signals reach the command.
	Signals bool
}
