package control

import (
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// TestWithRefs: what a backend says of a secret has its reference beside it. The
// texts are AWS's and Google's own.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/resource-initialization-error.html
// https://cloud.google.com/run/docs/configuring/jobs/secrets
func TestWithRefs(t *testing.T) {
	refs := map[string]sdk.SecretRef{"KEY": "secret://aws-ssm/prod/key", "PASSWORD": "secret://aws-sm/db#password", "TOKEN": "secret://gcp-sm/token"}
	for message, want := range map[string]string{
		"": "",
		"CannotPullContainerError: pull access denied": "",
		"ResourceInitializationError: unable to pull secrets or registry auth: unable to retrieve secrets from ssm: The following parameters were not found: /prod/key": "KEY is secret://aws-ssm/prod/key",
		"ResourceInitializationError: unable to retrieve secret from asm: arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-AbCdEf: AccessDeniedException":        "PASSWORD is secret://aws-sm/db#password",
		"Secret projects/1/secrets/token/versions/latest was not found":                                                                                                 "TOKEN is secret://gcp-sm/token",
		"unable to pull secrets or registry auth: execution resource retrieval failed":                                                                                  "KEY is secret://aws-ssm/prod/key, PASSWORD is secret://aws-sm/db#password, TOKEN is secret://gcp-sm/token",
		"secret tokens of keys":                            "KEY is secret://aws-ssm/prod/key, PASSWORD is secret://aws-sm/db#password, TOKEN is secret://gcp-sm/token",
		"read secret://aws-sm/db#password: no such secret": "",
	} {
		if want != "" {
			want = " (" + want + ")"
		}
		if got := withRefs(message, refs); got != message+want {
			t.Errorf("got %q, want %q", got, message+want)
		}
		if got := withRefs(message, nil); got != message {
			t.Errorf("without secrets: %q", got)
		}
	}
}
