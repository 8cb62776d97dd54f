package argo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// The codes of gRPC that are told apart.
// https://grpc.io/docs/guides/status-codes/
const (
	codeOK                 = 0
	codeInvalidArgument    = 3
	codeNotFound           = 5
	codeAlreadyExists      = 6
	codePermissionDenied   = 7
	codeResourceExhausted  = 8
	codeFailedPrecondition = 9
	codeOutOfRange         = 11
	codeUnimplemented      = 12
	codeUnauthenticated    = 16
)

// gatewayError is how Argo Server says what went wrong, with gRPC's codes.
// https://github.com/grpc-ecosystem/grpc-gateway/blob/v1.16.0/runtime/errors.go
type gatewayError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// expired is what an API server says of a list's place that it has forgotten. Argo
// Server passes its 410 on as a wrong argument, and keeps the words.
// https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/apiserver/pkg/storage/etcd3/errors.go
// https://github.com/argoproj/argo-workflows/blob/v4.0.5/server/utils/errors.go
const expired = "The provided continue parameter is too old"

// Words reads a refusal of Argo Server; see [kube.Service].
func Words(e *sdk.Error, _ int, body []byte) bool {
	var g gatewayError
	if json.Unmarshal(body, &g) != nil || g.Code == codeOK || g.Message == "" {
		return false
	}
	e.Err = errors.New(g.Message)
	switch g.Code {
	case codeNotFound:
		e.Code = sdk.NotFound
	case codeAlreadyExists:
		e.Code = sdk.AlreadyExists
	case codeInvalidArgument, codeOutOfRange:
		e.Code, e.Reason = sdk.InvalidArgument, sdk.ReasonInvalidSpec
		if strings.Contains(g.Message, expired) {
			e.Code, e.Reason = sdk.OutOfRange, ""
		}
	case codeFailedPrecondition:
		e.Code = sdk.FailedPrecondition
	case codePermissionDenied:
		e.Code, e.Remedy = sdk.PermissionDenied, "give the token's service account the rights of docs/drivers/argo.md"
	case codeUnauthenticated:
		e.Code, e.Reason, e.Remedy = sdk.Unauthenticated, sdk.ReasonCredentials, "set ARGO_TOKEN to a token that Argo Server takes"
	case codeResourceExhausted:
		e.Code, e.Retryable = sdk.ResourceExhausted, true
	case codeUnimplemented:
		e.Code = sdk.Unimplemented
	default:
		e.Code, e.Retryable = sdk.Unavailable, true
		// https://github.com/argoproj/argo-workflows/blob/v4.0.5/workflow/util/util.go
		if strings.Contains(g.Message, "cannot shutdown a completed workflow") {
			e.Code, e.Retryable = sdk.FailedPrecondition, false
		}
	}
	return true
}

// OpenLog opens the log of a Workflow's container from the second of since on. The
// server sends each line as an object; what is read here is the lines themselves, each
// behind its stamp.
func (s *Server) OpenLog(ctx context.Context, op, name, container string, since time.Time, follow bool) (io.ReadCloser, error) {
	body, err := s.session.Stream(ctx, op, s.at(name, "log"), logQuery(container, since, follow))
	if err != nil {
		return nil, err
	}
	return &entries{body: body, d: json.NewDecoder(body)}, nil
}

// Artifact opens a file that a step has kept.
// https://argo-workflows.readthedocs.io/en/latest/rest-api/#artifacts
func (s *Server) Artifact(ctx context.Context, op, workflow, node, artifact string) (io.ReadCloser, error) {
	return s.session.Stream(ctx, op, kube.Place{Group: "artifacts/" + url.PathEscape(s.session.Namespace), Resource: workflow, Name: node, Sub: artifact}, nil)
}

// entries turns a stream of log entries into lines.
type entries struct {
	body io.ReadCloser
	d    *json.Decoder
	left []byte
}

// Read implements io.Reader. A stream that isn't of entries to its end fails.
func (e *entries) Read(p []byte) (int, error) {
	for len(e.left) == 0 {
		var m struct {
			Result *struct {
				Content string `json:"content"`
			} `json:"result"`
			Error *gatewayError `json:"error"`
		}
		err := e.d.Decode(&m)
		switch {
		case errors.Is(err, io.EOF):
			return 0, io.EOF
		case err != nil:
			return 0, err
		case m.Error != nil:
			return 0, fmt.Errorf("argo server ended the log: %s", m.Error.Message)
		case m.Result != nil:
			e.left = append(bytes.Clone([]byte(m.Result.Content)), '\n')
		}
	}
	n := copy(p, e.left)
	e.left = e.left[n:]
	return n, nil
}

// Close implements io.Closer.
func (e *entries) Close() error { return e.body.Close() }
