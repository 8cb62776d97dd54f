package wire_test

import (
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// files are all of windlass.provider.v1.
func files() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{
		pb.File_windlass_provider_v1_error_proto, pb.File_windlass_provider_v1_launch_proto, pb.File_windlass_provider_v1_job_proto,
		pb.File_windlass_provider_v1_log_proto, pb.File_windlass_provider_v1_owned_proto, pb.File_windlass_provider_v1_resource_proto, pb.File_windlass_provider_v1_provider_proto,
		pb.File_windlass_provider_v1_workload_proto,
	}
}

func services() map[string]protoreflect.ServiceDescriptor {
	out := map[string]protoreflect.ServiceDescriptor{}
	for _, f := range files() {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			out[string(s.Name())] = s
		}
	}
	return out
}

// TestServices compares the table of capabilities with the services: a capability, or
// a method of one, that is on one side alone fails here.
func TestServices(t *testing.T) {
	left := services()
	if _, ok := left["ProviderService"]; !ok {
		t.Error("there is no ProviderService")
	}
	delete(left, "ProviderService")
	for _, row := range sdk.Capabilities() {
		name := row.Name + "Service"
		s, ok := left[name]
		if !ok {
			t.Errorf("capability %s has no service %s", row.Name, name)
			continue
		}
		delete(left, name)
		var want, got []string
		for i := range row.Type().NumMethod() {
			m := row.Type().Method(i)
			want = append(want, m.Name)
			rpc := s.Methods().ByName(protoreflect.Name(m.Name))
			if rpc == nil {
				continue
			}
			streams := m.Type.NumOut() == 1 // an iter.Seq2
			if m.Name == "RunJob" || m.Name == "ExecWorkload" {
				streams = true // progress comes before the result, input after it
			}
			if rpc.IsStreamingServer() != streams {
				t.Errorf("%s.%s: streams replies %v, want %v", name, m.Name, rpc.IsStreamingServer(), streams)
			}
			if in, out := string(rpc.Input().Name()), string(rpc.Output().Name()); in != m.Name+"Request" || out != m.Name+"Response" {
				t.Errorf("%s.%s takes %s and gives %s", name, m.Name, in, out)
			}
		}
		for i := range s.Methods().Len() {
			got = append(got, string(s.Methods().Get(i).Name()))
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %v, the interface has %v", name, got, want)
		}
	}
	for name := range left {
		t.Errorf("service %s has no capability", name)
	}
}

// TestTypesOfTheContract wants a conversion, tried in both directions, for all that
// the methods of the capabilities take and give.
func TestTypesOfTheContract(t *testing.T) {
	tried := map[reflect.Type]bool{}
	for _, c := range trips() {
		tried[c.typ] = true
	}
	check := func(where string, typ reflect.Type) {
		if typ.Kind() == reflect.Struct && typ.NumField() == 0 {
			return
		}
		if !tried[typ] {
			t.Errorf("%s: %s has no conversion", where, typ)
		}
	}
	for _, row := range sdk.Capabilities() {
		for i := range row.Type().NumMethod() {
			m := row.Type().Method(i)
			where := row.Name + "." + m.Name
			check(where, m.Type.In(1))
			out := m.Type.Out(0)
			if m.Type.NumOut() == 1 {
				out = out.In(0).In(0) // the first of an iter.Seq2's yield
			}
			check(where, out)
		}
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[sdk.Driver](), reflect.TypeFor[sdk.Info](), reflect.TypeFor[sdk.CheckResult]()} {
		check("provider", typ)
	}
}

