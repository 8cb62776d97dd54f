package wire_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

func fieldOf(err error) string {
	var e *sdk.Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Field
}

// TestNilMessages decodes messages that aren't there, and empty ones: nothing panics,
// and where something is needed it is missing.
func TestNilMessages(t *testing.T) {
	for _, c := range trips() {
		t.Run(c.name(), func(t *testing.T) {
			empty := c.message.ProtoReflect().New().Interface()
			_, errEmpty := c.decode(empty)
			_, errNil := c.decode(empty.ProtoReflect().Type().Zero().Interface())
			for _, err := range []error{errEmpty, errNil} {
				if err == nil {
					continue
				}
				want := sdk.InvalidArgument
				if strings.HasSuffix(c.name(), "Response") {
					want = sdk.Internal
				}
				if got := sdk.CodeOf(err); got != want {
					t.Errorf("%v: %v, want %v", got, err, want)
				}
			}
			for _, needs := range []string{"PrepareJobRequest", "PrepareJobResponse", "RunJobRequest", "RunJobResponse", "JobStatusRequest", "CancelJobRequest", "OpenRequest", "OpenResponse", "JobLogsRequest"} {
				if c.name() == needs && errEmpty == nil {
					t.Error("an empty message was taken")
				}
			}
		})
	}
	// A list with a hole, which no wire brings.
	_, err := wire.DecodePrepareJobResponse(&pb.PrepareJobResponse{Launch: &pb.Launch{V: 1, Files: []*pb.InputFile{nil}, Problems: []*pb.Problem{nil}, Fitted: []*pb.Fitted{nil}}})
	if err != nil {
		t.Error(err)
	}
}

// TestRepliesProveNothing spoils replies in all ways: none may look like a refusal,
// after which a launch would be sent again or given up.
func TestRepliesProveNothing(t *testing.T) {
	bad := []sdk.JobHandle{{V: 1, Kind: "k\xff"}, {V: math.MaxInt32 + 1}, {V: 1, Metadata: map[string]string{"\xff": ""}}, {V: 1, Identity: sdk.Identity{Account: "\xff"}}}
	for _, h := range bad {
		if _, err := wire.EncodeRunJobResult(sdk.RunJobResult{Handle: h}); err == nil || sdk.IsClear(err) {
			t.Errorf("%+v: %v", h, err)
		}
	}
	for _, m := range []*pb.RunJobResponse{nil, {}, wire.EncodeProgress("x"), {Part: &pb.RunJobResponse_Result{}},
		{Part: &pb.RunJobResponse_Result{Result: &pb.RunJobResult{Handle: &pb.JobHandle{V: 99}}}},
		{Part: &pb.RunJobResponse_Result{Result: &pb.RunJobResult{Handle: newer(&pb.JobHandle{V: 1})}}}} {
		if _, err := wire.DecodeRunJobResult(m); err == nil || sdk.IsClear(err) {
			t.Errorf("%v: %v", m, err)
		}
	}
}

// newer adds a field that no program knows yet.
func newer[M proto.Message](m M) M {
	m.ProtoReflect().SetUnknown(protoreflect.RawFields{0xf8, 0xff, 0x01, 0x01})
	return m
}

// TestUnknownFields wants requests and what outlives a process refused where they have
// a field that this program doesn't know, and other replies taken.
func TestUnknownFields(t *testing.T) {
	for _, c := range trips() {
		m, err := c.encode(c.values[0])
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.decode(newer(m))
		strict := strings.HasSuffix(c.name(), "Request") || slices.Contains([]string{"JobLogsResponse", "TailLogsResponse", "ListOwnedResponse", "DiffResourceResponse", "SensitiveKeysResponse"}, c.name())
		switch {
		case strict && err == nil:
			t.Errorf("%s: was taken", c.name())
		case !strict && err != nil:
			t.Errorf("%s: %v", c.name(), err)
		case strings.HasSuffix(c.name(), "Request") && sdk.CodeOf(err) != sdk.FailedPrecondition:
			t.Errorf("%s: %v", c.name(), err)
		}
	}
	deep := &pb.PrepareJobRequest{Spec: &pb.JobSpec{V: 1, Mounts: []*pb.Mount{{}, newer(&pb.Mount{})}}}
	if _, err := wire.DecodePrepareJobRequest(deep); fieldOf(err) != "spec.mounts[1]" {
		t.Errorf("got %v", err)
	}
	if _, err := wire.DecodePrepareJobResponse(&pb.PrepareJobResponse{Launch: &pb.Launch{V: 1, Resubmit: newer(&pb.ResubmitRule{})}}); err == nil {
		t.Error("a launch with an unknown rule was taken")
	}
}

