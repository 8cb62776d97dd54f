package appplatform

import (
	"context"
	"fmt"
	"strings"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/sdk"
)

// maxCommand is the longest run command in bytes: a shell gets it as one argument,
// which Linux bounds. https://man7.org/linux/man-pages/man2/execve.2.html
const maxCommand = 128<<10 - 1

// command is the run command: one string. Empty leaves the image's own command. It
// takes the place of the image's entry point and arguments.
// https://docs.digitalocean.com/products/app-platform/how-to/build-run-commands/
func (l *plan) command(ctx context.Context, image *godo.ImageSourceSpec) (string, error) {
	s := l.Spec
	l.TextArgv("App Platform")
	if s.Entrypoint == nil && s.Args == nil {
		if l.exitCode() {
			l.Bad(sdk.FailedPrecondition, "options.exit_code_in_log", "true", "needs the command: a run command can't stand before the image's own")
		}
		return "", nil
	}
	entry := s.Entrypoint
	if entry == nil {
		var ok bool
		var err error
		if entry, ok, err = l.imageEntrypoint(ctx, image); !ok {
			return "", err
		}
	}
	argv := append(append([]string{}, entry...), s.Args...)
	if len(argv) == 0 {
		l.Bad(sdk.InvalidArgument, "args", "", "nothing is left to run: entrypoint and args are both empty")
		return "", nil
	}
	line := quoteAll(argv)
	if l.exitCode() {
		line = wrapped(l.nonce, argv)
	}
	if l.place.ReadBy == byShell {
		line = "exec " + line // lest the shell keep TERM to itself
	}
	if len(line) > maxCommand {
		l.Bad(sdk.InvalidArgument, "args", fmt.Sprintf("%d bytes", len(line)), "the command may have %d bytes when it is quoted: put the rest into the image, or into variables", maxCommand)
	}
	return line, nil
}

// quote makes one word of an argument, for a shell and for a splitter into words
// alike: no page says which of them reads a run command. A dollar is kept apart
// from a brace, lest the platform put one of its variables in.
// https://docs.digitalocean.com/products/app-platform/how-to/use-environment-variables/
func quote(arg string) string {
	arg = strings.ReplaceAll(arg, "'", `'\''`)
	return "'" + strings.ReplaceAll(arg, "${", "$''{") + "'"
}

func quoteAll(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = quote(a)
	}
	return strings.Join(words, " ")
}
