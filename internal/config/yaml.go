package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a config file. They keep the parser's time and memory in check,
// which grow with the square of the depth and of the number of keys.
const (
	maxFile  = 256 << 10
	maxDepth = 64
	maxNodes = 50_000
)

type nodeKind int

const (
	kindNull nodeKind = iota
	kindText
	kindInt
	kindFloat
	kindBool
	kindList
	kindMap
)

func (k nodeKind) String() string {
	return [...]string{"nothing", "text", "a whole number", "a number", "true or false", "a list", "a mapping"}[k]
}

// node is a value of a config file with its place. Aliases share nodes.
type node struct {
	kind      nodeKind
	text      string // as written for scalars, decoded for text
	num       any    // int64, uint64, float64 or bool
	line, col int
	items     []*node
	fields    []field
	size      int // nodes below and with this one, aliases counted each time
}

type field struct {
	key       string
	line, col int
	value     *node
}

func (n *node) get(key string) *field {
	for i := range n.fields {
		if n.fields[i].key == key {
			return &n.fields[i]
		}
	}
	return nil
}

// syntaxError is a place where a file isn't what it should be.
type syntaxError struct {
	id        string
	line, col int
	msg       string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%d:%d: %s", e.line, e.col, e.msg) }

func syntaxAt(tk *token.Token, format string, args ...any) *syntaxError {
	e := &syntaxError{id: ErrSyntax, line: 1, col: 1, msg: fmt.Sprintf(format, args...)}
	if tk != nil && tk.Position != nil {
		e.line, e.col = tk.Position.Line, tk.Position.Column
	}
	return e
}

// parseYAML reads one document. An empty one is an empty mapping.
func parseYAML(data []byte) (root *node, err error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if err := precheck(data); err != nil {
		return nil, err
	}
	defer func() {
		// The parser is not ours; what makes it panic is no YAML of a user's.
		if r := recover(); r != nil {
			root, err = nil, &syntaxError{id: ErrSyntax, line: 1, col: 1, msg: "this is no YAML that can be read"}
		}
	}()
	file, perr := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if perr != nil {
		return nil, parseError(perr)
	}
	var docs []*ast.DocumentNode
	for _, d := range file.Docs {
		if d != nil && d.Body != nil {
			docs = append(docs, d)
		}
	}
	switch len(docs) {
	case 0:
		return &node{kind: kindMap, line: 1, col: 1, size: 1}, nil
	case 1:
	default:
		return nil, syntaxAt(docs[1].Body.GetToken(), "a second document starts here; a config file has one")
	}
	c := converter{anchors: map[string]*node{}}
	return c.convert(docs[0].Body, 0)
}

func parseError(err error) error {
	var ye yaml.Error
	if errors.As(err, &ye) {
		msg := strings.TrimSpace(ye.GetMessage())
		if strings.HasPrefix(msg, "found character '\t'") {
			msg = "a tab stands here; YAML is indented with spaces"
		}
		return syntaxAt(ye.GetToken(), "%s", msg)
	}
	msg, _, _ := strings.Cut(err.Error(), "\n")
	return &syntaxError{id: ErrSyntax, line: 1, col: 1, msg: msg}
}

// precheck refuses, before the parser sees it, what isn't text or nests too
// deeply.
func precheck(data []byte) error {
	line, col, depth, dashes := 1, 1, 0, 0
	start := true
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		bad := func(msg string) error { return &syntaxError{id: ErrSyntax, line: line, col: col, msg: msg} }
		switch {
		case r == utf8.RuneError && n <= 1:
			return bad("this is not UTF-8")
		case r < 0x20 && r != '\n' && r != '\r' && r != '\t', r == 0x7f:
			return bad(fmt.Sprintf("the control character U+%04X may not stand here", r))
		case r == '[' || r == '{':
			depth++
		case (r == ']' || r == '}') && depth > 0:
			depth--
		case (r == '-' || r == '?') && start:
			dashes++
		}
		if depth > maxDepth || dashes > maxDepth {
			return bad(fmt.Sprintf("this nests more than %d levels deep", maxDepth))
		}
		if start && r != '-' && r != '?' && r != ' ' {
			start = false
		}
		col++
		if r == '\n' {
			line, col, dashes, start = line+1, 1, 0, true
		}
		i += n
	}
	return nil
}

