package cli

import (
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/term"

	"github.com/windlass-run/windlass/internal/config"
)

// Streams are the standard streams with what is known of them, as data, so
// that tests and pipes look alike.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// InTerminal, OutTerminal and ErrTerminal say which are terminals.
	InTerminal, OutTerminal, ErrTerminal bool
	// Width is the terminal's width in columns; 80 where there is none.
	Width int
	// Size, when not nil, asks the terminal of stdout for its size as it is now.
	Size func() (columns, rows int, err error)
	// Raw, when not nil, makes stdin's terminal pass on every key as it is typed,
	// until restore. Resized tells of changes of the size, until stop.
	Raw     func() (restore func() error, err error)
	Resized func() (resized <-chan struct{}, stop func())
	// NoColor forbids colour on terminals too.
	NoColor bool
	// Redact, when not nil, takes secret values out of what Windlass itself
	// says; a job's output doesn't pass through it.
	Redact func(text string) string

	// midLine: the terminal's last line has no end yet, so that what Windlass
	// says must begin a new one.
	midLine atomic.Bool
}

// wrote notes what was written of a job's output to a terminal.
func (s *Streams) wrote(terminal bool, data []byte) {
	if n := len(data); terminal && n > 0 {
		s.midLine.Store(data[n-1] != '\n')
	}
}

// fresh begins a new line on the terminal where its last one has no end.
func (s *Streams) fresh() {
	if s.ErrTerminal && s.midLine.Swap(false) {
		_, _ = io.WriteString(s.Err, "\n")
	}
}

const defaultWidth = 80

// SystemStreams returns the process's own streams.
func SystemStreams(env config.Env) *Streams {
	s := &Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Width: defaultWidth}
	s.InTerminal = term.IsTerminal(int(os.Stdin.Fd()))
	s.OutTerminal = term.IsTerminal(int(os.Stdout.Fd()))
	s.ErrTerminal = term.IsTerminal(int(os.Stderr.Fd()))
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			s.Width = w
			break
		}
	}
	if s.OutTerminal {
		s.Size = func() (int, int, error) { return term.GetSize(int(os.Stdout.Fd())) }
	}
	if s.InTerminal && s.OutTerminal {
		s.Raw, s.Resized = rawStdin, watchSize
	}
	s.NoColor = env.NoColor() || env.Get("TERM") == "dumb"
	return s
}

func rawStdin() (restore func() error, err error) {
	fd := int(os.Stdin.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	return func() error { return term.Restore(fd, before) }, nil
}

// size is the size of stdout's terminal as it is now.
func (s *Streams) size() (columns, rows int) {
	if s.Size != nil {
		if c, r, err := s.Size(); err == nil && c > 0 && r > 0 {
			return c, r
		}
	}
	return s.Width, defaultHeight
}

// redact returns text without the secret values that are known.
func (s *Streams) redact(text string) string {
	if s.Redact == nil {
		return text
	}
	return s.Redact(text)
}

// style is how a word looks on a terminal.
type style string

const (
	stylePlain style = ""
	// styleBold is for heads, and for what goes on or wants a look.
	styleBold style = "1"
	// styleDim is for what may be left unread.
	styleDim style = "2"
	// styleRed is for what failed, styleGreen for what went well. No other colour is
	// read on every background (ADR 0048), and none says what the words don't.
	styleRed   style = "31"
	styleGreen style = "32"
)

// styles are all of them.
func styles() []style { return []style{stylePlain, styleBold, styleDim, styleRed, styleGreen} }

// out returns text in a style, where stdout is a terminal that has colour.
func (s *Streams) out(st style, text string) string {
	return paint(st, text, s.OutTerminal && !s.NoColor)
}

// err is out for stderr.
func (s *Streams) err(st style, text string) string {
	return paint(st, text, s.ErrTerminal && !s.NoColor)
}

func paint(st style, text string, on bool) string {
	if !on || st == stylePlain || text == "" {
		return text
	}
	return "\x1b[" + string(st) + "m" + text + "\x1b[0m"
}

// clean makes text safe for one line of a terminal: control characters, which
// a name or a provider's message may hold, come out escaped.
func clean(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if strings.IndexFunc(text, isControl) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteByte(' ')
		case isControl(r):
			q := strconv.QuoteRuneToASCII(r) // '\x1b', '\u202e'
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isControl reports C0, DEL, C1, what changes the direction of the text around it, and
// what ends a line or can't be seen.
func isControl(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return r == 0x2028 || r == 0x2029 || r == 0xfeff
}
