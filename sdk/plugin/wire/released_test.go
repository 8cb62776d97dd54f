package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin"
	"github.com/windlass-run/windlass/sdk/plugin/client"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

var record = flag.String("record", "", "write what is replayed of a `release` anew")

// releases is where each release has a folder: with its descriptors, and calls as they
// went over the wire between its own two ends.
const releases = "../../../proto/released"

// recorded is one call: every message of it, in the order of its direction.
type recorded struct {
	Method   string   `json:"method"`
	Requests [][]byte `json:"requests"`
	Replies  [][]byte `json:"replies"`
	// Status is a google.rpc.Status, of a call that fails.
	Status []byte `json:"status,omitempty"`
}

// TestReleased replays the calls of each release against both ends of today: the old host
// sees today's plugin as it saw its own, and today's host the old plugin.
func TestReleased(t *testing.T) {
	if *record != "" {
		writeReleased(t, filepath.Join(releases, *record))
	}
	dirs, err := filepath.Glob(filepath.Join(releases, "*", "calls.json"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no releases: %v", err)
	}
	for _, at := range dirs {
		dir := filepath.Dir(at)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			calls, old := readReleased(t, dir, "calls.json")
			t.Run("descriptors", func(t *testing.T) { old.kept(t) })
			t.Run("every method", func(t *testing.T) { old.covered(t, calls, "windlass.provider.v1") })
			values := remembered(t, old, calls)
			t.Run("old plugin", func(t *testing.T) { drive(t, values, &player{t: t, old: old, calls: calls}) })
			t.Run("old host", func(t *testing.T) {
				replay(t, old, calls, serveWitness(t, &witness{t: t, book: values}))
			})
		})
	}
}

