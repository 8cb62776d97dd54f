package runner

import (
	"path"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

func mustAllow(t testing.TB, grants ...string) allowList {
	t.Helper()
	a, err := newAllowList(grants)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAllowList: a client gets what it was granted, and no neighbour of it by
// whatever way of writing.
func TestAllowList(t *testing.T) {
	a := mustAllow(t, "secret://env/TOKEN", "secret://file//run/ci/*", "secret://file/team/*", "secret://aws-sm/app#user", "secret://aws-sm/pin?version=2")
	for ref, want := range map[string]bool{
		"secret://env/TOKEN":                      true,
		"secret://env/TOKEN2":                     false,
		"secret://env/TOKE":                       false,
		"secret://env/token":                      false,
		"secret://env/TOKEN#key":                  false,
		"secret://env/TOKEN?version=1":            false,
		"secret://env/TOKEN/":                     false,
		"secret://env/./TOKEN":                    false,
		"secret://env//TOKEN":                     false,
		"secret://ENV/TOKEN":                      false,
		"secret://file//run/ci/a":                 true,
		"secret://file//run/ci/a/b":               true,
		"secret://file//run/ci/a#k?version=3":     true,
		"secret://file//run/ci":                   false,
		"secret://file//run/ci/":                  false,
		"secret://file//run/cia":                  false,
		"secret://file//run/ci-other/a":           false,
		"secret://file//run/ci/../a":              false,
		"secret://file//run/ci/..":                false,
		"secret://file//run/ci/a/../../../x":      false,
		"secret://file//run/ci/./a":               false,
		"secret://file//run/ci//a":                false,
		"secret://file///run/ci/a":                false,
		`secret://file//run/ci/..\a`:              false,
		"secret://file//run/ci/%2e%2e/a":          false,
		"secret://file/run/ci/a":                  false,
		"secret://file/team/x":                    true,
		"secret://file//team/x":                   false,
		"secret://file/teams/x":                   false,
		"secret://gcp-sm//run/ci/a":               false,
		"secret://aws-sm/app#user":                true,
		"secret://aws-sm/app":                     false,
		"secret://aws-sm/app#password":            false,
		"secret://aws-sm/app#user?version=1":      false,
		"secret://aws-sm/app?version=1#user":      false,
		"secret://aws-sm/pin?version=2":           true,
		"secret://aws-sm/pin?version=3":           false,
		"secret://aws-sm/pin":                     false,
		"secret://aws-sm/pin?version=2&version=3": false,
		"": false, "secret://": false, "secret://env": false, "TOKEN": false,
	} {
		if got := a.allows(ref); got != want {
			t.Errorf("%s: allowed is %v, want %v", ref, got, want)
		}
	}
	if mustAllow(t).allows("secret://env/TOKEN") || (allowList{}).allows("secret://env/TOKEN") {
		t.Error("an empty list allows something")
	}
}

// TestAllowListRefusesGrants: a grant that is wider than it looks isn't taken.
func TestAllowListRefusesGrants(t *testing.T) {
	for _, grant := range []string{"", "*", "secret://*", "secret://env/*", "secret://file//*", "secret://file/*", "secret://env/CI_*", "secret://file/a/*/b",
		"secret://file/../a", "secret://file/a/../*", "secret://file/a//*", "secret://*/TOKEN", "TOKEN", "secret://file/a/*#k", "secret://file/a/[b]"} {
		if _, err := newAllowList([]string{grant}); err == nil {
			t.Errorf("%q is taken", grant)
		}
	}
}

// FuzzAllowList: whatever the reference, what is allowed is the granted one or
// lies below the granted folder once its path is cleaned.
func FuzzAllowList(f *testing.F) {
	for _, s := range []string{"secret://file//run/ci/a", "secret://file//run/ci/../x", "secret://env/TOKEN", "secret://file//run/ci/a?version=1#b", "secret://file//run/ci/\x00"} {
		f.Add(s)
	}
	a := mustAllow(f, "secret://env/TOKEN", "secret://file//run/ci/*")
	f.Fuzz(func(t *testing.T, ref string) {
		if !a.allows(ref) || ref == "secret://env/TOKEN" {
			return
		}
		p, err := sdk.ParseSecretRef(ref)
		if err != nil || p.Scheme != "file" {
			t.Fatalf("%q is allowed (%v)", ref, err)
		}
		if clean := path.Clean(p.Path); clean != p.Path || !strings.HasPrefix(clean, "/run/ci/") || strings.ContainsAny(p.Path, "\\%\x00") {
			t.Fatalf("%q is allowed, and is %q", ref, clean)
		}
	})
}
