package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/sandboxpb"
)

var record = flag.String("record", "", "write what is replayed of a `release` anew: scripts/record")

// releases is where each release has a folder: proto/released/README.md.
const releases = "../../proto/released"

// sandboxCalls is the file of a release with the calls of the sandbox package.
const sandboxCalls = "sandbox.json"

// oldCall is one call as it went between a release's own client and server.
type oldCall struct {
	Method   string   `json:"method"`
	Requests [][]byte `json:"requests"`
	Replies  [][]byte `json:"replies"`
	// Status is a google.rpc.Status, of a call that fails.
	Status []byte `json:"status,omitempty"`
}

// errand is an execution, and what comes of it.
type errand struct {
	exec     sandbox.Exec
	out, err string
	code     int
	// fails is the class of its error; 0 is none.
	fails sdk.Code
}

// errands are those whose calls are recorded: with every field of a request, every kind of
// a chunk, and a refusal.
func errands() []errand {
	return []errand{
		{exec: sandbox.Exec{Profile: sdk.ProfileStandard, Image: "img é", Command: words("echo out é; err bad; exit 7"), Env: map[string]string{"A": "b c", "E": ""},
			Secrets: map[string]sdk.SecretRef{"S": "secret://env/S"}, WorkDir: "/w é"}, out: "out é\n", err: "bad\n", code: 7},
		{exec: sandbox.Exec{Image: "img", Command: words("echo fine; exit 0")}, out: "fine\n"},
		{exec: sandbox.Exec{Image: "img", Command: words("true"), Secrets: map[string]sdk.SecretRef{"S": "secret://env/OTHER"}}, fails: sdk.PermissionDenied},
	}
}

// TestReleasedSandbox replays the calls of each release against both ends of today: the old
// client sees today's server as it saw its own, and today's client the old server.
func TestReleasedSandbox(t *testing.T) {
	if *record != "" {
		recordSandbox(t, filepath.Join(releases, *record, sandboxCalls))
	}
	files, err := filepath.Glob(filepath.Join(releases, "*", sandboxCalls))
	if err != nil || len(files) == 0 {
		t.Fatalf("no releases: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var calls []*oldCall
			if err := json.Unmarshal(text, &calls); err != nil {
				t.Fatal(err)
			}
			if len(calls) < len(errands()) {
				t.Fatalf("%d calls, want %d", len(calls), len(errands()))
			}
			old := oldService(t, filepath.Dir(file))
			t.Run("every field", func(t *testing.T) { old.covered(t, calls) })
			t.Run("old client", func(t *testing.T) {
				conn := recorded(t)
				for _, c := range calls {
					old.asks(t, conn, c)
				}
			})
			t.Run("old server", func(t *testing.T) { drive(t, &oldServer{t: t, calls: calls}) })
		})
	}
}

// recorded is the connection to a server of today that knows the client of the records.
func recorded(t *testing.T) *grpc.ClientConn {
	t.Helper()
	w := newWorld(t)
	s := w.serve(w.options(Client{Name: "ci", Profile: sdk.ProfileStandard, Secrets: []string{"secret://env/S"}}))
	return w.conn(s.addr, "ci")
}

// drive has today's client run all errands over a connection.
func drive(t *testing.T, conn grpc.ClientConnInterface) {
	t.Helper()
	e := &Environment{name: "far", client: sandboxpb.NewSandboxExecServiceClient(conn)}
	for i, x := range errands() {
		o := newOutput()
		res, err := e.Exec(t.Context(), sandbox.Request{Exec: x.exec, Output: o})
		if x.fails != 0 {
			if !errors.Is(err, x.fails) {
				t.Errorf("errand %d: %v, want %v", i, err, x.fails)
			}
			continue
		}
		out, errs := o.texts()
		if err != nil || res.ExitCode == nil || *res.ExitCode != x.code || out != x.out || errs != x.err {
			t.Errorf("errand %d: %+v, %v, %q, %q", i, res, err, out, errs)
		}
	}
}

// service is the wire of a release.
type service struct {
	request, chunk protoreflect.MessageDescriptor
	method         string
}

func oldService(t *testing.T, dir string) service {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "descriptors.binpb"))
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(data, &set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		t.Fatal(err)
	}
	d, err := files.FindDescriptorByName("workflow.plugin.external.sandbox.SandboxExecService")
	if err != nil {
		t.Fatal(err)
	}
	m := d.(protoreflect.ServiceDescriptor).Methods()
	if m.Len() != 1 {
		t.Fatalf("the service has %d methods: record the others too", m.Len())
	}
	return service{request: m.Get(0).Input(), chunk: m.Get(0).Output(), method: sandboxpb.SandboxExecService_Exec_FullMethodName}
}

// covered wants each field of both messages in some call.
func (s service) covered(t *testing.T, calls []*oldCall) {
	seen := map[protoreflect.FullName]bool{}
	note := func(d protoreflect.MessageDescriptor, all [][]byte) {
		for _, data := range all {
			m := dynamicpb.NewMessage(d)
			if err := proto.Unmarshal(data, m); err != nil {
				t.Fatal(err)
			}
			m.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
				seen[f.FullName()] = true
				return true
			})
		}
	}
	failed := false
	for _, c := range calls {
		note(s.request, c.Requests)
		note(s.chunk, c.Replies)
		failed = failed || c.Status != nil
	}
	for _, d := range []protoreflect.MessageDescriptor{s.request, s.chunk} {
		for i := range d.Fields().Len() {
			if f := d.Fields().Get(i); !seen[f.FullName()] {
				t.Errorf("%s is in no call", f.FullName())
			}
		}
	}
	if !failed {
		t.Error("no call fails")
	}
}

