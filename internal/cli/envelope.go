package cli

import (
	"encoding/json"
	"io"
)

// Envelope is what every command prints with --json. Data or Error is null, but where
// a part alone is known.
type Envelope struct {
	Status string     `json:"status" doc:"ok; faults where what was asked for is known, and something is wrong with it; partial where a part is missing; error."`
	Data   any        `json:"data" doc:"The command's result; null on error."`
	Error  *ErrorBody `json:"error" doc:"What went wrong; null on success."`
}

const (
	statusOK      = "ok"
	statusFaults  = "faults"
	statusPartial = "partial"
	statusError   = "error"
)

// writeJSON prints data in an envelope.
func writeJSON(w io.Writer, data any) error {
	return encode(w, Envelope{Status: statusOK, Data: data}, true)
}

// writeCheckedJSON prints what a check found, whose exit code is ExitFaults where
// something is wrong.
func writeCheckedJSON(w io.Writer, data any, faults bool) error {
	e := Envelope{Status: statusOK, Data: data}
	if faults {
		e.Status = statusFaults
	}
	return encode(w, e, true)
}

// writeJSONError prints an error in an envelope.
func writeJSONError(s *Streams, err error) error {
	b := s.describe(err)
	return encode(s.Out, Envelope{Status: statusError, Error: &b}, true)
}

// writePartialJSON prints data of which a part is missing. The error is that of the
// first part, with what the others say; a retry may help only where it may for each.
func writePartialJSON(s *Streams, data any, missing []error) error {
	b := s.describe(missing[0])
	for _, err := range missing[1:] {
		other := s.describe(err)
		b.Message += "; " + other.Message
		b.Retry = b.Retry && other.Retry
		b.Provider = "" // it is of several
	}
	return encode(s.Out, Envelope{Status: statusPartial, Data: data, Error: &b}, true)
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
