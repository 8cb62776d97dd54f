package control

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// withRefs joins to a message on why a job didn't start the references of its
// secrets that the message is about: the backend has words of its own for them. A
// message that has them already, or that isn't about secrets, stays as it is.
func withRefs(message string, secrets map[string]sdk.SecretRef) string {
	if len(secrets) == 0 || message == "" {
		return message
	}
	low := strings.ToLower(message)
	var meant, all []string
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		ref := string(secrets[name])
		if strings.Contains(message, ref) {
			return message
		}
		text := name + " is " + ref
		all = append(all, text)
		if parsed, err := sdk.ParseSecretRef(ref); err == nil && mentions(low, strings.ToLower(path.Base(parsed.Path))) {
			meant = append(meant, text)
		}
	}
	about := slices.ContainsFunc([]string{"secret", "parameter", "ssm", "valuefrom"}, func(w string) bool { return strings.Contains(low, w) })
	switch {
	case !about:
		return message
	case len(meant) > 0:
		all = meant
	}
	return message + " (" + strings.Join(all, ", ") + ")"
}

// mentions reports whether a name stands in a text, and isn't part of a longer one.
func mentions(text, name string) bool {
	for at := 0; name != ""; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+len(name)
		if (from == 0 || !partOfName(text[from-1])) && (to == len(text) || !partOfName(text[to])) {
			return true
		}
		at = from + 1
	}
	return false
}

// partOfName reports what names of secrets are made of. A hyphen is left out: AWS
// adds one, with six characters, to the name in an ARN.
func partOfName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_'
}