// said is what a client of the release makes of replies: how output is cut doesn't matter.
type said struct {
	out, err []byte
	code     *int64
}

func (s service) read(t *testing.T, replies [][]byte) (x said) {
	t.Helper()
	for _, data := range replies {
		m := dynamicpb.NewMessage(s.chunk)
		if err := proto.Unmarshal(data, m); err != nil {
			t.Fatal(err)
		}
		if x.code != nil {
			t.Error("something follows the exit code")
		}
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch f.Name() {
			case "stdout":
				x.out = append(x.out, v.Bytes()...)
			case "stderr":
				x.err = append(x.err, v.Bytes()...)
			case "exit_code":
				n := v.Int()
				x.code = &n
			}
			return true
		})
	}
	return x
}

// asks makes a call of the release's client, and compares what it gets with what it got.
func (s service) asks(t *testing.T, conn grpc.ClientConnInterface, c *oldCall) {
	t.Helper()
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, c.Method)
	if err != nil {
		t.Fatal(err)
	}
	req := &sandboxpb.SandboxExecRequest{}
	if len(c.Requests) != 1 || proto.Unmarshal(c.Requests[0], req) != nil {
		t.Fatalf("%d requests", len(c.Requests))
	}
	if err := errors.Join(stream.SendMsg(req), stream.CloseSend()); err != nil {
		t.Fatal(err)
	}
	var replies [][]byte
	for err == nil {
		m := &sandboxpb.SandboxExecChunk{}
		if err = stream.RecvMsg(m); err == nil {
			replies = append(replies, marshal(t, m))
		}
	}
	var then rpcstatus.Status
	if perr := proto.Unmarshal(c.Status, &then); perr != nil || then.GetCode() != 0 && !proto.Equal(status.Convert(err).Proto(), &then) || then.GetCode() == 0 && !errors.Is(err, io.EOF) {
		t.Errorf("%v ends with %v, then with %v", req, err, &then)
	}
	got, want := s.read(t, replies), s.read(t, c.Replies)
	if !bytes.Equal(got.out, want.out) || !bytes.Equal(got.err, want.err) || (got.code == nil) != (want.code == nil) || got.code != nil && *got.code != *want.code {
		t.Errorf("%v gives %+v, then %+v", req, got, want)
	}
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// oldServer wants the requests of then, in their order, and answers what was answered.
type oldServer struct {
	t     testing.TB
	calls []*oldCall
}

func (*oldServer) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return errors.New("the service has no such method")
}

func (s *oldServer) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	if len(s.calls) == 0 || s.calls[0].Method != method {
		s.t.Fatalf("%s was called, and wasn't then", method)
	}
	c := s.calls[0]
	s.calls = s.calls[1:]
	return &oldStream{ctx: ctx, t: s.t, c: c}, nil
}

type oldStream struct {
	ctx  context.Context
	t    testing.TB
	c    *oldCall
	read int
}

func (s *oldStream) Header() (metadata.MD, error) { return metadata.MD{}, nil }
func (s *oldStream) Trailer() metadata.MD         { return metadata.MD{} }
func (s *oldStream) CloseSend() error             { return nil }
func (s *oldStream) Context() context.Context     { return s.ctx }

func (s *oldStream) SendMsg(m any) error {
	then := &sandboxpb.SandboxExecRequest{}
	if len(s.c.Requests) != 1 || proto.Unmarshal(s.c.Requests[0], then) != nil || !proto.Equal(m.(proto.Message), then) {
		s.t.Errorf("asked with\n%v, then with\n%v", m, then)
	}
	return nil
}

func (s *oldStream) RecvMsg(m any) error {
	if s.read < len(s.c.Replies) {
		s.read++
		return proto.Unmarshal(s.c.Replies[s.read-1], m.(proto.Message))
	}
	var st rpcstatus.Status
	if err := proto.Unmarshal(s.c.Status, &st); err != nil || st.GetCode() == 0 {
		return io.EOF
	}
	return status.ErrorProto(&st)
}

// recordSandbox writes the calls of all errands.
func recordSandbox(t *testing.T, file string) {
	t.Helper()
	r := &recorder{t: t, ClientConnInterface: recorded(t)}
	drive(t, r)
	text, err := json.MarshalIndent(r.calls, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil { //nolint:gosec // for everybody
		t.Fatal(err)
	}
}

// recorder notes what goes over a connection.
type recorder struct {
	grpc.ClientConnInterface
	t     testing.TB
	calls []*oldCall
}

func (r *recorder) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, o ...grpc.CallOption) (grpc.ClientStream, error) {
	c := &oldCall{Method: method}
	r.calls = append(r.calls, c)
	s, err := r.ClientConnInterface.NewStream(ctx, d, method, o...)
	return &recordedStream{ClientStream: s, t: r.t, c: c}, err
}

type recordedStream struct {
	grpc.ClientStream
	t testing.TB
	c *oldCall
}

func (s *recordedStream) SendMsg(m any) error {
	s.c.Requests = append(s.c.Requests, marshal(s.t, m.(proto.Message)))
	return s.ClientStream.SendMsg(m)
}

func (s *recordedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case err == nil:
		s.c.Replies = append(s.c.Replies, marshal(s.t, m.(proto.Message)))
	case !errors.Is(err, io.EOF):
		s.c.Status = marshal(s.t, status.Convert(err).Proto())
	}
	return err
}
