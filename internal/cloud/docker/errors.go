package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

// mapError gives a vendor's error the class that the contract knows. outer is
// the caller's context, inner the one that the call's own bound may have ended.
func (c *Client) mapError(outer, inner context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	var known *sdk.Error
	if errors.As(err, &known) {
		return err
	}
	e := &sdk.Error{Op: op, Provider: c.provider, Err: err}
	switch {
	case outer.Err() != nil:
		// The caller gave up; whether the engine got the request isn't known.
		e.Code = sdk.CodeOf(outer.Err())
		if !errors.Is(err, outer.Err()) {
			e.Err = fmt.Errorf("%w: %w", outer.Err(), err)
		}
	case errors.Is(context.Cause(inner), errNoAnswer):
		e.Code, e.Retryable = sdk.DeadlineExceeded, true
		e.Err = fmt.Errorf("engine at %s: %w (%s): %w", c.endpoint.Host, errNoAnswer, c.timeout, err)
	default:
		e.Code, e.Retryable = classify(err)
		if client.IsErrConnectionFailed(err) {
			c.outages.missed()
		} else {
			c.outages.heard(time.Now())
		}
		if e.Code == sdk.Unavailable {
			e.Err = fmt.Errorf("engine at %s: %w", c.endpoint.Host, err)
			if client.IsErrConnectionFailed(err) {
				e.Err = &noEngineError{host: c.endpoint.Host, err: err}
				e.Remedy = "start the engine, or name another one by DOCKER_HOST or the provider's host"
			}
		}
		if e.Code == sdk.PermissionDenied && client.IsErrConnectionFailed(err) {
			e.Remedy = "let this user reach the socket, for instance as a member of the group docker"
		}
	}
	return e
}

// noEngineError is a connection that couldn't be made, in fewer words than the
// vendor's client has for it.
type noEngineError struct {
	host string
	err  error
}

func (e *noEngineError) Error() string {
	var op *net.OpError
	if errors.As(e.err, &op) && op.Err != nil {
		return fmt.Sprintf("no engine answers at %s: %v", e.host, op.Err)
	}
	return "no engine answers at " + e.host
}

func (e *noEngineError) Unwrap() error { return e.err }

// classify returns the class of a vendor's error, and whether the same call may
// succeed later.
func classify(err error) (sdk.Code, bool) {
	switch {
	case errors.Is(err, os.ErrPermission), refusedSocket(err):
		return sdk.PermissionDenied, false
	case client.IsErrConnectionFailed(err), cerrdefs.IsUnavailable(err):
		return sdk.Unavailable, true
	case cerrdefs.IsNotFound(err):
		return sdk.NotFound, false
	case cerrdefs.IsInvalidArgument(err):
		return sdk.InvalidArgument, false
	case cerrdefs.IsAlreadyExists(err):
		return sdk.AlreadyExists, false
	case cerrdefs.IsConflict(err), cerrdefs.IsAborted(err), cerrdefs.IsFailedPrecondition(err):
		return sdk.Aborted, false
	case cerrdefs.IsUnauthorized(err):
		return sdk.Unauthenticated, false
	case cerrdefs.IsPermissionDenied(err):
		return sdk.PermissionDenied, false
	case cerrdefs.IsResourceExhausted(err):
		return sdk.ResourceExhausted, true
	case cerrdefs.IsNotImplemented(err):
		return sdk.Unimplemented, false
	case cerrdefs.IsDeadlineExceeded(err):
		return sdk.DeadlineExceeded, true
	case cerrdefs.IsInternal(err):
		return sdk.Internal, true
	}
	// A connection that breaks in the middle of an answer has no class of its own.
	return sdk.Unavailable, true
}

// refusedSocket finds the client's words for a socket that this user may not
// open: it keeps no error beneath them.
func refusedSocket(err error) bool {
	return client.IsErrConnectionFailed(err) && strings.Contains(err.Error(), "permission denied while trying to connect")
}
