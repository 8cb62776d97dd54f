package gsecrets

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	pb "cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// Options are what the service needs of its surroundings.
type Options struct {
	Project gapi.Project
	// Policy is what the caller may do; nil allows everything.
	Policy *gapi.Policy
	// Now is the cloud's clock.
	Now func() time.Time
}

// Service is Secret Manager of one project.
type Service struct {
	pb.UnimplementedSecretManagerServiceServer
	o Options

	mu      sync.Mutex
	secrets map[string]*secret
	etags   int64
}

type secret struct {
	view     *pb.Secret
	versions []*version // by number, from 1
}

type version struct {
	number int
	view   *pb.SecretVersion
	data   []byte
	sum    int64
}

// New returns the service.
func New(o Options) *Service { return &Service{o: o, secrets: map[string]*secret{}} }

// Register offers the service.
func (s *Service) Register(g grpc.ServiceRegistrar) { pb.RegisterSecretManagerServiceServer(g, s) }

// Put adds a version to a secret, which is made if it isn't there: a short way
// for tests. It returns the version's full name.
func (s *Service) Put(id string, data []byte) (name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sec, ok := s.secrets[id]
	if !ok {
		sec = s.create(id, &pb.Secret{Replication: &pb.Replication{Replication: &pb.Replication_Automatic_{Automatic: &pb.Replication_Automatic{}}}})
	}
	v, err := s.addVersion(sec, &pb.SecretPayload{Data: data})
	if err != nil {
		return "", err
	}
	return v.view.Name, nil
}

