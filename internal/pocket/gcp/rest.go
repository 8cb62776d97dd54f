package gcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/vanguard"
	"connectrpc.com/vanguard/vanguardgrpc"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// maxBody bounds a request in bytes.
const maxBody = 16 << 20

// seenKey finds in a request's context whether it reached a service.
type seenKey struct{}

// rest turns REST calls into gRPC calls by Google's own annotations.
type rest struct {
	// names writes enums as names, numbers as numbers, which clients may ask
	// for: https://cloud.google.com/apis/docs/system-parameters
	names, numbers http.Handler
}

func newREST(g *grpc.Server) (*rest, error) {
	var r rest
	for _, c := range []struct {
		numbers bool
		to      *http.Handler
	}{{false, &r.names}, {true, &r.numbers}} {
		codec := func(res vanguard.TypeResolver) vanguard.Codec {
			return vanguard.JSONCodec{
				MarshalOptions:   protojson.MarshalOptions{Resolver: res, UseEnumNumbers: c.numbers},
				UnmarshalOptions: protojson.UnmarshalOptions{Resolver: res},
			}
		}
		t, err := vanguardgrpc.NewTranscoder(g, vanguard.WithCodec(codec), vanguard.WithRules(operationRules()...),
			vanguard.WithUnknownHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "The requested URL was not found on this server.", http.StatusNotFound)
			})))
		if err != nil {
			return nil, err
		}
		*c.to = t
	}
	return &r, nil
}

// operationRules are the paths of Cloud Run's operations, which stand in its
// service configuration rather than in an annotation:
// https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.operations
func operationRules() []*annotations.HttpRule {
	const name = "/v2/{name=projects/*/locations/*/operations/*}"
	rule := func(method string) *annotations.HttpRule {
		return &annotations.HttpRule{Selector: "google.longrunning.Operations." + method}
	}
	get, list, remove, wait := rule("GetOperation"), rule("ListOperations"), rule("DeleteOperation"), rule("WaitOperation")
	get.Pattern = &annotations.HttpRule_Get{Get: name}
	list.Pattern = &annotations.HttpRule_Get{Get: "/v2/{name=projects/*/locations/*}/operations"}
	remove.Pattern = &annotations.HttpRule_Delete{Delete: name}
	wait.Pattern, wait.Body = &annotations.HttpRule_Post{Post: name + ":wait"}, "*"
	return []*annotations.HttpRule{get, list, remove, wait}
}

// serve tells gRPC from REST.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		s.grpc.ServeHTTP(w, r)
		return
	}
	if location, name, ok := s.gkePath(r.URL.Path); ok {
		s.serveGKE(w, r, location, name)
		return
	}
	s.serveREST(w, r)
}

// systemParameters are for every method, and none of its fields:
// https://cloud.google.com/apis/docs/system-parameters
func systemParameters() []string {
	return []string{"alt", "$alt", "prettyPrint", "$prettyPrint", "fields", "$fields", "key", "$key", "quotaUser", "$quotaUser", "access_token", "oauth_token",
		"callback", "$callback", "uploadType", "upload_protocol", "$.xgafv", "$userProject", "$apiVersion"}
}

