package gsecrets

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"cloud.google.com/go/iam/apiv1/iampb"
	pb "cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// The sizes of pages: https://cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets/list
const (
	standardPage = 25000
	maxPage      = 25000
)

// CreateSecret makes a secret without versions.
func (s *Service) CreateSecret(_ context.Context, r *pb.CreateSecretRequest) (*pb.Secret, error) {
	if err := s.parent(r.Parent, "secretmanager.secrets.create"); err != nil {
		return nil, err
	}
	if !idForm().MatchString(r.SecretId) {
		return nil, refuse(ruleID, "Invalid secret_id %q: want 1 to 255 letters, numerals, hyphens and underscores.", r.SecretId)
	}
	if err := checkSecret(r.Secret); err != nil {
		return nil, err
	}
	if r.Secret.GetReplication().GetReplication() == nil {
		return nil, refuse(ruleReplication, "The secret must have a replication policy.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.secrets[r.SecretId]; ok {
		return nil, refuse(ruleExists, "Secret [%s] already exists.", s.name(r.SecretId))
	}
	return proto.CloneOf(s.create(r.SecretId, r.Secret).view), nil
}

// checkSecret refuses what isn't legal or isn't offered.
func checkSecret(v *pb.Secret) error {
	if v.GetExpiration() != nil || v.GetRotation() != nil || len(v.GetTopics()) > 0 || len(v.GetVersionAliases()) > 0 ||
		v.GetVersionDestroyTtl() != nil || v.GetCustomerManagedEncryption() != nil || len(v.GetTags()) > 0 || v.GetSecretType() != 0 ||
		v.GetReplication().GetAutomatic().GetCustomerManagedEncryption() != nil {
		return refuse(ruleUnsupported, "The pocket cloud offers secrets with replication, labels and annotations only.")
	}
	return checkLabels(v.GetLabels())
}

// AddSecretVersion stores a payload.
func (s *Service) AddSecretVersion(_ context.Context, r *pb.AddSecretVersionRequest) (*pb.SecretVersion, error) {
	id, err := s.secretID(r.Parent, "secretmanager.versions.add")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sec, err := s.find(id)
	if err != nil {
		return nil, err
	}
	v, err := s.addVersion(sec, r.Payload)
	if err != nil {
		return nil, err
	}
	return proto.CloneOf(v.view), nil
}

// AccessSecretVersion reads a payload with its checksum.
func (s *Service) AccessSecretVersion(_ context.Context, r *pb.AccessSecretVersionRequest) (*pb.AccessSecretVersionResponse, error) {
	id, versionID, err := s.versionID(r.Name, "secretmanager.versions.access")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.accessible(id, versionID)
	if err != nil {
		return nil, err
	}
	return &pb.AccessSecretVersionResponse{Name: v.view.Name, Payload: &pb.SecretPayload{Data: slices.Clone(v.data), DataCrc32C: proto.Int64(v.sum)}}, nil
}

// GetSecret describes a secret.
func (s *Service) GetSecret(_ context.Context, r *pb.GetSecretRequest) (*pb.Secret, error) {
	id, err := s.secretID(r.Name, "secretmanager.secrets.get")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sec, err := s.find(id)
	if err != nil {
		return nil, err
	}
	return proto.CloneOf(sec.view), nil
}

// GetSecretVersion describes a version.
func (s *Service) GetSecretVersion(_ context.Context, r *pb.GetSecretVersionRequest) (*pb.SecretVersion, error) {
	id, versionID, err := s.versionID(r.Name, "secretmanager.versions.get")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.version(id, versionID)
	if err != nil {
		return nil, err
	}
	return proto.CloneOf(v.view), nil
}

// ListSecrets lists secrets by name.
func (s *Service) ListSecrets(_ context.Context, r *pb.ListSecretsRequest) (*pb.ListSecretsResponse, error) {
	if err := s.parent(r.Parent, "secretmanager.secrets.list"); err != nil {
		return nil, err
	}
	if err := checkList(r.PageSize, r.Filter); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := slices.Sorted(maps.Keys(s.secrets))
	page, next, err := gapi.Page(ids, func(id string) string { return id }, gapi.Size(r.PageSize, standardPage, maxPage, 0), r.PageToken, r.Parent)
	if err != nil {
		return nil, err
	}
	out := &pb.ListSecretsResponse{NextPageToken: next, TotalSize: int32(len(ids))} //nolint:gosec // they fit in memory
	for _, id := range page {
		out.Secrets = append(out.Secrets, proto.CloneOf(s.secrets[id].view))
	}
	return out, nil
}

// ListSecretVersions lists a secret's versions, the newest first.
func (s *Service) ListSecretVersions(_ context.Context, r *pb.ListSecretVersionsRequest) (*pb.ListSecretVersionsResponse, error) {
	id, err := s.secretID(r.Parent, "secretmanager.versions.list")
	if err != nil {
		return nil, err
	}
	if err := checkList(r.PageSize, r.Filter); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sec, err := s.find(id)
	if err != nil {
		return nil, err
	}
	list := slices.Clone(sec.versions)
	slices.Reverse(list)
	page, next, err := gapi.Page(list, func(v *version) string { return fmt.Sprintf("%010d", math.MaxInt32-v.number) }, gapi.Size(r.PageSize, standardPage, maxPage, 0), r.PageToken, r.Parent)
	if err != nil {
		return nil, err
	}
	out := &pb.ListSecretVersionsResponse{NextPageToken: next, TotalSize: int32(len(list))} //nolint:gosec // they fit in memory
	for _, v := range page {
		out.Versions = append(out.Versions, proto.CloneOf(v.view))
	}
	return out, nil
}

func checkList(size int32, filter string) error {
	if size < 0 {
		return refuse(rulePageSize, "page_size is %d, must not be negative.", size)
	}
	if filter != "" {
		return refuse(ruleUnsupported, "The pocket cloud doesn't offer filters of secrets.")
	}
	return nil
}

// UpdateSecret changes labels and annotations.
func (s *Service) UpdateSecret(_ context.Context, r *pb.UpdateSecretRequest) (*pb.Secret, error) {
	id, err := s.secretID(r.GetSecret().GetName(), "secretmanager.secrets.update")
	if err != nil {
		return nil, err
	}
	if len(r.GetUpdateMask().GetPaths()) == 0 {
		return nil, refuse(ruleMask, "update_mask must not be empty.")
	}
	if err := checkSecret(r.Secret); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sec, err := s.find(id)
	if err != nil {
		return nil, err
	}
	if err := checkEtag(r.Secret.Etag, sec.view.Etag); err != nil {
		return nil, err
	}
	next := proto.CloneOf(sec.view)
	for _, path := range r.UpdateMask.Paths {
		switch path {
		case "labels":
			next.Labels = maps.Clone(r.Secret.Labels)
		case "annotations":
			next.Annotations = maps.Clone(r.Secret.Annotations)
		case "replication":
			return nil, refuse(ruleImmutable, "The replication policy can't be changed.")
		default:
			return nil, refuse(ruleMask, "update_mask: no field %q that can be changed.", path)
		}
	}
	next.Etag = s.etag()
	sec.view = next
	return proto.CloneOf(next), nil
}

// DeleteSecret deletes a secret with all its versions.
func (s *Service) DeleteSecret(_ context.Context, r *pb.DeleteSecretRequest) (*emptypb.Empty, error) {
	id, err := s.secretID(r.Name, "secretmanager.secrets.delete")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sec, err := s.find(id)
	if err != nil {
		return nil, err
	}
	if err := checkEtag(r.Etag, sec.view.Etag); err != nil {
		return nil, err
	}
	delete(s.secrets, id)
	return &emptypb.Empty{}, nil
}

// EnableSecretVersion makes a version accessible.
func (s *Service) EnableSecretVersion(_ context.Context, r *pb.EnableSecretVersionRequest) (*pb.SecretVersion, error) {
	return s.setState(r.Name, r.Etag, "secretmanager.versions.enable", pb.SecretVersion_ENABLED)
}

// DisableSecretVersion makes a version inaccessible.
func (s *Service) DisableSecretVersion(_ context.Context, r *pb.DisableSecretVersionRequest) (*pb.SecretVersion, error) {
	return s.setState(r.Name, r.Etag, "secretmanager.versions.disable", pb.SecretVersion_DISABLED)
}

// DestroySecretVersion drops a version's payload for good.
func (s *Service) DestroySecretVersion(_ context.Context, r *pb.DestroySecretVersionRequest) (*pb.SecretVersion, error) {
	return s.setState(r.Name, r.Etag, "secretmanager.versions.destroy", pb.SecretVersion_DESTROYED)
}

func (s *Service) setState(name, etag, permission string, state pb.SecretVersion_State) (*pb.SecretVersion, error) {
	id, versionID, err := s.versionID(name, permission)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.version(id, versionID)
	if err != nil {
		return nil, err
	}
	if err := checkEtag(etag, v.view.Etag); err != nil {
		return nil, err
	}
	if v.view.State == pb.SecretVersion_DESTROYED && state != pb.SecretVersion_DESTROYED {
		return nil, refuse(ruleDestroyed, "Secret Version [%s] is in DESTROYED state.", v.view.Name)
	}
	if v.view.State != state {
		v.view.State, v.view.Etag = state, s.etag()
		if state == pb.SecretVersion_DESTROYED {
			v.view.DestroyTime, v.data = timestamppb.New(s.o.Now()), nil
		}
	}
	return proto.CloneOf(v.view), nil
}

// TestIamPermissions tells which of some permissions on a secret the caller has.
// The secret need not exist.
func (s *Service) TestIamPermissions(_ context.Context, r *iampb.TestIamPermissionsRequest) (*iampb.TestIamPermissionsResponse, error) {
	if _, err := s.secretID(r.Resource, ""); err != nil {
		return nil, err
	}
	return &iampb.TestIamPermissionsResponse{Permissions: s.o.Policy.Granted(r.Permissions)}, nil
}

func checkEtag(given, current string) error {
	if given != "" && given != current {
		return refuse(ruleEtag, "The etag provided in the request, %s, does not match the current one, %s.", given, current)
	}
	return nil
}
