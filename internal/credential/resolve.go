package credential

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/sdk"
)

// FromEnv returns a resolver over an environment and a table; a nil table is
// Table().
func FromEnv(env config.Env, table []Row) CredentialResolver {
	if table == nil {
		table = Table()
	}
	return &fromEnv{env: env, table: table}
}

type fromEnv struct {
	env   config.Env
	table []Row
}

var _ CredentialResolver = (*fromEnv)(nil)

func (f *fromEnv) ResolveCredentials(ctx context.Context, r ResolveRequest) (Credentials, error) {
	if ctx.Err() != nil {
		return Credentials{}, fmt.Errorf("resolve credentials: %w", context.Cause(ctx))
	}
	row := f.row(r.Kind)
	if kind, inner, ok := row.hosted(r.Config); ok {
		row, r.Config = f.row(kind), inner
	}
	switch r.Mode {
	case config.CredentialsPocket:
		return row.pocket(r)
	case config.CredentialsAmbient, config.CredentialsEnv, "":
	default:
		return Credentials{}, fail(r, sdk.InvalidArgument, config.ErrBadValue, "the mode is env, ambient or pocket", "no mode is called %q", r.Mode)
	}
	ambient := r.Mode == config.CredentialsAmbient
	values := map[string]string{}
	take := func(names []string) {
		for _, n := range names {
			if v := f.env.Get(n); v != "" {
				values[n] = v
			}
		}
	}
	set, ok := row.complete(f.env)
	if ok {
		take(set.Names)
		take(set.Optional)
	}
	if !ok && row.Needed && !ambient && !row.named(r.Config) {
		return Credentials{}, f.missing(r, row)
	}
	take(row.Also)
	if ambient {
		take(row.Ambient)
	}
	return New(values, ambient), nil
}

// row is the row of a kind; a kind without one takes nothing.
func (f *fromEnv) row(kind string) Row {
	for _, x := range f.table {
		if x.Kind == kind {
			return x
		}
	}
	return Row{}
}

// hosted returns the kind whose row holds for a provider's config that names a cluster
// of a cloud, and the object that does. A config that names clusters twice, or a file
// beside one, is the driver's to refuse.
func (r Row) hosted(conf json.RawMessage) (kind string, inner json.RawMessage, ok bool) {
	members := map[string]json.RawMessage{}
	if len(r.Hosted) == 0 || json.Unmarshal(conf, &members) != nil {
		return "", nil, false
	}
	for _, name := range slices.Sorted(maps.Keys(r.Hosted)) {
		if raw, there := members[name]; there {
			return r.Hosted[name], raw, true
		}
	}
	return "", nil, false
}

// complete returns the first set that is there in whole.
func (r Row) complete(env config.Env) (Set, bool) {
	for _, s := range r.Sets {
		if len(absent(env, s)) == 0 {
			return s, true
		}
	}
	return Set{}, false
}

// named reports whether a provider's config names the file with its credentials.
func (r Row) named(conf json.RawMessage) bool {
	members := map[string]any{}
	if r.File == "" || json.Unmarshal(conf, &members) != nil {
		return false
	}
	file, ok := members[r.File].(string)
	return ok && file != ""
}

func absent(env config.Env, s Set) []string {
	var out []string
	for _, n := range s.Names {
		if env.Get(n) == "" {
			out = append(out, n)
		}
	}
	return out
}

// missing says which variables would supply the credentials. Where sets are there
// in part it names the rest of those that lack the least.
func (f *fromEnv) missing(r ResolveRequest, row Row) error {
	var ways, rests, have []string
	most := 0
	for _, s := range row.Sets {
		rest := absent(f.env, s)
		switch n := len(s.Names) - len(rest); {
		case n > most:
			most, rests = n, []string{words(rest)}
			have = slices.DeleteFunc(slices.Clone(s.Names), func(name string) bool { return slices.Contains(rest, name) })
		case n == most && n > 0:
			rests = append(rests, words(rest))
		}
		ways = append(ways, words(s.Names))
	}
	if most > 0 {
		is := "is"
		if most > 1 {
			is = "are"
		}
		alternatives := strings.Join(rests, ", or ")
		return fail(r, sdk.Unauthenticated, ErrMissing, "set "+alternatives+" too, or write credentials: ambient in the provider's entry to use the vendor's own chain",
			"%s %s set, but not %s", words(have), is, alternatives)
	}
	if row.File != "" {
		ways = append(ways, row.File+" in the provider's config")
	}
	return fail(r, sdk.Unauthenticated, ErrMissing, "set "+strings.Join(ways, ", or ")+"; or write credentials: ambient in the provider's entry to use the vendor's own chain",
		"no credentials are in the environment")
}

func words(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// pocket gives made-up values once every endpoint is known to be on this
// machine.
func (r Row) pocket(req ResolveRequest) (Credentials, error) {
	if r.Pocket == nil {
		return Credentials{}, fail(req, sdk.FailedPrecondition, ErrNoPocket, "use credentials: env or ambient", "no pocket cloud speaks for the kind %s", req.Kind)
	}
	members := map[string]json.RawMessage{}
	if len(req.Config) > 0 {
		if err := json.Unmarshal(req.Config, &members); err != nil {
			return Credentials{}, fail(req, sdk.InvalidArgument, config.ErrProviderConfig, "", "config is no mapping")
		}
	}
	found := 0
	for _, name := range r.Endpoints {
		raw, ok := members[name]
		if !ok {
			continue
		}
		var s string
		if json.Unmarshal(raw, &s) != nil || !Loopback(s) {
			return Credentials{}, fail(req, sdk.FailedPrecondition, ErrNotLoopback, "set "+name+" to "+r.pocketAddress()+", or use credentials: env for the cloud itself",
				"credentials: pocket is for this machine alone, and %s is elsewhere", name)
		}
		found++
	}
	if found == 0 {
		return Credentials{}, fail(req, sdk.FailedPrecondition, ErrNotLoopback, "set "+strings.Join(r.Endpoints, " or ")+" under config: to "+r.pocketAddress(),
			"credentials: pocket needs an endpoint on this machine")
	}
	return New(r.Pocket, false), nil
}

// pocketAddress says where a pocket cloud's address is to be had.
func (r Row) pocketAddress() string {
	return "the pocket cloud's address, " + cmp.Or(r.Scheme, "http") + "://127.0.0.1:PORT, which `windlass pocket up --write FILE` writes"
}

// Loopback reports whether an endpoint, a URL or HOST:PORT, is surely on this
// machine: an address of the loopback, the name localhost, or a socket in the
// file system. Other names may lead anywhere.
func Loopback(endpoint string) bool {
	if !strings.Contains(endpoint, "://") {
		endpoint = "tcp://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.User != nil {
		return false
	}
	switch u.Scheme {
	case "unix":
		return u.Host == "" && strings.HasPrefix(u.Path, "/")
	case "http", "https", "tcp", "grpc":
	default:
		return false
	}
	host := u.Hostname()
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}

func fail(r ResolveRequest, code sdk.Code, id, remedy, format string, args ...any) error {
	return &sdk.Error{Code: code, Op: "resolve credentials", Provider: r.Provider, ID: id, Remedy: remedy, Err: fmt.Errorf(format, args...)}
}
