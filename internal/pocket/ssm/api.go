package ssm

import (
	"context"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// maxLevels is one of the rules for names:
// https://docs.aws.amazon.com/systems-manager/latest/userguide/sysman-paramstore-su-create.html
const (
	maxLevels = 15
	// maxStandard and maxAdvanced bound the value's bytes by tier.
	maxStandard, maxAdvanced = 4096, 8192
)

type putInput struct {
	Name, Value    string
	Type, Tier     string
	DataType       *string
	Overwrite      bool
	AllowedPattern *string
	Tags           []struct{ Key, Value string }
}

type putOutput struct {
	Tier    string
	Version int64
}

func (s *Service) putParameter(_ context.Context, _ awsjson.Call, in *putInput) (*putOutput, error) {
	bare := strings.ToLower(strings.TrimPrefix(in.Name, "/"))
	switch {
	case strings.ContainsFunc(in.Name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.-/", r))
	}):
		return nil, refuse(ruleName, "Parameter name: can't be prefixed with \"ssm\" (case-insensitive). If formed as a path, it can consist of sub-paths divided by slash symbol; each sub-path can be formed as a mix of letters, numbers and the following 3 symbols .-_")
	case strings.HasPrefix(bare, "aws") || strings.HasPrefix(bare, "ssm"):
		return nil, refuse(rulePrefix, "Parameter name: can't be prefixed with \"aws\" or \"ssm\" (case-insensitive).")
	case strings.Contains(bare, "/") && !strings.HasPrefix(in.Name, "/"):
		return nil, refuse(ruleQualified, "Parameter name must be a fully qualified name.")
	case strings.Count(in.Name, "/") > maxLevels:
		return nil, refuse(ruleLevels, "A hierarchy can have a maximum of %d levels.", maxLevels)
	}
	if strings.Contains(in.Value, "{{") && strings.Contains(in.Value, "}}") {
		return nil, refuse(ruleNested, "Parameter value can't nest another parameter. Do not use \"{{}}\" in the value.")
	}
	limit, tier := maxStandard, "Standard"
	if in.Tier == "Advanced" || in.Tier == "Intelligent-Tiering" && len(in.Value) > maxStandard {
		limit, tier = maxAdvanced, "Advanced"
	}
	if len(in.Value) > limit {
		return nil, refuse(ruleSize, "Standard tier parameters support a maximum parameter value of %d characters.", limit)
	}
	if in.AllowedPattern != nil {
		re, err := regexp.Compile(*in.AllowedPattern)
		if err != nil {
			return nil, refuse(rulePattern, "The allowed pattern is no regular expression.")
		}
		if !re.MatchString(in.Value) {
			return nil, refuse(ruleMismatch, "Parameter value, cannot be validated against allowedPattern: %s", *in.AllowedPattern)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.parameters[in.Name]
	switch {
	case p == nil:
		if in.Type == "" {
			return nil, refuse(ruleType, "A parameter type is required when you create a parameter.")
		}
		p = &parameter{Name: in.Name, Type: in.Type}
		s.parameters[in.Name] = p
	case !in.Overwrite:
		return nil, refuse(ruleExists, "The parameter already exists. To overwrite this value, set the overwrite option in the request to true.")
	case in.Type != "":
		p.Type = in.Type
	}
	p.Versions = append(p.Versions, value{in.Value, s.o.Now()})
	return &putOutput{Tier: tier, Version: int64(len(p.Versions))}, nil
}

type shown struct {
	ARN, DataType, Name, Type, Value string
	LastModifiedDate                 float64
	Selector                         string `json:",omitempty"`
	Version                          int64
}

// show returns what a reader gets: without decryption a secure value is the
// ciphertext of it, which nobody can read here.
func (s *Service) show(p *parameter, number int, selector string, decrypt bool) *shown {
	v := p.Versions[number-1]
	text := v.Text
	if p.Type == "SecureString" && !decrypt {
		text = "AQICAHh" + base64.StdEncoding.EncodeToString([]byte(p.Name))
	}
	return &shown{ARN: s.arn(p.Name), DataType: "text", Name: p.Name, Type: p.Type, Value: text, Selector: selector,
		LastModifiedDate: float64(v.At.UnixMilli()) / 1000, Version: int64(number)}
}

type getInput struct {
	Name           string
	WithDecryption bool
}

type getOutput struct{ Parameter *shown }

func (s *Service) getParameter(_ context.Context, _ awsjson.Call, in *getInput) (*getOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, n, selector, ok := s.find(in.Name)
	if !ok {
		if p != nil {
			return nil, refuse(ruleVersion, "Systems Manager could not find version %s of %s.", strings.TrimPrefix(selector, ":"), p.Name)
		}
		return nil, refuse(ruleParameter, "Parameter %s not found.", in.Name)
	}
	return &getOutput{s.show(p, n, selector, in.WithDecryption)}, nil
}

type getManyInput struct {
	Names          []string
	WithDecryption bool
}

type getManyOutput struct {
	InvalidParameters []string
	Parameters        []*shown
}

func (s *Service) getParameters(_ context.Context, _ awsjson.Call, in *getManyInput) (*getManyOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &getManyOutput{InvalidParameters: []string{}, Parameters: []*shown{}}
	for i, name := range in.Names {
		if slices.Contains(in.Names[:i], name) {
			return nil, refuse(ruleTwice, "The request contains the parameter %s twice.", name)
		}
		if p, n, selector, ok := s.find(name); ok {
			out.Parameters = append(out.Parameters, s.show(p, n, selector, in.WithDecryption))
		} else {
			out.InvalidParameters = append(out.InvalidParameters, name)
		}
	}
	return out, nil
}

type deleteInput struct{ Name string }

func (s *Service) deleteParameter(_ context.Context, _ awsjson.Call, in *deleteInput) (*struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parameters[in.Name] == nil {
		return nil, refuse(ruleParameter, "Parameter %s not found.", in.Name)
	}
	delete(s.parameters, in.Name)
	return &struct{}{}, nil
}

type byPathInput struct {
	Path           string
	Recursive      bool
	WithDecryption bool
	MaxResults     *int
	NextToken      *string
}

type byPathOutput struct {
	NextToken  *string `json:",omitempty"`
	Parameters []*shown
}

// maxByPath is how many parameters a page of GetParametersByPath has.
const maxByPath = 10

func (s *Service) getParametersByPath(_ context.Context, _ awsjson.Call, in *byPathInput) (*byPathOutput, error) {
	if !strings.HasPrefix(in.Path, "/") {
		return nil, refuse(rulePath, "The parameter doesn't meet the parameter name requirements. The parameter name must begin with a forward slash.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for name := range s.parameters {
		rest, ok := strings.CutPrefix(name, strings.TrimSuffix(in.Path, "/")+"/")
		if ok && (in.Recursive || !strings.Contains(rest, "/")) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	n := maxByPath
	if in.MaxResults != nil {
		n = min(n, *in.MaxResults)
	}
	page, next, ok := awsjson.Page(all, in.NextToken, n)
	if !ok {
		return nil, refuse(ruleNextToken, "Invalid token")
	}
	out := &byPathOutput{NextToken: next, Parameters: []*shown{}}
	for _, name := range page {
		p := s.parameters[name]
		out.Parameters = append(out.Parameters, s.show(p, len(p.Versions), "", in.WithDecryption))
	}
	return out, nil
}

type deleteManyInput struct{ Names []string }

type deleteManyOutput struct{ DeletedParameters, InvalidParameters []string }

func (s *Service) deleteParameters(_ context.Context, _ awsjson.Call, in *deleteManyInput) (*deleteManyOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &deleteManyOutput{DeletedParameters: []string{}, InvalidParameters: []string{}}
	for _, name := range in.Names {
		if s.parameters[name] == nil {
			out.InvalidParameters = append(out.InvalidParameters, name)
			continue
		}
		delete(s.parameters, name)
		out.DeletedParameters = append(out.DeletedParameters, name)
	}
	return out, nil
}
