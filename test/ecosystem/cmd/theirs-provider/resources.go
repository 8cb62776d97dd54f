package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/GoCodeAlone/workflow/plugin/external/proto"
)

// Types of resources: a shelf has all that the wire has; of a cellar nobody can say what
// is sensitive, nor what is wrong.
const (
	shelf  = "theirs.shelf"
	cellar = "theirs.cellar"
)

// resources keeps each resource in a file of the plugin's folder, for there may be a
// process for each command. A name "code-X" fails with that code.
type resources struct {
	pb.UnimplementedResourceDriverServer
}

// kept is a resource's file.
type kept struct {
	Type      string
	Config    json.RawMessage
	Size      string
	Hints     [3]string
	DependsOn []string
	Replicas  int32
}

func (resources) file(name string) string { return filepath.Join("kept", name+".json") }

// asked fails as the name says, and for a type that isn't there.
func asked(typ, name string) error {
	if typ != shelf && typ != cellar {
		return status.Errorf(codes.InvalidArgument, "no type %q", typ)
	}
	if want, ok := strings.CutPrefix(name, "code-"); ok {
		for c := codes.OK; c <= codes.Unauthenticated; c++ {
			if c.String() == want {
				return status.Errorf(c, "as the name says")
			}
		}
	}
	return nil
}

func (r resources) load(typ, name string) (*kept, error) {
	if err := asked(typ, name); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(r.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.NotFound, "no %s %s", typ, name)
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(raw, &k)
	}
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &k, nil
}

func (r resources) store(name string, k *kept) (*pb.ResourceOutput, error) {
	raw, err := json.Marshal(k)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(r.file(name)), 0o700)
	}
	if err == nil {
		err = os.WriteFile(r.file(name), raw, 0o600)
	}
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return k.output(name)
}

func (k *kept) output(name string) (*pb.ResourceOutput, error) {
	raw, err := json.Marshal(map[string]any{"config": k.Config, "size": k.Size, "hints": k.Hints, "depends_on": k.DependsOn, "replicas": k.Replicas,
		"token": "canary-token", "pin": "canary-pin"})
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &pb.ResourceOutput{Name: name, Type: k.Type, ProviderId: "id-of-" + name, OutputsJson: raw, Sensitive: map[string]bool{"pin": true}, Status: "kept"}, nil
}

func (r resources) take(spec *pb.ResourceSpec, replicas int32) (*pb.ResourceOutput, error) {
	h := spec.GetHints()
	return r.store(spec.GetName(), &kept{Type: spec.GetType(), Config: spec.GetConfigJson(), Size: spec.GetSize(),
		Hints: [3]string{h.GetCpu(), h.GetMemory(), h.GetStorage()}, DependsOn: spec.GetDependsOn(), Replicas: replicas})
}

func (r resources) Create(_ context.Context, q *pb.ResourceCreateRequest) (*pb.ResourceCreateResponse, error) {
	_, err := r.load(q.GetResourceType(), q.GetSpec().GetName())
	if err == nil {
		return nil, status.Error(codes.AlreadyExists, "it is there")
	}
	if status.Code(err) != codes.NotFound {
		return nil, err
	}
	out, err := r.take(q.GetSpec(), 1)
	return &pb.ResourceCreateResponse{Output: out}, err
}

func (r resources) Read(_ context.Context, q *pb.ResourceReadRequest) (*pb.ResourceReadResponse, error) {
	k, err := r.load(q.GetResourceType(), q.GetRef().GetName())
	if err != nil {
		return nil, err
	}
	out, err := k.output(q.GetRef().GetName())
	return &pb.ResourceReadResponse{Output: out}, err
}

func (r resources) Update(_ context.Context, q *pb.ResourceUpdateRequest) (*pb.ResourceUpdateResponse, error) {
	k, err := r.load(q.GetResourceType(), q.GetRef().GetName())
	if err != nil {
		return nil, err
	}
	if q.GetRef().GetProviderId() != "id-of-"+q.GetRef().GetName() {
		return nil, status.Error(codes.InvalidArgument, "an update needs the ID that was given")
	}
	out, err := r.take(q.GetSpec(), k.Replicas)
	return &pb.ResourceUpdateResponse{Output: out}, err
}

func (r resources) Delete(_ context.Context, q *pb.ResourceDeleteRequest) (*pb.ResourceDeleteResponse, error) {
	if _, err := r.load(q.GetResourceType(), q.GetRef().GetName()); err != nil {
		return nil, err
	}
	if err := os.Remove(r.file(q.GetRef().GetName())); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &pb.ResourceDeleteResponse{}, nil
}

func (r resources) Diff(_ context.Context, q *pb.ResourceDiffRequest) (*pb.ResourceDiffResponse, error) {
	var have struct{ Config any }
	var want any
	err := json.Unmarshal(q.GetCurrent().GetOutputsJson(), &have)
	if raw := q.GetDesired().GetConfigJson(); err == nil && len(raw) > 0 {
		err = json.Unmarshal(raw, &want)
	}
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	out := &pb.DiffResult{NeedsUpdate: !reflect.DeepEqual(have.Config, want)}
	if out.NeedsUpdate {
		out.Changes = []*pb.FieldChange{{Path: "config", NewJson: q.GetDesired().GetConfigJson()}}
	}
	return &pb.ResourceDiffResponse{Result: out}, nil
}

func (r resources) Scale(_ context.Context, q *pb.ResourceScaleRequest) (*pb.ResourceScaleResponse, error) {
	k, err := r.load(q.GetResourceType(), q.GetRef().GetName())
	if err != nil {
		return nil, err
	}
	k.Replicas = q.GetReplicas()
	out, err := r.store(q.GetRef().GetName(), k)
	return &pb.ResourceScaleResponse{Output: out}, err
}

func (r resources) HealthCheck(_ context.Context, q *pb.ResourceHealthCheckRequest) (*pb.ResourceHealthCheckResponse, error) {
	k, err := r.load(q.GetResourceType(), q.GetRef().GetName())
	if err != nil {
		return nil, err
	}
	return &pb.ResourceHealthCheckResponse{Result: &pb.HealthResult{Healthy: k.Replicas > 0, Message: "by its replicas"}}, nil
}

func (resources) SensitiveKeys(_ context.Context, q *pb.SensitiveKeysRequest) (*pb.SensitiveKeysResponse, error) {
	if q.GetResourceType() == cellar {
		return nil, status.Error(codes.Internal, "it is dark down there")
	}
	return &pb.SensitiveKeysResponse{Keys: []string{"token"}}, nil
}

func (resources) Troubleshoot(_ context.Context, q *pb.TroubleshootRequest) (*pb.TroubleshootResponse, error) {
	if q.GetResourceType() == cellar {
		return nil, status.Error(codes.Unimplemented, "nobody looks there")
	}
	return &pb.TroubleshootResponse{Diagnostics: []*pb.Diagnostic{{Id: "d1", Phase: "use", Cause: "it is empty", At: timestamppb.New(time.Unix(1_700_000_000, 0)), Detail: q.GetFailureMsg()}}}, nil
}
