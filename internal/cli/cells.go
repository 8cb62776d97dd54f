package cli

import (
	"slices"
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// cells is how many cells of a terminal a text takes: two for each character of
// Chinese, Japanese and Korean and for an emoji, none for an accent that combines.
func cells(text string) int { return displaywidth.String(text) }

const ellipsis = "…"

// shorten cuts text to n cells, the last of them an ellipsis.
func shorten(text string, n int) string {
	switch {
	case cells(text) <= n:
		return text
	case n < 1:
		return ""
	}
	return displaywidth.TruncateString(text, n, ellipsis)
}

// shortenMiddle cuts text to n cells, one in the middle of them an ellipsis: what
// differs in many names is their end.
func shortenMiddle(text string, n int) string {
	if cells(text) <= n || n < 3 {
		return shorten(text, n)
	}
	head := displaywidth.TruncateString(text, (n-1)/2, "")
	return head + ellipsis + tail(text, n-1-cells(head))
}

// tail is the end of a text, n cells of it at most.
func tail(text string, n int) string {
	var parts []string
	for g := displaywidth.StringGraphemes(text); g.Next(); {
		parts = append(parts, g.Value())
	}
	at := len(parts)
	for room := n; at > 0; at-- {
		if room -= cells(parts[at-1]); room < 0 {
			break
		}
	}
	return strings.Join(parts[at:], "")
}

// pad is text with blanks behind it, n cells in all.
func pad(text string, n int) string {
	return text + strings.Repeat(" ", max(n-cells(text), 0))
}

// wrapText breaks a text at blanks into lines of room cells; the lines behind the first
// stand hang further in. A word that is longer, such as a URL or an image with its
// digest, stays whole on a line of its own: a terminal breaks it so that it can be
// copied. Blanks in front of the text are kept on each line.
func wrapText(text string, room, hang int) []string {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	var lines []string
	line := indent
	for _, word := range wordsOf(text) {
		if line != indent && cells(line)+1+cells(word) > room {
			lines = append(lines, line)
			if len(lines) == 1 {
				indent += strings.Repeat(" ", hang)
			}
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// wordsOf are a text's words. A command of ours is one with the two words behind it, so
// that it can be copied.
func wordsOf(text string) []string {
	var out []string
	room := 0 // for words of the command at the end of out
	for word := range strings.FieldsSeq(text) {
		if room > 0 {
			out[len(out)-1] += " " + word
			room--
		} else {
			out = append(out, word)
			if word == "windlass" {
				room = 2
			}
		}
		if strings.ContainsAny(word[len(word)-1:], ";,:.)") {
			room = 0
		}
	}
	return out
}

// wrapHard is wrapText for a column: what is longer than a line is broken too.
func wrapHard(text string, room int) []string {
	var lines []string
	for _, line := range wrapText(text, room, 0) {
		for cells(line) > room {
			head := displaywidth.TruncateString(line, room, "")
			if head == "" {
				break // not a single character has room
			}
			lines, line = append(lines, head), strings.TrimPrefix(line, head)
		}
		lines = append(lines, line)
	}
	return slices.Clip(lines)
}
