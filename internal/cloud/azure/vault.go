package azure

import (
	"context"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azsecrets"

	"github.com/windlass-run/windlass/sdk"
)

// SchemeKeyVault is the scheme of references to secrets of Key Vault:
// secret://azure-kv/VAULT/NAME, with ?version= for one that isn't the newest.
const SchemeKeyVault = "azure-kv"

// https://learn.microsoft.com/en-us/azure/key-vault/general/about-keys-secrets-certificates#vault-name-and-object-name
var (
	vaultSecret = form(`^([a-zA-Z][a-zA-Z0-9-]{1,22}[a-zA-Z0-9])/([0-9a-zA-Z-]{1,127})$`)
	version     = form(`^[0-9a-f]{32}$`)
)

// CheckVaultRef returns what is wrong with a reference of SchemeKeyVault, or
// nothing.
func CheckVaultRef(ref sdk.ParsedSecretRef) string {
	switch {
	case !vaultSecret().MatchString(ref.Path):
		return "write secret://" + SchemeKeyVault + "/VAULT/NAME with the vault's name and the secret's"
	case ref.Key != "":
		return "Key Vault gives a secret as a whole; leave #" + ref.Key + " out"
	case ref.Version != "" && !version().MatchString(ref.Version):
		return "a version is 32 hexadecimal digits"
	}
	return ""
}

// vault is a client of one vault.
type vault struct{ client *azsecrets.Client }

// Secret reads a secret that CheckVaultRef has accepted.
func (x *Session) Secret(ctx context.Context, op string, ref sdk.ParsedSecretRef) (sdk.SecretValue, error) {
	m := vaultSecret().FindStringSubmatch(ref.Path)
	if m == nil {
		return sdk.SecretValue{}, &sdk.Error{Code: sdk.InvalidArgument, Op: op, Provider: x.provider, Err: fmt.Errorf("%q is no secret of a vault", ref.Path)}
	}
	v, err := x.vault(m[1])
	if err != nil {
		return sdk.SecretValue{}, &sdk.Error{Code: sdk.Internal, Op: op, Provider: x.provider, Err: err}
	}
	var out sdk.SecretValue
	err = x.Call(ctx, op, func(ctx context.Context) error {
		got, err := v.client.GetSecret(ctx, m[2], ref.Version, nil)
		if err != nil {
			return err
		}
		if got.Value == nil {
			return &sdk.Error{Code: sdk.NotFound, Op: op, Provider: x.provider, Err: fmt.Errorf("the secret %s has no value", ref.Path)}
		}
		out = sdk.NewSecretValue([]byte(*got.Value))
		return nil
	})
	return out, err
}

// HasSecret reports whether a vault has the version of a secret that a reference
// of CheckVaultRef names, or any where it names none. It reads properties alone,
// for which whoever may read values has the right, too. One that was deleted isn't
// there.
// https://learn.microsoft.com/en-us/rest/api/keyvault/secrets/get-secret-versions/get-secret-versions
func (x *Session) HasSecret(ctx context.Context, op string, ref sdk.ParsedSecretRef) (bool, error) {
	m := vaultSecret().FindStringSubmatch(ref.Path)
	if m == nil {
		return false, &sdk.Error{Code: sdk.InvalidArgument, Op: op, Provider: x.provider, Err: fmt.Errorf("%q is no secret of a vault", ref.Path)}
	}
	v, err := x.vault(m[1])
	if err != nil {
		return false, &sdk.Error{Code: sdk.Internal, Op: op, Provider: x.provider, Err: err}
	}
	for pages := v.client.NewListSecretPropertiesVersionsPager(m[2], nil); pages.More(); {
		var page azsecrets.ListSecretPropertiesVersionsResponse
		err := x.Call(ctx, op, func(ctx context.Context) (err error) {
			page, err = pages.NextPage(ctx)
			return err
		})
		if err != nil {
			return false, err
		}
		for _, s := range page.Value {
			if s != nil && s.ID != nil && (ref.Version == "" || s.ID.Version() == ref.Version) {
				return true, nil
			}
		}
	}
	return false, nil
}

// vault returns the client of a vault. It learns from the vault's first answer
// which tokens it wants, and takes none for another domain.
func (x *Session) vault(name string) (*vault, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if v, ok := x.vaults[name]; ok {
		return v, nil
	}
	client, err := azsecrets.NewClient("https://"+name+x.place.vault, x.token, &azsecrets.ClientOptions{ClientOptions: x.options(),
		// A pocket cloud has the vendor's audience at an address of its own.
		DisableChallengeResourceVerification: x.Endpoint != ""})
	if err != nil {
		return nil, err
	}
	v := &vault{client}
	x.vaults[name] = v
	return v, nil
}
