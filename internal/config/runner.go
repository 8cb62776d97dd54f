package config

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/windlass-run/windlass/internal/yamltree"
	"github.com/windlass-run/windlass/sdk"
)

// Runner is a remote runner, which an exec_env names. It holds no secrets.
type Runner struct {
	Name string
	// Address is HOST:PORT.
	Address string
	// ServerName is the name that the runner's certificate must have; empty is
	// the address's host.
	ServerName string
	// CA, Cert and Key are absolute paths of PEM files: whom to trust (empty is
	// the system's certificates), and the client's own certificate for mTLS.
	CA, Cert, Key string
	// TokenEnv names the variable that holds the token; empty is mTLS alone.
	TokenEnv string
	// Origin is where the entry stands.
	Origin Origin
}

// ErrUnknownRunner names the error of an exec_env that no runner has.
const ErrUnknownRunner = "config.unknown-runner"

// reservedRunners are the exec environments that are always there: no runner
// may take the name of one.
func reservedRunners() []string { return []string{"local-docker", "ephemeral", "provider-ephemeral"} }

// Runner returns the remote runner of that name; NotFound lists those that
// there are.
func (c *Config) Runner(name string) (Runner, error) {
	if r, ok := c.runners[name]; ok {
		return r, nil
	}
	names := c.RunnerNames()
	have := "there is none"
	if len(names) > 0 {
		have = "there are " + strings.Join(names, ", ")
	}
	p := Problem{ID: ErrUnknownRunner, Message: fmt.Sprintf("no remote runner is called %q", name) + meant(name, append(names, reservedRunners()...)),
		Remedy: have + "; others are added under runners: in windlass.yaml, and " + strings.Join(reservedRunners(), ", ") + " are always there"}
	return Runner{}, &sdk.Error{Code: sdk.NotFound, Op: "find runner", ID: p.ID, Remedy: p.Remedy, Err: &Invalid{Problems: []Problem{p}}}
}

// RunnerNames returns the names of all remote runners, sorted.
func (c *Config) RunnerNames() []string {
	out := make([]string, 0, len(c.runners))
	for k := range c.runners {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// Token returns the value of a runner's token_env, as this configuration's
// environment has it; ok is false when it is unset or empty.
func (c *Config) Token(r Runner) (token string, ok bool) {
	token = c.env.Get(r.TokenEnv)
	return token, r.TokenEnv != "" && token != ""
}

// runner makes the runner of an entry. Values that are wrong were reported
// before. Relative paths start at the file's folder.
func (f *file) runner(name string, n *yamltree.Node) Runner {
	text := func(key string) string {
		if e := n.Get(key); e != nil {
			return e.Value.Text
		}
		return ""
	}
	path := func(key string) string {
		p := text(key)
		if p == "" || filepath.IsAbs(p) {
			return p
		}
		return filepath.Join(filepath.Dir(f.path), p)
	}
	return Runner{Name: name, Address: text("address"), ServerName: text("server_name"), CA: path("ca"), Cert: path("cert"), Key: path("key"),
		TokenEnv: text("token_env"), Origin: f.origin(n.Line, n.Column)}
}

// checkRunner returns what is wrong with an entry beyond the shape of its keys.
func (f *file) checkRunner(e yamltree.Field, key string) []Problem {
	var ps []Problem
	bad := func(id string, line, col int, key, msg, remedy string) {
		ps = append(ps, Problem{ID: id, Origin: f.origin(line, col), Key: key, Message: msg, Remedy: remedy})
	}
	if slices.Contains(reservedRunners(), e.Key) {
		bad(ErrBadValue, e.Line, e.Column, key, "is the name of an environment that is always there", "give the runner another name")
	}
	n := e.Value
	if a := n.Get("address"); a == nil {
		bad(ErrMissingKey, e.Line, e.Column, key, "has no address", "add address: HOST:PORT")
	} else if msg := checkAddress(a.Value.Text); msg != "" {
		bad(ErrBadValue, a.Value.Line, a.Value.Column, key+".address", msg, "write HOST:PORT")
	}
	cert, private, token := n.Get("cert"), n.Get("key"), n.Get("token_env")
	switch {
	case (cert == nil) != (private == nil):
		bad(ErrMissingKey, e.Line, e.Column, key, "has only one of cert and key", "mTLS needs both")
	case cert == nil && token == nil:
		bad(ErrMissingKey, e.Line, e.Column, key, "says not how to prove who we are", "add cert: and key:, or token_env: and the name of a variable")
	}
	return ps
}

func checkAddress(s string) string {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return fmt.Sprintf("%q is no HOST:PORT", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Sprintf("%q has no port from 1 to 65535", s)
	}
	return ""
}

// show lists the entry. It holds names and paths only.
func (r Runner) show() []Row {
	var rows []Row
	for _, x := range [][2]string{{"address", r.Address}, {"server_name", r.ServerName}, {"ca", r.CA}, {"cert", r.Cert}, {"key", r.Key}, {"token_env", r.TokenEnv}} {
		if x[1] != "" {
			rows = append(rows, Row{Name: "runners." + r.Name + "." + x[0], Value: x[1], Origin: r.Origin})
		}
	}
	return rows
}
