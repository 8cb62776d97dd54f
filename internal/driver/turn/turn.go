// Package turn makes calls that first wait for their turn in a budget.
package turn

import (
	"context"

	"github.com/windlass-run/windlass/sdk"
)

// Budget is how often calls of a family may be made.
type Budget interface {
	// Wait returns when there is room for one call more.
	Wait(ctx context.Context) error
	// Throttled tells that the backend refused a call for its rate.
	Throttled()
}

// Session makes a call of a vendor's SDK: it bounds its time and gives its errors
// a code.
type Session interface {
	Call(ctx context.Context, op string, f func(ctx context.Context) error) error
}

// Call makes a call when its budget allows. That its turn didn't come is an error
// of the provider.
func Call[R any](ctx context.Context, provider string, s Session, b Budget, op string, f func(ctx context.Context) (R, error)) (R, error) {
	if err := b.Wait(ctx); err != nil {
		var none R
		return none, &sdk.Error{Code: sdk.CodeOf(err), Op: op, Provider: provider, Err: err}
	}
	return Now(ctx, s, b, op, f)
}

// Now makes a call whose turn was waited for before.
func Now[R any](ctx context.Context, s Session, b Budget, op string, f func(ctx context.Context) (R, error)) (R, error) {
	var out R
	err := s.Call(ctx, op, func(ctx context.Context) (err error) {
		out, err = f(ctx)
		return err
	})
	if sdk.CodeOf(err) == sdk.ResourceExhausted {
		b.Throttled()
	}
	return out, err
}