// TestFields wants every field of every message to be set by some conversion of
// values that have everything set: the other half of TestRoundTrip, which can't see a
// field that neither side uses.
func TestFields(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	var mark func(m protoreflect.Message)
	mark = func(m protoreflect.Message) {
		m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			seen[fd.FullName()] = true
			switch {
			case fd.IsMap():
			case fd.IsList() && fd.Message() != nil:
				for i := range v.List().Len() {
					mark(v.List().Get(i).Message())
				}
			case fd.Message() != nil:
				mark(v.Message())
			}
			return true
		})
	}
	for _, c := range trips() {
		for _, v := range c.values {
			m, err := c.encode(v)
			if err != nil {
				t.Fatalf("%s: %v", c.name(), err)
			}
			mark(m.ProtoReflect())
		}
	}
	mark(wire.EncodeError(&outer{fullError()}).ProtoReflect())
	mark(wire.EncodeProgress("pulling").ProtoReflect())
	start, err := wire.EncodeRunJobRequest(sdk.RunJobRequest{Launch: filled[sdk.Launch](&filler{}), Stdin: strings.NewReader(""), Progress: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	mark(start.ProtoReflect())
	command, err := wire.EncodeExecWorkloadRequest(sdk.ExecWorkloadRequest{Op: filled[sdk.OpRequest](&filler{}), Stdin: strings.NewReader("")})
	if err != nil {
		t.Fatal(err)
	}
	mark(command.ProtoReflect())
	failed, err := wire.EncodeStreamMetricsResponse(sdk.MetricItem{Path: "a", Failed: fullError()})
	if err != nil {
		t.Fatal(err)
	}
	mark(failed.ProtoReflect())
	size, err := wire.EncodeResize(sdk.TerminalSize{Columns: 80, Rows: 24})
	if err != nil {
		t.Fatal(err)
	}
	mark(size.ProtoReflect())
	// Streams that the two sides of a connection write themselves.
	for _, m := range []proto.Message{
		&pb.RunJobRequest{Part: &pb.RunJobRequest_Stdin{}},
		&pb.ExecWorkloadRequest{Part: &pb.ExecWorkloadRequest_Stdin{}}, &pb.ExecWorkloadRequest{Part: &pb.ExecWorkloadRequest_StdinEnd{StdinEnd: true}},
		&pb.ExecWorkloadRequest{Part: &pb.ExecWorkloadRequest_Signal{Signal: "INT"}},
		&pb.ExecWorkloadResponse{Part: &pb.ExecWorkloadResponse_Stdout{}}, &pb.ExecWorkloadResponse{Part: &pb.ExecWorkloadResponse_Stderr{}},
		&pb.CallbacksRequest{Id: 1, Answer: &pb.CallbacksRequest_Secret{}}, &pb.CallbacksRequest{Answer: &pb.CallbacksRequest_Error{}},
		&pb.CallbacksResponse{Id: 1, Question: &pb.CallbacksResponse_ResolveSecret{}}, &pb.CallbacksResponse{Question: &pb.CallbacksResponse_Withdrawn{}},
	} {
		mark(m.ProtoReflect())
	}
	for _, f := range files() {
		for i := range f.Messages().Len() {
			m := f.Messages().Get(i)
			for j := range m.Fields().Len() {
				if fd := m.Fields().Get(j); !seen[fd.FullName()] {
					t.Errorf("%s is set by nothing", fd.FullName())
				}
			}
		}
	}
}

// TestRunJobWants checks the two members of RunJobRequest that travel as wishes.
func TestRunJobWants(t *testing.T) {
	for _, stdin := range []io.Reader{nil, strings.NewReader("x")} {
		for _, progress := range []func(string){nil, func(string) {}} {
			m, err := wire.EncodeRunJobRequest(sdk.RunJobRequest{Launch: filled[sdk.Launch](&filler{}), Stdin: stdin, Progress: progress})
			if err != nil {
				t.Fatal(err)
			}
			_, in, lines, err := wire.DecodeRunJobRequest(resend(t, m).(*pb.RunJobRequest))
			if err != nil || in != (stdin != nil) || lines != (progress != nil) {
				t.Errorf("stdin %v, progress %v came back as %v, %v, %v", stdin != nil, progress != nil, in, lines, err)
			}
		}
	}
}