// Value reads a secret as Cloud Run does for a container: by its ID, or its full
// name, and a version.
func (s *Service) Value(id, versionID string) ([]byte, error) {
	if values, ok := gapi.Segments(id, "projects/*/secrets/*"); ok && s.o.Project.Is(values[0]) {
		id = values[1]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.accessible(id, versionID)
	if err != nil {
		return nil, err
	}
	return v.data, nil
}

// name is a secret's full name, which has the project's number in replies.
func (s *Service) name(id string) string {
	return "projects/" + s.o.Project.Number + "/secrets/" + id
}

func (s *Service) etag() string {
	s.etags++
	return fmt.Sprintf("%q", fmt.Sprintf("%x", s.o.Now().UnixMicro()+s.etags))
}

// find returns a secret. The lock is held.
func (s *Service) find(id string) (*secret, error) {
	sec, ok := s.secrets[id]
	if !ok {
		return nil, refuse(ruleMissing, "Secret [%s] not found.", s.name(id))
	}
	return sec, nil
}

// version returns a secret's version by its number or latest. The lock is held.
func (s *Service) version(id, versionID string) (*version, error) {
	sec, ok := s.secrets[id]
	if !ok || len(sec.versions) == 0 {
		return nil, refuse(ruleVersion, "Secret [%s] not found or has no versions.", s.name(id))
	}
	if versionID == "latest" {
		return sec.versions[len(sec.versions)-1], nil
	}
	n, err := strconv.Atoi(versionID)
	if err != nil || n < 1 || n > len(sec.versions) {
		return nil, refuse(ruleVersion, "Secret Version [%s/versions/%s] not found.", s.name(id), versionID)
	}
	return sec.versions[n-1], nil
}

// accessible returns a version whose payload may be read. The lock is held.
func (s *Service) accessible(id, versionID string) (*version, error) {
	v, err := s.version(id, versionID)
	if err != nil {
		return nil, err
	}
	if v.view.State != pb.SecretVersion_ENABLED {
		return nil, refuse(ruleState, "Secret Version [%s] is in %s state.", v.view.Name, v.view.State)
	}
	return v, nil
}

// create makes a secret. The lock is held.
func (s *Service) create(id string, from *pb.Secret) *secret {
	sec := &secret{view: &pb.Secret{Name: s.name(id), Replication: from.Replication, Labels: maps.Clone(from.Labels), Annotations: maps.Clone(from.Annotations),
		CreateTime: timestamppb.New(s.o.Now()), Etag: s.etag()}}
	s.secrets[id] = sec
	return sec
}

// maxPayload is in bytes: https://cloud.google.com/secret-manager/quotas
const maxPayload = 64 << 10

// addVersion stores a payload. The lock is held.
func (s *Service) addVersion(sec *secret, p *pb.SecretPayload) (*version, error) {
	if len(p.GetData()) == 0 {
		return nil, refuse(rulePayload, "Secret Payload cannot be empty.")
	}
	if n := len(p.Data); n > maxPayload {
		return nil, refuse(ruleSize, "The request has errors: payload.data has %d bytes, the maximum size is %d.", n, maxPayload)
	}
	sum := int64(crc32.Checksum(p.Data, crc32.MakeTable(crc32.Castagnoli)))
	if p.DataCrc32C != nil && *p.DataCrc32C != sum {
		return nil, refuse(ruleChecksum, "The checksum in the request doesn't match the payload: data corruption was found.")
	}
	v := &version{number: len(sec.versions) + 1, data: slices.Clone(p.Data), sum: sum, view: &pb.SecretVersion{
		Name: sec.view.Name + "/versions/" + strconv.Itoa(len(sec.versions)+1), CreateTime: timestamppb.New(s.o.Now()), State: pb.SecretVersion_ENABLED,
		Etag: s.etag(), ClientSpecifiedPayloadChecksum: p.DataCrc32C != nil,
		ReplicationStatus: &pb.ReplicationStatus{ReplicationStatus: &pb.ReplicationStatus_Automatic{Automatic: &pb.ReplicationStatus_AutomaticStatus{}}}}}
	sec.versions = append(sec.versions, v)
	return v, nil
}

// parent reads projects/*.
func (s *Service) parent(name, permission string) error {
	values, ok := gapi.Segments(name, "projects/*")
	if !ok {
		if _, regional := gapi.Segments(name, "projects/*/locations/*"); regional {
			return refuse(ruleUnsupported, "The pocket cloud doesn't offer regional secrets.")
		}
		return refuse(ruleName, "Invalid resource name %q: want projects/*.", name)
	}
	if !s.o.Project.Is(values[0]) {
		return gapi.PermissionDenied(permission, name)
	}
	return s.o.Policy.Check(permission, name)
}

// secretID reads projects/*/secrets/*.
func (s *Service) secretID(name, permission string) (string, error) {
	values, ok := gapi.Segments(name, "projects/*/secrets/*")
	if !ok {
		if _, regional := gapi.Segments(name, "projects/*/locations/*/secrets/*"); regional {
			return "", refuse(ruleUnsupported, "The pocket cloud doesn't offer regional secrets.")
		}
		return "", refuse(ruleName, "Invalid resource name %q: want projects/*/secrets/*.", name)
	}
	if !s.o.Project.Is(values[0]) {
		return "", gapi.PermissionDenied(permission, name)
	}
	return values[1], s.o.Policy.Check(permission, name)
}

// versionID reads projects/*/secrets/*/versions/*.
func (s *Service) versionID(name, permission string) (id, versionID string, err error) {
	values, ok := gapi.Segments(name, "projects/*/secrets/*/versions/*")
	if !ok {
		if _, regional := gapi.Segments(name, "projects/*/locations/*/secrets/*/versions/*"); regional {
			return "", "", refuse(ruleUnsupported, "The pocket cloud doesn't offer regional secrets.")
		}
		return "", "", refuse(ruleName, "Invalid resource name %q: want projects/*/secrets/*/versions/*.", name)
	}
	if !s.o.Project.Is(values[0]) {
		return "", "", gapi.PermissionDenied(permission, name)
	}
	return values[1], values[2], s.o.Policy.Check(permission, name)
}

var idForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,255}$`) })

// checkLabels keeps to Google's rules for labels.
func checkLabels(labels map[string]string) error {
	if len(labels) > 64 {
		return refuse(ruleLabels, "A resource has up to 64 labels, not %d.", len(labels))
	}
	for _, k := range slices.SortedFunc(maps.Keys(labels), cmp.Compare[string]) {
		if !gapi.LegalLabel(k, labels[k]) {
			return refuse(ruleLabels, "Label %q=%q is not legal.", k, labels[k])
		}
	}
	return nil
}
