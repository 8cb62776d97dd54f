package gsecrets

import (
	"context"
	"fmt"
	"testing"
	"time"

	pb "cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	byID     = "projects/p-project"
	byNumber = "projects/123456"
)

func newService() *Service {
	return New(Options{Project: gapi.Project{ID: "p-project", Number: "123456"}, Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }})
}

func automatic() *pb.Secret {
	return &pb.Secret{Replication: &pb.Replication{Replication: &pb.Replication_Automatic_{Automatic: &pb.Replication_Automatic{}}}, Labels: map[string]string{"a": "b"}}
}

// TestLife takes a secret and its versions through all states.
func TestLife(t *testing.T) {
	s, ctx := newService(), context.Background()
	made, err := s.CreateSecret(ctx, &pb.CreateSecretRequest{Parent: byID, SecretId: "db", Secret: automatic()})
	if err != nil || made.Name != byNumber+"/secrets/db" || made.Labels["a"] != "b" || made.Etag == "" {
		t.Fatalf("create: %v, %v", made, err)
	}
	if _, err := s.AccessSecretVersion(ctx, &pb.AccessSecretVersionRequest{Name: byID + "/secrets/db/versions/latest"}); status.Code(err) != codes.NotFound {
		t.Errorf("access of a secret without versions: %v", err)
	}
	for i := range 3 {
		v, err := s.AddSecretVersion(ctx, &pb.AddSecretVersionRequest{Parent: byNumber + "/secrets/db", Payload: &pb.SecretPayload{Data: fmt.Appendf(nil, "v%d", i+1)}})
		if err != nil || v.Name != fmt.Sprintf("%s/secrets/db/versions/%d", byNumber, i+1) || v.State != pb.SecretVersion_ENABLED || v.ClientSpecifiedPayloadChecksum {
			t.Fatalf("add: %v, %v", v, err)
		}
	}
	got, err := s.AccessSecretVersion(ctx, &pb.AccessSecretVersionRequest{Name: byID + "/secrets/db/versions/latest"})
	// CRC32C of "v3", reckoned by an independent program.
	if err != nil || got.Name != byNumber+"/secrets/db/versions/3" || string(got.Payload.Data) != "v3" || got.Payload.GetDataCrc32C() != 71583778 {
		t.Errorf("access: %v, %v", got, err)
	}
	if _, err := s.AddSecretVersion(ctx, &pb.AddSecretVersionRequest{Parent: byID + "/secrets/db", Payload: &pb.SecretPayload{Data: []byte("v3"), DataCrc32C: proto.Int64(71583778)}}); err != nil {
		t.Errorf("add with a checksum: %v", err)
	}
	name := byID + "/secrets/db/versions/4"
	for _, step := range []struct {
		name string
		do   func() (*pb.SecretVersion, error)
		want pb.SecretVersion_State
	}{
		{"disable", func() (*pb.SecretVersion, error) {
			return s.DisableSecretVersion(ctx, &pb.DisableSecretVersionRequest{Name: name})
		}, pb.SecretVersion_DISABLED},
		{"enable", func() (*pb.SecretVersion, error) {
			return s.EnableSecretVersion(ctx, &pb.EnableSecretVersionRequest{Name: name})
		}, pb.SecretVersion_ENABLED},
		{"destroy", func() (*pb.SecretVersion, error) {
			return s.DestroySecretVersion(ctx, &pb.DestroySecretVersionRequest{Name: name})
		}, pb.SecretVersion_DESTROYED},
	} {
		v, err := step.do()
		if err != nil || v.State != step.want || (v.DestroyTime != nil) != (step.want == pb.SecretVersion_DESTROYED) {
			t.Errorf("%s: %v, %v", step.name, v, err)
		}
		_, err = s.AccessSecretVersion(ctx, &pb.AccessSecretVersionRequest{Name: byID + "/secrets/db/versions/latest"})
		if want := map[bool]codes.Code{true: codes.OK, false: codes.FailedPrecondition}[step.want == pb.SecretVersion_ENABLED]; status.Code(err) != want {
			t.Errorf("access after %s: %v, want %s", step.name, err, want)
		}
	}
	if v, err := s.GetSecretVersion(ctx, &pb.GetSecretVersionRequest{Name: name}); err != nil || v.State != pb.SecretVersion_DESTROYED {
		t.Errorf("the version: %v, %v", v, err)
	}

	changed, err := s.UpdateSecret(ctx, &pb.UpdateSecretRequest{Secret: &pb.Secret{Name: made.Name, Labels: map[string]string{"c": "d"}, Etag: made.Etag}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels"}}})
	if err != nil || len(changed.Labels) != 1 || changed.Labels["c"] != "d" || changed.Etag == made.Etag {
		t.Errorf("update: %v, %v", changed, err)
	}
	if _, err := s.DeleteSecret(ctx, &pb.DeleteSecretRequest{Name: made.Name, Etag: made.Etag}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("delete by a stale etag: %v", err)
	}
	if _, err := s.DeleteSecret(ctx, &pb.DeleteSecretRequest{Name: made.Name}); err != nil {
		t.Error(err)
	}
	if _, err := s.GetSecret(ctx, &pb.GetSecretRequest{Name: made.Name}); status.Code(err) != codes.NotFound {
		t.Errorf("a deleted secret: %v", err)
	}
}

// TestLists pages through secrets and versions.
func TestLists(t *testing.T) {
	s, ctx := newService(), context.Background()
	for _, id := range []string{"c", "a", "b"} {
		for range 3 {
			if _, err := s.Put(id, []byte("v")); err != nil {
				t.Fatal(err)
			}
		}
	}
	var names []string
	r := &pb.ListSecretsRequest{Parent: byID, PageSize: 2}
	for {
		page, err := s.ListSecrets(ctx, r)
		if err != nil || page.TotalSize != 3 {
			t.Fatal(page, err)
		}
		for _, v := range page.Secrets {
			names = append(names, v.Name)
		}
		if r.PageToken = page.NextPageToken; r.PageToken == "" {
			break
		}
	}
	if got, want := fmt.Sprint(names), fmt.Sprint([]string{byNumber + "/secrets/a", byNumber + "/secrets/b", byNumber + "/secrets/c"}); got != want {
		t.Errorf("secrets are %s", got)
	}
	first, err := s.ListSecretVersions(ctx, &pb.ListSecretVersionsRequest{Parent: byID + "/secrets/a", PageSize: 2})
	if err != nil || len(first.Versions) != 2 || first.Versions[0].Name != byNumber+"/secrets/a/versions/3" {
		t.Fatalf("versions: %v, %v", first, err)
	}
	if _, err := s.Put("a", []byte("newer")); err != nil {
		t.Fatal(err)
	}
	second, err := s.ListSecretVersions(ctx, &pb.ListSecretVersionsRequest{Parent: byID + "/secrets/a", PageSize: 2, PageToken: first.NextPageToken})
	if err != nil || len(second.Versions) != 1 || second.Versions[0].Name != byNumber+"/secrets/a/versions/1" {
		t.Errorf("more versions: %v, %v", second, err)
	}
}

// TestNames refuses names of another form, and projects that aren't there.
func TestNames(t *testing.T) {
	s, ctx := newService(), context.Background()
	for name, want := range map[string]codes.Code{"secrets/a": codes.InvalidArgument, "projects/other/secrets/a": codes.PermissionDenied, byID + "/locations/l/secrets/a": codes.Unimplemented} {
		if _, err := s.GetSecret(ctx, &pb.GetSecretRequest{Name: name}); status.Code(err) != want {
			t.Errorf("GetSecret of %q: %v, want %s", name, err, want)
		}
		if _, err := s.AccessSecretVersion(ctx, &pb.AccessSecretVersionRequest{Name: name + "/versions/1"}); status.Code(err) != want {
			t.Errorf("AccessSecretVersion of %q: %v, want %s", name, err, want)
		}
	}
	if _, err := s.ListSecrets(ctx, &pb.ListSecretsRequest{Parent: "p"}); status.Code(err) != codes.InvalidArgument || gapi.RuleOf(err) != ruleName {
		t.Errorf("ListSecrets of a bad name: %v", err)
	}
	if _, err := s.Put("a", []byte("v")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", byID + "/secrets/a", byNumber + "/secrets/a"} {
		if v, err := s.Value(id, "1"); err != nil || string(v) != "v" {
			t.Errorf("the value of %s is %q, %v", id, v, err)
		}
	}
}
