package awsjson

import (
	"encoding/json"
	"maps"
	"net/http"

	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// Rest rewrites a reply for a service that speaks REST with JSON, where the name of an
// error stands in a header alone. See
// https://smithy.io/2.0/aws/protocols/aws-restjson1-protocol.html
func Rest(reply fault.Reply) fault.Reply {
	out := fault.Reply{Status: reply.Status, Header: maps.Clone(reply.Header), Body: reply.Body}
	if out.Header == nil {
		out.Header = http.Header{}
	}
	out.Header.Set("Content-Type", "application/json")
	if reply.Status < http.StatusBadRequest {
		return out
	}
	var e struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(reply.Body, &e) == nil {
		out.Body, _ = json.Marshal(e) // it is a string
	}
	return out
}
