package attempt

import (
	"errors"
	"syscall"

	"github.com/windlass-run/windlass/sdk"
)

// MachineReason tells errors of the machine from those of what was asked for: it
// is infrastructure for one that has too little of something or a failing disk,
// and empty for all else.
func MachineReason(err error) sdk.Reason {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
		if errors.Is(err, e) {
			return sdk.ReasonInfrastructure
		}
	}
	return ""
}
