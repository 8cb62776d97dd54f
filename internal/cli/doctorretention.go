package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/control"
)

// retention says what is kept and since when that was not looked after.
func (o *doctorOptions) retention(c *config.Config, dir string) CheckView {
	kept := func(d time.Duration) string {
		if d <= 0 {
			return "until it is removed by hand"
		}
		return fmt.Sprintf("for %d days", int(d.Hours()/24))
	}
	words := []string{"output is kept " + kept(c.KeepLogs), "the record " + kept(c.KeepRows)}
	if c.KeepSize > 0 {
		words = append(words, fmt.Sprintf("at most %d MiB of output", c.KeepSize>>20))
	}
	v := CheckView{Subject: "retention", Name: "kept", OK: true}
	switch st, err := os.Stat(filepath.Join(dir, control.RetainStamp)); {
	case err != nil:
		words = append(words, "not applied yet")
	case st.Size() > 0:
		words = append(words, "applied in part "+stamp(st.ModTime()))
		v.OK, v.Remedy = false, "windlass rm --expired applies it at once, and says what fails"
	default:
		words = append(words, "applied last "+stamp(st.ModTime()))
	}
	v.Detail = strings.Join(words, "; ")
	return v
}
