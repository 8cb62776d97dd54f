package yamltree

import (
	"fmt"
	"strings"
)

// Place returns the line and column of what stands at a path below the entry's
// value, as sdk.Schema writes paths ("a.b[2].c"), or of the nearest thing above
// it that is there: of its value if that is wanted and it is a scalar, else of
// its key.
func (f *Field) Place(path string, value bool) (line, col int) {
	line, col = f.Line, f.Column
	for at := f.Value; path != "" && at != nil; {
		next, l, c, rest, ok := at.step(path)
		if !ok {
			break
		}
		line, col, at, path = l, c, next, rest
		if value && path == "" && at != nil {
			switch at.Kind {
			case Map, List, Null:
			default:
				line, col = at.Line, at.Column
			}
		}
	}
	return line, col
}

// step follows the first part of a path as sdk.Schema writes them. A key may
// have dots in it, so the longest key that fits is taken.
func (n *Node) step(path string) (next *Node, line, col int, rest string, ok bool) {
	path = strings.TrimPrefix(path, ".")
	if strings.HasPrefix(path, "[") {
		inside, after, found := strings.Cut(path[1:], "]")
		i := 0
		if _, err := fmt.Sscanf(inside, "%d", &i); !found || err != nil || i < 0 || i >= len(n.Items) {
			return nil, 0, 0, "", false
		}
		item := n.Items[i]
		return item, item.Line, item.Column, after, true
	}
	var best *Field
	for i := range n.Fields {
		f := &n.Fields[i]
		if after, fits := strings.CutPrefix(path, f.Key); fits && f.Key != "" && (after == "" || after[0] == '.' || after[0] == '[') &&
			(best == nil || len(f.Key) > len(best.Key)) {
			best = f
		}
	}
	if best == nil {
		return nil, 0, 0, "", false
	}
	return best.Value, best.Line, best.Column, path[len(best.Key):], true
}
