// Package discover finds the runtimes that this machine's files and variables point to:
// Docker's contexts, Podman's sockets, kubeconfigs, the profiles of clouds' command lines,
// Compose files. It makes no call, and starts nothing. Of credentials it tells only that
// they are there: no value of one leaves it, and no error quotes a file.
package discover

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/windlass-run/windlass/internal/config"
)

// Request says where to look.
type Request struct {
	// Env is the environment; folders that it doesn't name aren't looked at.
	Env config.Env
	// Dir is the folder whose Compose files are looked for; empty is none.
	Dir string
	// Root stands before the paths of the system's own sockets; empty in a program.
	Root string
}

// Found is a backend that a provider could be made for.
type Found struct {
	// Name is what the provider may be called: legal, and no other's in the same result.
	Name string
	// Kind is the provider's.
	Kind string
	// From says in a few words where it was found.
	From string
	// Credentials is how the provider gets them.
	Credentials config.CredentialMode
	// Config are the settings, in an order that reads well.
	Config []Setting
	// Notes are sentences on what it needs besides.
	Notes []string
}

// Setting is one setting of a provider's config.
type Setting struct {
	// Name is the key, and Value a text or a list of texts.
	Name  string
	Value any
	// Guess says that the value stands only for one that couldn't be found.
	Guess bool
}

// Trouble is a file that couldn't be made sense of.
type Trouble struct {
	// File is its path.
	File string
	// Err says why, without a word of what it holds.
	Err error
}

// Result is all that was found.
type Result struct {
	// Found are the backends, in an order that doesn't change.
	Found []Found
	// Troubles are the files that were there and of no use.
	Troubles []Trouble
}

const (
	// maxFile bounds a file. Kubeconfigs hold certificates, and are the largest.
	maxFile = 4 << 20
	// maxEach bounds how many of one sort are listed.
	maxEach = 20
	// maxName is the longest name of a provider.
	maxName = 63
)

// Look looks at everything.
func Look(r Request) Result {
	l := &look{Request: r, names: map[string]bool{}}
	l.docker()
	l.podman()
	l.compose()
	l.kube()
	l.aws()
	l.gcloud()
	l.azure()
	l.digitalocean()
	return l.Result
}

type look struct {
	Request
	Result

	names map[string]bool
}

// home is the user's home folder, empty when none is known.
func (l *look) home() string {
	if h := l.Env.Get("HOME"); h != "" {
		return h
	}
	return l.Env.Get("USERPROFILE")
}

// under is a path in the home folder, or in the folder that a variable names; empty when
// neither is known.
func (l *look) under(variable string, inHome ...string) string {
	if dir := l.Env.Get(variable); variable != "" && dir != "" {
		return dir
	}
	if l.home() == "" {
		return ""
	}
	return filepath.Join(append([]string{l.home()}, inHome...)...)
}

// short writes a path as users do.
func (l *look) short(path string) string {
	if rest, ok := strings.CutPrefix(path, l.home()+string(filepath.Separator)); ok && l.home() != "" {
		return filepath.Join("~", rest)
	}
	return path
}

// trouble notes a file that is of no use.
func (l *look) trouble(path string, err error) {
	l.Troubles = append(l.Troubles, Trouble{File: path, Err: err})
}

// read reads a file; ok is false for one that isn't there, and for one in trouble.
func (l *look) read(path string) (data []byte, ok bool) {
	if path == "" {
		return nil, false
	}
	data, err := readFile(path)
	switch {
	case err == nil:
		return data, true
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNotDir):
		return nil, false
	}
	if p := new(fs.PathError); errors.As(err, &p) {
		err = p.Err // its path is told beside it
	}
	l.trouble(path, err)
	return nil, false
}

// readFile reads a plain file within bounds: a pipe would be waited for.
func readFile(path string) (_ []byte, err error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("is no file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("has more than %d MiB", maxFile>>20)
	}
	return data, err
}

// add takes a backend up under a name that is free and legal.
func (l *look) add(f Found) {
	base := legal(f.Name)
	if base == "" {
		base = f.Kind
	}
	name := base
	for n := 2; l.names[name] || name == "local" || name == "docker"; n++ {
		suffix := fmt.Sprintf("-%d", n)
		name = base[:min(len(base), maxName-len(suffix))] + suffix
	}
	l.names[name] = true
	f.Name = name
	l.Found = append(l.Found, f)
}

// legal makes a provider's name of any text.
func legal(s string) string {
	var b strings.Builder
	for _, r := range s {
		ok := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		switch {
		case ok || b.Len() > 0 && strings.ContainsRune("-_.", r):
			b.WriteRune(r)
		case b.Len() > 0:
			b.WriteByte('-')
		}
		if b.Len() >= maxName {
			break
		}
	}
	return strings.TrimRight(b.String(), "-_.")
}

// text is a setting with a text as its value; none where the value is empty.
func text(name, value string) []Setting {
	if value == "" {
		return nil
	}
	return []Setting{{Name: name, Value: value}}
}

// orGuess is a setting with what was found, or else with a value that stands for it.
func orGuess(name, value, guess string) Setting {
	if value == "" {
		return Setting{Name: name, Value: guess, Guess: true}
	}
	return Setting{Name: name, Value: value}
}

// has reports whether all of some variables are set.
func (l *look) has(names ...string) bool {
	for _, n := range names {
		if l.Env.Get(n) == "" {
			return false
		}
	}
	return true
}

// first is the value of the first variable that is set.
func (l *look) first(names ...string) string {
	for _, n := range names {
		if v := l.Env.Get(n); v != "" {
			return v
		}
	}
	return ""
}
