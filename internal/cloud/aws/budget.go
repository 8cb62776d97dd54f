package aws

import "github.com/windlass-run/windlass/internal/cloud/budget"

// Budgets are the calls that may be made in a second, for each account, region
// and family of calls: AWS counts them so, whoever makes them. One value is
// shared by all sessions that it should hold together. It is safe for
// concurrent use; the zero value is ready.
type Budgets struct{ all budget.Budgets }

// Budget is the budget of one family of calls.
type Budget = budget.Budget

// For returns the budget of a family of calls where a session leads. The last
// to ask sets its size.
func (b *Budgets) For(x *Session, family string, perSecond float64, burst int) *Budget {
	return b.all.For(budget.Key{Account: x.Account, Region: x.Region, Endpoint: x.Endpoint, Family: family}, perSecond, burst)
}
