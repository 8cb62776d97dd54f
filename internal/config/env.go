package config

import (
	"fmt"
	"os"
	"os/user"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// EnvPrefix starts the names of all variables of ours. Jobs don't inherit them.
const EnvPrefix = "WINDLASS_"

// Env is an environment as it stood when it was read. It is safe for
// concurrent use; the zero value is the empty environment. A variable that is
// set to nothing counts as unset wherever a setting is looked up.
type Env struct {
	vars   []string
	index  map[string]int
	fold   bool
	person func() (name, host string)
}

// Environ returns the process's environment.
func Environ() Env {
	e := EnvOf(os.Environ())
	e.person = whoami
	return e
}

// EnvOf returns the environment of NAME=value texts. Where a name stands
// twice the first counts, as in this process's own environment. Texts without
// a name are left out.
func EnvOf(vars []string) Env {
	e := Env{index: make(map[string]int, len(vars)), fold: runtime.GOOS == "windows"}
	for _, v := range vars {
		// Windows has variables whose names start with =.
		i := strings.IndexByte(v, '=')
		if i == 0 {
			i = strings.IndexByte(v[1:], '=') + 1
		}
		if i <= 0 {
			continue
		}
		name := e.key(v[:i])
		if _, ok := e.index[name]; ok {
			continue
		}
		e.index[name] = len(e.vars)
		e.vars = append(e.vars, v)
	}
	return e
}

// EnvMap returns the environment of a map, for tests.
func EnvMap(m map[string]string) Env {
	vars := make([]string, 0, len(m))
	for k, v := range m {
		vars = append(vars, k+"="+v)
	}
	slices.Sort(vars)
	return EnvOf(vars)
}

// WithPerson returns e with another source for the name of the user and the
// machine, which the actor is made from.
func (e Env) WithPerson(person func() (name, host string)) Env {
	e.person = person
	return e
}

func (e Env) key(name string) string {
	if e.fold {
		return strings.ToUpper(name)
	}
	return name
}

// Lookup returns a variable's value and whether it is set.
func (e Env) Lookup(name string) (string, bool) {
	i, ok := e.index[e.key(name)]
	if !ok {
		return "", false
	}
	// The name is as long as the key, also on Windows.
	return e.vars[i][len(name)+1:], true
}

// Get returns a variable's value, empty when it is unset.
func (e Env) Get(name string) string {
	v, _ := e.Lookup(name)
	return v
}

// Names returns the names that are set, sorted.
func (e Env) Names() []string {
	out := make([]string, 0, len(e.index))
	for k := range e.index {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// Vars returns every NAME=value in order. The slice is the caller's.
func (e Env) Vars() []string { return slices.Clone(e.vars) }

// Ambient returns what a local job inherits, as sdk.Ambient takes it: every
// variable in order, less those of ours. Bytes are as they were.
func (e Env) Ambient() [][]byte {
	out := make([][]byte, 0, len(e.vars))
	for _, v := range e.vars {
		if !strings.HasPrefix(e.key(v), EnvPrefix) {
			out = append(out, []byte(v))
		}
	}
	return out
}

// NoColor reports whether NO_COLOR asks for plain text (https://no-color.org).
func (e Env) NoColor() bool { return e.Get("NO_COLOR") != "" }

// defaultActor is user@host. It is never empty: what the machine doesn't
// know is given by number, or as unknown.
func (e Env) defaultActor() string {
	var name, host string
	if e.person != nil {
		name, host = e.person()
	}
	if name = plain(name); name == "" {
		name = "unknown"
		if id := os.Geteuid(); id >= 0 {
			name = "uid" + strconv.Itoa(id)
		}
	}
	if host = plain(host); host == "" {
		host = "unknown"
	}
	return name + "@" + host
}

// plain drops what may not stand in an actor.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) || unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

func whoami() (name, host string) {
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return name, host
}

// checkActor returns what is wrong with an actor's name, or nothing.
func checkActor(s string) string {
	switch {
	case strings.TrimSpace(s) == "":
		return "is blank"
	case !utf8.ValidString(s):
		return "is not UTF-8"
	case len(s) > maxActor:
		return fmt.Sprintf("has %d bytes, at most %d", len(s), maxActor)
	case strings.ContainsFunc(s, unicode.IsControl):
		return "has a control character"
	}
	return ""
}

const maxActor = 256
