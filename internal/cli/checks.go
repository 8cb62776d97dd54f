package cli

import (
	"fmt"
	"io"
	"strings"
)

const (
	// foldFrom is how many checks that went well alike are one line on a terminal,
	// foldNames how many of them it names.
	foldFrom  = 4
	foldNames = 3
)

// checks prints checks, one a line; on a terminal those that went well alike, such as
// the rights on a cloud, as one.
func (s *Streams) checks(list []CheckView) error {
	var b strings.Builder
	if s.OutTerminal {
		list = foldChecks(list)
	}
	for _, c := range list {
		mark, st := "ok  ", styleGreen
		switch {
		case !c.OK && c.Needed:
			mark, st = "FAIL", styleRed
		case !c.OK:
			mark, st = "none", styleBold
		}
		text := clean(c.Subject) + ": " + clean(c.Name)
		if c.Detail != "" {
			text += ": " + clean(c.Detail)
		}
		indent := strings.Repeat(" ", len(mark)+gap)
		b.WriteString(s.out(st, mark) + indent[len(mark):] + strings.Join(s.wrapOut(text, len(indent)), "\n"+indent) + "\n")
		if !c.OK && c.Remedy != "" {
			b.WriteString(indent + strings.Join(s.wrapOut("to do: "+clean(c.Remedy), len(indent)), "\n"+indent) + "\n")
		}
	}
	_, err := io.WriteString(s.Out, b.String())
	return err
}

// wrapOut breaks text on a terminal into lines that stand at an indent.
func (s *Streams) wrapOut(text string, indent int) []string {
	if !s.OutTerminal {
		return []string{text}
	}
	return wrapText(text, s.Width-indent, hang)
}

// foldChecks makes one check of those of a subject in a row that went well with the same
// words.
func foldChecks(list []CheckView) []CheckView {
	var out []CheckView
	for i := 0; i < len(list); {
		n := 1
		for c := list[i]; i+n < len(list) && c.OK && list[i+n].OK && c.Subject == list[i+n].Subject && c.Detail == list[i+n].Detail; {
			n++
		}
		if n < foldFrom {
			out = append(out, list[i:i+n]...)
		} else {
			names := make([]string, foldNames)
			for j := range names {
				names[j] = list[i+j].Name
			}
			c := list[i]
			c.Name = fmt.Sprintf("%s and %d more", strings.Join(names, ", "), n-foldNames)
			out = append(out, c)
		}
		i += n
	}
	return out
}
