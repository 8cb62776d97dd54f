package ecs

import (
	"errors"
	"strings"
)

// split parts a command into words as the agent does: blanks part them, a
// backslash takes the next character as it is, single quotes take all as it is,
// double quotes all but a backslash; a # where a word could begin is a comment.
// https://github.com/google/shlex
func split(command string) ([]string, error) {
	var words []string
	var word strings.Builder
	in, quote, escaped := false, rune(0), false
	comment := false
	for _, r := range command {
		switch {
		case comment:
			comment = r != '\n'
		case escaped:
			word.WriteRune(r)
			escaped = false
		case quote == '\'' && r != '\'', quote == '"' && r != '"' && r != '\\':
			word.WriteRune(r)
		case quote != 0 && r == quote:
			quote = 0
		case r == '\\':
			in, escaped = true, true
		case r == '\'' || r == '"':
			in, quote = true, r
		case r == ' ' || r == '\t' || r == '\r' || r == '\n':
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		case r == '#' && !in:
			comment = true
		default:
			in = true
			word.WriteRune(r)
		}
	}
	switch {
	case escaped:
		return nil, errors.New("EOF found after escape character")
	case quote != 0:
		return nil, errors.New("EOF found when expecting closing quote")
	case in:
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errors.New("no command")
	}
	return words, nil
}
