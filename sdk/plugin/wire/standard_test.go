package wire_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// asForeigner reads what a call of a plugin of ours failed with as a host does that knows
// google.rpc alone.
func asForeigner(t *testing.T, err error) (*errdetails.ErrorInfo, *errdetails.BadRequest, *errdetails.RetryInfo) {
	t.Helper()
	var info *errdetails.ErrorInfo
	var bad *errdetails.BadRequest
	var retry *errdetails.RetryInfo
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.BadRequest:
			bad = d
		case *errdetails.RetryInfo:
			retry = d
		}
	}
	if info == nil {
		t.Fatalf("no ErrorInfo in %v", status.Convert(err).Details())
	}
	return info, bad, retry
}

// TestForeignHostReadsOurErrors: beside our own detail there are those of google.rpc, over
// a real server, for every code.
func TestForeignHostReadsOurErrors(t *testing.T) {
	f := &failing{}
	client, _ := dial(t, f)
	call := func(err error) error {
		f.status = func(ctx context.Context) error { return wire.Status(ctx, err) }
		_, got := client.JobStatus(t.Context(), &pb.JobStatusRequest{})
		return got
	}
	reason := regexp.MustCompile(`^[A-Z][A-Z0-9_]+[A-Z0-9]$`)
	for _, code := range sdk.Codes() {
		info, bad, retry := asForeigner(t, call(&sdk.Error{Code: code}))
		want := regexp.MustCompile(`(.)([A-Z])`).ReplaceAllString(code.String(), "${1}_$2")
		if info.GetReason() != strings.ToUpper(want) || info.GetDomain() != wire.Domain || bad != nil || retry != nil {
			t.Errorf("%v: %v, %v, %v", code, info, bad, retry)
		}
		full := fullError()
		full.Code, full.ID, full.Remedy = code, "plugin.no-program", "mend it"
		full.Field = "config.region"
		info, bad, retry = asForeigner(t, call(full))
		if info.GetReason() != "IMAGE_PULL" || info.GetMetadata()["id"] != "plugin.no-program" || info.GetMetadata()["remedy"] != "mend it" || info.GetMetadata()["operation"] == "" || info.GetMetadata()["provider"] == "" {
			t.Errorf("%v: %v", code, info)
		}
		if v := bad.GetFieldViolations(); len(v) != 2 || v[0].GetField() != "config.size" || v[0].GetDescription() != `"huge": isn't made any more` || v[1].GetField() != "config.region" || v[1].GetDescription() == "" {
			t.Errorf("%v: %v", code, bad)
		}
		if retry.GetRetryDelay().AsDuration() != full.RetryAfter {
			t.Errorf("%v: wait %v, want %v", code, retry, full.RetryAfter)
		}
		full.Retryable = false
		if _, _, retry = asForeigner(t, call(full)); retry != nil {
			t.Errorf("%v: what helps no more is to be tried again: %v", code, retry)
		}
	}
	for _, id := range []string{"plugin.no-program", "a b", strings.Repeat("long.", 50), "é", "7 ups", "_"} {
		if info, _, _ := asForeigner(t, call(&sdk.Error{Code: sdk.Aborted, ID: id})); !reason.MatchString(info.GetReason()) || len(info.GetReason()) > 63 {
			t.Errorf("%q became the reason %q", id, info.GetReason())
		}
	}
	// What is for foreign hosts stays small, whatever ours is told.
	var ps sdk.Problems
	for range 1000 {
		ps = append(ps, sdk.Problem{Field: "config.x", Value: strings.Repeat("v", 500), Message: strings.Repeat("m", 500)})
	}
	_, bad, _ := asForeigner(t, call(&sdk.Error{Code: sdk.InvalidArgument, Err: ps}))
	if n := proto.Size(bad); len(bad.GetFieldViolations()) == 0 || n > 4<<10 {
		t.Errorf("%d field violations of %d bytes", len(bad.GetFieldViolations()), n)
	}
}

// foreign is a status with details as a plugin has it that isn't made with our SDK.
func foreign(t *testing.T, code codes.Code, text string, details ...protoadapt.MessageV1) error {
	t.Helper()
	st, err := status.New(code, text).WithDetails(details...)
	if err != nil {
		t.Fatal(err)
	}
	return st.Err()
}