// converter turns the parser's tree into nodes.
type converter struct {
	anchors map[string]*node
}

func (c *converter) convert(n ast.Node, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, syntaxAt(n.GetToken(), "this nests more than %d levels deep", maxDepth)
	}
	out := &node{size: 1}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		out.line, out.col = tk.Position.Line, tk.Position.Column
	}
	switch v := n.(type) {
	case *ast.NullNode:
		out.kind = kindNull
	case *ast.StringNode:
		out.kind, out.text = kindText, v.Value
	case *ast.LiteralNode:
		out.kind, out.text = kindText, v.Value.Value
	case *ast.BoolNode:
		out.kind, out.num, out.text = kindBool, v.Value, strconv.FormatBool(v.Value)
	case *ast.IntegerNode:
		out.kind, out.num, out.text = kindInt, v.Value, v.Token.Value
	case *ast.FloatNode:
		out.kind, out.num, out.text = kindFloat, v.Value, v.Token.Value
	case *ast.InfinityNode, *ast.NanNode:
		return nil, syntaxAt(n.GetToken(), "no setting takes this number")
	case *ast.AnchorNode:
		return c.anchor(v, depth)
	case *ast.AliasNode:
		return c.alias(v)
	case *ast.TagNode:
		return c.tag(v, depth)
	case *ast.SequenceNode:
		out.kind = kindList
		for _, item := range v.Values {
			sub, err := c.convert(item, depth+1)
			if err != nil {
				return nil, err
			}
			out.items = append(out.items, sub)
			out.size += sub.size
		}
	case *ast.MappingNode:
		return c.mapping(out, v.Values, depth)
	case *ast.MappingValueNode:
		return c.mapping(out, []*ast.MappingValueNode{v}, depth)
	default:
		return nil, syntaxAt(n.GetToken(), "this kind of YAML (%s) isn't read here", n.Type())
	}
	if out.size > maxNodes {
		return nil, syntaxAt(n.GetToken(), "this has more than %d values", maxNodes)
	}
	return out, nil
}

func (c *converter) anchor(v *ast.AnchorNode, depth int) (*node, error) {
	if v.Name == nil || v.Value == nil {
		return nil, syntaxAt(v.GetToken(), "this anchor has no name or no value")
	}
	// Registered afterwards, so that no value can hold itself.
	sub, err := c.convert(v.Value, depth+1)
	if err != nil {
		return nil, err
	}
	c.anchors[v.Name.GetToken().Value] = sub
	return sub, nil
}

func (c *converter) alias(v *ast.AliasNode) (*node, error) {
	if v.Value == nil {
		return nil, syntaxAt(v.GetToken(), "this alias has no name")
	}
	name := v.Value.GetToken().Value
	sub, ok := c.anchors[name]
	if !ok {
		return nil, syntaxAt(v.GetToken(), "no anchor called %q stands above this alias", name)
	}
	return sub, nil
}

func (c *converter) tag(v *ast.TagNode, depth int) (*node, error) {
	if v.Value == nil {
		return nil, syntaxAt(v.GetToken(), "this tag has no value")
	}
	sub, err := c.convert(v.Value, depth+1)
	if err != nil {
		return nil, err
	}
	switch tag := v.Start.Value; tag {
	case "!!str":
		if sub.kind == kindList || sub.kind == kindMap {
			return nil, syntaxAt(v.GetToken(), "%s can't stand before %s", tag, sub.kind)
		}
		return &node{kind: kindText, text: sub.text, line: sub.line, col: sub.col, size: 1}, nil
	case "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq":
		want := map[string][]nodeKind{"!!int": {kindInt}, "!!float": {kindFloat, kindInt}, "!!bool": {kindBool},
			"!!null": {kindNull}, "!!map": {kindMap}, "!!seq": {kindList}}[tag]
		for _, k := range want {
			if sub.kind == k {
				return sub, nil
			}
		}
		return nil, syntaxAt(v.GetToken(), "%s can't stand before %s", tag, sub.kind)
	default:
		return nil, syntaxAt(v.GetToken(), "the tag %s isn't read here", tag)
	}
}

