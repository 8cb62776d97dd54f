package run

import "github.com/creack/pty"

// Resizer is a terminal whose size can be changed.
type Resizer interface {
	Resize(size TerminalSize) error
}

// Resize implements Resizer.
func (t *processTerminal) Resize(size TerminalSize) error {
	return pty.Setsize(t.file, &pty.Winsize{Cols: size.Columns, Rows: size.Rows})
}
