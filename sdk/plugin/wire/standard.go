package wire

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
)

// Domain is where the reasons of our own ErrorInfo are ours: the values of sdk.Reason, the
// names of `windlass explain` and the contract's codes, all in capitals.
const Domain = "github.com/windlass-run/windlass"

const (
	// maxReason is how long a reason of ErrorInfo may be, in bytes.
	maxReason = 63
	// maxTold bounds all field violations, in bytes: hosts in other languages take few
	// kilobytes of trailers, and our own detail has the rest.
	maxTold = 2 << 10
)

// standardDetails are what an error says to a host that isn't ours, beside our own detail:
// what is wrong with which field, when to try again, and why it failed.
//
// https://github.com/googleapis/googleapis/blob/master/google/rpc/error_details.proto
func standardDetails(m *pb.Error) []proto.Message {
	info := &errdetails.ErrorInfo{Reason: capitals(code(m.GetCode()).String()), Domain: Domain, Metadata: map[string]string{}}
	for _, r := range []string{m.GetId(), m.GetReason()} {
		if r := capitals(r); r != "" {
			info.Reason = r
		}
	}
	for k, v := range map[string]string{"operation": m.GetOp(), "provider": m.GetProvider(), "remedy": m.GetRemedy(), "id": m.GetId()} {
		if v != "" {
			info.Metadata[k] = clip(v, maxWords)
		}
	}
	out := []proto.Message{info}
	if bad := violations(m); len(bad) > 0 {
		out = append(out, &errdetails.BadRequest{FieldViolations: bad})
	}
	// Without a wait of the backend's it would tell hosts to try again at once.
	if m.GetRetryable() && m.GetRetryAfter() != nil {
		out = append(out, &errdetails.RetryInfo{RetryDelay: m.GetRetryAfter()})
	}
	return out
}

// violations are the fields at fault. The problems are the caller's to mend; the field of
// another error is told as well.
func violations(m *pb.Error) (out []*errdetails.BadRequest_FieldViolation) {
	room := maxTold
	add := func(field, text string) {
		v := &errdetails.BadRequest_FieldViolation{Field: field, Description: clip(text, maxWords)}
		if room -= len(v.GetField()) + len(v.GetDescription()); room >= 0 || len(out) == 0 {
			out = append(out, v)
		}
	}
	for _, p := range m.GetProblems() {
		text := p.GetMessage()
		if p.GetValue() != "" {
			text = fmt.Sprintf("%q: %s", p.GetValue(), text)
		}
		add(p.GetField(), text)
	}
	if m.GetField() != "" && !slices.ContainsFunc(out, func(v *errdetails.BadRequest_FieldViolation) bool { return v.GetField() == m.GetField() }) {
		text := m.GetCause()
		if text == "" {
			text = code(m.GetCode()).String()
		}
		add(m.GetField(), text)
	}
	return out
}

// capitals writes a word as the reason of an ErrorInfo is written: [A-Z][A-Z0-9_]+[A-Z0-9].
func capitals(word string) string {
	var b strings.Builder
	small := false
	for _, r := range word {
		switch {
		case r >= 'a' && r <= 'z':
			b.WriteRune(r - 'a' + 'A')
		case r >= 'A' && r <= 'Z' || r >= '0' && r <= '9':
			if small {
				b.WriteByte('_')
			}
			b.WriteRune(r)
		default:
			b.WriteByte('_')
		}
		small = r >= 'a' && r <= 'z'
	}
	s := strings.TrimLeft(b.String(), "_0123456789")
	return strings.TrimRight(s[:min(len(s), maxReason)], "_")
}

// Standard is what the details of google.rpc say in the status of a plugin that isn't made
// with our SDK.
type Standard struct {
	// Problems are the field violations of BadRequest.
	Problems sdk.Problems
	// Retry is RetryInfo, nil for none.
	Retry *errdetails.RetryInfo
	// Info is ErrorInfo, nil for none.
	Info *errdetails.ErrorInfo
}

// maxViolations is how many field violations of a foreign plugin are read.
const maxViolations = 100

// StandardOf reads the details of a status that are google.rpc's; what else is there it
// ignores. Problems have the status's code.
func StandardOf(st *status.Status) Standard {
	var s Standard
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				if len(s.Problems) < maxViolations {
					s.Problems = append(s.Problems, sdk.Problem{Field: clip(v.GetField(), maxWords), Message: clip(v.GetDescription(), maxWords), Code: code(int32(st.Code()))})
				}
			}
		case *errdetails.RetryInfo:
			s.Retry = d
		case *errdetails.ErrorInfo:
			s.Info = d
		}
	}
	return s
}

// Empty reports whether there was none.
func (s Standard) Empty() bool { return len(s.Problems) == 0 && s.Retry == nil && s.Info == nil }

// Text returns the words of a status with what the details add: each field's own, and the
// reason with its domain. What stands in the words already isn't said twice.
func (s Standard) Text(words string) string {
	var more []string
	for i, p := range s.Problems {
		switch {
		case p.Message == "" && (i == 0 || p.Field == ""), strings.Contains(words, p.Message) && (i == 0 || strings.Contains(words, p.Field)):
		case i == 0 || p.Field == "": // the error itself names the first field
			more = append(more, p.Message)
		case p.Message == "":
			more = append(more, p.Field)
		default:
			more = append(more, p.Field+": "+p.Message)
		}
	}
	if len(more) > 0 {
		words += ": " + strings.Join(more, "; ")
	}
	if why := s.Info.GetReason(); why != "" && !strings.Contains(words, why) {
		if d := s.Info.GetDomain(); d != "" {
			why += " of " + d
		}
		words += " (" + clip(why, maxWords) + ")"
	}
	return clip(words, maxText)
}

// Apply has an error say what the details say: its field, the wait, and that another try
// may do, where the code is one by which the backend was only busy.
func (s Standard) Apply(e *sdk.Error) {
	if len(s.Problems) > 0 {
		e.Field = s.Problems[0].Field
	}
	if s.Retry == nil {
		return
	}
	c := reply("read error")
	e.RetryAfter = max(c.duration("retry_delay", s.Retry.GetRetryDelay()), 0)
	switch e.Code {
	case sdk.Unavailable, sdk.ResourceExhausted, sdk.DeadlineExceeded, sdk.Aborted:
		e.Retryable = true
	}
}