func (c *converter) mapping(out *node, values []*ast.MappingValueNode, depth int) (*node, error) {
	out.kind = kindMap
	var merged []field
	for _, mv := range values {
		if mv == nil || mv.Key == nil || mv.Value == nil {
			return nil, &syntaxError{id: ErrSyntax, line: out.line, col: out.col, msg: "this mapping lacks a key or a value"}
		}
		value, err := c.convert(mv.Value, depth+1)
		if err != nil {
			return nil, err
		}
		if mv.Key.IsMergeKey() {
			fs, err := mergeFields(mv.Key.GetToken(), value)
			if err != nil {
				return nil, err
			}
			merged = append(merged, fs...)
			continue
		}
		f, err := keyOf(mv.Key)
		if err != nil {
			return nil, err
		}
		if old := out.get(f.key); old != nil {
			return nil, &syntaxError{id: ErrDuplicateKey, line: f.line, col: f.col,
				msg: fmt.Sprintf("%q stands on line %d already; keep one of them", f.key, old.line)}
		}
		f.value = value
		out.fields = append(out.fields, f)
	}
	// A mapping starts where its first key does, not at the colon.
	if len(out.fields) > 0 {
		out.line, out.col = out.fields[0].line, out.fields[0].col
	}
	for _, f := range merged {
		if out.get(f.key) == nil {
			out.fields = append(out.fields, f)
		}
	}
	for _, f := range out.fields {
		out.size += 1 + f.value.size
	}
	if out.size > maxNodes {
		return nil, &syntaxError{id: ErrSyntax, line: out.line, col: out.col, msg: fmt.Sprintf("this has more than %d values", maxNodes)}
	}
	return out, nil
}

func mergeFields(tk *token.Token, v *node) ([]field, error) {
	switch v.kind {
	case kindMap:
		return v.fields, nil
	case kindList:
		var out []field
		for _, item := range v.items {
			if item.kind != kindMap {
				return nil, syntaxAt(tk, "<< takes mappings only")
			}
			out = append(out, item.fields...)
		}
		return out, nil
	}
	return nil, syntaxAt(tk, "<< takes a mapping or a list of them, not %s", v.kind)
}

func keyOf(k ast.MapKeyNode) (field, error) {
	tk := k.GetToken()
	f := field{line: 1, col: 1}
	if tk != nil && tk.Position != nil {
		f.line, f.col = tk.Position.Line, tk.Position.Column
	}
	switch v := k.(type) {
	case *ast.StringNode:
		f.key = v.Value
	case *ast.IntegerNode:
		f.key = v.Token.Value
	case *ast.FloatNode:
		f.key = v.Token.Value
	case *ast.BoolNode:
		f.key = v.Token.Value
	default:
		return f, syntaxAt(tk, "a key is plain text")
	}
	return f, nil
}

// json returns the value as JSON. Numbers keep their value, and every key
// stands once.
func (n *node) json() json.RawMessage {
	var b bytes.Buffer
	n.writeJSON(&b)
	return b.Bytes()
}

func (n *node) writeJSON(b *bytes.Buffer) {
	switch n.kind {
	case kindNull:
		b.WriteString("null")
	case kindText:
		writeJSONText(b, n.text)
	case kindBool:
		b.WriteString(n.text)
	case kindInt:
		fmt.Fprint(b, n.num)
	case kindFloat:
		f, _ := n.num.(float64)
		if math.IsInf(f, 0) || math.IsNaN(f) {
			// JSON has no such number; as text it is refused by any schema.
			writeJSONText(b, n.text)
			return
		}
		b.WriteString(strconv.FormatFloat(f, 'g', -1, 64))
	case kindList:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.writeJSON(b)
		}
		b.WriteByte(']')
	case kindMap:
		b.WriteByte('{')
		for i, f := range n.fields {
			if i > 0 {
				b.WriteByte(',')
			}
			writeJSONText(b, f.key)
			b.WriteByte(':')
			f.value.writeJSON(b)
		}
		b.WriteByte('}')
	}
}

func writeJSONText(b *bytes.Buffer, s string) {
	// A string always marshals; json.Marshal would escape <, > and & only.
	data, _ := json.Marshal(s)
	b.Write(data)
}
