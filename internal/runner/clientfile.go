package runner

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/internal/yamltree"
	"github.com/windlass-run/windlass/sdk"
)

// ReadClients reads a file of clients. Tokens stand elsewhere: in the variables
// that lookup reads, or in files, whose relative names start at the file's own
// folder. All that is wrong comes back at once, with file and line, and without a
// token: as *config.Invalid in an *sdk.Error of InvalidArgument.
func ReadClients(path string, lookup func(name string) (string, bool)) ([]Client, error) {
	r := newClientReader(path, lookup)
	data, err := readFile(path)
	if err != nil {
		r.bad(0, 0, "", "can't be read: %v", err)
	} else {
		r.file(data)
	}
	if len(r.problems) == 0 {
		return r.clients, nil
	}
	slices.SortStableFunc(r.problems, func(a, b config.Problem) int {
		return cmp.Or(cmp.Compare(a.Origin.Line, b.Origin.Line), cmp.Compare(a.Origin.Column, b.Origin.Column))
	})
	return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: "read clients", ID: ErrClients, Err: &config.Invalid{Problems: r.problems},
		Remedy: "docs/runner.md shows a file of clients"}
}

// clientReader collects clients, and what is wrong with their file.
type clientReader struct {
	path     string
	lookup   func(name string) (string, bool)
	clients  []Client
	problems []config.Problem
	// tokens are the names of the clients that have them.
	tokens map[[sha256.Size]byte]string
}

func newClientReader(path string, lookup func(name string) (string, bool)) *clientReader {
	return &clientReader{path: path, lookup: lookup, tokens: map[[sha256.Size]byte]string{}}
}

func (r *clientReader) bad(line, column int, key, format string, args ...any) {
	r.problems = append(r.problems, config.Problem{ID: ErrClients, Origin: config.Origin{Kind: config.FromFile, Name: r.path, Line: line, Column: column},
		Key: key, Message: fmt.Sprintf(format, args...)})
}

// wrong tells of a value that isn't one; nil is none.
func (r *clientReader) wrong(n *yamltree.Node, key string, err error) {
	if err != nil {
		r.bad(n.Line, n.Column, key, "%v", err)
	}
}

func (r *clientReader) file(data []byte) {
	root, err := yamltree.Parse(data)
	if err != nil {
		var at *yamltree.SyntaxError
		if errors.As(err, &at) {
			r.bad(at.Line, at.Column, "", "%s", at.Message)
		} else {
			r.bad(0, 0, "", "%v", err)
		}
		return
	}
	if !r.mapping(root, "", "a file of clients", "clients") {
		return
	}
	f := root.Get("clients")
	switch {
	case f == nil:
		r.bad(root.Line, root.Column, "", "has no clients")
	case f.Value.Kind != yamltree.Map:
		r.bad(f.Line, f.Column, f.Key, "wants a mapping of names, has %s", f.Value.Kind)
	case len(f.Value.Fields) == 0:
		r.bad(f.Line, f.Column, f.Key, "names nobody")
	default:
		for i := range f.Value.Fields {
			r.client(&f.Value.Fields[i])
		}
	}
}

// mapping reports whether a node is a mapping, and tells of keys that it can't have.
func (r *clientReader) mapping(n *yamltree.Node, key, what string, known ...string) bool {
	if n.Kind != yamltree.Map {
		r.bad(n.Line, n.Column, key, "%s is a mapping with %s, this is %s", what, strings.Join(known, ", "), n.Kind)
		return false
	}
	for _, f := range n.Fields {
		if slices.Contains(known, f.Key) {
			continue
		}
		hint := ""
		if near := sdk.Nearest(f.Key, known); near != "" {
			hint = fmt.Sprintf(" (did you mean %q?)", near)
		}
		r.bad(f.Line, f.Column, strings.TrimPrefix(key+"."+f.Key, "."), "is not known%s; here may stand %s", hint, strings.Join(known, ", "))
	}
	return true
}

