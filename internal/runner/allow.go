package runner

import (
	"errors"
	"fmt"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// below ends a grant of everything under a folder.
const below = "/*"

// allowList is the secret references that a client may use. The empty list
// allows none.
type allowList struct {
	exact map[sdk.ParsedSecretRef]bool
	// under are folders, each with its last slash, by scheme.
	under map[string][]string
}

// newAllowList reads grants. A grant is a reference, which allows that one, to
// the key and the version; or a reference that ends in /*, which allows
// whatever lies below that folder, of whatever key and version.
func newAllowList(grants []string) (allowList, error) {
	a := allowList{exact: map[sdk.ParsedSecretRef]bool{}, under: map[string][]string{}}
	for _, g := range grants {
		if err := a.add(g); err != nil {
			return allowList{}, fmt.Errorf("secrets: %q: %w", g, err)
		}
	}
	return a, nil
}

// checkGrant returns what is wrong with a grant.
func checkGrant(grant string) error {
	a, err := newAllowList(nil)
	if err != nil {
		return err
	}
	return a.add(grant)
}

func (a allowList) add(grant string) error {
	folder, isFolder := strings.CutSuffix(grant, below)
	if isFolder {
		// Read as if something lay below it: the folder alone need be no reference.
		folder += "/x"
	} else {
		folder = grant
	}
	ref, err := parseRef(folder)
	if err != nil {
		return err
	}
	if strings.ContainsAny(ref.Path+ref.Key+ref.Version, "*?[") {
		return errors.New("a * stands for all below a folder, behind the last slash, and nowhere else")
	}
	if !isFolder {
		a.exact[ref] = true
		return nil
	}
	if ref.Key != "" || ref.Version != "" {
		return errors.New("a folder has neither key nor version")
	}
	path := strings.TrimSuffix(ref.Path, "x")
	if path == "" || path == "/" {
		return errors.New("it would allow every secret of the scheme; name a folder")
	}
	a.under[ref.Scheme] = append(a.under[ref.Scheme], path)
	return nil
}

// allows reports whether a reference may be used. One whose path could mean
// another than it says is never allowed.
func (a allowList) allows(ref string) bool {
	p, err := parseRef(ref)
	if err != nil {
		return false
	}
	if a.exact[p] {
		return true
	}
	for _, folder := range a.under[p.Scheme] {
		if len(p.Path) > len(folder) && strings.HasPrefix(p.Path, folder) {
			return true
		}
	}
	return false
}

// parseRef reads a reference whose path has one reading only: no part is empty,
// . or .., and nothing in it is escaped or a separator of another system. The
// path of a file may be absolute.
func parseRef(s string) (sdk.ParsedSecretRef, error) {
	p, err := sdk.ParseSecretRef(s)
	if err != nil {
		return p, err
	}
	if strings.ContainsAny(p.Path, `\%`) {
		return p, errors.New(`the path has a \ or %`)
	}
	for i, part := range strings.Split(p.Path, "/") {
		switch {
		case part == "." || part == "..":
			return p, fmt.Errorf("the path has a part %q", part)
		case part == "" && i > 0:
			return p, errors.New("the path has an empty part")
		}
	}
	return p, nil
}
