//go:build failpoint && !unix

package failpoint

import "os"

var stopSignal = os.Kill
