package turn

import (
	"context"
	"errors"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

type fake struct {
	wait             error
	calls, throttled int
}

func (f *fake) Wait(context.Context) error { return f.wait }
func (f *fake) Throttled()                 { f.throttled++ }
func (f *fake) Call(ctx context.Context, _ string, call func(context.Context) error) error {
	f.calls++
	return call(ctx)
}

func TestCall(t *testing.T) {
	f := &fake{}
	got, err := Call(t.Context(), "p", f, f, "read", func(context.Context) (int, error) { return 7, nil })
	if got != 7 || err != nil || f.throttled != 0 {
		t.Errorf("%d, %v", got, err)
	}
	_, err = Call(t.Context(), "p", f, f, "read", func(context.Context) (int, error) { return 0, sdk.Errorf(sdk.ResourceExhausted, "read", "slower") })
	if err == nil || f.throttled != 1 {
		t.Errorf("%v, throttled %d times", err, f.throttled)
	}
	f.wait = context.DeadlineExceeded
	_, err = Call(t.Context(), "p", f, f, "read", func(context.Context) (int, error) { return 7, nil })
	var e *sdk.Error
	if !errors.As(err, &e) || e.Provider != "p" || e.Op != "read" || e.Code != sdk.DeadlineExceeded || f.calls != 2 {
		t.Errorf("%v after %d calls", err, f.calls)
	}
}
