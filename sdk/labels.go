package sdk

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// What everything that we make carries, in labels, tags, or what the backend
// has instead.
const (
	LabelPrefix  = "windlass-"
	LabelRun     = "windlass-run"     // the run's ID
	LabelAttempt = "windlass-attempt" // the attempt's ID
	LabelNumber  = "windlass-number"  // the attempt's number, from 1
	LabelOwner   = "windlass-owner"
	LabelLedger  = "windlass-ledger"
	LabelExpires = "windlass-expires" // Unix seconds; renewed while the run lives
	LabelOp      = "windlass-op"      // the latest change of a resource
)

// NameRule is what a backend allows in a name.
type NameRule struct {
	// Max is the longest name in bytes, prefixes included.
	Max int
	// Allowed reports whether a byte may stand in the name.
	Allowed func(c byte) bool
	// Lower folds letters first.
	Lower bool
	// AlnumEnds wants a letter or digit at both ends.
	AlnumEnds bool
	// LetterFirst wants a letter in front.
	LetterFirst bool
}

// Fit returns a legal name for s. Different texts get different names: where
// s is legal already it stays as it is, else a hash of it is appended.
func (r NameRule) Fit(s string) string {
	if r.legal(s) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	suffix := hex.EncodeToString(sum[:8])
	body := s
	if r.Lower {
		body = strings.ToLower(body)
	}
	b := make([]byte, 0, len(body))
	for i := 0; i < len(body); i++ {
		switch {
		case r.Allowed(body[i]):
			b = append(b, body[i])
		case r.Allowed('-'):
			b = append(b, '-')
		}
	}
	body = string(b)
	if r.AlnumEnds {
		body = strings.TrimFunc(body, func(c rune) bool { return !alnum(byte(c)) })
	}
	if r.LetterFirst {
		body = strings.TrimLeftFunc(body, func(c rune) bool { return !letter(byte(c)) })
	}
	sep := ""
	if r.Allowed('-') {
		sep = "-"
	}
	if room := r.Max - len(suffix) - 2*len(sep) - 1; len(body) > room {
		body = body[:max(room, 0)]
	}
	if body == "" {
		// A hash may start with a digit.
		body = "x"
	}
	// Two separators keep fitted names apart from names that were legal as
	// they stood, since a legal name that ends so is refitted too.
	return body + sep + sep + suffix
}

func (r NameRule) legal(s string) bool {
	if s == "" || len(s) > r.Max {
		return false
	}
	for i := 0; i < len(s); i++ {
		if !r.Allowed(s[i]) || r.Lower && s[i] >= 'A' && s[i] <= 'Z' {
			return false
		}
	}
	if r.AlnumEnds && (!alnum(s[0]) || !alnum(s[len(s)-1])) {
		return false
	}
	if r.LetterFirst && !letter(s[0]) {
		return false
	}
	return !fitted(s, r.Allowed('-'))
}

// fitted reports whether s has the form that Fit gives, so that a name chosen
// to look like another's fitted form can't collide with it.
func fitted(s string, sep bool) bool {
	if len(s) < 17 {
		return false
	}
	for i := len(s) - 16; i < len(s); i++ {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return !sep || strings.HasSuffix(s[:len(s)-16], "--")
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func alnum(c byte) bool { return letter(c) || c >= '0' && c <= '9' }

// DNSLabel returns the rule of RFC 1123 labels: 63 characters of a-z, 0-9, -.
func DNSLabel() NameRule {
	return NameRule{Max: 63, Lower: true, AlnumEnds: true, Allowed: func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-'
	}}
}
