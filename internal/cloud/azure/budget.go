package azure

import "github.com/windlass-run/windlass/internal/cloud/budget"

// Budgets are the calls that may be made in a minute, for each subscription,
// region and family of calls: Resource Manager counts so, whoever makes them. One
// value is shared by all sessions that it should hold together. It is safe for
// concurrent use; the zero value is ready.
// https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/request-limits-and-throttling
type Budgets struct{ all budget.Budgets }

// Budget is the budget of one family of calls.
type Budget = budget.Budget

// For returns the budget of a family of calls where a session leads. The last
// to ask sets its size.
func (b *Budgets) For(x *Session, region, family string, perMinute, burst int) *Budget {
	return b.all.For(budget.Key{Account: x.Subscription, Region: region, Endpoint: x.Endpoint, Family: family}, float64(perMinute)/60, burst)
}
