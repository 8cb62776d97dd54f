package workload

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// A session of Container Instances is a program at a terminal, without arguments
// and without an exit code. Where the provider names a shell, that is the program,
// and one line of keys tells it what to run: between two marks that nothing else
// prints, with the exit code behind the second.

// lineMost bounds the line in bytes: a terminal takes no longer one.
// https://man7.org/linux/man-pages/man3/termios.3.html
const lineMost = 4000

// wrapped is a command as a shell is told it.
type wrapped struct {
	// line is what is typed, with its end.
	line string
	// begin and end are the marks.
	begin, end string
}

// wrap makes the line for a command. The nonce makes the marks like nothing else.
// With terminal the command has the terminal as people want it, and reads its keys;
// without, its output comes as it is and its input is empty.
func wrap(argv []string, nonce string, terminal bool) (wrapped, error) {
	w := wrapped{begin: "#" + nonce + "[", end: "#" + nonce + "]"}
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = quote(word)
	}
	command, mode := strings.Join(words, " "), "stty sane"
	if !terminal {
		// Neither newlines nor anything else is changed on the way.
		command, mode = command+" </dev/null", "stty -echo -opost"
	}
	script := fmt.Sprintf("%s 2>/dev/null; printf '%%s\\n' '%s'; %s; c=$?; printf '\\n%%s%%d\\n' '%s' $c; exit $c", mode, w.begin, command, w.end)
	w.line = ` eval "$(printf %b '` + octal(script) + `')"` + "\n"
	if len(w.line) > lineMost {
		return wrapped{}, fmt.Errorf("the command is %d bytes too long for one line of a terminal", len(w.line)-lineMost)
	}
	return w, nil
}

// quote makes one word of a shell's.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// octal writes a text for printf's %b within single quotes, so that a shell which
// edits its line, completes words or echoes what is typed sees nothing in it, and
// prints no mark.
func octal(s string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ./:=,_+-"
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(plain, s[i]) >= 0 {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, `\0%03o`, s[i])
		}
	}
	return b.String()
}

// newlines takes the terminal's own part of newlines out of its output.
type newlines struct{ held bool }

// add takes a piece of output, and keeps a \r at its end for the next.
func (n *newlines) add(b []byte) []byte {
	b = append(n.rest(), b...)
	if n.held = len(b) > 0 && b[len(b)-1] == '\r'; n.held {
		b = b[:len(b)-1]
	}
	return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
}

// rest is what was kept.
func (n *newlines) rest() []byte {
	if !n.held {
		return nil
	}
	n.held = false
	return []byte{'\r'}
}

// unwrapper takes a session's output apart.
type unwrapper struct {
	w wrapped
	// keep leaves newlines as the terminal writes them.
	keep bool

	held  []byte
	began bool
	// crlf: the terminal writes a newline as two characters.
	crlf bool
	code *int
}

// heldMost bounds what is kept of a session that hasn't begun.
const heldMost = 64 << 10

// add takes a piece of output, and returns what of it is the command's.
func (u *unwrapper) add(p []byte) []byte {
	if u.code != nil {
		return nil
	}
	u.held = append(u.held, p...)
	if !u.began {
		i := bytes.Index(u.held, []byte(u.w.begin))
		if i < 0 {
			u.held = u.held[max(0, len(u.held)-heldMost):]
			return nil
		}
		rest := u.held[i+len(u.w.begin):]
		n := bytes.IndexByte(rest, '\n')
		if n < 0 {
			return nil
		}
		u.began, u.crlf, u.held = true, n > 0 && rest[n-1] == '\r', bytes.Clone(rest[n+1:])
	}
	end := []byte("\n" + u.w.end)
	if u.crlf {
		end = []byte("\r\n" + u.w.end)
	}
	if i := bytes.Index(u.held, end); i >= 0 {
		digits, _, ok := bytes.Cut(u.held[i+len(end):], []byte("\n"))
		if !ok {
			return nil
		}
		code, err := strconv.Atoi(strings.TrimSpace(string(digits)))
		if err == nil && code >= 0 && code <= 255 {
			u.code = &code
			out := u.held[:i]
			u.held = nil
			return u.plain(out)
		}
	}
	// What may be the beginning of the end is kept, and with it a lone \r.
	n := max(0, len(u.held)-len(end))
	if n > 0 && u.crlf && u.held[n-1] == '\r' {
		n--
	}
	out := bytes.Clone(u.held[:n])
	u.held = append(u.held[:0], u.held[n:]...)
	return u.plain(out)
}

// rest returns what was held back of a session that broke off.
func (u *unwrapper) rest() []byte {
	if !u.began || u.code != nil {
		return nil
	}
	out := u.held
	u.held = nil
	return u.plain(out)
}

// plain takes the terminal's own part of newlines out.
func (u *unwrapper) plain(b []byte) []byte {
	if !u.crlf || u.keep {
		return b
	}
	return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
}

// words are the last of what came before a session began, on one line: why it
// didn't.
func (u *unwrapper) words() string {
	const most = 300
	text := oneLine(strings.ToValidUTF8(string(u.held), "?"))
	if len(text) > most {
		text = strings.ToValidUTF8(text[len(text)-most:], "")
	}
	return text
}
