package secretsmanager

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// maxSecret bounds a secret's value in bytes:
// https://docs.aws.amazon.com/secretsmanager/latest/userguide/reference_limits.html
const maxSecret = 65536

// checkValue allows one kind of value, not too long.
func checkValue(text *string, binary []byte, must bool) error {
	if text != nil && binary != nil {
		return refuse(ruleTwoValues, "You can't specify both a binary secret value and a string secret value in the same secret.")
	}
	if must && text == nil && binary == nil {
		return refuse(ruleNoValue, "You must provide either SecretString or SecretBinary.")
	}
	if text != nil && len(*text) > maxSecret || len(binary) > maxSecret {
		return awsjson.Errorf("ValidationException", "1 validation error detected: Value at 'secretString' failed to satisfy constraint: Member must have length less than or equal to %d", maxSecret)
	}
	return nil
}

func (s *Service) createSecret(_ context.Context, _ awsjson.Call, in *secretsmanager.CreateSecretInput) (*secretsmanager.CreateSecretOutput, error) {
	if err := checkValue(in.SecretString, in.SecretBinary, false); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.secrets[*in.Name]; old != nil {
		if old.Deleted != nil {
			return nil, refuse(ruleScheduled, "You can't create this secret because a secret with this name is already scheduled for deletion.")
		}
		if in.ClientRequestToken != nil {
			// The same request again does nothing.
			i := slices.IndexFunc(old.Versions, func(v *version) bool { return v.ID == *in.ClientRequestToken })
			if i >= 0 && same(old.Versions[i], in.SecretString, in.SecretBinary) {
				return &secretsmanager.CreateSecretOutput{ARN: &old.ARN, Name: &old.Name, VersionId: &old.Versions[i].ID}, nil
			}
		}
		return nil, refuse(ruleExists, "The operation failed because the secret %s already exists.", *in.Name)
	}
	sec := s.make(*in.Name)
	sec.Description = in.Description
	for _, t := range in.Tags {
		if t.Key != nil && t.Value != nil {
			sec.Tags[*t.Key] = *t.Value
		}
	}
	out := &secretsmanager.CreateSecretOutput{ARN: &sec.ARN, Name: &sec.Name}
	if in.SecretString != nil || in.SecretBinary != nil {
		v := s.newVersion(in.ClientRequestToken, in.SecretString, in.SecretBinary)
		sec.add(v, nil)
		out.VersionId = &v.ID
	}
	return out, nil
}

func (s *Service) newVersion(token, text *string, binary []byte) *version {
	id := uuid(s.o.NewID())
	if token != nil {
		id = *token
	}
	return &version{ID: id, Text: text, Binary: binary, Created: s.o.Now()}
}

func same(v *version, text *string, binary []byte) bool {
	return (v.Text == nil) == (text == nil) && (text == nil || *v.Text == *text) && bytes.Equal(v.Binary, binary)
}

func (s *Service) putSecretValue(_ context.Context, _ awsjson.Call, in *secretsmanager.PutSecretValueInput) (*secretsmanager.PutSecretValueOutput, error) {
	if err := checkValue(in.SecretString, in.SecretBinary, true); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sec, err := s.find(*in.SecretId)
	if err != nil {
		return nil, err
	}
	if sec.Deleted != nil {
		return nil, deleted()
	}
	v := s.newVersion(in.ClientRequestToken, in.SecretString, in.SecretBinary)
	if i := slices.IndexFunc(sec.Versions, func(o *version) bool { return o.ID == v.ID }); i >= 0 {
		v = sec.Versions[i]
		if !same(v, in.SecretString, in.SecretBinary) {
			return nil, refuse(ruleToken, "A version with the specified ClientRequestToken already exists, with another value.")
		}
	} else {
		sec.add(v, in.VersionStages)
		sec.Changed = v.Created
	}
	return &secretsmanager.PutSecretValueOutput{ARN: &sec.ARN, Name: &sec.Name, VersionId: &v.ID, VersionStages: slices.Clone(v.Stages)}, nil
}

func (s *Service) getSecretValue(_ context.Context, _ awsjson.Call, in *secretsmanager.GetSecretValueInput) (*secretsmanager.GetSecretValueOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sec, err := s.find(*in.SecretId)
	if err != nil {
		return nil, err
	}
	v, err := sec.version(in.VersionId, in.VersionStage)
	if err != nil {
		return nil, err
	}
	return &secretsmanager.GetSecretValueOutput{ARN: &sec.ARN, Name: &sec.Name, CreatedDate: &v.Created, VersionId: &v.ID,
		VersionStages: slices.Clone(v.Stages), SecretString: v.Text, SecretBinary: v.Binary}, nil
}

func (s *Service) describeSecret(_ context.Context, _ awsjson.Call, in *secretsmanager.DescribeSecretInput) (*secretsmanager.DescribeSecretOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sec, err := s.find(*in.SecretId)
	if err != nil {
		return nil, err
	}
	out := &secretsmanager.DescribeSecretOutput{ARN: &sec.ARN, Name: &sec.Name, Description: sec.Description, CreatedDate: &sec.Created,
		LastChangedDate: &sec.Changed, DeletedDate: sec.Deleted, VersionIdsToStages: map[string][]string{}, Tags: []types.Tag{}}
	for _, v := range sec.Versions {
		if len(v.Stages) > 0 {
			out.VersionIdsToStages[v.ID] = slices.Clone(v.Stages)
		}
	}
	for key, value := range sec.Tags {
		out.Tags = append(out.Tags, types.Tag{Key: &key, Value: &value})
	}
	slices.SortFunc(out.Tags, func(a, b types.Tag) int { return strings.Compare(*a.Key, *b.Key) })
	return out, nil
}

func (s *Service) deleteSecret(_ context.Context, _ awsjson.Call, in *secretsmanager.DeleteSecretInput) (*secretsmanager.DeleteSecretOutput, error) {
	force := in.ForceDeleteWithoutRecovery != nil && *in.ForceDeleteWithoutRecovery
	days := int64(30)
	if in.RecoveryWindowInDays != nil {
		if force {
			return nil, refuse(ruleForce, "You can't use ForceDeleteWithoutRecovery in conjunction with RecoveryWindowInDays.")
		}
		if days = *in.RecoveryWindowInDays; days < 7 || days > 30 {
			return nil, refuse(ruleRecovery, "The RecoveryWindowInDays value must be between 7 and 30 days (inclusive).")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sec, err := s.find(*in.SecretId)
	if err != nil {
		return nil, err
	}
	if sec.Deleted != nil && !force {
		return nil, deleted()
	}
	at := s.o.Now()
	if force {
		delete(s.secrets, sec.Name)
	} else {
		sec.Deleted = &at
		at = at.Add(time.Duration(days) * 24 * time.Hour)
	}
	return &secretsmanager.DeleteSecretOutput{ARN: &sec.ARN, Name: &sec.Name, DeletionDate: &at}, nil
}
