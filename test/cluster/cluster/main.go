// cluster starts a one-node Kubernetes for tests, and ends it without a trace.
//
//	cluster up [-level api|node|argo] [-crds minimal|full] [-detach] [COMMAND...]
//	cluster down
//	cluster possible
//	cluster forward LISTEN DIAL
//
// up prints one line of JSON once the cluster is ready. It goes on until COMMAND
// has ended, or, without one, until its standard input is closed: so that whoever
// started it can't leave it behind. With -detach it returns, and down ends it.
// Everything runs in namespaces and control groups of its own, whose first process
// dies with up; what a killed up leaves is a folder and empty control groups, which
// the next up removes. possible exits with 3 where a cluster can't run, and says why.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Exit codes beside 0 and 1, and beside the code of a COMMAND.
const (
	exitUsage      = 2
	exitImpossible = 3 // this machine can't run a cluster
)

// impossible says why this machine can't run a cluster.
type impossible string

func (e impossible) Error() string { return string(e) }

func main() {
	err := run(os.Args[1:])
	if err == nil {
		return
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.Exited() {
		os.Exit(exit.ExitCode())
	}
	fmt.Fprintln(os.Stderr, "cluster:", err)
	switch {
	case errors.As(err, new(impossible)):
		os.Exit(exitImpossible)
	case errors.Is(err, errUsage):
		os.Exit(exitUsage)
	}
	os.Exit(1)
}

var errUsage = errors.New("usage: cluster up [-level api|node|argo] [-crds minimal|full] [-detach] [COMMAND...] | down | possible | forward LISTEN DIAL")

func run(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	switch args[0] {
	case "up":
		return up(args[1:])
	case "possible":
		return possible()
	case "down":
		return down()
	case "forward":
		if len(args) != 3 {
			return errUsage
		}
		return forward(args[1], args[2])
	case "join": // up's own
		return join(args[1:])
	}
	return errUsage
}
