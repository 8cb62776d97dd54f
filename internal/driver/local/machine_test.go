//go:build linux || darwin

package local

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// TestMachineErrors: what the machine has too little of is no fault of the spec.
func TestMachineErrors(t *testing.T) {
	p := &provider{name: "local"}
	for _, c := range []struct {
		errno syscall.Errno
		want  sdk.Reason
	}{
		{syscall.EMFILE, sdk.ReasonInfrastructure},
		{syscall.ENFILE, sdk.ReasonInfrastructure},
		{syscall.EAGAIN, sdk.ReasonInfrastructure},
		{syscall.ENOMEM, sdk.ReasonInfrastructure},
		{syscall.ENOSPC, sdk.ReasonInfrastructure},
		{syscall.EIO, sdk.ReasonInfrastructure},
		{syscall.ENOENT, ""},
		{syscall.EACCES, ""},
	} {
		cause := &sdk.Error{Code: sdk.FailedPrecondition, Op: "start supervisor", Err: fmt.Errorf("x: %w", os.NewSyscallError("fork", c.errno))}
		var e *sdk.Error
		if err := p.fail("run job", cause); !errors.As(err, &e) || e.Reason != c.want || (e.Remedy != "") != (c.want != "") || !sdk.IsClear(err) {
			t.Errorf("%v: %#v", c.errno, e)
		}
	}
}