func serveWitness(t *testing.T, w *witness) *grpc.ClientConn {
	t.Helper()
	var s *plugin.Server
	conn := plugintest.Serve(t, func(r grpc.ServiceRegistrar) {
		var err error
		if s, err = plugin.Register(r, w.driver()); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// book has values of the types of the contract, which calls take and give.
type book map[reflect.Type][]reflect.Value

// everything has each type with everything set.
func everything() book {
	b := book{}
	for _, c := range trips() {
		for _, v := range c.values {
			b[c.typ] = append(b[c.typ], reflect.ValueOf(v))
		}
	}
	return b
}

// remembered has the values of recorded calls, as today reads them: what was added since
// isn't set in them.
func remembered(t *testing.T, old *release, calls []*recorded) book {
	t.Helper()
	b := book{}
	for _, c := range trips() {
		for _, data := range old.messages(calls, c.name()) {
			m := c.message.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(data, m); err != nil {
				t.Fatal(err)
			}
			switch m := m.(type) {
			case *pb.JobLogsResponse:
				for _, v := range collect(t, wire.DecodeJobLogsResponse(m)) {
					b[c.typ] = append(b[c.typ], reflect.ValueOf(v))
				}
			case *pb.TailLogsResponse:
				for _, v := range collect(t, wire.DecodeTailLogsResponse(m)) {
					b[c.typ] = append(b[c.typ], reflect.ValueOf(v))
				}
			default:
				// Some messages of a stream are parts besides: input, progress, output.
				if v, err := c.decode(m); err == nil {
					b[c.typ] = append(b[c.typ], reflect.ValueOf(v))
				}
			}
		}
	}
	return b
}

// of returns the values of a type.
func (b book) of(typ reflect.Type) []reflect.Value {
	if list := b[typ]; len(list) > 0 {
		return list
	}
	return []reflect.Value{reflect.Zero(typ)} // it has no members
}

func valueOf[T any](b book) T { return b.of(reflect.TypeFor[T]())[0].Interface().(T) }

// refusal is what a call with nothing set is answered with.
func refusal() *sdk.Error {
	return &sdk.Error{Code: sdk.ResourceExhausted, Op: "job status", Provider: "prod", Field: "handle", ID: "too-many", Remedy: "ask later", Reason: sdk.ReasonCredentials,
		Retryable: true, RetryAfter: 1500 * time.Millisecond, Err: fmt.Errorf("asked too often: %w", sdk.Problems{{Field: "handle", Value: "x", Message: "is asked for", Code: sdk.Aborted}})}
}

// same is a source of one ID.
type sameID struct{}

func (sameID) NewID() sdk.ID { return sdk.ID{15: 7} }

// answers resolves every reference to itself.
type answers struct{}

func (answers) ResolveSecret(_ context.Context, ref sdk.SecretRef) (sdk.SecretValue, error) {
	return sdk.NewSecretValue([]byte(ref)), nil
}

// drive is a host that opens a provider and calls every method of every capability, each
// with everything set, and wants what a witness gives.
func drive(t *testing.T, b book, conn grpc.ClientConnInterface) {
	t.Helper()
	w := &witness{t: t, book: b}
	ctx := t.Context()
	d, err := client.Driver(ctx, conn, sameID{})
	if err != nil {
		t.Fatal(err)
	}
	want := w.driver()
	open := d.Open
	if d.Open, want.Open = nil, nil; !reflect.DeepEqual(d, want) {
		t.Errorf("the driver is\n%+v, want\n%+v", d, want)
	}
	r := valueOf[opening](b).Request
	r.Secrets = answers{}
	p, err := open(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(p.Info(), w.Info()) {
		t.Errorf("the provider is %+v", p.Info())
	}
	if res, err := p.Check(ctx, sdk.CheckRequest{}); err != nil || !reflect.DeepEqual(res, valueOf[sdk.CheckResult](b)) {
		t.Errorf("check: %+v, %v", res, err)
	}
	session := metadata.AppendToOutgoingContext(ctx, wire.SessionKey, sdk.ID{15: 7}.String())
	if _, err := pb.NewProviderServiceClient(conn).Info(session, &pb.InfoRequest{}); err != nil {
		t.Errorf("info: %v", err)
	}
	for _, row := range sdk.Capabilities() {
		can := reflect.ValueOf(p.(sdk.Asker).AskCapability(row.Name))
		if !can.IsValid() {
			t.Errorf("the provider has no %s", row.Name)
			continue
		}
		for i := range row.Type().NumMethod() {
			callMethod(t, b, can, row.Type().Method(i))
		}
	}
	runner, _ := sdk.Of(p, sdk.Runner())
	_, err = runner.JobStatus(ctx, sdk.JobStatusRequest{})
	var e *sdk.Error
	if want := refusal(); !errors.As(err, &e) || e.Code != want.Code || e.Op != want.Op || e.Provider != want.Provider || e.Field != want.Field || e.ID != want.ID || e.Remedy != want.Remedy ||
		e.Reason != want.Reason || e.Retryable != want.Retryable || e.RetryAfter != want.RetryAfter || e.Err.Error() != want.Err.Error() {
		t.Errorf("a call that fails: %v", err)
	}
	var got, told sdk.Problems
	if !errors.As(err, &got) || !errors.As(refusal(), &told) || !reflect.DeepEqual(got, told) {
		t.Errorf("a call that fails: its problems are %+v", got)
	}
	if err := p.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func callMethod(t *testing.T, b book, can reflect.Value, m reflect.Method) {
	t.Helper()
	arg := reflect.New(m.Type.In(1)).Elem()
	arg.Set(b.of(m.Type.In(1))[0])
	var out, errs strings.Builder
	switch r := arg.Addr().Interface().(type) {
	case *sdk.RunJobRequest:
		r.Stdin, r.Progress = strings.NewReader("input"), func(line string) { out.WriteString(line) }
	case *sdk.ExecWorkloadRequest:
		r.Stdin, r.Stdout, r.Stderr, r.Signals = strings.NewReader("input"), &out, &errs, make(chan string)
	}
	res := can.MethodByName(m.Name).Call([]reflect.Value{reflect.ValueOf(t.Context()), arg})
	if len(res) == 2 {
		want := b.of(m.Type.Out(0))[0].Interface()
		if err, _ := res[1].Interface().(error); err != nil || !reflect.DeepEqual(res[0].Interface(), want) {
			t.Errorf("%s gave\n%+v, %v, want\n%+v", m.Name, res[0].Interface(), err, want)
		}
	} else {
		var got, want []any
		for v, err := range res[0].Seq2() {
			if !err.IsNil() {
				t.Errorf("%s: %v", m.Name, err)
				break
			}
			got = append(got, v.Interface())
		}
		for _, v := range b.said(m.Type.Out(0).In(0).In(0)) {
			want = append(want, v.Interface())
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s gave\n%+v, want\n%+v", m.Name, got, want)
		}
	}
	if m.Name == "RunJob" && out.String() != "pulling" || m.Name == "ExecWorkload" && (out.String() != "out" || errs.String() != "err") {
		t.Errorf("%s said %q and %q", m.Name, out.String(), errs.String())
	}
}

// said are the items of a stream; a log has its end at the end.
func (b book) said(typ reflect.Type) []reflect.Value {
	list := b.of(typ)
	if i := slices.IndexFunc(list, func(v reflect.Value) bool { l, ok := v.Interface().(sdk.LogItem); return ok && l.End != nil }); i >= 0 {
		end := list[i]
		list = append(slices.Delete(slices.Clone(list), i, i+1), end)
	}
	return list
}

// recorder notes what goes over a connection.
type recorder struct {
	grpc.ClientConnInterface
	mu    sync.Mutex
	calls []*recorded
}

func (r *recorder) begin(method string) *recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &recorded{Method: method}
	r.calls = append(r.calls, c)
	return c
}

func (r *recorder) note(to *[][]byte, m any) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m.(proto.Message))
	if err != nil {
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	*to = append(*to, b)
}

func (r *recorder) failed(c *recorded, err error) {
	if st, ok := status.FromError(err); err != nil && ok {
		c.Status, _ = proto.MarshalOptions{Deterministic: true}.Marshal(st.Proto())
	}
}

func (r *recorder) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	c := r.begin(method)
	r.note(&c.Requests, args)
	err := r.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	if err != nil {
		r.failed(c, err)
		return err
	}
	r.note(&c.Replies, reply)
	return err
}

func (r *recorder) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := r.ClientConnInterface.NewStream(ctx, d, method, opts...)
	return &recordedStream{ClientStream: s, r: r, c: r.begin(method)}, err
}

type recordedStream struct {
	grpc.ClientStream
	r *recorder
	c *recorded
}

func (s *recordedStream) SendMsg(m any) error {
	s.r.note(&s.c.Requests, m)
	return s.ClientStream.SendMsg(m)
}

func (s *recordedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.r.note(&s.c.Replies, m)
	}
	return err
}

