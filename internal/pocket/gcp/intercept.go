package gcp

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// connKey finds a request's connection in its context.
type connKey struct{}

// action names a method as fault rules do.
func action(fullMethod string) string {
	service, method, _ := strings.Cut(strings.TrimPrefix(fullMethod, "/"), "/")
	switch {
	case strings.HasPrefix(service, "google.logging."):
		return "logging:" + method
	case strings.HasPrefix(service, "google.cloud.secretmanager."):
		return "secretmanager:" + method
	case strings.HasPrefix(service, "google.monitoring."):
		return "monitoring:" + method
	default:
		return "run:" + method
	}
}

// intercept carries calls out under the plan, and records them. REST calls come
// here too.
func (s *Server) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, do grpc.UnaryHandler) (any, error) {
	if seen, ok := ctx.Value(seenKey{}).(*bool); ok {
		*seen = true
	}
	call := fault.Call{Action: action(info.FullMethod), At: s.o.Now(), Request: text(request)}
	effect := s.faults.Next(call.Action, call.Request)
	if err := effect.Wait(ctx); err != nil {
		call.Lost = true
		s.calls.Add(call)
		return nil, status.FromContextError(err).Err()
	}
	if effect.Reset {
		call.Lost = true
		s.calls.Add(call)
		return nil, cut(ctx)
	}
	var reply any
	err := s.authenticate(ctx)
	if err == nil {
		err = s.limits.take(call.Action, s.o.Number, s.o.Now())
	}
	switch {
	case effect.Refuse != nil:
		err = refusal(ctx, *effect.Refuse)
	case err == nil:
		reply, err = do(ctx, request)
	}
	if err != nil {
		if rule := gapi.RuleOf(err); rule != "" {
			_ = grpc.SetHeader(ctx, metadata.Pairs(gapi.RuleHeader, rule)) // it fails once the header is sent, which it isn't
		}
		call.Status = httpStatus(status.Code(err))
		call.Reply = text(status.Convert(err).Proto())
	} else {
		call.Status, call.Reply = http.StatusOK, text(reply)
	}
	call.Lost = effect.Drop
	s.calls.Add(call)
	if effect.Drop {
		return nil, cut(ctx)
	}
	return reply, err
}

// text is a message as compact JSON.
func text(m any) []byte {
	message, ok := m.(proto.Message)
	if !ok {
		return nil
	}
	data, err := protojson.Marshal(message)
	if err != nil {
		return []byte(`{"unreadable":` + strconv.Quote(err.Error()) + `}`)
	}
	var b bytes.Buffer
	if json.Compact(&b, data) != nil {
		return data
	}
	return b.Bytes()
}

// cut ends the connection of a call by a reset, with all other calls on it.
func cut(ctx context.Context) error {
	if conn, ok := ctx.Value(connKey{}).(net.Conn); ok {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // without it the end is a plain close, which does as well
		}
		_ = conn.Close() // it is to be broken
	}
	return status.Error(codes.Unavailable, "the pocket cloud has cut the connection")
}

// authenticate checks the access token where one is wanted.
func (s *Server) authenticate(ctx context.Context) error {
	given, _ := metadata.FromIncomingContext(ctx)
	return s.knows(given.Get("authorization"))
}

// knows checks the headers of an access token where one is wanted.
func (s *Server) knows(headers []string) error {
	if s.o.Token == "" {
		return nil
	}
	for _, v := range headers {
		if strings.EqualFold(v, "Bearer "+s.o.Token) {
			return nil
		}
	}
	return gapi.Errorf(codes.Unauthenticated, "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project.")
}

// refusal words a refusal of the plan.
func refusal(ctx context.Context, f fault.Refusal) error {
	var code codes.Code
	if f.Code == "" || code.UnmarshalJSON([]byte(strconv.Quote(f.Code))) != nil {
		code = codeOf(f.Status)
	}
	st := status.New(code, f.Message)
	if f.RetryAfter > 0 {
		seconds := int((f.RetryAfter + time.Second - 1) / time.Second)
		_ = grpc.SetHeader(ctx, metadata.Pairs("retry-after", strconv.Itoa(seconds))) // it fails once the header is sent, which it isn't
		if with, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(f.RetryAfter)}); err == nil {
			st = with
		}
	}
	return st.Err()
}

// httpStatus is the status of a code: https://cloud.google.com/apis/design/errors
func httpStatus(c codes.Code) int {
	switch c {
	case codes.OK:
		return http.StatusOK
	case codes.Canceled:
		return 499
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.NotFound:
		return http.StatusNotFound
	case codes.Aborted, codes.AlreadyExists:
		return http.StatusConflict
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}

// codeOf is the code of a refusal that has an HTTP status only.
func codeOf(httpCode int) codes.Code {
	switch httpCode {
	case http.StatusBadRequest:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound:
		return codes.NotFound
	case http.StatusConflict:
		return codes.Aborted
	case http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusNotImplemented:
		return codes.Unimplemented
	case http.StatusServiceUnavailable, http.StatusBadGateway:
		return codes.Unavailable
	case http.StatusGatewayTimeout:
		return codes.DeadlineExceeded
	default:
		return codes.Internal
	}
}

// Throttle is the refusal of a call beyond the API's rate.
func Throttle() *fault.Refusal {
	return &fault.Refusal{Code: "RESOURCE_EXHAUSTED", Message: "Quota exceeded for quota metric 'Requests' and limit 'Requests per minute'."}
}

// Unavailable is the refusal of a service that is down for a moment.
func Unavailable() *fault.Refusal {
	return &fault.Refusal{Code: "UNAVAILABLE", Message: "The service is currently unavailable."}
}

// Deny is the refusal of a caller whose policies don't allow something:
// Deny("run.jobs.run", "projects/p/locations/l/jobs/j").
func Deny(permission, resource string) *fault.Refusal {
	return &fault.Refusal{Code: "PERMISSION_DENIED", Message: "Permission '" + permission + "' denied on resource '" + resource + "' (or it may not exist)."}
}
