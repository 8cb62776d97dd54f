package gcp

import "github.com/windlass-run/windlass/internal/cloud/budget"

// Budgets are the calls that may be made in a minute, for each project, region
// and family of calls: Google counts them so, whoever makes them. One value is
// shared by all sessions that it should hold together. It is safe for
// concurrent use; the zero value is ready.
type Budgets struct{ all budget.Budgets }

// Budget is the budget of one family of calls.
type Budget = budget.Budget

// For returns the budget of a family of calls where a session leads. The last
// to ask sets its size. An empty region is for what a project has as a whole.
func (b *Budgets) For(x *Session, region, family string, perMinute, burst int) *Budget {
	return b.all.For(budget.Key{Account: x.Project, Region: region, Endpoint: x.Endpoint, Family: family}, float64(perMinute)/60, burst)
}