func (s *Server) serveREST(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, http.Header{}, codes.InvalidArgument, "The request can't be read: "+err.Error(), nil)
		return
	}
	query := r.URL.Query()
	handler := s.rest.names
	for _, name := range []string{"alt", "$alt"} {
		switch alt := query.Get(name); alt {
		case "", "json":
		case "json;enum-encoding=int":
			handler = s.rest.numbers
		default:
			writeError(w, http.Header{}, codes.InvalidArgument, "Invalid value at '"+name+"': "+alt, nil)
			return
		}
	}
	for _, name := range systemParameters() {
		query.Del(name)
	}
	seen := false
	inner := r.Clone(context.WithValue(r.Context(), seenKey{}, &seen))
	inner.URL.RawQuery = query.Encode()
	inner.RequestURI = inner.URL.RequestURI()
	inner.Body, inner.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	inner.Header.Del("Accept-Encoding") // replies aren't compressed
	if len(body) == 0 {
		inner.Header.Del("Content-Type")
		if inner.Method == http.MethodPost || inner.Method == http.MethodPatch || inner.Method == http.MethodPut {
			inner.Header.Set("Content-Type", "application/json")
		}
	}
	reply := &buffer{header: http.Header{}}
	handler.ServeHTTP(reply, inner)
	if reply.code() >= http.StatusBadRequest {
		code, message, details := reply.problem()
		if !seen {
			// No service was reached, so the request itself is wrong.
			if code == codes.Unknown || code == codes.Internal {
				code, message = codes.InvalidArgument, "Invalid JSON payload received. "+message
			}
			s.calls.Add(fault.Call{Action: "rest:" + r.Method + " " + r.URL.Path, At: s.o.Now(), Request: body, Reply: reply.body.Bytes(), Status: httpStatus(code)})
		}
		writeError(w, reply.header, code, message, details)
		return
	}
	for name, values := range reply.header {
		if !strings.HasPrefix(name, http.TrailerPrefix) && name != "Trailer" {
			w.Header()[name] = values
		}
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(reply.code())
	_, _ = w.Write(reply.body.Bytes()) // a caller that has gone misses nothing that counts
}

// buffer keeps a reply.
type buffer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header, WriteHeader, Write and Flush make it a http.ResponseWriter.
func (b *buffer) Header() http.Header { return b.header }

// WriteHeader keeps the first status.
func (b *buffer) WriteHeader(status int) {
	if b.status == 0 {
		b.status = status
	}
}

// Write keeps the body.
func (b *buffer) Write(p []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	return b.body.Write(p)
}

// Flush does nothing: the reply goes out whole.
func (b *buffer) Flush() { b.WriteHeader(http.StatusOK) }

func (b *buffer) code() int {
	if b.status == 0 {
		return http.StatusOK
	}
	return b.status
}

// problem reads a refusal: a google.rpc.Status as JSON, or plain text of the
// transcoder.
func (b *buffer) problem() (codes.Code, string, []json.RawMessage) {
	var st struct {
		Code    codes.Code        `json:"code"`
		Message string            `json:"message"`
		Details []json.RawMessage `json:"details"`
	}
	if json.Unmarshal(b.body.Bytes(), &st) == nil && st.Code != codes.OK {
		return st.Code, st.Message, st.Details
	}
	code := codeOf(b.code())
	if b.code() == http.StatusMethodNotAllowed {
		code = codes.NotFound
	}
	return code, strings.TrimSpace(b.body.String()), nil
}

// writeError writes a refusal as Google does:
// https://cloud.google.com/apis/design/errors#http_mapping
func writeError(w http.ResponseWriter, header http.Header, code codes.Code, message string, details []json.RawMessage) {
	type problem struct {
		Code    int               `json:"code"`
		Message string            `json:"message"`
		Status  string            `json:"status"`
		Details []json.RawMessage `json:"details,omitempty"`
	}
	body, err := json.MarshalIndent(map[string]problem{"error": {httpStatus(code), message, codeName(code), details}}, "", "  ")
	if err != nil {
		body = []byte(`{"error":{"code":500,"status":"INTERNAL"}}`)
	}
	for _, keep := range []string{"Retry-After", "X-Pocket-Rule"} {
		if v := header.Values(keep); len(v) > 0 {
			w.Header()[keep] = slices.Clone(v)
		}
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(httpStatus(code))
	_, _ = w.Write(append(body, '\n')) // a caller that has gone misses nothing that counts
}

// codeName is a code's name in Google's spelling.
func codeName(c codes.Code) string {
	names := []string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
		"FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}
	if int(c) < len(names) {
		return names[c]
	}
	return "UNKNOWN"
}
