package wire_test

import (
	"iter"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// trip is one type of the contract with its way there and back.
type trip struct {
	typ     reflect.Type
	message proto.Message
	values  []any
	encode  func(any) (proto.Message, error)
	decode  func(proto.Message) (any, error)
}

func (c trip) name() string { return string(c.message.ProtoReflect().Descriptor().Name()) }

func of[A any, M proto.Message](encode func(A) (M, error), decode func(M) (A, error), values ...A) trip {
	var none M
	c := trip{
		typ:     reflect.TypeFor[A](),
		message: none.ProtoReflect().New().Interface(),
		encode: func(v any) (proto.Message, error) {
			m, err := encode(v.(A))
			return m, err
		},
		decode: func(m proto.Message) (any, error) { return decode(m.(M)) },
	}
	if len(values) == 0 {
		values = []A{filled[A](&filler{})}
	}
	for _, v := range values {
		c.values = append(c.values, v)
	}
	return c
}

// Some conversions take or give more than one value.
type opening struct {
	Session string
	Request sdk.OpenRequest
}

func trips() []trip {
	f := &filler{}
	// The newest handle and a state, or an error, but not both.
	items := filled[sdk.JobStatusesResult](f)
	items.Items[0].Err, items.Items[1].Result = nil, sdk.JobStatusResult{}
	cursor := filled[*sdk.LogCursor](f)
	return []trip{
		of(wire.EncodePrepareJobRequest, wire.DecodePrepareJobRequest),
		of(wire.EncodePrepareJobResponse, wire.DecodePrepareJobResponse),
		of(wire.EncodeRunJobRequest, func(m *pb.RunJobRequest) (sdk.RunJobRequest, error) {
			r, _, _, err := wire.DecodeRunJobRequest(m)
			return r, err
		}),
		of(wire.EncodeRunJobResult, wire.DecodeRunJobResult),
		of(wire.EncodeJobStatusRequest, wire.DecodeJobStatusRequest),
		of(wire.EncodeJobStatusResponse, wire.DecodeJobStatusResponse),
		of(wire.EncodeFindJobsRequest, wire.DecodeFindJobsRequest),
		of(wire.EncodeFindJobsResponse, wire.DecodeFindJobsResponse),
		of(wire.EncodeCancelJobRequest, wire.DecodeCancelJobRequest),
		of(wire.EncodeCancelJobResponse, wire.DecodeCancelJobResponse),
		of(wire.EncodeCleanupJobRequest, wire.DecodeCleanupJobRequest),
		of(wire.EncodeCleanupJobResponse, wire.DecodeCleanupJobResponse),
		of(wire.EncodeJobStatusesRequest, wire.DecodeJobStatusesRequest),
		of(func(r sdk.JobStatusesResult) (*pb.JobStatusesResponse, error) {
			return wire.EncodeJobStatusesResponse(r), nil
		},
			func(m *pb.JobStatusesResponse) (sdk.JobStatusesResult, error) {
				return wire.DecodeJobStatusesResponse(m, len(m.GetItems()))
			}, items),
		of(wire.EncodeWatchJobsRequest, wire.DecodeWatchJobsRequest),
		of(wire.EncodeWatchJobsResponse, wire.DecodeWatchJobsResponse),
		of(wire.EncodeJobLogsRequest, wire.DecodeJobLogsRequest),
		of(func(i sdk.LogItem) (*pb.JobLogsResponse, error) { return jobLogs(i) }, func(m *pb.JobLogsResponse) (sdk.LogItem, error) { return first(wire.DecodeJobLogsResponse(m)) },
			sdk.LogItem{Entry: filled[*sdk.LogChunk](f), Cursor: cursor}, sdk.LogItem{Gap: filled[*sdk.LogGap](f)},
			sdk.LogItem{End: filled[*sdk.LogEnd](f), Cursor: cursor}, sdk.LogItem{Cursor: cursor}, sdk.LogItem{}),
		of(wire.EncodeListOwnedRequest, wire.DecodeListOwnedRequest),
		of(wire.EncodeListOwnedResponse, wire.DecodeListOwnedResponse),
		of(wire.EncodeRemoveOwnedRequest, wire.DecodeRemoveOwnedRequest),
		of(wire.EncodeRenewExpiryRequest, wire.DecodeRenewExpiryRequest),
		of(wire.EncodeCreateResourceRequest, wire.DecodeCreateResourceRequest),
		of(wire.EncodeCreateResourceResponse, wire.DecodeCreateResourceResponse),
		of(wire.EncodeReadResourceRequest, wire.DecodeReadResourceRequest),
		of(wire.EncodeReadResourceResponse, wire.DecodeReadResourceResponse),
		of(wire.EncodeUpdateResourceRequest, wire.DecodeUpdateResourceRequest),
		of(wire.EncodeUpdateResourceResponse, wire.DecodeUpdateResourceResponse),
		of(wire.EncodeDeleteResourceRequest, wire.DecodeDeleteResourceRequest),
		of(wire.EncodeDiffResourceRequest, wire.DecodeDiffResourceRequest),
		of(wire.EncodeDiffResourceResponse, wire.DecodeDiffResourceResponse),
		of(wire.EncodeScaleResourceRequest, wire.DecodeScaleResourceRequest),
		of(wire.EncodeScaleResourceResponse, wire.DecodeScaleResourceResponse),
		of(wire.EncodeHealthCheckResourceRequest, wire.DecodeHealthCheckResourceRequest),
		of(wire.EncodeHealthCheckResourceResponse, wire.DecodeHealthCheckResourceResponse),
		of(wire.EncodeSensitiveKeysRequest, wire.DecodeSensitiveKeysRequest),
		of(wire.EncodeSensitiveKeysResponse, wire.DecodeSensitiveKeysResponse),
		of(wire.EncodeTroubleshootResourceRequest, wire.DecodeTroubleshootResourceRequest),
		of(wire.EncodeTroubleshootResourceResponse, wire.DecodeTroubleshootResourceResponse),
		of(wire.EncodeStartWorkloadRequest, wire.DecodeStartWorkloadRequest),
		of(wire.EncodeStartWorkloadResponse, wire.DecodeStartWorkloadResponse),
		of(wire.EncodeStopWorkloadRequest, wire.DecodeStopWorkloadRequest),
		of(wire.EncodeStopWorkloadResponse, wire.DecodeStopWorkloadResponse),
		of(wire.EncodeScaleWorkloadRequest, wire.DecodeScaleWorkloadRequest),
		of(wire.EncodeScaleWorkloadResponse, wire.DecodeScaleWorkloadResponse),
		of(wire.EncodeRestartWorkloadRequest, wire.DecodeRestartWorkloadRequest),
		of(wire.EncodeRestartWorkloadResponse, wire.DecodeRestartWorkloadResponse),
		of(wire.EncodeApplyConfigRequest, wire.DecodeApplyConfigRequest),
		of(wire.EncodeApplyConfigResponse, wire.DecodeApplyConfigResponse),
		of(wire.EncodeWorkloadStatusRequest, wire.DecodeWorkloadStatusRequest),
		of(wire.EncodeWorkloadStatusResponse, wire.DecodeWorkloadStatusResponse),
		of(wire.EncodeListWorkloadsRequest, wire.DecodeListWorkloadsRequest),
		of(wire.EncodeListWorkloadsResponse, wire.DecodeListWorkloadsResponse),
		of(wire.EncodeTailLogsRequest, wire.DecodeTailLogsRequest),
		of(func(i sdk.WorkloadLogItem) (*pb.TailLogsResponse, error) { return tailLogs(i) }, func(m *pb.TailLogsResponse) (sdk.WorkloadLogItem, error) {
			return first(wire.DecodeTailLogsResponse(m))
		},
			sdk.WorkloadLogItem{Instance: "a", Entry: filled[*sdk.LogChunk](f)}, sdk.WorkloadLogItem{Instance: "b", Gap: filled[*sdk.LogGap](f)}),
		of(wire.EncodeStreamMetricsRequest, wire.DecodeStreamMetricsRequest),
		of(wire.EncodeStreamMetricsResponse, wire.DecodeStreamMetricsResponse,
			sdk.MetricItem{Path: "a", Instance: "i", Sample: filled[*sdk.MetricSample](f)}, sdk.MetricItem{Path: "a", Warming: "not yet"}),
		of(wire.EncodeExecWorkloadRequest, func(m *pb.ExecWorkloadRequest) (sdk.ExecWorkloadRequest, error) {
			r, _, err := wire.DecodeExecWorkloadRequest(m)
			return r, err
		}),
		of(wire.EncodeExecWorkloadResult, wire.DecodeExecWorkloadResult),
		of(wire.EncodeDescribeResponse, wire.DecodeDescribeResponse),
		of(func(o opening) (*pb.OpenRequest, error) { return wire.EncodeOpenRequest(o.Session, o.Request) },
			func(m *pb.OpenRequest) (o opening, err error) {
				o.Session, o.Request, err = wire.DecodeOpenRequest(m)
				return o, err
			}),
		of(wire.EncodeOpenResponse, wire.DecodeOpenResponse),
		of(wire.EncodeInfoResponse, wire.DecodeInfoResponse),
		of(wire.EncodeCheckResponse, wire.DecodeCheckResponse),
	}
}

// jobLogs is a message of some items.
func jobLogs(items ...sdk.LogItem) (*pb.JobLogsResponse, error) {
	var l wire.JobLogs
	for _, i := range items {
		if _, err := l.Add(i); err != nil {
			return nil, err
		}
	}
	return l.Message(), nil
}

func tailLogs(items ...sdk.WorkloadLogItem) (*pb.TailLogsResponse, error) {
	var l wire.TailLogs
	for _, i := range items {
		if _, err := l.Add(i); err != nil {
			return nil, err
		}
	}
	return l.Message(), nil
}

// first returns the first item of a message.
func first[V any](seq iter.Seq2[V, error]) (V, error) {
	for v, err := range seq {
		return v, err
	}
	var none V
	return none, nil
}

// resend returns a message as the wire brings it.
func resend(t testing.TB, m proto.Message) proto.Message {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	out := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(b, out); err != nil {
		t.Fatalf("unmarshal: %v", err)
	}
	return out
}

// TestRoundTrip sends every type of the contract there and back, with everything set.
func TestRoundTrip(t *testing.T) {
	for _, c := range trips() {
		t.Run(c.name(), func(t *testing.T) {
			for _, v := range c.values {
				m, err := c.encode(v)
				if err != nil {
					t.Fatalf("encode: %v", err)
				}
				got, err := c.decode(resend(t, m))
				if err != nil {
					t.Fatalf("decode: %v", err)
				}
				if !reflect.DeepEqual(got, v) {
					t.Errorf("came back as\n%+v\nwas\n%+v", got, v)
				}
			}
		})
	}
}

// TestUnsetStaysUnset sends specs and launches whose lists are unset, empty and set.
func TestUnsetStaysUnset(t *testing.T) {
	zero, minute := filled[sdk.CancelJobRequest](&filler{}), filled[sdk.CancelJobRequest](&filler{})
	*zero.Grace, minute.Grace = 0, nil
	for _, r := range []sdk.CancelJobRequest{zero, minute} {
		m, err := wire.EncodeCancelJobRequest(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.DecodeCancelJobRequest(resend(t, m).(*pb.CancelJobRequest))
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("grace %v came back as %v, %v", r.Grace, got.Grace, err)
		}
	}
	for _, a := range []sdk.Argv{nil, {}, {""}, {"a", "\xff\xfe", "b c"}} {
		spec := sdk.JobSpec{V: 1, Entrypoint: a, Args: a, ImageEntrypoint: a, Env: sdk.Env{"RAW": "\xff"}}
		m, err := wire.EncodePrepareJobRequest(sdk.PrepareJobRequest{Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.DecodePrepareJobRequest(resend(t, m).(*pb.PrepareJobRequest))
		if err != nil || !reflect.DeepEqual(got.Spec, spec) {
			t.Errorf("%#v came back as %#v, %v", spec, got.Spec, err)
		}
	}
	for _, raw := range [][]byte{nil, {}, []byte("{}")} {
		l := sdk.Launch{V: 1, Request: raw, Resubmit: sdk.ResubmitRule{By: sdk.SubmitByName}, Files: []sdk.InputFile{{Path: "/a", Data: raw}}}
		m, err := wire.EncodePrepareJobResponse(l)
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.DecodePrepareJobResponse(resend(t, m).(*pb.PrepareJobResponse))
		if err != nil || !reflect.DeepEqual(got, l) {
			t.Errorf("%#v came back as %#v, %v", l, got, err)
		}
	}
}

// FuzzDecode decodes any bytes as every message: nothing panics, and what is accepted
// can be sent again and means the same.
func FuzzDecode(f *testing.F) {
	all := trips()
	for i, c := range all {
		for _, v := range c.values {
			m, err := c.encode(v)
			if err != nil {
				f.Fatal(err)
			}
			b, err := proto.Marshal(m)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), b)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		c := all[int(which)%len(all)]
		m := c.message.ProtoReflect().New().Interface()
		if proto.Unmarshal(data, m) != nil {
			return
		}
		v, err := c.decode(m)
		if err != nil {
			if code := sdk.CodeOf(err); code != sdk.InvalidArgument && code != sdk.FailedPrecondition && code != sdk.Internal {
				t.Fatalf("decode failed with %v: %v", code, err)
			}
			return
		}
		if big, ok := v.(sdk.LogItem); ok && big.Entry != nil && len(big.Entry.Data) > wire.MaxLogData {
			return
		}
		again, err := c.encode(v)
		if err != nil {
			t.Fatalf("what was decoded can't be encoded: %v", err)
		}
		w, err := c.decode(resend(t, again))
		if err != nil {
			t.Fatalf("what was encoded can't be decoded: %v", err)
		}
		third, err := c.encode(w)
		if err != nil || !proto.Equal(again, third) {
			t.Fatalf("changed on its second way: %v\n%v\n%v", err, again, third)
		}
	})
}
