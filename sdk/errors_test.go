package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

type vendorError struct{ Status int }

func (e *vendorError) Error() string { return fmt.Sprintf("vendor says %d", e.Status) }

func TestCodesAreGRPCs(t *testing.T) {
	want := []string{"Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists", "PermissionDenied",
		"ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented", "Internal", "Unavailable", "DataLoss", "Unauthenticated"}
	codes := sdk.Codes()
	if len(codes) != len(want) {
		t.Fatalf("%d codes", len(codes))
	}
	for i, c := range codes {
		if int(c) != i+1 || c.String() != want[i] || c.Error() != want[i] {
			t.Errorf("code %d is %s (%d)", i+1, c, int(c))
		}
	}
	if got := sdk.Code(99).String(); got != "Code(99)" {
		t.Errorf("got %q", got)
	}
}

// TestEveryCode: errors.Is finds a code and no other, and errors.As the
// vendor's error, through any wrapping.
func TestEveryCode(t *testing.T) {
	vendor := &vendorError{503}
	for _, c := range sdk.Codes() {
		e := &sdk.Error{Code: c, Op: "run job", Err: vendor}
		for what, err := range map[string]error{
			"bare":    e,
			"wrapped": fmt.Errorf("a: %w", fmt.Errorf("b: %w", e)),
			"joined":  errors.Join(errors.New("x"), e),
			"outer":   &sdk.Error{Code: c, Op: "submit", Err: fmt.Errorf("c: %w", e)},
		} {
			for _, other := range sdk.Codes() {
				if errors.Is(err, other) != (other == c) {
					t.Errorf("%s %s: errors.Is(%s) is %t", what, c, other, errors.Is(err, other))
				}
			}
			var got *vendorError
			if !errors.As(err, &got) || got != vendor || !errors.Is(err, vendor) {
				t.Errorf("%s %s: the vendor's error is not found", what, c)
			}
			if sdk.CodeOf(err) != c {
				t.Errorf("%s %s: CodeOf is %s", what, c, sdk.CodeOf(err))
			}
		}
		if sdk.CodeOf(c) != c || !errors.Is(c, c) {
			t.Errorf("%s is not its own sentinel", c)
		}
		if got := (&sdk.Error{Code: c}).Error(); got != c.String() {
			t.Errorf("%s without a cause says %q", c, got)
		}
	}
}

// TestOutermostCodeCounts: an outage that wraps a NotFound is no NotFound.
func TestOutermostCodeCounts(t *testing.T) {
	inner := &sdk.Error{Code: sdk.NotFound, Op: "read", Retryable: true, RetryAfter: time.Second, Err: &vendorError{404}}
	err := error(&sdk.Error{Code: sdk.Unavailable, Op: "run job", Err: fmt.Errorf("look: %w", inner)})
	if errors.Is(err, sdk.NotFound) || !errors.Is(err, sdk.Unavailable) || sdk.CodeOf(err) != sdk.Unavailable {
		t.Errorf("the class of %v is not Unavailable alone", err)
	}
	var e *sdk.Error
	if !errors.As(err, &e) || e.Op != "run job" {
		t.Errorf("got %v", e)
	}
	var code sdk.Code
	if errors.As(err, &code) {
		t.Errorf("the cause's code %s is found", code)
	}
	if sdk.IsRetryable(err) || sdk.RetryAfter(err) != 0 {
		t.Error("the cause's hints count")
	}
	var v *vendorError
	if !errors.As(err, &v) || v.Status != 404 {
		t.Error("the vendor's error is not found")
	}
	err = &sdk.Error{Code: sdk.Internal, Err: sdk.NotFound}
	if errors.Is(err, sdk.NotFound) || !errors.Is(err, sdk.Internal) {
		t.Error("a bare code as cause counts")
	}
	if errors.Unwrap(&sdk.Error{Code: sdk.Internal}) != nil {
		t.Error("an error without a cause has one")
	}
}

func TestCodeOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want sdk.Code
	}{
		{nil, 0},
		{errors.New("x"), sdk.Unknown},
		{&sdk.Error{}, sdk.Unknown},
		{context.Canceled, sdk.Canceled},
		{context.DeadlineExceeded, sdk.DeadlineExceeded},
		{fmt.Errorf("x: %w", context.Canceled), sdk.Canceled},
		{&sdk.Error{Code: sdk.Unavailable, Err: context.DeadlineExceeded}, sdk.Unavailable},
		{fmt.Errorf("x: %w", sdk.Aborted), sdk.Aborted},
		{fs.ErrNotExist, sdk.Unknown},
	} {
		if got := sdk.CodeOf(c.err); got != c.want {
			t.Errorf("%v: got %s, want %s", c.err, got, c.want)
		}
	}
	if !errors.Is(&sdk.Error{}, sdk.Unknown) {
		t.Error("code zero is not read as Unknown")
	}
	if !errors.Is(&sdk.Error{Code: sdk.Canceled, Err: context.Canceled}, context.Canceled) {
		t.Error("the context's error is not found")
	}
	if !errors.Is(sdk.Errorf(sdk.NotFound, "op", "%w", fs.ErrNotExist), fs.ErrNotExist) {
		t.Error("Errorf doesn't wrap")
	}
}