func (r *clientReader) client(f *yamltree.Field) {
	c, key, n := Client{Name: f.Key}, "clients."+f.Key, f.Value
	if err := checkName(c.Name); err != nil {
		r.bad(f.Line, f.Column, key, "%v", err)
	}
	if n.Kind == yamltree.Null {
		n = &yamltree.Node{Kind: yamltree.Map} // NAME: and nothing more
	}
	if !r.mapping(n, key, "a client", "token_env", "token_file", "profile", "secrets", "max_jobs") {
		return
	}
	c.Token = r.token(n, key, c.Name)
	c.Profile = sdk.ProfileStrict
	if text, at := r.text(n, key, "profile"); at != nil {
		c.Profile = sdk.Profile(text)
		if !slices.Contains(sandbox.Profiles(), c.Profile) {
			r.bad(at.Line, at.Column, key+".profile", "%q is none of strict, standard, permissive", text)
		}
	}
	if f := n.Get("max_jobs"); f != nil {
		var err error
		if c.MaxJobs, err = strconv.Atoi(f.Value.Text); f.Value.Kind != yamltree.Int || err != nil {
			r.bad(f.Value.Line, f.Value.Column, key+".max_jobs", "wants a whole number")
		} else {
			r.wrong(f.Value, key+".max_jobs", checkMaxJobs(c.MaxJobs))
		}
	}
	c.Secrets = r.secrets(n.Get("secrets"), key+".secrets")
	r.clients = append(r.clients, c)
}

// secrets reads the grants of a client.
func (r *clientReader) secrets(f *yamltree.Field, key string) []string {
	if f == nil {
		return nil
	}
	if f.Value.Kind != yamltree.List {
		r.bad(f.Line, f.Column, key, "wants a list of references, has %s", f.Value.Kind)
		return nil
	}
	var out []string
	for i, item := range f.Value.Items {
		at := fmt.Sprintf("%s[%d]", key, i)
		if item.Kind != yamltree.Text {
			r.bad(item.Line, item.Column, at, "wants a reference, has %s", item.Kind)
			continue
		}
		if err := checkGrant(item.Text); err != nil {
			r.bad(item.Line, item.Column, at, "%q: %v", item.Text, err)
		}
		out = append(out, item.Text)
	}
	return out
}

// text reads a text that isn't empty. Its node is nil where there is none.
func (r *clientReader) text(n *yamltree.Node, key, name string) (string, *yamltree.Node) {
	f := n.Get(name)
	switch {
	case f == nil:
		return "", nil
	case f.Value.Kind != yamltree.Text:
		r.bad(f.Line, f.Column, key+"."+name, "wants text, has %s", f.Value.Kind)
		return "", nil
	case f.Value.Text == "":
		r.bad(f.Value.Line, f.Value.Column, key+"."+name, "is empty; give it a value or remove the key")
		return "", nil
	}
	return f.Value.Text, f.Value
}

// token finds a client's token; the zero value where it has none.
func (r *clientReader) token(n *yamltree.Node, key, client string) sdk.SecretValue {
	variable, fromEnv := r.text(n, key, "token_env")
	file, fromFile := r.text(n, key, "token_file")
	var v []byte
	at := fromEnv
	switch {
	case fromEnv != nil && fromFile != nil:
		r.bad(fromFile.Line, fromFile.Column, key+".token_file", "stands beside token_env; keep one of them")
		return sdk.SecretValue{}
	case fromEnv != nil:
		key += ".token_env"
		text, ok := r.lookup(variable)
		if !ok {
			r.bad(at.Line, at.Column, key, "the variable %s isn't set", variable)
			return sdk.SecretValue{}
		}
		v = []byte(text)
	case fromFile != nil:
		at = fromFile
		key += ".token_file"
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(r.path), file)
		}
		var err error
		if v, err = readFile(file); err != nil {
			r.bad(at.Line, at.Column, key, "%s can't be read: %v", file, err)
			return sdk.SecretValue{}
		}
		v = []byte(strings.TrimRight(string(v), "\r\n"))
	default:
		return sdk.SecretValue{}
	}
	if err := checkToken(v); err != nil {
		r.wrong(at, key, err)
		return sdk.SecretValue{}
	}
	sum := sha256.Sum256(v)
	if other, taken := r.tokens[sum]; taken {
		r.bad(at.Line, at.Column, key, "has the same token as client %s; each has its own", other)
	}
	r.tokens[sum] = client
	return sdk.NewSecretValue(v)
}
