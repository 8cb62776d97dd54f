package azure

import (
	"context"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/windlass-run/windlass/sdk"
)

// TestAuthorityOutOfReach: where nobody answers, credentials aren't at fault, and a
// later try may get a token.
func TestAuthorityOutOfReach(t *testing.T) {
	x, err := Open(Settings{Subscription: subscription, Endpoint: "https://127.0.0.1:1/", CAFile: authority(t), Credentials: map[string]string{
		"AZURE_TENANT_ID": "11111111-2222-3333-4444-555555555555", "AZURE_CLIENT_ID": "22222222-3333-4444-5555-666666666666", "AZURE_CLIENT_SECRET": "s"}})
	if err != nil {
		t.Fatal(err)
	}
	err = x.Call(t.Context(), "op", func(ctx context.Context) error {
		_, err := x.token.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{"https://management.azure.com/.default"}})
		return err
	})
	if sdk.CodeOf(err) != sdk.Unavailable || !sdk.IsRetryable(err) || !sdk.IsUnreached(err) {
		t.Errorf("%v", err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}
