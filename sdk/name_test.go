package sdk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// rules are naming rules of the kinds that backends have.
func rules() map[string]sdk.NameRule {
	lower := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' }
	word := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
	}
	return map[string]sdk.NameRule{
		"dns label":      sdk.DNSLabel(),
		"short":          {Max: 24, Lower: true, AlnumEnds: true, LetterFirst: true, Allowed: lower},
		"words":          {Max: 128, Allowed: word},
		"letter first":   {Max: 40, LetterFirst: true, Allowed: word},
		"without dashes": {Max: 32, Lower: true, LetterFirst: true, AlnumEnds: true, Allowed: func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }},
		"docker":         {Max: 255, AlnumEnds: true, Allowed: func(c byte) bool { return word(c) || c == '.' }},
		"least":          {Max: 20, Lower: true, AlnumEnds: true, LetterFirst: true, Allowed: lower},
	}
}

// illegal says what is wrong with a name.
func illegal(r sdk.NameRule, s string) string {
	letter := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
	alnum := func(c byte) bool { return letter(c) || c >= '0' && c <= '9' }
	switch {
	case s == "":
		return "empty"
	case len(s) > r.Max:
		return fmt.Sprintf("has %d bytes of %d", len(s), r.Max)
	case r.LetterFirst && !letter(s[0]):
		return "starts with no letter"
	case r.AlnumEnds && (!alnum(s[0]) || !alnum(s[len(s)-1])):
		return "starts or ends with neither letter nor digit"
	case r.Lower && s != strings.ToLower(s):
		return "has upper case"
	}
	for i := range len(s) {
		if !r.Allowed(s[i]) {
			return fmt.Sprintf("has %q", s[i])
		}
	}
	return ""
}

func oddNames() []string {
	fit := sdk.DNSLabel().Fit("Some Name")
	return []string{"", "a", "-", "--", "abc", "ABC", "a_b", "a.b", "a b", "é", "家", "1", "1a", "-a-", "a-", "x--0123456789abcdef", "0123456789abcdef",
		"x0123456789abcdef", "Some Name", "some-name", fit, strings.ToUpper(fit), strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 300),
		strings.Repeat("a", 62) + "-", strings.Repeat("-", 80), "\xff", "\x00", "a\x00", "ſ", "K", "a--b", "İ", strings.Repeat("é", 100)}
}

// TestNamesAreLegalAndDistinct is F14's kind: cut names collide, prefixes push
// names over the cap.
func TestNamesAreLegalAndDistinct(t *testing.T) {
	for what, r := range rules() {
		t.Run(what, func(t *testing.T) {
			seen := map[string]string{}
			for _, s := range oddNames() {
				got := r.Fit(s)
				if why := illegal(r, got); why != "" {
					t.Errorf("%q became %q, which %s", s, got, why)
				}
				if other, ok := seen[got]; ok {
					t.Errorf("%q and %q both became %q", other, s, got)
				}
				seen[got] = s
				if again := r.Fit(s); again != got {
					t.Errorf("%q became %q and %q", s, got, again)
				}
			}
		})
	}
	if got := sdk.DNSLabel().Fit("my-job-1"); got != "my-job-1" {
		t.Errorf("a legal name became %q", got)
	}
}

// TestIDsFitEverywhere: a name made of our prefix and an ID is legal as it is.
func TestIDsFitEverywhere(t *testing.T) {
	id := sdk.NewIDSource(sdk.SystemClock()).NewID().String()
	for _, name := range []string{"wl-" + id, id} {
		if got := sdk.DNSLabel().Fit(name); got != name {
			t.Errorf("%q became %q", name, got)
		}
	}
}

func FuzzNameFit(f *testing.F) {
	odd := oddNames()
	for i, s := range odd {
		f.Add(s, odd[(i+1)%len(odd)])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for what, r := range rules() {
			fa, fb := r.Fit(a), r.Fit(b)
			if why := illegal(r, fa); why != "" {
				t.Fatalf("%s: %q became %q, which %s", what, a, fa, why)
			}
			if a != b && fa == fb {
				t.Fatalf("%s: %q and %q both became %q", what, a, b, fa)
			}
			// A fitted name that is given as a name is another name.
			if ffa := r.Fit(fa); fa != a && ffa == fa {
				t.Fatalf("%s: %q and %q both became %q", what, a, fa, fa)
			}
		}
	})
}