// TestUnknownWords wants each word that the contract doesn't have to promise least.
func TestUnknownWords(t *testing.T) {
	one := int64(0)
	st, err := wire.DecodeJobStatusResponse(&pb.JobStatusResponse{State: "succeeded_mostly", Reason: "completed", ExitCode: &one})
	if err != nil || st.State != sdk.StateUnknown || st.Reason != sdk.ReasonUnknown || st.Raw[wire.RawState] != "succeeded_mostly" || st.Raw[wire.RawReason] != "completed" {
		t.Errorf("state: %+v, %v", st, err)
	}
	st, err = wire.DecodeJobStatusResponse(&pb.JobStatusResponse{State: "failed", Reason: "sunspots", Raw: map[string]string{"a": "b"}})
	if err != nil || st.State != sdk.StateFailed || st.Reason != sdk.ReasonUnknown || st.Raw[wire.RawReason] != "sunspots" || st.Raw["a"] != "b" {
		t.Errorf("reason: %+v, %v", st, err)
	}
	if st, err = wire.DecodeJobStatusResponse(&pb.JobStatusResponse{}); err != nil || st.State != sdk.StateUnknown {
		t.Errorf("no state: %+v, %v", st, err)
	}
	for _, v := range []string{"", "COMPLETE", "better"} {
		i, err := first(wire.DecodeJobLogsResponse(&pb.JobLogsResponse{Items: []*pb.JobLogsItem{{Item: &pb.JobLogsItem_End{End: &pb.LogEnd{Verdict: v}}}}}))
		if err != nil || i.End.Verdict != sdk.VerdictUnavailable {
			t.Errorf("verdict %q: %+v, %v", v, i.End, err)
		}
	}
	i, err := first(wire.DecodeJobLogsResponse(&pb.JobLogsResponse{Items: []*pb.JobLogsItem{{Item: &pb.JobLogsItem_Entries{Entries: &pb.LogChunks{Stream: "fd3", LineEnd: "?", Sizes: []uint32{0}}}}}}))
	if err != nil || i.Entry.Stream != sdk.StreamCombined || i.Entry.LineEnd != sdk.LineEndKept {
		t.Errorf("entry: %+v, %v", i.Entry, err)
	}
	found, err := wire.DecodeFindJobsResponse(&pb.FindJobsResponse{Outcome: "surely_absent", VisibleAt: timestamppb.Now()})
	if err != nil || found.Outcome != sdk.FindNotVisible || !found.VisibleAt.IsZero() {
		t.Errorf("outcome: %+v, %v", found, err)
	}
	l, err := wire.DecodePrepareJobResponse(&pb.PrepareJobResponse{Launch: &pb.Launch{V: 1, Resubmit: &pb.ResubmitRule{By: "hope"}}})
	if err != nil || l.Resubmit.By != sdk.SubmitByNothing {
		t.Errorf("rule: %+v, %v", l.Resubmit, err)
	}
	info, err := wire.DecodeInfoResponse(&pb.InfoResponse{Info: &pb.Info{Guarantees: &pb.Guarantees{Secrets: "telepathy", Stdin: []string{"spooled", "telepathy"}}}})
	g := info.Guarantees
	if err != nil || g.Submit.By != sdk.SubmitByNothing || g.Argv != sdk.ArgvOneString || g.ExitCode != sdk.ExitCodeAbsent ||
		g.Logs.Fidelity != sdk.LogStructured || g.Secrets != sdk.SecretVisibleEnv || !slices.Equal(g.Stdin, []sdk.StdinMode{sdk.StdinSpooled}) {
		t.Errorf("guarantees: %+v, %v", g, err)
	}
	if i, err := wire.DecodeInfoResponse(&pb.InfoResponse{Info: &pb.Info{Guarantees: &pb.Guarantees{}}}); err != nil || i.Guarantees.Secrets != "" {
		t.Errorf("a backend without secrets has them by %q, %v", i.Guarantees.Secrets, err)
	}
	// A plugin's own PrepareJob has words for what it doesn't know.
	r, err := wire.DecodePrepareJobRequest(&pb.PrepareJobRequest{Spec: &pb.JobSpec{V: 1, Profile: "paranoid", Stdin: "tape"}})
	if err != nil || r.Spec.Profile != "paranoid" || r.Spec.Stdin != "tape" {
		t.Errorf("spec: %+v, %v", r.Spec, err)
	}
}

