package ecosystem

import (
	"os"
	"slices"
	"strings"
	"testing"

	theirs "github.com/GoCodeAlone/workflow/plugin/external/proto"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// later are the names that were published after the version that judges here.
func later() []protoreflect.FullName {
	return []protoreflect.FullName{
		"workflow.plugin.external.iac.IaCProviderJobCanceler",
		"workflow.plugin.external.iac.JobSpec.target",
		"workflow.plugin.external.iac.JobSpec.timeout_seconds",
	}
}

// TestDescriptors compares our descriptor set of the published packages with theirs:
// each service, method, message, field and value that we have is theirs, by name, number
// and type. What we leave out a host of jobs doesn't need.
func TestDescriptors(t *testing.T) {
	raw, err := os.ReadFile("../../proto/baseline.binpb")
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(raw, &set); err != nil {
		t.Fatal(err)
	}
	ours, err := protodesc.NewFiles(&set)
	if err != nil {
		t.Fatal(err)
	}
	packages := map[protoreflect.FullName][]protoreflect.FileDescriptor{}
	for _, f := range []protoreflect.FileDescriptor{theirs.File_plugin_proto, theirs.File_iac_proto, theirs.File_sandbox_exec_proto} {
		packages[f.Package()] = append(packages[f.Package()], f)
	}
	c := &comparison{t: t, theirs: map[protoreflect.FullName]protoreflect.Descriptor{}}
	for _, files := range packages {
		for _, f := range files {
			c.collect(f)
		}
	}
	files := 0
	ours.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if packages[f.Package()] == nil {
			return true
		}
		files++
		for i := range f.Services().Len() {
			c.service(f.Services().Get(i))
		}
		for i := range f.Messages().Len() {
			c.message(f.Messages().Get(i))
		}
		for i := range f.Enums().Len() {
			c.enum(f.Enums().Get(i))
		}
		return true
	})
	if files < 5 || c.fields < 120 {
		t.Errorf("only %d files with %d fields were compared", files, c.fields)
	}
}

// comparison holds one of ours against what theirs has of that name.
type comparison struct {
	t      *testing.T
	theirs map[protoreflect.FullName]protoreflect.Descriptor
	fields int
}

func (c *comparison) collect(f protoreflect.FileDescriptor) {
	for i := range f.Services().Len() {
		c.theirs[f.Services().Get(i).FullName()] = f.Services().Get(i)
	}
	for i := range f.Messages().Len() {
		c.theirs[f.Messages().Get(i).FullName()] = f.Messages().Get(i)
	}
	for i := range f.Enums().Len() {
		c.theirs[f.Enums().Get(i).FullName()] = f.Enums().Get(i)
	}
}

// find returns theirs of a name; what was published later has none.
func find[D protoreflect.Descriptor](c *comparison, name protoreflect.FullName) (D, bool) {
	d, ok := c.theirs[name].(D)
	if ok == slices.Contains(later(), name) {
		c.t.Errorf("%s: theirs has it: %v", name, ok)
	}
	return d, ok
}

func (c *comparison) service(s protoreflect.ServiceDescriptor) {
	w, ok := find[protoreflect.ServiceDescriptor](c, s.FullName())
	if !ok {
		return
	}
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		v := w.Methods().ByName(m.Name())
		if v == nil {
			c.t.Errorf("%s: theirs has no such method", m.FullName())
			continue
		}
		if m.Input().FullName() != v.Input().FullName() || m.Output().FullName() != v.Output().FullName() || m.IsStreamingClient() != v.IsStreamingClient() || m.IsStreamingServer() != v.IsStreamingServer() {
			c.t.Errorf("%s differs", m.FullName())
		}
	}
}

func (c *comparison) message(m protoreflect.MessageDescriptor) {
	w, ok := find[protoreflect.MessageDescriptor](c, m.FullName())
	if !ok {
		return
	}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		c.fields++
		v := w.Fields().ByNumber(f.Number())
		if (v == nil) != slices.Contains(later(), f.FullName()) {
			c.t.Errorf("%s = %d: theirs has it: %v", f.FullName(), f.Number(), v != nil)
		}
		if v != nil && shape(f) != shape(v) {
			c.t.Errorf("%s: ours is %s, theirs %s", f.FullName(), shape(f), shape(v))
		}
	}
}

func (c *comparison) enum(e protoreflect.EnumDescriptor) {
	w, ok := find[protoreflect.EnumDescriptor](c, e.FullName())
	if !ok {
		return
	}
	for i := range e.Values().Len() {
		v := e.Values().Get(i)
		if x := w.Values().ByNumber(v.Number()); x == nil || x.Name() != v.Name() {
			c.t.Errorf("%s = %d: theirs differs", v.FullName(), v.Number())
		}
	}
	if e.Values().Len() != w.Values().Len() {
		c.t.Errorf("%s: ours has %d values, theirs %d", e.FullName(), e.Values().Len(), w.Values().Len())
	}
}

// shape is all of a field that counts on the wire and in code.
func shape(f protoreflect.FieldDescriptor) string {
	parts := []string{string(f.Name()), f.Kind().String(), f.Cardinality().String(), f.JSONName()}
	if f.HasPresence() {
		parts = append(parts, "presence")
	}
	if o := f.ContainingOneof(); o != nil {
		parts = append(parts, "in "+string(o.Name()))
	}
	switch {
	case f.IsMap():
		parts = append(parts, "map", shape(f.MapKey()), shape(f.MapValue()))
	case f.Message() != nil:
		parts = append(parts, string(f.Message().FullName()))
	case f.Enum() != nil:
		parts = append(parts, string(f.Enum().FullName()))
	}
	return strings.Join(parts, " ")
}
