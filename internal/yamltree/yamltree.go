// Package yamltree reads a YAML file as a tree in which every value knows its
// line and column, so that whatever is wrong with it can be shown where it is.
// It is strict: a key stands once, tags are checked, and size, depth and the
// number of values are bounded before and after aliases are followed.
package yamltree

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

// Bounds of a file. They keep the parser's time and memory in check,
// which grow with the square of the depth and of the number of keys.
const (
	MaxBytes = 256 << 10
	MaxDepth = 64
	MaxNodes = 50_000
)

// Kind is what a value is.
type Kind int

// The kinds of values.
const (
	Null Kind = iota
	Text
	Int
	Float
	Bool
	List
	Map
)

// String names the kind as a message does: "a whole number".
func (k Kind) String() string {
	return [...]string{"nothing", "text", "a whole number", "a number", "true or false", "a list", "a mapping"}[k]
}

// Node is a value with its place. Aliases share nodes.
type Node struct {
	Kind Kind
	// Text is a scalar as it is written, decoded for text.
	Text string
	// Line and Column count from 1. A mapping starts at its first key.
	Line, Column int
	// Items are a list's values, Fields a mapping's, in the file's order.
	Items  []*Node
	Fields []Field

	num  any // int64, uint64, float64 or bool
	size int // nodes below and with this one, aliases counted each time
}

// Field is one entry of a mapping. Its place is the key's.
type Field struct {
	Key          string
	Line, Column int
	Value        *Node
}

// Get returns the entry of a key, nil when there is none.
func (n *Node) Get(key string) *Field {
	for i := range n.Fields {
		if n.Fields[i].Key == key {
			return &n.Fields[i]
		}
	}
	return nil
}

// SyntaxError is a place where a file isn't what it should be.
type SyntaxError struct {
	// Duplicate: a key stands twice in one mapping.
	Duplicate    bool
	Line, Column int
	Message      string
}

// Error returns LINE:COLUMN: MESSAGE.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Message) }

func syntaxAt(tk *token.Token, format string, args ...any) *SyntaxError {
	e := &SyntaxError{Line: 1, Column: 1, Message: fmt.Sprintf(format, args...)}
	if tk != nil && tk.Position != nil {
		e.Line, e.Column = tk.Position.Line, tk.Position.Column
	}
	return e
}

