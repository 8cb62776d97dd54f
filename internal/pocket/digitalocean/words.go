package digitalocean

import (
	"errors"
	"strings"
)

// words splits a command as a shell would, but expands nothing: blanks separate,
// single quotes keep all, double quotes keep all but a backslash before ", \, $
// and `, a backslash outside keeps the next character.
func words(command string) ([]string, error) {
	var out []string
	var word strings.Builder
	begun := false
	end := func() {
		if begun {
			out = append(out, word.String())
			word.Reset()
			begun = false
		}
	}
	for i := 0; i < len(command); i++ {
		switch c := command[i]; c {
		case ' ', '\t', '\n':
			end()
		case '\'':
			begun = true
			j := strings.IndexByte(command[i+1:], '\'')
			if j < 0 {
				return nil, errors.New("unclosed single quote")
			}
			word.WriteString(command[i+1 : i+1+j])
			i += j + 1
		case '"':
			begun = true
			for i++; ; i++ {
				if i >= len(command) {
					return nil, errors.New("unclosed double quote")
				}
				if command[i] == '"' {
					break
				}
				if command[i] == '\\' && i+1 < len(command) && strings.IndexByte("\"\\$`\n", command[i+1]) >= 0 {
					i++
					if command[i] == '\n' {
						continue
					}
				}
				word.WriteByte(command[i])
			}
		case '\\':
			i++
			if i >= len(command) {
				return nil, errors.New("nothing after a backslash")
			}
			if command[i] != '\n' {
				begun = true
				word.WriteByte(command[i])
			}
		default:
			begun = true
			word.WriteByte(c)
		}
	}
	end()
	return out, nil
}
