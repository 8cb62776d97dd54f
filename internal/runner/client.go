package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"

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

func checkMaxJobs(n int) error {
	if n < 0 {
		return fmt.Errorf("%d is below 0", n)
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
	if err := checkMaxJobs(c.MaxJobs); err != nil {
		return nil, fmt.Errorf("max_jobs: %w", err)
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
