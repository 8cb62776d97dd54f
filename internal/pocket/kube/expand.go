package kube

import (
	"strconv"
	"strings"
)

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// expand replaces $(NAME) where NAME is known, and $$ by $.
// https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
func expand(s string, vars map[string]string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		switch s[i+1] {
		case '$':
			b.WriteByte('$')
			i++
		case '(':
			end := strings.IndexByte(s[i+2:], ')')
			if end < 0 {
				b.WriteByte('$')
				continue
			}
			name := s[i+2 : i+2+end]
			v, ok := vars[name]
			if !ok {
				v = "$(" + name + ")"
			}
			b.WriteString(v)
			i += 2 + end
		default:
			b.WriteByte('$')
		}
	}
	return b.String()
}

func expandAll(list []string, vars map[string]string) []string {
	if list == nil {
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = expand(s, vars)
	}
	return out
}