func writeReleased(t *testing.T, dir string) {
	t.Helper()
	all := everything()
	r := &recorder{ClientConnInterface: serveWitness(t, &witness{t: t, book: all})}
	drive(t, all, r)
	set, err := os.ReadFile(filepath.Join(releases, "..", "baseline.binpb"))
	if err != nil {
		t.Fatal(err)
	}
	writeCalls(t, filepath.Join(dir, "calls.json"), r.calls)
	if err := os.WriteFile(filepath.Join(dir, "descriptors.binpb"), set, 0o644); err != nil { //nolint:gosec // for everybody
		t.Fatal(err)
	}
}

func writeCalls(t *testing.T, file string, calls []*recorded) {
	t.Helper()
	text, err := json.MarshalIndent(calls, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, append(text, '\n'), 0o644)); err != nil { //nolint:gosec // for everybody
		t.Fatal(err)
	}
}

func readReleased(t *testing.T, dir, file string) ([]*recorded, *release) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	var calls []*recorded
	if err := json.Unmarshal(text, &calls); err != nil {
		t.Fatal(err)
	}
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
	return calls, &release{files}
}

// release is a release's wire as it was.
type release struct{ files *protoregistry.Files }

func (r *release) method(name string) protoreflect.MethodDescriptor {
	service, method, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	d, err := r.files.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return nil
	}
	return d.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(method))
}

// messages returns those of a name, of the first call that has any.
func (r *release) messages(calls []*recorded, name string) [][]byte {
	for _, c := range calls {
		d := r.method(c.Method)
		switch protoreflect.Name(name) {
		case d.Input().Name():
			return c.Requests
		case d.Output().Name():
			return c.Replies
		}
	}
	return nil
}

// read reads a message as the release does; strict refuses what it doesn't know.
func (r *release) read(t testing.TB, d protoreflect.MessageDescriptor, data []byte, strict bool) proto.Message {
	t.Helper()
	m := dynamicpb.NewMessage(d)
	o := proto.UnmarshalOptions{DiscardUnknown: !strict, Resolver: dynamicpb.NewTypes(r.files)}
	if err := o.Unmarshal(data, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// covered wants a call of each method of these packages, so that no service is forgotten.
func (r *release) covered(t *testing.T, calls []*recorded, packages ...protoreflect.FullName) {
	r.files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				name := fmt.Sprintf("/%s/%s", s.FullName(), s.Methods().Get(j).Name())
				if slices.Contains(packages, f.Package()) && !slices.ContainsFunc(calls, func(c *recorded) bool { return c.Method == name && len(c.Requests)+len(c.Replies) > 0 }) {
					t.Errorf("%s isn't recorded", name)
				}
			}
		}
		return true
	})
}

// kept wants all that was released to be there under its name, number and type.
func (r *release) kept(t *testing.T) {
	r.files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Messages().Len() {
			m := f.Messages().Get(i)
			now, err := protoregistry.GlobalFiles.FindDescriptorByName(m.FullName())
			if err != nil {
				if strings.HasPrefix(string(m.FullName()), "windlass.") {
					t.Errorf("%s has gone", m.FullName())
				}
				continue
			}
			for j := range m.Fields().Len() {
				was := m.Fields().Get(j)
				is := now.(protoreflect.MessageDescriptor).Fields().ByNumber(was.Number())
				if is == nil || is.Name() != was.Name() || is.Kind() != was.Kind() || is.Cardinality() != was.Cardinality() || is.HasPresence() != was.HasPresence() ||
					was.Message() != nil && is.Message().FullName() != was.Message().FullName() {
					t.Errorf("%s was number %d, %s %s, and is %v", was.FullName(), was.Number(), was.Cardinality(), was.Kind(), is)
				}
			}
		}
		return true
	})
}
