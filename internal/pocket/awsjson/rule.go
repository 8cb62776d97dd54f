package awsjson

import "slices"

// RuleHeader names the rule that a refusal follows, which the real services
// don't do.
const RuleHeader = "X-Pocket-Rule"

// Rule is one rule of behaviour that a service keeps beyond its model.
type Rule struct {
	// ID is its name, unique within the cloud.
	ID string
	// Code is the error of a call that breaks it; empty for a rule that says
	// what happens rather than what is refused.
	Code string
	// Text says what holds.
	Text string
	// Doc is the address of the page that says so.
	Doc string
	// Test names the test that shows a rule without a code.
	Test string
}

// Rules are the rules of a service.
type Rules []Rule

// Refuse makes the error of a rule that was broken. It panics for an ID that is
// no rule's, which a test of all rules would find.
func (r Rules) Refuse(id, format string, args ...any) *Error {
	i := slices.IndexFunc(r, func(r Rule) bool { return r.ID == id })
	if i < 0 {
		panic("awsjson: no rule " + id)
	}
	e := Errorf(r[i].Code, format, args...)
	e.Rule = id
	return e
}
