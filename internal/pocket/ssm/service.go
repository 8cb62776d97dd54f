// Package ssm is the pocket cloud's Parameter Store of Systems Manager:
// parameters with their versions. See
// https://docs.aws.amazon.com/systems-manager/latest/APIReference/.
//
// Its few shapes are written here, not taken from AWS's SDK: that package's
// tables alone would cost every start of the program six milliseconds.
package ssm

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
	"time"

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
}

// Service is Parameter Store of one account and region.
type Service struct {
	o   Options
	api awsjson.Service

	mu         sync.Mutex
	parameters map[string]*parameter // by name
}

type parameter struct {
	Name     string
	Type     string
	Versions []value // version n is at n-1
}

type value struct {
	Text string
	At   time.Time
}

// New returns the service, without parameters.
func New(o Options) (*Service, error) {
	model, err := awsjson.ParseModel(modelData)
	if err != nil {
		return nil, err
	}
	s := &Service{o: o, parameters: map[string]*parameter{},
		api: awsjson.Service{Prefix: "AmazonSSM", Name: "ssm", Model: model, Invalid: invalid}}
	s.api.Offer(
		awsjson.HandlePlain("PutParameter", s.putParameter),
		awsjson.HandlePlain("GetParameter", s.getParameter),
		awsjson.HandlePlain("GetParameters", s.getParameters),
		awsjson.HandlePlain("GetParametersByPath", s.getParametersByPath),
		awsjson.HandlePlain("DeleteParameter", s.deleteParameter),
		awsjson.HandlePlain("DeleteParameters", s.deleteParameters),
	)
	return s, nil
}

// API returns the operations.
func (s *Service) API() *awsjson.Service { return &s.api }

func invalid(v awsjson.Violation) *awsjson.Error {
	return awsjson.Errorf("ValidationException", "1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: %s", v.Value, v.Path, v.Text)
}

func (s *Service) arn(name string) string {
	return fmt.Sprintf("arn:aws:ssm:%s:%s:parameter/%s", s.o.Region, s.o.Account, strings.TrimPrefix(name, "/"))
}

// find returns a parameter and one of its versions, by name or ARN, with
// :VERSION behind it if need be. The lock is held.
func (s *Service) find(id string) (p *parameter, number int, selector string, ok bool) {
	name := id
	if prefix := s.arn(""); strings.HasPrefix(id, prefix) {
		name = "/" + id[len(prefix):]
	} else if strings.HasPrefix(id, "arn:") {
		return nil, 0, "", false
	}
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		name, selector = name[:i], name[i:]
	}
	p = s.parameters[name]
	if p == nil {
		p = s.parameters[strings.TrimPrefix(name, "/")]
	}
	if p == nil {
		return nil, 0, "", false
	}
	number = len(p.Versions)
	if selector != "" {
		if _, err := fmt.Sscanf(selector, ":%d", &number); err != nil || number < 1 || number > len(p.Versions) {
			return p, 0, selector, false
		}
	}
	return p, number, selector, true
}

// Value reads a parameter's text, as the container agent does for valueFrom.
func (s *Service) Value(id string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, n, _, ok := s.find(id)
	if !ok {
		return "", refuse(ruleParameter, "invalid ssm parameters: %s", id)
	}
	return p.Versions[n-1].Text, nil
}

// Put sets a parameter, as SecureString, and returns its ARN.
func (s *Service) Put(name, text string) (arn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.parameters[name]
	if p == nil {
		p = &parameter{Name: name, Type: "SecureString"}
		s.parameters[name] = p
	}
	p.Versions = append(p.Versions, value{text, s.o.Now()})
	return s.arn(name)
}
