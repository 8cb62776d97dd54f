package runner

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/windlass-run/windlass/internal/yamltree"
	"github.com/windlass-run/windlass/sdk"
)

// Client is who may call the server, and what it may have.
type Client struct {
	// Name is the name in its certificate, or the one that its token stands for.
	// It is the actor of its runs.
	Name string
	// Token lets it in without a certificate; the zero value is none.
	Token sdk.SecretValue
	// Profile is the loosest security profile that it may have; unset is strict.
	Profile sdk.Profile
	// Secrets are the references that it may use: one each, or all below a folder
	// (secret://file/team/ci/*). None allows none.
	Secrets []string
	// MaxJobs bounds its jobs at a time; 0 leaves it to the server's bound.
	MaxJobs int
}

// MinToken is the fewest bytes that a token may have.
const MinToken = 16

// clientFile is a file of clients.
type clientFile struct {
	Clients map[string]clientEntry `yaml:"clients"`
}

type clientEntry struct {
	TokenEnv  string   `yaml:"token_env"`
	TokenFile string   `yaml:"token_file"`
	Profile   string   `yaml:"profile"`
	Secrets   []string `yaml:"secrets"`
	MaxJobs   int      `yaml:"max_jobs"`
}

// ReadClients reads a file of clients. Tokens stand elsewhere: in the variables
// that lookup reads, or in files, whose relative names start at the file's own
// folder. Errors name the file and the client, and hold no token.
func ReadClients(path string, lookup func(name string) (string, bool)) ([]Client, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, clientsError(path, fmt.Errorf("can't be read: %w", err))
	}
	clients, err := parseClients(data, lookup, filepath.Dir(path))
	if err != nil {
		return nil, clientsError(path, err)
	}
	return clients, nil
}

func clientsError(path string, err error) error {
	return &sdk.Error{Code: sdk.InvalidArgument, Op: "read clients", ID: ErrClients, Err: fmt.Errorf("%s: %w", path, err),
		Remedy: "docs/runner.md shows a file of clients"}
}

func parseClients(data []byte, lookup func(name string) (string, bool), dir string) ([]Client, error) {
	// Several documents, of which but the first would be read, and what the decoder
	// stumbles over, such as tags, are refused here.
	if _, err := yamltree.Parse(data); err != nil {
		return nil, err
	}
	var f clientFile
	if err := yaml.UnmarshalWithOptions(data, &f, yaml.Strict()); err != nil {
		return nil, errors.New(strings.TrimSpace(yaml.FormatError(err, false, false)))
	}
	if len(f.Clients) == 0 {
		return nil, errors.New("names no clients")
	}
	var out []Client
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(f.Clients)) {
		e := f.Clients[name]
		c := Client{Name: name, Profile: sdk.Profile(e.Profile), Secrets: e.Secrets, MaxJobs: e.MaxJobs}
		token, err := e.token(lookup, dir)
		if err == nil {
			c.Token = token
			_, err = newAccount(c)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("client %s: %w", name, err))
		}
		out = append(out, c)
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return out, nil
}

// token finds an entry's token; the zero value where the entry has none.
func (e clientEntry) token(lookup func(name string) (string, bool), dir string) (sdk.SecretValue, error) {
	var none sdk.SecretValue
	switch {
	case e.TokenEnv != "" && e.TokenFile != "":
		return none, errors.New("has both token_env and token_file")
	case e.TokenEnv != "":
		v, ok := lookup(e.TokenEnv)
		if !ok {
			return none, fmt.Errorf("token_env: the variable %s isn't set", e.TokenEnv)
		}
		return sdk.NewSecretValue([]byte(v)), checkToken([]byte(v))
	case e.TokenFile != "":
		path := e.TokenFile
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		v, err := readFile(path)
		if err != nil {
			return none, fmt.Errorf("token_file: %s can't be read: %w", path, err)
		}
		v = []byte(strings.TrimRight(string(v), "\r\n"))
		return sdk.NewSecretValue(v), checkToken(v)
	}
	return none, nil
}

// checkToken refuses what can't stand in a header, or could be guessed.
func checkToken(v []byte) error {
	if len(v) < MinToken {
		return fmt.Errorf("its token has %d bytes, fewer than %d", len(v), MinToken)
	}
	if slices.ContainsFunc(v, func(b byte) bool { return b <= ' ' || b > '~' }) {
		return errors.New("its token has a byte that isn't visible ASCII")
	}
	return nil
}

// clientName is what a client may be called. It has no @, which every actor of a
// person has, so that no client passes for one.
var clientName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$`)

func checkName(name string) error {
	if !clientName.MatchString(name) {
		return fmt.Errorf("the name %q isn't made of 1 to 128 letters, digits, dots, dashes and underscores", name)
	}
	return nil
}

// account is a client as the server keeps it.
type account struct {
	Client
	allow allowList
}

func newAccount(c Client) (*account, error) {
	if err := checkName(c.Name); err != nil {
		return nil, err
	}
	if c.MaxJobs < 0 {
		return nil, fmt.Errorf("max_jobs: %d is below 0", c.MaxJobs)
	}
	if len(c.Token.Reveal()) > 0 {
		if err := checkToken(c.Token.Reveal()); err != nil {
			return nil, err
		}
	}
	var err error
	if c.Profile, err = checkProfile(c.Profile); err != nil {
		return nil, err
	}
	allow, err := newAllowList(c.Secrets)
	if err != nil {
		return nil, err
	}
	return &account{Client: c, allow: allow}, nil
}

// maxFile bounds, in bytes, what is read of a file of clients, a token's or one of
// certificates.
const maxFile = 1 << 20

// readFile reads a small file. Errors don't name it.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return data, bare(err)
}

// bare drops the path of a file error, which the caller names.
func bare(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
