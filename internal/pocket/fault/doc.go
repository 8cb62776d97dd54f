// Package fault makes a pocket cloud go wrong on purpose, in the ways in which
// real clouds do: slow answers, refusals of the n-th call, connections cut
// before a call is carried out or after it. It also records what was asked.
//
// It knows no vendor: the refusal's form on the wire is the API's own affair.
package fault
