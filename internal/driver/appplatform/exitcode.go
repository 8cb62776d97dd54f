package appplatform

import (
	"strconv"
	"strings"
)

// App Platform tells no exit code. On request the command runs under the image's
// sh, which writes the code behind the job's output.

// exitMark begins the end of a log that a wrapped command writes. It may follow
// the job's last words without a newline between.
const exitMark = "\x1ewindlass-exit "

// wrapper runs its arguments, passes TERM on, and writes their exit code. A wait
// that TERM has broken off says nothing, so it comes again; 127 is then that of a
// job whose end was told before. The shell's words on a job that was killed aren't
// the job's, and are left out.
const wrapper = `exec 3>&2 2>/dev/null
t= p=
trap 't=1; [ -z "$p" ] || kill -TERM $p' TERM
"$@" 2>&3 3>&- & p=$!
[ -z "$t" ] || kill -TERM $p
wait $p; c=$?
while [ "$t" ]; do t=; wait $p; d=$?; [ $d = 127 ] || c=$d; done
printf '\036windlass-exit %s %s\n' "$0" "$c"
exit $c`

// wrapped is a run command that writes the exit code. The nonce tells it from what
// a job writes by chance.
func wrapped(nonce string, argv []string) string {
	return quoteAll(append([]string{"sh", "-c", wrapper, nonce}, argv...))
}

// cutExit takes the mark and the code off a line, if it ends so. before is what
// the job wrote.
func cutExit(line, nonce string) (before string, code int, ok bool) {
	i := strings.LastIndex(line, exitMark)
	if i < 0 || nonce == "" {
		return line, 0, false
	}
	text, found := strings.CutPrefix(line[i+len(exitMark):], nonce+" ")
	n, err := strconv.Atoi(text)
	if !found || err != nil || n < 0 || n > 255 || strconv.Itoa(n) != text {
		return line, 0, false
	}
	return line[:i], n, true
}
