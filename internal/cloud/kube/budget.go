package kube

import "github.com/windlass-run/windlass/internal/cloud/budget"

// Budgets are the calls a second that a process makes to each API server. It is
// safe for concurrent use; the zero value is ready.
type Budgets struct{ all budget.Budgets }

// Budget is what one API server gets.
type Budget = budget.Budget

// For returns the budget of a server, which all that ask share. The last to ask
// sets its size.
func (b *Budgets) For(server string, perSecond int) *Budget {
	return b.all.For(budget.Key{Endpoint: server}, float64(perSecond), 2*perSecond)
}
