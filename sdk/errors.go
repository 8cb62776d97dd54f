package sdk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code is the class of an error: gRPC's sixteen, with gRPC's numbers. A Code
// is itself an error, so it is the sentinel of its class:
//
//	errors.Is(err, sdk.NotFound)
type Code int

// The codes, as in https://grpc.io/docs/guides/status-codes/. An error that
// says "this name exists" is AlreadyExists; any other conflict (HTTP 409 and
// 412) is Aborted. Unimplemented means that a capability or method is absent;
// what a target's state forbids at the moment is FailedPrecondition.
const (
	Canceled           Code = 1
	Unknown            Code = 2
	InvalidArgument    Code = 3
	DeadlineExceeded   Code = 4
	NotFound           Code = 5
	AlreadyExists      Code = 6
	PermissionDenied   Code = 7
	ResourceExhausted  Code = 8
	FailedPrecondition Code = 9
	Aborted            Code = 10
	OutOfRange         Code = 11
	Unimplemented      Code = 12
	Internal           Code = 13
	Unavailable        Code = 14
	DataLoss           Code = 15
	Unauthenticated    Code = 16
)

// Codes returns every code in order of number.
func Codes() []Code {
	out := make([]Code, 0, 16)
	for c := Canceled; c <= Unauthenticated; c++ {
		out = append(out, c)
	}
	return out
}

// String returns gRPC's name of the code.
func (c Code) String() string {
	switch c {
	case Canceled:
		return "Canceled"
	case Unknown:
		return "Unknown"
	case InvalidArgument:
		return "InvalidArgument"
	case DeadlineExceeded:
		return "DeadlineExceeded"
	case NotFound:
		return "NotFound"
	case AlreadyExists:
		return "AlreadyExists"
	case PermissionDenied:
		return "PermissionDenied"
	case ResourceExhausted:
		return "ResourceExhausted"
	case FailedPrecondition:
		return "FailedPrecondition"
	case Aborted:
		return "Aborted"
	case OutOfRange:
		return "OutOfRange"
	case Unimplemented:
		return "Unimplemented"
	case Internal:
		return "Internal"
	case Unavailable:
		return "Unavailable"
	case DataLoss:
		return "DataLoss"
	case Unauthenticated:
		return "Unauthenticated"
	}
	return fmt.Sprintf("Code(%d)", int(c))
}

// Error implements error, which makes a Code the sentinel of its class.
func (c Code) Error() string { return c.String() }

// Error is the one error type of the contract, in process and over gRPC.
// errors.Is finds its Code, errors.As finds the vendor's own error in Err.
type Error struct {
	// Code is the class; zero is read as Unknown.
	Code Code
	// Op is what was being done, such as "run job"; it starts the message.
	Op string
	// Provider is the configured name of the provider, if one is concerned.
	Provider string
	// Field is the JobSpec, option or config field at fault, such as "cpu".
	Field string
	// Retryable says that the same call may succeed later. A mutating call
	// is repeated only under the launch's resubmit rule.
	Retryable bool
	// RetryAfter is the wait that the backend asked for; zero is none given.
	RetryAfter time.Duration
	// Unreached says that no connection to the backend could be made, so that
	// nothing of the call was sent: it changed nothing, whatever the code.
	Unreached bool
	// Reason, when set, is the reason that a run ended by this error gets; a
	// driver sets it where the code alone doesn't tell (image_pull).
	Reason Reason
	// ID is the stable name of this error in `windlass explain`; may be empty.
	ID string
	// Remedy says what the reader should do; may be empty.
	Remedy string
	// Err is the cause.
	Err error
}

