package awsjson

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	protocol "github.com/aws/smithy-go/transport/http/protocol/awsjson"

	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// Call is what a handler may know of its call beside the input.
type Call struct {
	// Action is the operation's name, "RunTask".
	Action string
	// Region and AccessKey come from the signature's credential scope.
	Region, AccessKey string
	// ID is the request's ID, which goes back in a header.
	ID string
	// At is the pocket cloud's time when it came in.
	At time.Time
	// JSON is that the caller asked for an answer in JSON, where XML is usual.
	JSON bool
	// Host is where the caller found the pocket cloud.
	Host string
	// Body is the request's body.
	Body []byte
}

// Action carries out one operation: it decodes a request's body, handles it and
// encodes the output.
type Action struct {
	name   string
	decode func(s *Service, body []byte) (in any, err error)
	do     func(ctx context.Context, call Call, in any) ([]byte, error)
}

// Handle makes an action. The schemas are those of the operation and its input
// in the SDK's package; f returns the output or an *Error.
func Handle[I any, O smithy.Serializable](operation, input *smithy.Schema, f func(context.Context, Call, *I) (O, error)) Action {
	a := action(operation.ID().Name, input, f)
	a.do = func(ctx context.Context, call Call, in any) ([]byte, error) {
		out, err := f(ctx, call, in.(*I))
		if err != nil {
			return nil, err
		}
		return Encode(ctx, operation, out)
	}
	return a
}

// HandlePlain makes an action of plain structs, whose members have the names of
// the wire. The service's model alone checks the input.
func HandlePlain[I, O any](name string, f func(context.Context, Call, *I) (*O, error)) Action {
	a := action(name, nil, f)
	a.do = func(ctx context.Context, call Call, in any) ([]byte, error) {
		out, err := f(ctx, call, in.(*I))
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
	return a
}

// action makes the part that decodes.
func action[I, O any](name string, input *smithy.Schema, _ func(context.Context, Call, *I) (O, error)) Action {
	return Action{name: name, decode: func(s *Service, body []byte) (any, error) {
		if err := s.validate(name, input, body); err != nil {
			return nil, err
		}
		in := new(I)
		if err := json.Unmarshal(body, in); err != nil {
			return nil, Errorf("SerializationException", "%v", err)
		}
		return in, nil
	}}
}

// Encode writes an output with the SDK's encoder. That is made for requests, but
// the body of either is one structure, written the same way.
func Encode(ctx context.Context, operation *smithy.Schema, out smithy.Serializable) ([]byte, error) {
	req := smithyhttp.NewStackRequest().(*smithyhttp.Request)
	req.URL = &url.URL{Scheme: "http", Host: "pocket"}
	// Any schema does as the input's: it only must be there and no stream.
	op := smithy.NewOperationSchema(operation, operation, nil)
	if err := protocol.New11(smithy.NewServiceSchema(operation, "")).SerializeRequest(ctx, op, out, req); err != nil {
		return nil, fmt.Errorf("encode the reply of %s: %w", operation.ID().Name, err)
	}
	return io.ReadAll(req.GetStream())
}

// Service is one API: operations under a prefix.
type Service struct {
	// Prefix is what stands before the operation in X-Amz-Target.
	Prefix string
	// Name is the service's in the signature's scope and in action names.
	Name string
	// Model holds the constraints on inputs.
	Model *Model
	// Invalid words the refusal of an input that breaks a constraint.
	Invalid func(Violation) *Error

	actions map[string]Action
}

// Offer adds operations.
func (s *Service) Offer(actions ...Action) {
	if s.actions == nil {
		s.actions = map[string]Action{}
	}
	for _, a := range actions {
		s.actions[a.name] = a
	}
}

// Actions returns the names of the operations that are offered.
func (s *Service) Actions() []string {
	names := make([]string, 0, len(s.actions))
	for name := range s.actions {
		names = append(names, name)
	}
	return names
}

// Decodes says whether an operation takes a request's body.
func (s *Service) Decodes(operation string, body []byte) error {
	a, ok := s.actions[operation]
	if !ok {
		return fmt.Errorf("%s offers no %s", s.Name, operation)
	}
	_, err := a.decode(s, body)
	return err
}

// Do carries out a call.
func (s *Service) Do(ctx context.Context, call Call, body []byte) fault.Reply {
	action, ok := s.actions[call.Action]
	if !ok {
		return Errorf("UnknownOperationException", "The pocket cloud doesn't offer %s:%s.", s.Name, call.Action).Reply()
	}
	var out []byte
	in, err := action.decode(s, body)
	if err == nil {
		call.Body = body
		out, err = action.do(ctx, call, in)
	}
	if err != nil {
		var refusal *Error
		if !errors.As(err, &refusal) {
			refusal = &Error{Code: "ServerException", Message: err.Error(), Status: http.StatusInternalServerError}
		}
		return refusal.Reply()
	}
	return fault.Reply{Status: http.StatusOK, Header: http.Header{"Content-Type": {contentType}}, Body: out}
}
