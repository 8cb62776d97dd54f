package cloudlogging

import (
	"regexp"
	"strings"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"
)

// Filter is a query of the logging query language:
// https://cloud.google.com/logging/docs/view/logging-query-language
type Filter struct {
	root node // nil matches all
}

// ParseFilter reads a query. Its errors are refusals of the call.
func ParseFilter(text string) (*Filter, error) {
	p := &parser{lex: lexer{text: text}}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.tok.kind == tokEnd {
		return &Filter{}, nil
	}
	root, err := p.and()
	if err != nil {
		return nil, err
	}
	if p.tok.kind != tokEnd {
		return nil, p.unexpected()
	}
	return &Filter{root: root}, nil
}

// Match says whether an entry is what the query looks for.
func (f *Filter) Match(e *loggingpb.LogEntry) bool { return f.root == nil || f.root.match(e) }

// Since is the earliest timestamp that an entry may have to match, zero when
// the query doesn't bound it. It is for speed alone.
func (f *Filter) Since() time.Time {
	var since time.Time
	list, ok := f.root.(all)
	if !ok {
		list = all{f.root}
	}
	for _, n := range list {
		c, ok := n.(*comparison)
		if !ok || len(c.path) != 1 || c.path[0] != "timestamp" || c.op != ">=" && c.op != ">" {
			continue
		}
		if c.at.After(since) {
			since = c.at
		}
	}
	return since
}

// node is a part of a query.
type node interface {
	match(e *loggingpb.LogEntry) bool
}

type (
	all    []node
	either []node
	not    struct{ node }
	// anywhere is a text alone, which may stand in any field.
	anywhere string
	// comparison compares a field with a value.
	comparison struct {
		path    []string
		op      string
		value   string
		pattern *regexp.Regexp // of the operators =~ and !~
		at      time.Time      // the value as a time, zero for none
	}
)

func (n all) match(e *loggingpb.LogEntry) bool {
	for _, c := range n {
		if !c.match(e) {
			return false
		}
	}
	return true
}

func (n either) match(e *loggingpb.LogEntry) bool {
	for _, c := range n {
		if c.match(e) {
			return true
		}
	}
	return false
}

func (n not) match(e *loggingpb.LogEntry) bool { return !n.node.match(e) }

// parser reads queries. OR binds closer than AND, and NOT closer than both; no
// operator between two expressions means AND.
type parser struct {
	lex   lexer
	tok   token
	depth int
}

// maxDepth bounds parentheses, so that no query exhausts the stack.
const maxDepth = 100

func (p *parser) advance() (err error) {
	p.tok, err = p.lex.next()
	return err
}

func (p *parser) unexpected() error {
	if p.tok.kind == tokEnd {
		return refuse(ruleFilter, "Unparseable filter: syntax error at the end.")
	}
	return refuse(ruleFilter, "Unparseable filter: syntax error at line 1, column %d, token '%s'", p.tok.at+1, p.tok.text)
}

func (p *parser) keyword(word string) bool { return p.tok.kind == tokWord && p.tok.text == word }

func (p *parser) and() (node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, refuse(ruleFilter, "Unparseable filter: it is nested more than %d deep.", maxDepth)
	}
	defer func() { p.depth-- }()
	var list all
	for {
		n, err := p.or()
		if err != nil {
			return nil, err
		}
		list = append(list, n)
		switch {
		case p.keyword("AND"):
			if err := p.advance(); err != nil {
				return nil, err
			}
		case p.tok.kind == tokEnd || p.tok.kind == tokClose:
			if len(list) == 1 {
				return list[0], nil
			}
			return list, nil
		}
	}
}

