//go:build linux || darwin

package local

import "os"

const submitVerb = "submit-and-die"

func submitAndExit(args []string) { os.Exit(0) }
