package cli

import (
	"encoding/json"
	"io"
)

// Envelope is what every command prints with --json. Data or Error is null.
type Envelope struct {
	Status string     `json:"status" doc:"ok or error."`
	Data   any        `json:"data" doc:"The command's result; null on error."`
	Error  *ErrorBody `json:"error" doc:"What went wrong; null on success."`
}

const (
	statusOK    = "ok"
	statusError = "error"
)

// writeJSON prints data in an envelope.
func writeJSON(w io.Writer, data any) error {
	return encode(w, Envelope{Status: statusOK, Data: data}, true)
}

// writeJSONError prints an error in an envelope.
func writeJSONError(s *Streams, err error) error {
	b := s.describe(err)
	return encode(s.Out, Envelope{Status: statusError, Error: &b}, true)
}

// encode writes v as JSON with a newline: indented for single documents, one
// line for streams.
func encode(w io.Writer, v any, indent bool) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if indent {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(v)
}