func (p *parser) or() (node, error) {
	var list either
	for {
		n, err := p.term()
		if err != nil {
			return nil, err
		}
		list = append(list, n)
		if !p.keyword("OR") {
			if len(list) == 1 {
				return list[0], nil
			}
			return list, nil
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
}

func (p *parser) term() (node, error) {
	negated := false
	for p.keyword("NOT") || p.tok.kind == tokMinus {
		negated = !negated
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	n, err := p.simple()
	if err != nil || !negated {
		return n, err
	}
	return not{n}, nil
}

func (p *parser) simple() (node, error) {
	switch p.tok.kind {
	case tokOpen:
		if err := p.advance(); err != nil {
			return nil, err
		}
		n, err := p.and()
		if err != nil {
			return nil, err
		}
		return n, p.close()
	case tokWord, tokString:
		return p.restriction()
	default:
		return nil, p.unexpected()
	}
}

func (p *parser) close() error {
	if p.tok.kind != tokClose {
		return p.unexpected()
	}
	return p.advance()
}

// restriction reads a comparison, a function or a text alone.
func (p *parser) restriction() (node, error) {
	first := p.tok
	if isOperator(first.text) && first.kind == tokWord {
		return nil, p.unexpected()
	}
	path, err := p.path()
	if err != nil {
		return nil, err
	}
	if p.tok.kind == tokOpen && first.kind == tokWord && len(path) == 1 && p.tok.at == first.at+len(first.text) {
		return p.function(path[0])
	}
	if p.tok.kind != tokOp {
		return anywhere(strings.ToLower(strings.Join(path, "."))), nil
	}
	op := p.tok.text
	if err := checkField(path); err != nil {
		return nil, err
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	return p.values(path, op)
}

// path reads field.field."field", or one text.
func (p *parser) path() ([]string, error) {
	var path []string
	for {
		if p.tok.kind != tokWord && p.tok.kind != tokString {
			return nil, p.unexpected()
		}
		path = append(path, p.tok.text)
		if err := p.advance(); err != nil {
			return nil, err
		}
		if p.tok.kind != tokDot {
			return path, nil
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
}

// values reads what stands right of an operator: a value, or an expression of
// values in parentheses.
func (p *parser) values(path []string, op string) (node, error) {
	if p.tok.kind == tokOpen {
		if err := p.advance(); err != nil {
			return nil, err
		}
		n, err := p.valueList(path, op)
		if err != nil {
			return nil, err
		}
		return n, p.close()
	}
	sign := ""
	if p.tok.kind == tokMinus {
		sign = "-"
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	if p.tok.kind != tokString && (p.tok.kind != tokWord || isOperator(p.tok.text)) {
		return nil, p.unexpected()
	}
	value := sign + p.tok.text
	if err := p.advance(); err != nil {
		return nil, err
	}
	for p.tok.kind == tokDot { // a bare number or name with dots
		if err := p.advance(); err != nil {
			return nil, err
		}
		if p.tok.kind != tokWord {
			return nil, p.unexpected()
		}
		value += "." + p.tok.text
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	return newComparison(path, op, value)
}

// valueList reads ("a" OR "b"), with the same precedence as expressions.
func (p *parser) valueList(path []string, op string) (node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, refuse(ruleFilter, "Unparseable filter: it is nested more than %d deep.", maxDepth)
	}
	defer func() { p.depth-- }()
	var conjunction all
	var disjunction either
	for {
		negated := p.keyword("NOT")
		if negated {
			if err := p.advance(); err != nil {
				return nil, err
			}
		}
		n, err := p.values(path, op)
		if err != nil {
			return nil, err
		}
		if negated {
			n = not{n}
		}
		disjunction = append(disjunction, n)
		if p.keyword("OR") {
			if err := p.advance(); err != nil {
				return nil, err
			}
			continue
		}
		conjunction, disjunction = append(conjunction, disjunction), nil
		if p.tok.kind == tokClose || p.tok.kind == tokEnd {
			return conjunction, nil
		}
		if p.keyword("AND") {
			if err := p.advance(); err != nil {
				return nil, err
			}
		}
	}
}

// function reads log_id("NAME"), the only one that there is.
func (p *parser) function(name string) (node, error) {
	if name != "log_id" {
		return nil, refuse(ruleOther, "The pocket cloud doesn't offer the function %s.", name)
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.tok.kind != tokString {
		return nil, p.unexpected()
	}
	id := p.tok.text
	if err := p.advance(); err != nil {
		return nil, err
	}
	return logID(id), p.close()
}

func isOperator(word string) bool { return word == "AND" || word == "OR" || word == "NOT" }