// TestIsClear: in doubt, an error is unclear, since a launch that is taken for
// refused and runs is worse than one that is looked up for nothing.
func TestIsClear(t *testing.T) {
	unclear := map[sdk.Code]bool{sdk.Canceled: true, sdk.Unknown: true, sdk.DeadlineExceeded: true, sdk.Internal: true, sdk.Unavailable: true, sdk.DataLoss: true}
	for _, c := range sdk.Codes() {
		if got := sdk.IsClear(&sdk.Error{Code: c}); got == unclear[c] {
			t.Errorf("%s: clear is %t", c, got)
		}
	}
	for _, err := range []error{errors.New("x"), context.Canceled, context.DeadlineExceeded, &sdk.Error{Code: sdk.Unavailable, Err: sdk.NotFound}} {
		if sdk.IsClear(err) {
			t.Errorf("%v is clear", err)
		}
	}
	if sdk.IsClear(nil) || sdk.IsUnreached(nil) {
		t.Error("no error is clear")
	}
	unreached := &sdk.Error{Code: sdk.Unavailable, Unreached: true}
	if !sdk.IsUnreached(unreached) || !sdk.IsClear(fmt.Errorf("x: %w", unreached)) {
		t.Error("what was never sent is unclear")
	}
	for _, err := range []error{unreached, &sdk.Error{Code: sdk.NotFound, Op: "x"}, errors.New("x"), nil} {
		got := sdk.Unclear(err)
		if sdk.IsClear(got) || sdk.IsUnreached(got) || (got == nil) != (err == nil) {
			t.Errorf("Unclear(%v): %v", err, got)
		}
		if err != nil && sdk.CodeOf(err) != sdk.Unknown && (sdk.CodeOf(got) != sdk.Unavailable || !sdk.IsRetryable(got)) {
			t.Errorf("Unclear(%v) is %v", err, sdk.CodeOf(got))
		}
	}
	if !unreached.Unreached {
		t.Error("Unclear changed its argument")
	}
	if sdk.IsClear(&sdk.Error{Code: sdk.Unavailable, Err: unreached}) {
		t.Error("a later call that was never sent makes the whole clear")
	}
}

func TestErrorText(t *testing.T) {
	e := &sdk.Error{Code: sdk.InvalidArgument, Op: "run job", Provider: "prod", Field: "cpu", Remedy: "use 2", Err: errors.New("17 is too much")}
	if got, want := e.Error(), "run job: provider prod: cpu: 17 is too much; use 2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, part := range []string{"a", "b"} {
		if !strings.Contains((&sdk.Error{Op: "a", Err: errors.New("b")}).Error(), part) {
			t.Errorf("%s is missing", part)
		}
	}
	r := &sdk.Error{Code: sdk.ResourceExhausted, Retryable: true, RetryAfter: 3 * time.Second}
	if w := fmt.Errorf("x: %w", r); !sdk.IsRetryable(w) || sdk.RetryAfter(w) != 3*time.Second {
		t.Error("hints are lost in wrapping")
	}
	if sdk.IsRetryable(context.Canceled) || sdk.IsRetryable(nil) || sdk.RetryAfter(errors.New("x")) != 0 {
		t.Error("hints out of nothing")
	}
}

// TestErrorSaysThingsOnce: what an error and its cause both know of the call stands in
// the message once.
func TestErrorSaysThingsOnce(t *testing.T) {
	inner := &sdk.Error{Code: sdk.NotFound, Op: "start service", Provider: "ecs", Err: errors.New("no such cluster")}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"both":           {&sdk.Error{Op: "start service", Provider: "ecs", Err: inner}, "start service: provider ecs: no such cluster"},
		"operation":      {&sdk.Error{Op: "start service", Err: &sdk.Error{Op: "start service", Err: errors.New("x")}}, "start service: x"},
		"provider":       {&sdk.Error{Op: "wait", Provider: "ecs", Err: &sdk.Error{Provider: "ecs", Err: errors.New("x")}}, "wait: provider ecs: x"},
		"turned around":  {&sdk.Error{Op: "wait", Provider: "ecs", Err: errors.New("wait: x")}, "wait: provider ecs: x"},
		"three":          {&sdk.Error{Op: "start service", Provider: "ecs", Err: &sdk.Error{Op: "start service", Provider: "ecs", Err: inner}}, "start service: provider ecs: no such cluster"},
		"another's":      {&sdk.Error{Op: "wait", Provider: "a", Err: inner}, "wait: provider a: start service: provider ecs: no such cluster"},
		"part of a word": {&sdk.Error{Op: "wait", Err: errors.New("wait for it: x")}, "wait: wait for it: x"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
