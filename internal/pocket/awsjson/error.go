package awsjson

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// Error is the refusal of a call, as it goes over the wire.
type Error struct {
	// Code is the name of the exception, "ClusterNotFoundException".
	Code string
	// Message is its text for people.
	Message string
	// Status is the HTTP status; 0 means 400, which these services use for all
	// that the caller did wrong.
	Status int
	// Fields are further members of the exception.
	Fields map[string]any
	// Rule is the ID of the pocket cloud's rule that was broken, if it stands in
	// a table of rules. It goes into the header RuleHeader.
	Rule string
}

// Error gives name and text.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Errorf makes an error with status 400.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// contentType is that of requests and replies.
const contentType = "application/x-amz-json-1.1"

// Reply writes an error as the services do. Most clients read the code from
// __type and the text from message.
func (e *Error) Reply() fault.Reply {
	status := e.Status
	if status == 0 {
		status = http.StatusBadRequest
	}
	members := map[string]any{}
	maps.Copy(members, e.Fields)
	members["__type"], members["message"] = e.Code, e.Message
	body, err := json.Marshal(members)
	if err != nil {
		panic("awsjson: fields of " + e.Code + ": " + err.Error()) // they are strings and lists of ours
	}
	header := http.Header{"Content-Type": {contentType}, "X-Amzn-Errortype": {e.Code}}
	if e.Rule != "" {
		header.Set(RuleHeader, e.Rule)
	}
	return fault.Reply{Status: status, Header: header, Body: body}
}
