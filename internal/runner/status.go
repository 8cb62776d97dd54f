package runner

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/sdk"
)

// status is an error as the caller is told: its class, its words without secret
// values, and the name that `windlass explain` knows.
func (s *Server) status(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	if st, ok := status.FromError(err); ok {
		return st.Err() // what gRPC itself says
	}
	words := err.Error()
	if s.o.Redact != nil {
		words = s.o.Redact(words)
	}
	var e *sdk.Error
	if errors.As(err, &e) && e.ID != "" {
		words += " [" + e.ID + "]"
	}
	return status.Error(codes.Code(sdk.CodeOf(err)), strings.ToValidUTF8(words, "?"))
}

// codeFrom is the class of an error that a call returned.
func codeFrom(err error) sdk.Code {
	if c := status.Code(err); c != codes.OK && int(c) <= int(sdk.Unauthenticated) {
		return sdk.Code(c)
	}
	return sdk.Unknown
}
