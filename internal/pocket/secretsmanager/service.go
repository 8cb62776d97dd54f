// Package secretsmanager is the pocket cloud's Secrets Manager: secrets with
// their versions and staging labels, for readers and for those who set up what
// is read. See https://docs.aws.amazon.com/secretsmanager/latest/apireference/.
package secretsmanager

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/secretsmanager/schemas"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// modelData are the constraints on the inputs, taken from AWS's own model as
// botocore publishes it (Apache License 2.0).
//
//go:embed model.json
var modelData []byte

// Options are what the service needs of its surroundings.
type Options struct {
	Account, Region string
	// Now is the cloud's clock.
	Now func() time.Time
	// NewID returns 32 hexadecimal digits, new each time.
	NewID func() string
}

// Service is Secrets Manager of one account and region.
type Service struct {
	o   Options
	api awsjson.Service

	mu      sync.Mutex
	secrets map[string]*secret // by name
}

type secret struct {
	Name, ARN   string
	Description *string
	Created     time.Time
	Changed     time.Time
	Deleted     *time.Time
	Versions    []*version // by age
	Tags        map[string]string
}

type version struct {
	ID      string
	Text    *string
	Binary  []byte
	Stages  []string
	Created time.Time
}

// The staging labels that the service moves by itself:
// https://docs.aws.amazon.com/secretsmanager/latest/userguide/whats-in-a-secret.html
const (
	current  = "AWSCURRENT"
	previous = "AWSPREVIOUS"
)

// New returns the service, without secrets.
func New(o Options) (*Service, error) {
	model, err := awsjson.ParseModel(modelData)
	if err != nil {
		return nil, err
	}
	s := &Service{o: o, secrets: map[string]*secret{},
		api: awsjson.Service{Prefix: "secretsmanager", Name: "secretsmanager", Model: model, Invalid: invalid}}
	s.api.Offer(
		awsjson.Handle(schemas.CreateSecret, schemas.CreateSecretRequest, s.createSecret),
		awsjson.Handle(schemas.PutSecretValue, schemas.PutSecretValueRequest, s.putSecretValue),
		awsjson.Handle(schemas.GetSecretValue, schemas.GetSecretValueRequest, s.getSecretValue),
		awsjson.Handle(schemas.DescribeSecret, schemas.DescribeSecretRequest, s.describeSecret),
		awsjson.Handle(schemas.DeleteSecret, schemas.DeleteSecretRequest, s.deleteSecret),
	)
	return s, nil
}

// API returns the operations.
func (s *Service) API() *awsjson.Service { return &s.api }

func invalid(v awsjson.Violation) *awsjson.Error {
	if v.Kind == "required" {
		return awsjson.Errorf("InvalidParameterException", "You must provide a value for the %s parameter.", v.Path)
	}
	return awsjson.Errorf("ValidationException", "1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: %s", v.Value, v.Path, v.Text)
}

func noSecret() error {
	return refuse(ruleSecret, "Secrets Manager can't find the specified secret.")
}

// find returns a secret by name, ARN, or ARN without the random suffix, which
// the service takes too:
// https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html
// The lock is held.
func (s *Service) find(id string) (*secret, error) {
	if sec := s.secrets[id]; sec != nil {
		return sec, nil
	}
	if strings.HasPrefix(id, "arn:") {
		for _, sec := range s.secrets {
			if sec.ARN == id || sec.ARN[:len(sec.ARN)-7] == id {
				return sec, nil
			}
		}
	}
	return nil, noSecret()
}

// version returns a version by ID and label; neither means AWSCURRENT.
func (sec *secret) version(id, stage *string) (*version, error) {
	if sec.Deleted != nil {
		return nil, deleted()
	}
	if id == nil && stage == nil {
		stage = new(current)
	}
	for _, v := range sec.Versions {
		if (id == nil || v.ID == *id) && (stage == nil || slices.Contains(v.Stages, *stage)) {
			return v, nil
		}
	}
	if id != nil {
		return nil, refuse(ruleVersion, "Secrets Manager can't find the specified secret value for VersionId: %s", *id)
	}
	return nil, refuse(ruleStage, "Secrets Manager can't find the specified secret value for staging label: %s", *stage)
}

func deleted() error {
	return refuse(ruleDeleted, "You can't perform this operation on the secret because it was marked for deletion.")
}

// add makes a version the current one.
func (sec *secret) add(v *version, stages []string) {
	if len(stages) == 0 {
		stages = []string{current}
	}
	for _, stage := range stages {
		for _, o := range sec.Versions {
			if !slices.Contains(o.Stages, stage) {
				continue
			}
			o.Stages = slices.DeleteFunc(o.Stages, func(l string) bool { return l == stage })
			if stage == current {
				for _, p := range sec.Versions {
					p.Stages = slices.DeleteFunc(p.Stages, func(l string) bool { return l == previous })
				}
				o.Stages = append(o.Stages, previous)
			}
		}
	}
	v.Stages = slices.Clone(stages)
	sec.Versions = append(sec.Versions, v)
}

// Value reads a secret's text, as the container agent does for valueFrom.
// Version and stage may be empty.
func (s *Service) Value(id, stage, versionID string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sec, err := s.find(id)
	if err != nil {
		return "", err
	}
	v, err := sec.version(unless(versionID), unless(stage))
	if err != nil {
		return "", err
	}
	if v.Text == nil {
		return string(v.Binary), nil
	}
	return *v.Text, nil
}

// Put makes a secret, or a new version of it, and returns its ARN.
func (s *Service) Put(name, value string) (arn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sec := s.secrets[name]
	if sec == nil {
		sec = s.make(name)
	}
	sec.add(&version{ID: uuid(s.o.NewID()), Text: &value, Created: s.o.Now()}, nil)
	return sec.ARN
}

// make enters a secret without versions. The lock is held.
func (s *Service) make(name string) *secret {
	now := s.o.Now()
	sec := &secret{Name: name, Created: now, Changed: now, Tags: map[string]string{},
		ARN: fmt.Sprintf("arn:aws:secretsmanager:%s:%s:secret:%s-%s", s.o.Region, s.o.Account, name, s.o.NewID()[:6])}
	s.secrets[name] = sec
	return sec
}

func unless(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func uuid(id string) string {
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}
