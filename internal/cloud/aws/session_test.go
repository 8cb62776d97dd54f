package aws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stsServer answers GetCallerIdentity, and AssumeRoleWithWebIdentity.
func stsServer(t *testing.T, calls *atomic.Int64) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		calls.Add(1)
		w.Header().Set("Content-Type", "text/xml")
		if strings.Contains(string(body), "AssumeRoleWithWebIdentity") {
			if !strings.Contains(string(body), "WebIdentityToken=the-token") || r.Header.Get("Authorization") != "" {
				t.Errorf("exchange: %s", body)
			}
			_, _ = fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIAWEB</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`,
				time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
			return
		}
		_, _ = io.WriteString(w, `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/x</Arn><UserId>U</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func keys() map[string]string {
	return map[string]string{"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "canary-secret", "AWS_REGION": "eu-west-1"}
}

func mustOpen(t *testing.T, s Settings) *Session {
	t.Helper()
	x, err := Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

// TestAccount: the account comes from the config, else from STS.
func TestAccount(t *testing.T) {
	var calls atomic.Int64
	url := stsServer(t, &calls)
	if x := mustOpen(t, Settings{Account: "999999999999", Endpoint: url, Credentials: keys()}); x.Account != "999999999999" || calls.Load() != 0 {
		t.Errorf("account %s after %d calls", x.Account, calls.Load())
	}
	x := mustOpen(t, Settings{Endpoint: url, Credentials: keys()})
	if x.Account != "123456789012" || x.Region != "eu-west-1" || x.Partition != "aws" || calls.Load() != 1 {
		t.Errorf("%s, %s, %s after %d calls", x.Account, x.Region, x.Partition, calls.Load())
	}
}

// TestAccountNote: what STS said is kept, private, and read again; what is no
// account is not believed. No note holds a secret.
func TestAccountNote(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "account-x.json")
	if _, ok := readAccount(file); ok {
		t.Error("a note that isn't there was read")
	}
	writeAccount(file, "123456789012")
	if a, ok := readAccount(file); !ok || a != "123456789012" {
		t.Errorf("%s, %t", a, ok)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for _, text := range []string{"", "{", `{"v":2,"account":"123456789012"}`, `{"v":1,"account":"12"}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if a, ok := readAccount(file); ok {
			t.Errorf("%q is read as %s", text, a)
		}
	}
	writeAccount(filepath.Join(dir, "no", "such"), "123456789012")
}

// TestWebIdentity: a token in a file is exchanged for keys.
func TestWebIdentity(t *testing.T) {
	var calls atomic.Int64
	url := stsServer(t, &calls)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("the-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	x := mustOpen(t, Settings{Region: "eu-west-1", Endpoint: url, Credentials: map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": file, "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/r"}})
	if x.Account != "123456789012" || calls.Load() != 2 {
		t.Errorf("account %s after %d calls", x.Account, calls.Load())
	}
	_, err := Open(t.Context(), Settings{Region: "eu-west-1", Endpoint: url, Credentials: map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": file + ".no", "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/r"}})
	if sdk.CodeOf(err) != sdk.Unauthenticated {
		t.Errorf("without the file: %v", err)
	}
}

// TestProfile: with ambient credentials a profile of the submitter's own files
// is used, and its region.
func TestProfile(t *testing.T) {
	var calls atomic.Int64
	url := stsServer(t, &calls)
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, ".aws"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"config": "[profile work]\nregion = eu-north-1\n", "credentials": "[work]\naws_access_key_id = AKIAWORK\naws_secret_access_key = s\n"} {
		if err := os.WriteFile(filepath.Join(home, ".aws", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	v := map[string]string{"HOME": home, "AWS_PROFILE": "work", "AWS_EC2_METADATA_DISABLED": "true"}
	x := mustOpen(t, Settings{Endpoint: url, Credentials: v, Ambient: true})
	if x.Region != "eu-north-1" {
		t.Errorf("region %s", x.Region)
	}
	c, err := x.Config.Credentials.Retrieve(t.Context())
	if err != nil || c.AccessKeyID != "AKIAWORK" {
		t.Errorf("%s, %v", c.AccessKeyID, err)
	}
	if _, err := Open(t.Context(), Settings{Endpoint: url, Credentials: v}); sdk.CodeOf(err) != sdk.Unauthenticated {
		t.Errorf("without ambient: %v", err)
	}
	v["AWS_PROFILE"] = "nosuch"
	if _, err := Open(t.Context(), Settings{Endpoint: url, Credentials: v, Ambient: true}); sdk.CodeOf(err) != sdk.Unauthenticated || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("without the profile: %v", err)
	}
}

// TestOpenErrors: nothing is opened on what can't be, and no error holds a
// secret.
func TestOpenErrors(t *testing.T) {
	for name, s := range map[string]Settings{
		"no region":    {Account: "123456789012", Credentials: map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "canary-secret"}},
		"endpoint":     {Account: "123456789012", Endpoint: "https://ecs.example.com", Credentials: keys()},
		"account":      {Account: "x", Credentials: keys()},
		"bundle":       {Account: "123456789012", Credentials: map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "canary-secret", "AWS_CA_BUNDLE": "/no/such"}},
		"unreachable":  {Region: "eu-west-1", Endpoint: "http://127.0.0.1:1", Credentials: keys()},
		"no keys":      {Region: "eu-west-1", Account: "123456789012"},
		"half of them": {Region: "eu-west-1", Account: "123456789012", Credentials: map[string]string{"AWS_SECRET_ACCESS_KEY": "canary-secret"}},
	} {
		x, err := Open(t.Context(), s)
		if err == nil {
			x.Close()
		}
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestClasses: what an answer is, by its code or else its status. Only a clear
// refusal is clear.
func TestClasses(t *testing.T) {
	for _, c := range []struct {
		code   string
		status int
		want   sdk.Code
		again  bool
	}{
		{"AccessDeniedException", 400, sdk.PermissionDenied, false},
		{"ExpiredTokenException", 400, sdk.Unauthenticated, false},
		{"ThrottlingException", 400, sdk.ResourceExhausted, true},
		{"ServerException", 500, sdk.Unavailable, true},
		{"ClientException", 400, sdk.InvalidArgument, false},
		{"ConflictException", 400, sdk.Aborted, false},
		{"ResourceNotFoundException", 400, sdk.NotFound, false},
		{"SomethingNew", 400, sdk.InvalidArgument, false},
		{"SomethingNew", 503, sdk.Unavailable, true},
		{"SomethingNew", 429, sdk.ResourceExhausted, true},
		{"", 403, sdk.PermissionDenied, false},
		{"", 200, sdk.Unavailable, true},
		{"", 0, sdk.Unavailable, true},
		{"", 400, sdk.Unavailable, true},
	} {
		if got, again := classOf(c.code, c.status); got != c.want || again != c.again {
			t.Errorf("%s %d: %s, %t; want %s, %t", c.code, c.status, got, again, c.want, c.again)
		}
	}
}

func answer(code string, status int, header http.Header) error {
	return &awshttp.ResponseError{ResponseError: &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status, Header: header}},
		Err: &smithy.GenericAPIError{Code: code, Message: "m"}}}
}

// TestCall: a refusal for the time is sent once more, and nothing else is; the
// wait that the answer asks for is kept; a call's own time-out is no cancel.
func TestCall(t *testing.T) {
	x := &Session{provider: "p", timeout: 50 * time.Millisecond}
	calls := 0
	err := x.Call(t.Context(), "op", func(context.Context) error {
		if calls++; calls == 1 {
			return answer("RequestExpired", 400, nil)
		}
		return nil
	})
	if err != nil || calls != 2 {
		t.Errorf("%v after %d calls", err, calls)
	}
	calls = 0
	err = x.Call(t.Context(), "op", func(context.Context) error {
		calls++
		return answer("ThrottlingException", 400, http.Header{"Retry-After": {"7"}})
	})
	if calls != 1 || sdk.RetryAfter(err) != 7*time.Second || ErrorCode(err) != "ThrottlingException" || ErrorText(err) != "m" {
		t.Errorf("%v after %d calls, wait %s", err, calls, sdk.RetryAfter(err))
	}
	err = x.Call(t.Context(), "op", func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if sdk.CodeOf(err) != sdk.DeadlineExceeded || !sdk.IsRetryable(err) {
		t.Errorf("a time-out: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = x.Call(ctx, "op", func(context.Context) error {
		t.Error("called with a context that has ended")
		return nil
	})
	if !errors.Is(err, sdk.Canceled) {
		t.Errorf("a cancel: %v", err)
	}
}

// TestPlainly: an error says what was called and what came of it, and the
// vendor's own error is beneath.
func TestPlainly(t *testing.T) {
	x := &Session{provider: "p", timeout: time.Second, Endpoint: "http://127.0.0.1:1"}
	api := &smithy.OperationError{ServiceID: "ECS", OperationName: "RunTask", Err: answer("ClientException", 400, nil)}
	err := x.Call(t.Context(), "run job", func(context.Context) error { return api })
	if got, want := err.Error(), "run job: provider p: ECS RunTask: ClientException: m"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if ErrorCode(err) != "ClientException" || !errors.Is(err, api) {
		t.Errorf("the vendor's error is lost: %v", err)
	}
	send := &smithy.OperationError{ServiceID: "ECS", OperationName: "RunTask", Err: &smithyhttp.RequestSendError{Err: errors.New("connection refused")}}
	err = x.Call(t.Context(), "run job", func(context.Context) error { return send })
	if got := err.Error(); !strings.HasPrefix(got, "run job: provider p: ECS RunTask: connection refused; is the pocket cloud") {
		t.Errorf("got %q", got)
	}
}

// TestBudget: one budget for an account and region, whoever asks; a wait ends
// with its context, and gives its turn back.
func TestBudget(t *testing.T) {
	var b Budgets
	x, y := &Session{Account: "1", Region: "r"}, &Session{Account: "1", Region: "r"}
	one := b.For(x, "f", 0.001, 2)
	if b.For(y, "f", 0.001, 2) != one || b.For(y, "g", 0.001, 2) == one || b.For(&Session{Account: "2", Region: "r"}, "f", 1, 1) == one {
		t.Error("the budgets are mixed up")
	}
	for range 2 {
		if err := one.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := one.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("beyond the budget: %v", err)
	}
}

func TestARN(t *testing.T) {
	x := &Session{Account: "123456789012", Region: "cn-north-1", Partition: partition("cn-north-1")}
	s := x.ARN("ssm", "parameter/a:b").String()
	if a, ok := ParseARN(s); !ok || a.Partition != "aws-cn" || a.Resource != "parameter/a:b" || a.String() != s {
		t.Errorf("%s: %+v", s, a)
	}
	for _, s := range []string{"", "arn", "arn:aws:ecs:r:1:", "arn::ecs:r:1:x", "task/x"} {
		if _, ok := ParseARN(s); ok {
			t.Errorf("%q is an ARN", s)
		}
	}
}
