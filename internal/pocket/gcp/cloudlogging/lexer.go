package cloudlogging

import (
	"strings"
	"unicode/utf8"
)

type tokenKind int

const (
	tokEnd tokenKind = iota
	tokWord
	tokString
	tokOp
	tokOpen
	tokClose
	tokDot
	tokMinus
)

// token is a part of a query. Text of a string is what its quotes hold.
type token struct {
	kind tokenKind
	text string
	at   int // its first byte
}

// lexer cuts a query into tokens.
type lexer struct {
	text string
	pos  int
}

// operators, the longer ones first.
func operators() []string { return []string{">=", "<=", "!=", "=~", "!~", "=", ">", "<", ":"} }

// special ends a word that isn't quoted.
const special = " \t\r\n()\"'=!<>:~.,"

func (l *lexer) next() (token, error) {
	l.skip()
	at := l.pos
	if at >= len(l.text) {
		return token{kind: tokEnd, at: at}, nil
	}
	rest := l.text[at:]
	one := func(kind tokenKind) (token, error) {
		l.pos++
		return token{kind: kind, text: rest[:1], at: at}, nil
	}
	switch rest[0] {
	case '(':
		return one(tokOpen)
	case ')':
		return one(tokClose)
	case '.':
		return one(tokDot)
	case '-':
		return one(tokMinus)
	case '"', '\'':
		return l.quoted(rest[0])
	}
	for _, op := range operators() {
		if strings.HasPrefix(rest, op) {
			l.pos += len(op)
			return token{kind: tokOp, text: op, at: at}, nil
		}
	}
	n := strings.IndexAny(rest, special)
	if n < 0 {
		n = len(rest)
	}
	if n == 0 {
		return token{}, refuse(ruleFilter, "Unparseable filter: syntax error at line 1, column %d, token '%s'", at+1, rest[:1])
	}
	l.pos += n
	return token{kind: tokWord, text: rest[:n], at: at}, nil
}

// skip passes blanks and comments, which go from -- to the end of the line.
func (l *lexer) skip() {
	for l.pos < len(l.text) {
		switch c := l.text[l.pos]; {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			l.pos++
		case strings.HasPrefix(l.text[l.pos:], "--"):
			n := strings.IndexByte(l.text[l.pos:], '\n')
			if n < 0 {
				n = len(l.text) - l.pos
			}
			l.pos += n
		default:
			return
		}
	}
}

// quoted reads a text in quotes with C's escapes.
func (l *lexer) quoted(quote byte) (token, error) {
	at := l.pos
	var b strings.Builder
	for i := at + 1; i < len(l.text); {
		c := l.text[i]
		if c == quote {
			l.pos = i + 1
			return token{kind: tokString, text: b.String(), at: at}, nil
		}
		if c != '\\' {
			b.WriteByte(c)
			i++
			continue
		}
		n := unescape(&b, l.text[i+1:])
		if n == 0 {
			break
		}
		i += 1 + n
	}
	return token{}, refuse(ruleFilter, "Unparseable filter: unterminated string at line 1, column %d", at+1)
}

// unescape writes what an escape means, and returns how many bytes it has
// behind the backslash; 0 at the end of the text. An unknown escape stands for
// itself, so that regular expressions need no second backslash.
func unescape(b *strings.Builder, rest string) int {
	if rest == "" {
		return 0
	}
	simple := map[byte]byte{'a': '\a', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', '"': '"', '\'': '\'', '\\': '\\'}
	if c, ok := simple[rest[0]]; ok {
		b.WriteByte(c)
		return 1
	}
	base, first, most := 8, 0, 3
	switch rest[0] {
	case 'x':
		base, first, most = 16, 1, 2
	case 'u':
		base, first, most = 16, 1, 4
	}
	value, n := rune(0), first
	for n < len(rest) && n < first+most {
		d := digit(rest[n])
		if d < 0 || d >= base {
			break
		}
		value = value*rune(base) + rune(d) //nolint:gosec // both are under 17
		n++
	}
	if n == first {
		_, size := utf8.DecodeRuneInString(rest)
		b.WriteByte('\\')
		b.WriteString(rest[:size])
		return size
	}
	b.WriteRune(value)
	return n
}

func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}