// TestWeReadForeignPlugins: what google.rpc's details say counts, for every code, over a
// real server.
func TestWeReadForeignPlugins(t *testing.T) {
	f := &failing{}
	client, _ := dial(t, f)
	call := func(sent error) error {
		f.status = func(context.Context) error { return sent }
		_, err := client.JobStatus(t.Context(), &pb.JobStatusRequest{})
		return wire.FromStatus(t.Context(), "job status", err)
	}
	bad := &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "config.region", Description: "is unknown"}, {Field: "config.size", Description: "is too much"}}}
	info := &errdetails.ErrorInfo{Reason: "NO_SUCH_REGION", Domain: "theirs.example.com", Metadata: map[string]string{"token": "canary"}}
	busy := []sdk.Code{sdk.Unavailable, sdk.DeadlineExceeded, sdk.ResourceExhausted, sdk.Aborted}
	for _, code := range sdk.Codes() {
		err := call(foreign(t, codes.Code(code), "no", bad, info, &errdetails.RetryInfo{RetryDelay: durationpb.New(3 * time.Second)}))
		var e *sdk.Error
		var ps sdk.Problems
		if !errors.As(err, &e) || e.Code != code || e.Field != "config.region" || e.RetryAfter != 3*time.Second || e.Retryable != slices.Contains(busy, code) || status.Code(err) != codes.Code(code) {
			t.Errorf("%v arrived as %+v", code, e)
		}
		if !errors.As(err, &ps) || len(ps) != 2 || ps[0] != (sdk.Problem{Field: "config.region", Message: "is unknown", Code: code}) {
			t.Errorf("%v: its problems are %+v", code, ps)
		}
		if want := "job status: config.region: no: is unknown; config.size: is too much (NO_SUCH_REGION of theirs.example.com)"; err.Error() != want {
			t.Errorf("%v: %q, want %q", code, err, want)
		}
	}
	// What the words say already isn't said twice, and any part may be missing.
	for want, sent := range map[string]error{
		"job status: config.region: is unknown; config.size: is too much": foreign(t, codes.InvalidArgument, "config.region: is unknown; config.size: is too much", bad),
		"job status: NO_SUCH_REGION, sorry":                               foreign(t, codes.NotFound, "NO_SUCH_REGION, sorry", info),
		"job status: x: no":                                               foreign(t, codes.NotFound, "no", &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "x"}, {}}}),
		"job status: no":                                                  foreign(t, codes.NotFound, "no", &errdetails.BadRequest{}, &errdetails.RetryInfo{}, &errdetails.ErrorInfo{}),
		"job status: no (WHY)":                                            foreign(t, codes.NotFound, "no", &errdetails.ErrorInfo{Reason: "WHY"}),
		"job status: no: alone":                                           foreign(t, codes.NotFound, "no", &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Description: "alone"}}}),
		"job status: NotFound (WHY of somewhere)":                         foreign(t, codes.NotFound, "", &errdetails.ErrorInfo{Reason: "WHY", Domain: "somewhere"}),
	} {
		if err := call(sent); err.Error() != want || sdk.IsRetryable(err) {
			t.Errorf("%q, want %q", err, want)
		}
	}
	// A wait that can't be is none, and nothing grows without a bound.
	many := &errdetails.BadRequest{}
	for range 10_000 {
		many.FieldViolations = append(many.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: strings.Repeat("f", 50), Description: "bad"})
	}
	var e *sdk.Error
	err := call(foreign(t, codes.Unavailable, "no", many, &errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: -1 << 60}}))
	if !errors.As(err, &e) || e.RetryAfter != 0 || !e.Retryable || len(err.Error()) > 20<<10 {
		t.Errorf("odd details: wait %v, %d bytes", e.RetryAfter, len(err.Error()))
	}
	// The caller's own end is never retryable, and what the plugin said is kept.
	late, cancel := context.WithCancel(t.Context())
	cancel()
	err = wire.FromStatus(late, "job status", foreign(t, codes.Unavailable, "no", bad, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}))
	if sdk.IsRetryable(err) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "is unknown") {
		t.Errorf("a caller who left: %v", err)
	}
}