// Error returns "op: provider NAME: field: cause; remedy". Problems name their fields
// themselves, and what a cause begins with is said once: a call's error often goes
// through several hands that know what was being done.
func (e *Error) Error() string {
	parts := make([]string, 0, 4)
	if e.Op != "" {
		parts = append(parts, e.Op)
	}
	if e.Provider != "" {
		parts = append(parts, "provider "+e.Provider)
	}
	if e.Field != "" && !named(e.Err) {
		parts = append(parts, e.Field)
	}
	if e.Err != nil {
		parts = append(parts, e.unsaid(e.Err.Error()))
	} else {
		parts = append(parts, e.class().String())
	}
	s := strings.Join(parts, ": ")
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

// unsaid is a cause's text without the operation and the provider of e before it.
func (e *Error) unsaid(cause string) string {
	for {
		rest := cause
		if e.Op != "" {
			rest = strings.TrimPrefix(rest, e.Op+": ")
		}
		if e.Provider != "" {
			rest = strings.TrimPrefix(rest, "provider "+e.Provider+": ")
		}
		if rest == cause {
			return cause
		}
		cause = rest
	}
}

// named reports whether a cause is problems and no more, as they are or behind another
// type that says the same.
func named(cause error) bool {
	var ps Problems
	return errors.As(cause, &ps) && cause.Error() == ps.Error()
}

func (e *Error) class() Code {
	if e.Code == 0 {
		return Unknown
	}
	return e.Code
}

// Unwrap returns the cause. Its errors are found by errors.Is and errors.As,
// but for its Codes: the class of an error is that of the outermost Error, so
// an outage that wraps a NotFound is no NotFound.
func (e *Error) Unwrap() error {
	if e.Err == nil {
		return nil
	}
	return cause{e.Err}
}

// cause hides the codes of an error.
type cause struct{ err error }

func (c cause) Error() string { return c.err.Error() }

func (c cause) Is(target error) bool {
	_, code := target.(Code)
	return !code && errors.Is(c.err, target)
}

func (c cause) As(target any) bool {
	switch target.(type) {
	case **Error, *Code:
		return false
	}
	return errors.As(c.err, target)
}

// Is reports whether target is e's Code.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.class()
}

// Errorf returns an *Error of a code; its format follows fmt.Errorf.
func Errorf(code Code, op, format string, args ...any) *Error {
	return &Error{Code: code, Op: op, Err: fmt.Errorf(format, args...)}
}

// CodeOf returns the class of err: that of the outermost *Error or Code in
// its chain, else Canceled or DeadlineExceeded for a context's errors, else
// Unknown. It returns 0 for nil.
func CodeOf(err error) Code {
	if err == nil {
		return 0
	}
	var e *Error
	if errors.As(err, &e) {
		return e.class()
	}
	var c Code
	if errors.As(err, &c) {
		return c
	}
	switch {
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return DeadlineExceeded
	}
	return Unknown
}

// IsRetryable reports whether the outermost *Error in err's chain says that
// the call may succeed later. The caller's own cancel or deadline never does.
func IsRetryable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Retryable
}

// RetryAfter returns the wait that the backend asked for, or zero.
func RetryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// IsUnreached reports whether err proves that nothing of a call was sent.
func IsUnreached(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Unreached
}

// Unclear returns err as one that proves nothing of a launch, for the error of a
// call that comes after one that may have made something. An error that is
// unclear already, or none of this package, is returned as it is.
func Unclear(err error) error {
	var e *Error
	if !IsClear(err) || !errors.As(err, &e) {
		return err
	}
	out := *e
	out.Code, out.Retryable, out.Unreached = Unavailable, true, false
	return &out
}

// IsClear reports whether err proves that a mutating call changed nothing: the
// backend answered and refused, or no connection to it could be made. Everything
// else (time-outs, cut connections, 5xx, a cancelled context, an unknown error)
// is unclear and must be looked up.
func IsClear(err error) bool {
	if IsUnreached(err) {
		return true
	}
	switch CodeOf(err) {
	case InvalidArgument, NotFound, AlreadyExists, PermissionDenied, ResourceExhausted,
		FailedPrecondition, Aborted, OutOfRange, Unimplemented, Unauthenticated:
		return true
	}
	return false
}
