package aws

import (
	"context"
	"slices"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

func key() sdk.CredentialsProvider {
	return sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) {
		return sdk.Credentials{AccessKeyID: "POCKET", SecretAccessKey: "pocket"}, nil
	})
}

// TestValueFrom gives secrets to a task in every form of valueFrom.
func TestValueFrom(t *testing.T) {
	c := newCloud(t, Options{})
	old := c.Secrets().Put("db", `{"user":"first","port":5432}`)
	c.Secrets().Put("db", `{"user":"second","port":5432}`)
	parameter := c.Parameters().Put("/app/key", "one")
	c.Parameters().Put("/app/key", "two")
	c.Parameters().Put("flat", "three")
	want := map[string]string{
		old:                          `{"user":"second","port":5432}`,
		old + ":user::":              "second",
		old + ":port::":              "5432",
		old + ":user:AWSPREVIOUS:":   "first",
		old[:len(old)-7] + ":user::": "second", // without the random suffix
		parameter:                    "two",
		"/app/key":                   "two",
		"/app/key:1":                 "one",
		"flat":                       "three",
	}
	d := definition("secrets", "env")
	values := map[string]string{}
	for from, value := range want {
		name := "SECRET_" + string(rune('A'+len(values)))
		values[name] = value
		d.ContainerDefinitions[0].Secrets = append(d.ContainerDefinitions[0].Secrets, types.Secret{Name: &name, ValueFrom: &from})
	}
	task := c.until(t, *c.run(t, onFargate(c.register(t, d))).TaskArn, "STOPPED")
	if task.StopCode != types.TaskStopCodeEssentialContainerExited {
		t.Fatalf("stopped by %s: %s", task.StopCode, *task.StoppedReason)
	}
	lines := c.lines(t, *task.TaskArn)
	for name, value := range values {
		if !slices.Contains(lines, name+"="+value) {
			t.Errorf("no %s=%s in %q", name, value, lines)
		}
	}
	for _, bad := range []string{old + ":nosuch::", old + ":user:NOSUCH:", old + ":user", "/app/key:9", "arn:aws:ssm:us-east-1:1:parameter/flat"} {
		if got, err := c.secret(bad); err == nil {
			t.Errorf("%s gives %q", bad, got)
		}
	}
}

// TestSecretsManager keeps versions and labels.
func TestSecretsManager(t *testing.T) {
	c := newCloud(t, Options{})
	client := secretsmanager.New(secretsmanager.Options{Region: Region, BaseEndpoint: &c.url, Credentials: key(), RetryMaxAttempts: 1, HTTPClient: c.web})
	ctx := t.Context()
	made, err := client.CreateSecret(ctx, &secretsmanager.CreateSecretInput{Name: sdk.String("s"), SecretString: sdk.String("v1")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateSecret(ctx, &secretsmanager.CreateSecretInput{Name: sdk.String("s"), SecretString: sdk.String("v1")}); code(err) != "ResourceExistsException" {
		t.Errorf("made twice: %v", err)
	}
	if _, err := client.PutSecretValue(ctx, &secretsmanager.PutSecretValueInput{SecretId: made.ARN, SecretBinary: []byte{0xff, 0}}); err != nil {
		t.Fatal(err)
	}
	now, err := client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: made.ARN})
	if err != nil || !slices.Equal(now.SecretBinary, []byte{0xff, 0}) || now.SecretString != nil || !slices.Equal(now.VersionStages, []string{"AWSCURRENT"}) {
		t.Errorf("current: %v, %v", now, err)
	}
	before, err := client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: sdk.String("s"), VersionStage: sdk.String("AWSPREVIOUS")})
	if err != nil || *before.SecretString != "v1" || *before.VersionId != *made.VersionId {
		t.Errorf("previous: %v, %v", before, err)
	}
	desc, err := client.DescribeSecret(ctx, &secretsmanager.DescribeSecretInput{SecretId: sdk.String("s")})
	if err != nil || len(desc.VersionIdsToStages) != 2 {
		t.Errorf("described: %v, %v", desc, err)
	}
	for _, in := range []secretsmanager.GetSecretValueInput{{SecretId: sdk.String("nosuch")}, {SecretId: sdk.String("s"), VersionStage: sdk.String("NOSUCH")}, {SecretId: sdk.String("s"), VersionId: sdk.String("12345678-1234-1234-1234-123456789012")}} {
		if _, err := client.GetSecretValue(ctx, &in); code(err) != "ResourceNotFoundException" {
			t.Errorf("%s: %v", *in.SecretId, err)
		}
	}
	if _, err := client.DeleteSecret(ctx, &secretsmanager.DeleteSecretInput{SecretId: sdk.String("s")}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: sdk.String("s")}); code(err) != "InvalidRequestException" {
		t.Errorf("deleted: %v", err)
	}
}

// TestIdentity says who calls, and refuses other operations.
func TestIdentity(t *testing.T) {
	c := newCloud(t, Options{Account: "210987654321"})
	client := sts.New(sts.Options{Region: Region, BaseEndpoint: &c.url, Credentials: key(), RetryMaxAttempts: 1, HTTPClient: c.web})
	out, err := client.GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	if err != nil || *out.Account != "210987654321" || *out.Arn != "arn:aws:iam::210987654321:user/POCKET" {
		t.Errorf("identity %v, %v", out, err)
	}
	if _, err := client.GetSessionToken(t.Context(), &sts.GetSessionTokenInput{}); code(err) != "InvalidAction" {
		t.Errorf("another operation: %v", err)
	}
}
