//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// TestBatchParameter: what AWS Batch would replace is refused before it is sent.
func TestBatchParameter(t *testing.T) {
	t.Parallel()
	p, cloud := onCloud(t, kindOf(t, "aws-batch"), "off")
	refused := p.command("run", "--on", "aws-batch", "--image", "busybox:local", "--", "echo", "Ref::x")
	words, err := refused.CombinedOutput()
	if refused.ProcessState.ExitCode() != 125 || !strings.Contains(string(words), `args[1] "Ref::x"`) || cloud.Calls().Count("batch:SubmitJob") != 0 {
		t.Errorf("a reference to a parameter: %v, %s", err, words)
	}
}

// TestBatchLostReply: a submit whose reply is lost is found and followed; it ran
// once.
func TestBatchLostReply(t *testing.T) {
	t.Parallel()
	p, cloud := onCloud(t, kindOf(t, "aws-batch"), "off")
	cloud.Faults().Add(fault.Rule{Action: "batch:SubmitJob", Count: 1, Effect: fault.Effect{Drop: true}})
	out, code := p.do("run", "--on", "aws-batch", "--image", "busybox:local", "--", "sh", "-c", "echo once; exit 3")
	if code != 3 || strings.Count(out, "once\n") != 1 {
		t.Errorf("exit %d, output %q", code, out)
	}
	if n := cloud.Calls().Count("batch:SubmitJob"); n != 1 {
		t.Errorf("%d submits", n)
	}
}