// TestEveryWord sends each word of the contract there and back.
func TestEveryWord(t *testing.T) {
	for _, s := range sdk.JobStates() {
		m, err := wire.EncodeJobStatusResponse(sdk.JobStatusResult{State: s})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := wire.DecodeJobStatusResponse(m); err != nil || got.State != s || got.Raw != nil {
			t.Errorf("%s came back as %+v, %v", s, got, err)
		}
	}
	for _, rule := range sdk.ReasonRules() {
		m, err := wire.EncodeJobStatusResponse(sdk.JobStatusResult{State: rule.States[0], Reason: rule.Reason})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := wire.DecodeJobStatusResponse(m); err != nil || got.Reason != rule.Reason {
			t.Errorf("%s came back as %+v, %v", rule.Reason, got, err)
		}
	}
	for _, v := range sdk.Verdicts() {
		m, err := jobLogs(sdk.LogItem{End: &sdk.LogEnd{Verdict: v}})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := first(wire.DecodeJobLogsResponse(m)); err != nil || got.End.Verdict != v {
			t.Errorf("%s came back as %+v, %v", v, got.End, err)
		}
	}
}

// TestNumbers wants numbers that the wire or Go can't hold refused, never cut.
func TestNumbers(t *testing.T) {
	big := math.MaxInt32 + 1
	for field, r := range map[string]sdk.PrepareJobRequest{
		"attempt":      {Attempt: big},
		"spec.retries": {Spec: sdk.JobSpec{Retries: -big - 1}},
		"spec.v":       {Spec: sdk.JobSpec{V: big}},
		"expires":      {Expires: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if _, err := wire.EncodePrepareJobRequest(r); sdk.CodeOf(err) != sdk.InvalidArgument || fieldOf(err) != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := wire.EncodeJobStatusResponse(sdk.JobStatusResult{Launches: big}); sdk.CodeOf(err) != sdk.Internal {
		t.Errorf("launches: %v", err)
	}
	handle := &pb.JobHandle{V: 1, Kind: "k", Id: "i"}
	for field, m := range map[string]*pb.CancelJobRequest{
		"grace":    {Handle: handle, Grace: &durationpb.Duration{Seconds: math.MaxInt64}},
		"handle.v": {Handle: &pb.JobHandle{V: -1}},
	} {
		if _, err := wire.DecodeCancelJobRequest(m); sdk.CodeOf(err) != sdk.InvalidArgument || fieldOf(err) != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for field, m := range map[string]*pb.JobStatusResponse{
		"created_at": {CreatedAt: &timestamppb.Timestamp{Seconds: math.MaxInt64}},
		"ended_at":   {EndedAt: &timestamppb.Timestamp{Nanos: -1}},
		"launches":   {Launches: -1},
	} {
		if _, err := wire.DecodeJobStatusResponse(m); sdk.CodeOf(err) != sdk.Internal || fieldOf(err) != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, n := range []int64{math.MinInt32, -1, 0, 255, math.MaxUint32} {
		m, err := wire.DecodeJobStatusResponse(&pb.JobStatusResponse{State: "failed", ExitCode: &n})
		if err != nil || m.ExitCode == nil || int64(*m.ExitCode) != n {
			t.Errorf("exit code %d: %+v, %v", n, m, err)
		}
	}
	if m, err := wire.DecodeJobStatusResponse(&pb.JobStatusResponse{State: "succeeded"}); err != nil || m.ExitCode != nil {
		t.Errorf("an absent exit code became %v, %v", m.ExitCode, err)
	}
	for _, id := range [][]byte{{1}, make([]byte, 17)} {
		if _, err := wire.DecodeWatchJobsResponse(&pb.WatchJobsResponse{AttemptId: id}); sdk.CodeOf(err) != sdk.Internal {
			t.Errorf("ID of %d bytes: %v", len(id), err)
		}
	}
	for _, rate := range []float64{math.NaN(), math.Inf(1), -1} {
		if _, err := wire.DecodeInfoResponse(&pb.InfoResponse{Info: &pb.Info{Rate: rate}}); sdk.CodeOf(err) != sdk.Internal {
			t.Errorf("rate %v: %v", rate, err)
		}
	}
	// One handle that is too new must not spoil a batch: its driver says so of it.
	if r, err := wire.DecodeJobStatusesRequest(&pb.JobStatusesRequest{Handles: []*pb.JobHandle{handle, {V: sdk.HandleVersion + 1}}}); err != nil || r.Handles[1].V != sdk.HandleVersion+1 {
		t.Errorf("a newer handle: %v", err)
	}
	if _, err := wire.DecodePrepareJobResponse(&pb.PrepareJobResponse{Launch: &pb.Launch{V: sdk.LaunchVersion + 1}}); sdk.CodeOf(err) != sdk.Internal {
		t.Errorf("a newer launch: %v", err)
	}
}

// TestText wants what programs read again refused where it isn't UTF-8, with the place
// and never the value, and what people read made plain.
func TestText(t *testing.T) {
	for field, spec := range map[string]sdk.JobSpec{
		"spec.name":             {Name: "\xff"},
		"spec.labels":           {Labels: map[string]string{"a": "secret\xff"}},
		"spec.env":              {Env: sdk.Env{"secret\xff": ""}},
		"spec.secrets":          {Secrets: map[string]sdk.SecretRef{"A": "secret\xff"}},
		"spec.mounts[0].target": {Mounts: []sdk.Mount{{Target: "secret\xff"}}},
	} {
		_, err := wire.EncodePrepareJobRequest(sdk.PrepareJobRequest{Spec: spec})
		if sdk.CodeOf(err) != sdk.InvalidArgument || fieldOf(err) != field || strings.Contains(err.Error(), "secret\xff") {
			t.Errorf("%s: %v", field, err)
		}
	}
	m, err := wire.EncodeJobStatusResponse(sdk.JobStatusResult{State: sdk.StateFailed, Message: "\xffa", Raw: map[string]string{"k\xff": "v\xff"}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.DecodeJobStatusResponse(resend(t, m).(*pb.JobStatusResponse))
	if err != nil || got.Message != "\ufffda" || got.Raw["k\ufffd"] != "v\ufffd" {
		t.Errorf("got %+v, %v", got, err)
	}
	l, err := wire.EncodePrepareJobResponse(sdk.Launch{V: 1, Problems: []sdk.Problem{{Value: "\xff"}}, Warnings: []string{"\xff"}})
	if err != nil || l.GetLaunch().GetProblems()[0].GetValue() != "\ufffd" || l.GetLaunch().GetWarnings()[0] != "\ufffd" {
		t.Errorf("launch: %v, %v", l, err)
	}
}

// TestBatch wants one bad state to be its item's error alone, and as many items as
// were asked for.
func TestBatch(t *testing.T) {
	m := wire.EncodeJobStatusesResponse(sdk.JobStatusesResult{Items: []sdk.JobStatusItem{
		{Result: sdk.JobStatusResult{State: sdk.StateRunning}},
		{Err: sdk.Errorf(sdk.NotFound, "job status", "gone")},
		{Result: sdk.JobStatusResult{State: sdk.StateRunning, Launches: math.MaxInt32 + 1}},
		{Result: sdk.JobStatusResult{State: sdk.StateRunning}},
	}})
	m.GetItems()[3].Result.CreatedAt = &timestamppb.Timestamp{Nanos: -1}
	got, err := wire.DecodeJobStatusesResponse(resend(t, m).(*pb.JobStatusesResponse), 4)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []sdk.Code{0, sdk.NotFound, sdk.Internal, sdk.Internal} {
		if code := sdk.CodeOf(got.Items[i].Err); code != want {
			t.Errorf("item %d: %v, want %v", i, got.Items[i].Err, want)
		}
	}
	for _, n := range []int{0, 3, 5} {
		if _, err := wire.DecodeJobStatusesResponse(m, n); sdk.CodeOf(err) != sdk.Internal {
			t.Errorf("4 items for %d handles: %v", n, err)
		}
	}
}

// TestLongChunks sends more bytes than a message holds, and wants each once, the
// stripped newline and the cursor at the end alone.
func TestLongChunks(t *testing.T) {
	for _, size := range []int{0, 1, wire.MaxLogData, wire.MaxLogData + 1, 3*wire.MaxLogData + 5} {
		data := bytes.Repeat([]byte("0123456\xff"), size/8+1)[:size]
		cursor := &sdk.LogCursor{V: 1, Kind: "k"}
		var got []byte
		var last sdk.LogItem
		item := sdk.LogItem{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, Data: data, LineEnd: sdk.LineEndStripped, Launch: 1}, Cursor: cursor}
		for more := true; more; {
			var part sdk.LogItem
			part, item, more = wire.SplitLogItem(item)
			m, err := jobLogs(part)
			if err != nil {
				t.Fatal(err)
			}
			if last.Entry != nil && (last.Cursor != nil || last.Entry.LineEnd != sdk.LineEndKept) {
				t.Errorf("%d bytes: the cursor or the newline came too early", size)
			}
			if last, err = first(wire.DecodeJobLogsResponse(resend(t, m).(*pb.JobLogsResponse))); err != nil {
				t.Fatal(err)
			}
			if len(last.Entry.Data) > wire.MaxLogData || last.Entry.Launch != 1 {
				t.Errorf("%d bytes: a message has %d", size, len(last.Entry.Data))
			}
			got = append(got, last.Entry.Data...)
		}
		if !bytes.Equal(got, data) || last.Cursor == nil || last.Entry.LineEnd != sdk.LineEndStripped {
			t.Errorf("%d bytes came back as %d, %+v", size, len(got), last.Cursor)
		}
	}
	for _, i := range []sdk.LogItem{{Gap: &sdk.LogGap{}, End: &sdk.LogEnd{}}, {Entry: &sdk.LogChunk{}, Gap: &sdk.LogGap{}}} {
		if _, err := jobLogs(i); sdk.CodeOf(err) != sdk.Internal {
			t.Errorf("two items in one: %v", err)
		}
	}
}

// TestDeepSchema nests beyond all reason.
func TestDeepSchema(t *testing.T) {
	f, m := sdk.SchemaField{}, &pb.SchemaField{}
	for range 1000 {
		inner := f
		f = sdk.SchemaField{Elem: &inner}
		m = &pb.SchemaField{Fields: []*pb.SchemaField{m}}
	}
	if _, err := wire.EncodeDescribeResponse(sdk.Driver{Kind: "k", Config: sdk.Schema{Fields: []sdk.SchemaField{f}}}); err == nil {
		t.Error("was encoded")
	}
	if _, err := wire.DecodeDescribeResponse(&pb.DescribeResponse{Kind: "k", Options: &pb.Schema{Fields: []*pb.SchemaField{m}}}); err == nil {
		t.Error("was decoded")
	}
}
