package secretref

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type resolver map[sdk.SecretRef]string

func (r resolver) ResolveSecret(_ context.Context, ref sdk.SecretRef) (sdk.SecretValue, error) {
	v, ok := r[ref]
	if !ok {
		return sdk.SecretValue{}, sdk.Errorf(sdk.NotFound, "resolve secret", "%s is not set", ref)
	}
	return sdk.NewSecretValue([]byte(v)), nil
}

// source looks references up in a cloud.
func source(t *testing.T, cloud http.Handler, r sdk.SecretResolver) *Source {
	t.Helper()
	web := httptest.NewServer(cloud)
	t.Cleanup(web.Close)
	session, err := aws.Open(t.Context(), aws.Settings{Provider: "prod", Region: pocket.Region, Endpoint: web.URL, Account: pocket.Account,
		Credentials: map[string]string{"AWS_ACCESS_KEY_ID": "pocket", "AWS_SECRET_ACCESS_KEY": "pocket"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return &Source{Session: session, Vault: secretsmanager.NewFromConfig(session.Config), Resolver: r, Provider: "prod", Service: "ECS", Describes: "anyone who may describe tasks"}
}

// TestPlan: each reference is passed on in the form of valueFrom, or refused by
// field.
func TestPlan(t *testing.T) {
	cloud, err := pocket.New(pocket.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cloud.Close() })
	cloud.Secrets().Put("db", "old")
	db := cloud.Secrets().Put("db", "hush")
	s := source(t, cloud, nil)
	const version = "12345678-1234-1234-1234-123456789012"
	parameter := "arn:aws:ssm:" + pocket.Region + ":" + pocket.Account + ":parameter/"
	for ref, want := range map[string]string{
		"secret://aws-sm/db":                             db,
		"secret://aws-sm/db#password":                    db + ":password::",
		"secret://aws-sm/db?version=AWSPREVIOUS":         db + "::AWSPREVIOUS:",
		"secret://aws-sm/db#password?version=" + version: db + ":password::" + version,
		"secret://aws-sm/" + db:                          db,
		"secret://aws-ssm/prod/key":                      parameter + "prod/key",
		"secret://aws-ssm/" + parameter + "prod/key":     parameter + "prod/key",
		"secret://aws-sm/nosuch":                         "! has no secret",
		"secret://aws-sm/" + db + "Gone":                 "! has no secret",
		"secret://aws-sm/db?version=OLDEST":              "! no version of the stage",
		"secret://aws-sm/" + db + "?version=OLDEST":      "! no version of the stage",
		"secret://aws-sm/a:b":                            "! neither a secret's name nor its ARN",
		"secret://aws-ssm/a:b":                           "! neither a parameter's name nor its ARN",
		"secret://aws-ssm/a#key":                         "! has no keys",
		"secret://aws-ssm/a?version=2":                   "! newest version only",
		"secret://gcp-sm/a":                              "! ECS takes no secret of the scheme gcp-sm",
		"secret://env/A":                                 "! anyone who may describe tasks can read",
		"secret://file/A":                                "! anyone who may describe tasks can read",
	} {
		problem := ""
		plan, err := s.Plan(t.Context(), sdk.JobSpec{Secrets: map[string]sdk.SecretRef{"S": sdk.SecretRef(ref)}}, func(_ sdk.Code, field, value, format string, args ...any) {
			if field != "secrets.S" || value != ref {
				t.Errorf("%s: a problem with %s, %s", ref, field, value)
			}
			problem = sdk.Errorf(sdk.InvalidArgument, "x", format, args...).Error()
		})
		if err != nil {
			t.Errorf("%s: %v", ref, err)
		}
		if words, refused := strings.CutPrefix(want, "! "); refused {
			if !strings.Contains(problem, words) {
				t.Errorf("%s: %q; want %q", ref, problem, words)
			}
		} else if problem != "" || plan.From["S"] != want || plan.Visible {
			t.Errorf("%s: %+v, %q; want %s", ref, plan, problem, want)
		}
	}
	// Denied, a name has its reference in the error, and an ARN needs no look.
	deny := cloud.Faults().Add(fault.Rule{Action: "secretsmanager:DescribeSecret", Effect: fault.Effect{Refuse: cloud.Deny("pocket", "secretsmanager:DescribeSecret", db)}})
	for ref, wrong := range map[sdk.SecretRef]bool{"secret://aws-sm/db": true, sdk.SecretRef("secret://aws-sm/" + db): false} {
		_, err := s.Plan(t.Context(), sdk.JobSpec{Secrets: map[string]sdk.SecretRef{"S": ref}}, func(_ sdk.Code, field, _, format string, _ ...any) { t.Errorf("%s: %s", field, format) })
		if (err != nil) != wrong || wrong && (sdk.CodeOf(err) != sdk.PermissionDenied || !strings.Contains(err.Error(), "secrets.S: look up secret://aws-sm/db") || !strings.Contains(err.Error(), "full ARN")) {
			t.Errorf("%s: %v", ref, err)
		}
	}
	deny()
	if cloud.Calls().Count("secretsmanager:GetSecretValue") != 0 {
		t.Error("a value was fetched")
	}
	plan, err := s.Plan(t.Context(), sdk.JobSpec{AllowVisibleSecret: true, Secrets: map[string]sdk.SecretRef{"S": "secret://env/A"}}, func(_ sdk.Code, field, _, format string, _ ...any) {
		t.Errorf("%s: %s", field, format)
	})
	if err != nil || !plan.Visible || len(plan.From) != 0 {
		t.Errorf("allowed: %+v, %v", plan, err)
	}
}

// TestReveal resolves what becomes visible and nothing else, and refuses what no
// variable can hold.
func TestReveal(t *testing.T) {
	s := source(t, http.NotFoundHandler(), resolver{"secret://env/A": "value", "secret://file/B": "\xff", "secret://env/C": "a\x00b"})
	got, err := s.Reveal(t.Context(), "run job", map[string]sdk.SecretRef{"X": "secret://env/A", "Y": "secret://aws-sm/db", "Z": "secret://aws-ssm/p"})
	if err != nil || len(got) != 1 || got["X"] != "value" {
		t.Errorf("%d values, %v", len(got), err)
	}
	for ref, code := range map[sdk.SecretRef]sdk.Code{"secret://file/B": sdk.InvalidArgument, "secret://env/C": sdk.InvalidArgument, "secret://env/D": sdk.NotFound, "odd": sdk.InvalidArgument} {
		if _, err := s.Reveal(t.Context(), "run job", map[string]sdk.SecretRef{"S": ref}); sdk.CodeOf(err) != code || strings.Contains(err.Error(), "\x00") {
			t.Errorf("%s: %v", ref, err)
		}
	}
	s.Resolver = nil
	if _, err := s.Reveal(t.Context(), "run job", map[string]sdk.SecretRef{"S": "secret://env/A"}); sdk.CodeOf(err) != sdk.FailedPrecondition {
		t.Errorf("without a resolver: %v", err)
	}
	if !slices.Equal(Schemes()[2:], Visible()) {
		t.Errorf("schemes %v, of which %v are visible", Schemes(), Visible())
	}
}
