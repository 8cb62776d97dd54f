package fake

import (
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// What the cloud does to arguments before the job gets them.
const (
	expandRefs  = "refs"  // $(NAME) is the variable, $$ is $, as in Kubernetes
	expandShell = "shell" // one string, split as a shell does
)

// escape protects arguments from expandRefs.
func escape(args sdk.Argv) sdk.Argv {
	out := make(sdk.Argv, len(args))
	for i, a := range args {
		out[i] = strings.ReplaceAll(a, "$", "$$")
	}
	return out
}

// received returns the arguments as the job gets them.
func (r request) received() []string {
	switch r.Expand {
	case expandRefs:
		out := make([]string, len(r.Args))
		for i, a := range r.Args {
			out[i] = expand(a, r.Env)
		}
		return out
	case expandShell:
		return shellSplit(strings.Join(r.Args, " "))
	}
	return r.Args
}

func expand(s string, env sdk.Env) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			out.WriteByte(s[i])
			continue
		}
		switch s[i+1] {
		case '$':
			out.WriteByte('$')
			i++
		case '(':
			end := strings.IndexByte(s[i:], ')')
			if end < 0 {
				out.WriteByte('$')
				continue
			}
			name := s[i+2 : i+end]
			if v, ok := env[name]; ok {
				out.WriteString(v)
			} else {
				out.WriteString(s[i : i+end+1])
			}
			i += end
		default:
			out.WriteByte('$')
		}
	}
	return out.String()
}

// shellJoin quotes arguments for a shell.
func shellJoin(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(out, " ")
}

// shellSplit splits a string as a shell does, but for expansions.
func shellSplit(s string) []string {
	var out []string
	var word []byte
	inWord := false
	var quoted byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quoted != 0:
			if c == quoted {
				quoted = 0
			} else {
				word = append(word, c)
			}
		case c == '\'' || c == '"':
			quoted, inWord = c, true
		case c == '\\' && i+1 < len(s):
			i++
			word, inWord = append(word, s[i]), true
		case c == ' ' || c == '\t' || c == '\n':
			if inWord {
				out, word, inWord = append(out, string(word)), nil, false
			}
		default:
			word, inWord = append(word, c), true
		}
	}
	if inWord {
		out = append(out, string(word))
	}
	return out
}