// Parse reads one document. An empty one is an empty mapping.
func Parse(data []byte) (root *Node, err error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if err := precheck(data); err != nil {
		return nil, err
	}
	defer func() {
		// The parser is not ours; what makes it panic is no YAML of a user's.
		if r := recover(); r != nil {
			root, err = nil, &SyntaxError{Line: 1, Column: 1, Message: "this is no YAML that can be read"}
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
		return &Node{Kind: Map, Line: 1, Column: 1, size: 1}, nil
	case 1:
	default:
		return nil, syntaxAt(docs[1].Body.GetToken(), "a second document starts here; a file has one")
	}
	c := converter{anchors: map[string]*Node{}}
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
	return &SyntaxError{Line: 1, Column: 1, Message: msg}
}

// precheck refuses, before the parser sees it, what isn't text or nests too
// deeply.
func precheck(data []byte) error {
	line, col, depth, dashes := 1, 1, 0, 0
	start := true
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		bad := func(msg string) error { return &SyntaxError{Line: line, Column: col, Message: msg} }
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
		if depth > MaxDepth || dashes > MaxDepth {
			return bad(fmt.Sprintf("this nests more than %d levels deep", MaxDepth))
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
	anchors map[string]*Node
}

func (c *converter) convert(n ast.Node, depth int) (*Node, error) {
	if depth > MaxDepth {
		return nil, syntaxAt(n.GetToken(), "this nests more than %d levels deep", MaxDepth)
	}
	out := &Node{size: 1}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		out.Line, out.Column = tk.Position.Line, tk.Position.Column
	}
	switch v := n.(type) {
	case *ast.NullNode:
		out.Kind = Null
	case *ast.StringNode:
		out.Kind, out.Text = Text, v.Value
	case *ast.LiteralNode:
		out.Kind, out.Text = Text, v.Value.Value
	case *ast.BoolNode:
		out.Kind, out.num, out.Text = Bool, v.Value, strconv.FormatBool(v.Value)
	case *ast.IntegerNode:
		out.Kind, out.num, out.Text = Int, v.Value, v.Token.Value
	case *ast.FloatNode:
		out.Kind, out.num, out.Text = Float, v.Value, v.Token.Value
	case *ast.InfinityNode, *ast.NanNode:
		return nil, syntaxAt(n.GetToken(), "no value takes this number")
	case *ast.AnchorNode:
		return c.anchor(v, depth)
	case *ast.AliasNode:
		return c.alias(v)
	case *ast.TagNode:
		return c.tag(v, depth)
	case *ast.SequenceNode:
		out.Kind = List
		for _, item := range v.Values {
			sub, err := c.convert(item, depth+1)
			if err != nil {
				return nil, err
			}
			out.Items = append(out.Items, sub)
			out.size += sub.size
		}
	case *ast.MappingNode:
		return c.mapping(out, v.Values, depth)
	case *ast.MappingValueNode:
		return c.mapping(out, []*ast.MappingValueNode{v}, depth)
	default:
		return nil, syntaxAt(n.GetToken(), "this kind of YAML (%s) isn't read here", n.Type())
	}
	if out.size > MaxNodes {
		return nil, syntaxAt(n.GetToken(), "this has more than %d values", MaxNodes)
	}
	return out, nil
}

func (c *converter) anchor(v *ast.AnchorNode, depth int) (*Node, error) {
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

func (c *converter) alias(v *ast.AliasNode) (*Node, error) {
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

func (c *converter) tag(v *ast.TagNode, depth int) (*Node, error) {
	if v.Value == nil {
		return nil, syntaxAt(v.GetToken(), "this tag has no value")
	}
	sub, err := c.convert(v.Value, depth+1)
	if err != nil {
		return nil, err
	}
	switch tag := v.Start.Value; tag {
	case "!!str":
		if sub.Kind == List || sub.Kind == Map {
			return nil, syntaxAt(v.GetToken(), "%s can't stand before %s", tag, sub.Kind)
		}
		return &Node{Kind: Text, Text: sub.Text, Line: sub.Line, Column: sub.Column, size: 1}, nil
	case "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq":
		want := map[string][]Kind{"!!int": {Int}, "!!float": {Float, Int}, "!!bool": {Bool},
			"!!null": {Null}, "!!map": {Map}, "!!seq": {List}}[tag]
		for _, k := range want {
			if sub.Kind == k {
				return sub, nil
			}
		}
		return nil, syntaxAt(v.GetToken(), "%s can't stand before %s", tag, sub.Kind)
	default:
		return nil, syntaxAt(v.GetToken(), "the tag %s isn't read here", tag)
	}
}

func (c *converter) mapping(out *Node, values []*ast.MappingValueNode, depth int) (*Node, error) {
	out.Kind = Map
	var merged []Field
	for _, mv := range values {
		if mv == nil || mv.Key == nil || mv.Value == nil {
			return nil, &SyntaxError{Line: out.Line, Column: out.Column, Message: "this mapping lacks a key or a value"}
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
		if old := out.Get(f.Key); old != nil {
			return nil, &SyntaxError{Duplicate: true, Line: f.Line, Column: f.Column,
				Message: fmt.Sprintf("%q stands on line %d already; keep one of them", f.Key, old.Line)}
		}
		f.Value = value
		out.Fields = append(out.Fields, f)
	}
	// A mapping starts where its first key does, not at the colon.
	if len(out.Fields) > 0 {
		out.Line, out.Column = out.Fields[0].Line, out.Fields[0].Column
	}
	for _, f := range merged {
		if out.Get(f.Key) == nil {
			out.Fields = append(out.Fields, f)
		}
	}
	for _, f := range out.Fields {
		out.size += 1 + f.Value.size
	}
	if out.size > MaxNodes {
		return nil, &SyntaxError{Line: out.Line, Column: out.Column, Message: fmt.Sprintf("this has more than %d values", MaxNodes)}
	}
	return out, nil
}

func mergeFields(tk *token.Token, v *Node) ([]Field, error) {
	switch v.Kind {
	case Map:
		return v.Fields, nil
	case List:
		var out []Field
		for _, item := range v.Items {
			if item.Kind != Map {
				return nil, syntaxAt(tk, "<< takes mappings only")
			}
			out = append(out, item.Fields...)
		}
		return out, nil
	}
	return nil, syntaxAt(tk, "<< takes a mapping or a list of them, not %s", v.Kind)
}

func keyOf(k ast.MapKeyNode) (Field, error) {
	tk := k.GetToken()
	f := Field{Line: 1, Column: 1}
	if tk != nil && tk.Position != nil {
		f.Line, f.Column = tk.Position.Line, tk.Position.Column
	}
	switch v := k.(type) {
	case *ast.StringNode:
		f.Key = v.Value
	case *ast.IntegerNode:
		f.Key = v.Token.Value
	case *ast.FloatNode:
		f.Key = v.Token.Value
	case *ast.BoolNode:
		f.Key = v.Token.Value
	default:
		return f, syntaxAt(tk, "a key is plain text")
	}
	return f, nil
}

// JSON returns the value as JSON. Numbers keep their value, and every key
// stands once.
func (n *Node) JSON() json.RawMessage {
	var b bytes.Buffer
	n.writeJSON(&b)
	return b.Bytes()
}

func (n *Node) writeJSON(b *bytes.Buffer) {
	switch n.Kind {
	case Null:
		b.WriteString("null")
	case Text:
		writeJSONText(b, n.Text)
	case Bool:
		b.WriteString(n.Text)
	case Int:
		fmt.Fprint(b, n.num)
	case Float:
		f, _ := n.num.(float64)
		if math.IsInf(f, 0) || math.IsNaN(f) {
			// JSON has no such number; as text it is refused by any schema.
			writeJSONText(b, n.Text)
			return
		}
		b.WriteString(strconv.FormatFloat(f, 'g', -1, 64))
	case List:
		b.WriteByte('[')
		for i, item := range n.Items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.writeJSON(b)
		}
		b.WriteByte(']')
	case Map:
		b.WriteByte('{')
		for i, f := range n.Fields {
			if i > 0 {
				b.WriteByte(',')
			}
			writeJSONText(b, f.Key)
			b.WriteByte(':')
			f.Value.writeJSON(b)
		}
		b.WriteByte('}')
	}
}

func writeJSONText(b *bytes.Buffer, s string) {
	// A string always marshals; json.Marshal would escape <, > and & only.
	data, _ := json.Marshal(s)
	b.Write(data)
}
