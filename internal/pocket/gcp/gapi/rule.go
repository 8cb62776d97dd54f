package gapi

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
)

// RuleHeader names the rule that a refusal follows, in the metadata of a gRPC
// reply and the header of a REST reply. The real services don't send it.
const RuleHeader = "x-pocket-rule"

// Rule is one rule of behaviour that a service keeps.
type Rule struct {
	// ID is its name, unique within the cloud.
	ID string
	// Code is the status of a call that breaks it; codes.OK for a rule that says
	// what happens rather than what is refused.
	Code codes.Code
	// Text says what holds.
	Text string
	// Doc is the address of the vendor's page that says so.
	Doc string
}

// Error is the refusal of a call.
type Error struct {
	// Rule is the ID of the rule that was broken, empty for none of a table.
	Rule   string
	status *status.Status
}

// Error gives code and message.
func (e *Error) Error() string { return e.status.Code().String() + ": " + e.status.Message() }

// GRPCStatus is what goes over the wire. See
// https://cloud.google.com/apis/design/errors
func (e *Error) GRPCStatus() *status.Status { return e.status }

// Table is a service's rules.
type Table []Rule

// Refuse makes the refusal of a call that breaks a rule of the table. An ID that
// isn't there is a mistake in the program.
func (t Table) Refuse(id, format string, args ...any) *Error {
	return newError(t.code(id), id, fmt.Sprintf(format, args...))
}

// Invalid refuses the value of a field, which is named as in the request.
func (t Table) Invalid(id, field, format string, args ...any) *Error {
	text := fmt.Sprintf(format, args...)
	return newError(t.code(id), id, "Violation in "+field+": "+text, &errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: text}}})
}

func (t Table) code(id string) codes.Code {
	i := slices.IndexFunc(t, func(r Rule) bool { return r.ID == id })
	if i < 0 || t[i].Code == codes.OK {
		panic("gapi: no rule " + id + " that refuses")
	}
	return t[i].Code
}

// Errorf makes a refusal that stands in no table.
func Errorf(code codes.Code, format string, args ...any) *Error {
	return newError(code, "", fmt.Sprintf(format, args...))
}

// QuotaExceeded refuses a call beyond a rate, with the details that Google's
// quota service gives. See https://cloud.google.com/logging/quotas
func (t Table) QuotaExceeded(id, metric, limit, service, consumer string) *Error {
	return newError(t.code(id), id,
		fmt.Sprintf("Quota exceeded for quota metric '%s' and limit '%s' of service '%s' for consumer '%s'.", metric, limit, service, consumer),
		&errdetails.ErrorInfo{Reason: "RATE_LIMIT_EXCEEDED", Domain: "googleapis.com",
			Metadata: map[string]string{"consumer": consumer, "quota_limit": limit, "quota_metric": metric, "service": service}})
}

// PermissionDenied words the refusal of a caller that may not do something, or
// of a project that isn't there, which the clouds don't tell apart.
func PermissionDenied(permission, resource string) *Error {
	return newError(codes.PermissionDenied, "", fmt.Sprintf("Permission '%s' denied on resource '%s' (or it may not exist).", permission, resource),
		&errdetails.ErrorInfo{Reason: "IAM_PERMISSION_DENIED", Domain: "iam.googleapis.com",
			Metadata: map[string]string{"permission": permission, "resource": resource}})
}

func newError(code codes.Code, rule, text string, details ...protoadapt.MessageV1) *Error {
	st := status.New(code, text)
	if len(details) > 0 {
		with, err := st.WithDetails(details...)
		if err != nil {
			panic("gapi: details of " + text + ": " + err.Error()) // they are Google's own messages
		}
		st = with
	}
	return &Error{Rule: rule, status: st}
}

// RuleOf returns the rule that a refusal follows, empty for none.
func RuleOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Rule
	}
	return ""
}
