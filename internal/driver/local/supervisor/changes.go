//go:build linux || darwin

package supervisor

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/windlass-run/windlass/sdk"
)

// ChangesFile lies in the state folder: attempts that changed, a line each.
// It is a hint for watchers, and starts anew now and then.
const ChangesFile = ".changes"

const changesMax = 1 << 20

// Tell appends a line to the file of changes.
func Tell(state string, id sdk.ID) error {
	f, err := os.OpenFile(filepath.Join(state, ChangesFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("tell watchers: %w", err)
	}
	if st, serr := f.Stat(); serr == nil && st.Size() > changesMax {
		_ = f.Truncate(0) // watchers see that it shrank
	}
	_, err = f.WriteString(id.String() + "\n")
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("tell watchers: %w", err)
	}
	return nil
}
