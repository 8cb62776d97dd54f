// Package parameter reads and writes parameters of AWS Systems Manager's Parameter
// Store. See https://docs.aws.amazon.com/systems-manager/latest/APIReference/.
//
// Its four calls are signed with AWS's own signer and written here: the tables of
// AWS's package for Systems Manager alone would cost every start of the program six
// milliseconds.
package parameter

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/windlass-run/windlass/internal/cloud/aws"
)

// Store is Parameter Store where a session leads. It is safe for concurrent use.
type Store struct {
	session *aws.Session
	signer  *v4.Signer
}

// NewStore returns the store of a session.
func NewStore(x *aws.Session) *Store { return &Store{session: x, signer: v4.NewSigner()} }

const (
	// manyMost is how many parameters one call reads or deletes.
	// https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParameters.html
	manyMost = 10
	// MaxValue is the most bytes of a value of the tier Standard.
	// https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_PutParameter.html
	MaxValue = 4096
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 4 << 20
)

// Put makes a parameter of plain text with tags. One that is there already is no
// error, and stays as it is: names here are used once.
func (s *Store) Put(ctx context.Context, op, name, value string, tags map[string]string) error {
	type tag struct{ Key, Value string }
	in := struct {
		Name, Value, Type string
		Tags              []tag `json:",omitempty"`
	}{Name: name, Value: value, Type: "String"}
	for k, v := range tags {
		in.Tags = append(in.Tags, tag{k, v})
	}
	slices.SortFunc(in.Tags, func(a, b tag) int { return strings.Compare(a.Key, b.Key) })
	err := s.call(ctx, op, "PutParameter", in, &struct{}{})
	if aws.ErrorCode(err) == "ParameterAlreadyExists" {
		return nil
	}
	return err
}

// Get reads parameters by name or ARN. What isn't there is left out.
func (s *Store) Get(ctx context.Context, op string, names []string) (map[string]string, error) {
	values := map[string]string{}
	for part := range slices.Chunk(names, manyMost) {
		var out struct {
			Parameters []struct{ Name, ARN, Value string }
		}
		if err := s.call(ctx, op, "GetParameters", map[string]any{"Names": part, "WithDecryption": true}, &out); err != nil {
			return nil, err
		}
		for _, p := range out.Parameters {
			values[p.Name], values[p.ARN] = p.Value, p.Value
		}
	}
	return values, nil
}

// Below lists the names of the parameters below a path.
func (s *Store) Below(ctx context.Context, op, path string) ([]string, error) {
	in := map[string]any{"Path": path, "Recursive": true}
	var names []string
	for {
		var out struct {
			NextToken  string
			Parameters []struct{ Name string }
		}
		if err := s.call(ctx, op, "GetParametersByPath", in, &out); err != nil {
			return nil, err
		}
		for _, p := range out.Parameters {
			names = append(names, p.Name)
		}
		if out.NextToken == "" {
			return names, nil
		}
		in["NextToken"] = out.NextToken
	}
}

// Delete removes parameters. What isn't there is no error.
func (s *Store) Delete(ctx context.Context, op string, names []string) error {
	for part := range slices.Chunk(names, manyMost) {
		if err := s.call(ctx, op, "DeleteParameters", map[string]any{"Names": part}, &struct{}{}); err != nil {
			return err
		}
	}
	return nil
}

// call makes one call in the protocol JSON 1.1.
// https://smithy.io/2.0/aws/protocols/aws-json-1_1-protocol.html
func (s *Store) call(ctx context.Context, op, action string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return s.session.Call(ctx, op, func(ctx context.Context) error {
		resp, data, err := s.send(ctx, action, body) //nolint:bodyclose // send has read and closed it
		if err == nil && resp.StatusCode != http.StatusOK {
			err = refusal(resp, data)
		}
		if err == nil {
			err = json.Unmarshal(data, out)
		}
		if err != nil {
			return &smithy.OperationError{ServiceID: "SSM", OperationName: action, Err: err}
		}
		return nil
	})
}

// send signs and sends a request.
func (s *Store) send(ctx context.Context, action string, body []byte) (*http.Response, []byte, error) {
	cfg := s.session.Config
	address := "https://ssm." + s.session.Region + "." + s.session.Suffix() + "/"
	if s.session.Endpoint != "" {
		address = s.session.Endpoint
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", "AmazonSSM."+action)
	creds, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, nil, err
	}
	sum := sha256.Sum256(body)
	if err := s.signer.SignHTTP(ctx, creds, req, hex.EncodeToString(sum[:]), "ssm", s.session.Region, time.Now()); err != nil {
		return nil, nil, err
	}
	resp, err := cfg.HTTPClient.Do(req)
	if err != nil {
		return nil, nil, &smithyhttp.RequestSendError{Err: err}
	}
	defer func() { _ = resp.Body.Close() }() // it is read
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp, data, err
}

// refusal is the error of an answer, in the types of AWS's own clients.
func refusal(resp *http.Response, data []byte) error {
	var e struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	// An answer that can't be read has no code; its status says enough.
	_ = json.Unmarshal(data, &e)
	code := e.Type[strings.LastIndexByte(e.Type, '#')+1:]
	return &awshttp.ResponseError{RequestID: resp.Header.Get("X-Amzn-Requestid"), ResponseError: &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: resp}, Err: &smithy.GenericAPIError{Code: code, Message: e.Message}}}
}
