package providertest

import (
	"fmt"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Shell returns the behaviour as a script for a POSIX sh with od, tr, head, tail,
// sleep, sha256sum, setsid and id (coreutils and util-linux, or busybox). The
// job is to be started as
//
//	sh -c SCRIPT sh ARG...
//
// with Behaviour.Args behind. mark returns the command that carries out a Mark
// step; keys are letters, digits and - only.
//
// The script catches TERM, since a container's first process ignores what it
// doesn't catch, and ends with 143 then. It ends its child by KILL, for one that
// was only just forked still has the script's own trap and outlives a TERM. A backend
// may send TERM to the child too, and that isn't told of.
func (b Behaviour) Shell(mark func(key string) string) string {
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	line(`hex() { od -An -v -tx1 | tr -d ' \n'; }`)
	line(`sum() { sha256sum | cut -c1-64; }`)
	line(`nap() { sleep "$1" & wait $! 2>/dev/null; }`)
	line(`trap 'kill -KILL $! 2>/dev/null; exit 143' TERM`)
	for _, st := range b.Steps {
		switch st.Do {
		case ActPrint:
			to := ""
			if st.Stream == sdk.StreamStderr {
				to = " >&2"
			}
			// A single argument of exec has at most 128 KiB, the script is one.
			for data := st.Data; len(data) > 0; {
				n := min(len(data), 4096)
				line("printf %%b '%s'%s", octal(data[:n]), to)
				data = data[n:]
			}
		case ActLines:
			line(`i=0; while [ $i -lt %d ]; do echo "line $i"; i=$((i+1)); done`, st.N)
		case ActLongLine:
			line(`head -c %d /dev/zero | tr '\0' x; echo`, st.N)
		case ActSleep:
			line(`nap %s`, seconds(st.For))
		case ActHang:
			line(`while :; do nap 3600; done`)
		case ActExit:
			line(`exit %d`, st.N)
		case ActSignal:
			// The shell may be process 1 of its namespace, which no signal of
			// its own can end; then its child's death counts.
			name := strings.TrimPrefix(st.Name, "SIG")
			line(`trap - TERM; kill -%s $$; sh -c 'kill -%s $$'; exit $?`, name, name)
		case ActIgnoreTerm:
			line(`trap '' TERM`)
		case ActOnTerm:
			line(`trap 'kill -KILL $! 2>/dev/null; printf %%b "%s"; sleep %s; exit %d' TERM`, octal(st.Data), seconds(st.For), st.N)
		case ActMark:
			line(`%s`, mark(st.Name))
		case ActGrandchild:
			line(`setsid sh -c %s >/dev/null 2>&1 </dev/null &`,
				quote(fmt.Sprintf("trap '' TERM HUP\nsleep %s\n%s", seconds(st.For), mark(st.Name))))
		case ActMemory:
			// A line without an end is kept whole; the shell itself becomes what is killed.
			line(`exec tail /dev/zero`)
		case ActChildMemory:
			line(`tail /dev/zero >/dev/null`)
		case ActShowArgs:
			// Arguments hold no NUL, so one od does for all of them.
			line(`for a; do printf '%%s\0' "$a"; done | od -An -v -tx1 | tr -s ' \n' '\n' |`)
			line(`while read -r b; do case $b in 00) echo "arg $l"; l= ;; *) l=$l$b ;; esac; done`)
		case ActShowEnv:
			line(`if [ -n "${%[1]s+x}" ]; then printf 'env %[1]s '; printf %%s "$%[1]s" | hex; echo; else echo 'env %[1]s unset'; fi`, st.Name)
		case ActShowSecret:
			line(`printf 'secret %[1]s '; if [ -n "${%[1]s_FILE:-}" ]; then sum <"$%[1]s_FILE"; else printf %%s "${%[1]s:-}" | sum; fi`, st.Name)
		case ActShowDir:
			line(`echo "dir $(pwd)"`)
		case ActShowUser:
			line(`echo "user $(id -u)"`)
		case ActShowFile:
			q := quote(st.Name)
			line(`printf 'file %%s ' %[1]s; if [ -e %[1]s ]; then sum <%[1]s; else echo missing; fi`, q)
		case ActCopyStdin:
			line(`cat`)
		default:
			line(`echo 'no such action' >&2; exit 99`)
		}
	}
	line(`exit 0`)
	return s.String()
}

// octal returns data as an argument of printf %b.
func octal(data []byte) string {
	var s strings.Builder
	for _, c := range data {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == ' ' {
			s.WriteByte(c)
		} else {
			fmt.Fprintf(&s, `\0%03o`, c)
		}
	}
	return s.String()
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
