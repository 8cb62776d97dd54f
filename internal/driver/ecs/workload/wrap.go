package workload

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// wrapped is a command as it is sent.
type wrapped struct {
	argv []string
	// nonce, when not empty, begins the trailer that the shell prints behind the
	// command's output: nonce, code and a semicolon.
	nonce string
}

// script is what the shell runs. An interrupt is for the command: the shell stays
// to tell its code.
const script = `trap : INT QUIT; "$@"; printf '%s%s;' NONCE "$?"`

// wrap has a shell tell the command's code: the one that the provider's config
// names, or the one that the command runs itself.
func wrap(argv []string, shell string) wrapped {
	if shell = cmp.Or(shell, sdk.ShellOf(argv)); shell == "" {
		return wrapped{argv: argv}
	}
	var b [12]byte
	_, _ = rand.Read(b[:]) // it never fails
	nonce := "windlass-" + hex.EncodeToString(b[:]) + ":"
	return wrapped{argv: append([]string{shell, "-c", strings.Replace(script, "NONCE", nonce, 1), shell}, argv...), nonce: nonce}
}

// quote writes words as one string that the agent splits into the same words:
// within single quotes nothing means anything but the quote.
// https://github.com/aws/amazon-ssm-agent/blob/mainline/agent/session/shell/shell_unix.go
func quote(argv []string) string {
	out := make([]string, len(argv))
	for i, a := range argv {
		out[i] = "'" + strings.ReplaceAll(a, "'", `'"'"'`) + "'"
	}
	return strings.Join(out, " ")
}

// maxCode is the most digits of an exit code.
const maxCode = 3

// trailer passes output on, takes the shell's trailer out of it, and undoes what
// the terminal did to it, which puts a carriage return before each newline.
type trailer struct {
	to    io.Writer
	nonce []byte
	plain bool
	// held is what may be the beginning of the trailer, or a carriage return before
	// a newline.
	held []byte
	// code is the command's, once the trailer was there.
	code *int
}

// reader returns the writer of a command's output.
func (w wrapped) reader(to io.Writer, plain bool) *trailer {
	return &trailer{to: to, nonce: []byte(w.nonce), plain: plain}
}

// Write implements io.Writer.
func (t *trailer) Write(p []byte) (int, error) {
	t.held = append(t.held, p...)
	var out []byte
	for len(t.held) > 0 {
		n := t.safe()
		if n == 0 {
			if !t.cut() {
				break
			}
			continue
		}
		out = append(out, t.held[:n]...)
		t.held = t.held[n:]
	}
	if err := t.pass(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// safe is how many of the held bytes are surely output.
func (t *trailer) safe() int {
	n := len(t.held)
	if len(t.nonce) > 0 && t.code == nil {
		if i := bytes.Index(t.held, t.nonce); i >= 0 {
			n = i
		} else {
			for k := min(len(t.nonce)-1, n); k > 0; k-- {
				if bytes.HasPrefix(t.nonce, t.held[len(t.held)-k:]) {
					n -= k
					break
				}
			}
		}
	}
	return n
}

// cut takes the trailer from the beginning of what is held; false is that more has
// to come. What looks like one and isn't is output.
func (t *trailer) cut() bool {
	rest, ok := bytes.CutPrefix(t.held, t.nonce)
	if !ok {
		return false
	}
	digits, after, ended := bytes.Cut(rest, []byte(";"))
	if !ended && len(rest) <= maxCode {
		return false
	}
	if n, err := strconv.Atoi(string(digits)); ended && err == nil && n >= 0 && n <= 255 && len(digits) <= maxCode {
		t.code, t.held = &n, append([]byte{}, after...)
		return true
	}
	t.nonce = nil // it isn't ours, and no other comes
	return true
}

// pass gives output on. A carriage return at the end waits for what follows.
func (t *trailer) pass(out []byte) error {
	if !t.plain {
		return t.give(out)
	}
	if len(out) > 0 && out[len(out)-1] == '\r' && len(t.held) == 0 {
		t.held, out = append(t.held, '\r'), out[:len(out)-1]
	}
	return t.give(bytes.ReplaceAll(out, []byte("\r\n"), []byte("\n")))
}

func (t *trailer) give(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	if _, err := t.to.Write(out); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// flush gives what was held at the output's end.
func (t *trailer) flush() error {
	held := t.held
	t.held = nil
	return t.give(held)
}
