package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azappconfig"
)

// TestSettings goes through settings' lives with Azure's own client: each is written
// in the state that is asked for, or not at all.
func TestSettings(t *testing.T) {
	c := newCloud(t, Options{})
	c.TuneKnobs(func(k *Knobs) { k.PageSize = 2 })
	client, err := azappconfig.NewClient(c.url, storePrincipal{principal{c, "tester", "secret"}}, &azappconfig.ClientOptions{ClientOptions: c.options})
	if err != nil {
		t.Fatal(err)
	}
	label := to.Ptr("group/web")
	first, err := client.AddSetting(t.Context(), "A/1", to.Ptr("one"), &azappconfig.AddSettingOptions{Label: label})
	if err != nil || *first.Value != "one" || *first.Label != *label {
		t.Fatalf("%+v, %v", first, err)
	}
	if _, err := client.AddSetting(t.Context(), "A/1", to.Ptr("two"), &azappconfig.AddSettingOptions{Label: label}); statusOf(err) != http.StatusPreconditionFailed {
		t.Errorf("added twice: %v", err)
	}
	second, err := client.SetSetting(t.Context(), "A/1", to.Ptr("two"), &azappconfig.SetSettingOptions{Label: label, OnlyIfUnchanged: first.ETag})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.SetSetting(t.Context(), "A/1", to.Ptr("three"), &azappconfig.SetSettingOptions{Label: label, OnlyIfUnchanged: first.ETag}); statusOf(err) != http.StatusPreconditionFailed {
		t.Errorf("set in another state: %v", err)
	}
	if _, err := client.DeleteSetting(t.Context(), "A/1", &azappconfig.DeleteSettingOptions{Label: label, OnlyIfUnchanged: first.ETag}); statusOf(err) != http.StatusPreconditionFailed {
		t.Errorf("deleted in another state: %v", err)
	}
	got, err := client.GetSetting(t.Context(), "A/1", &azappconfig.GetSettingOptions{Label: label})
	if err != nil || *got.Value != "two" || *got.ETag != *second.ETag {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range 4 {
		if _, err := client.SetSetting(t.Context(), fmt.Sprintf("B%d", i), to.Ptr("x"), &azappconfig.SetSettingOptions{Label: label}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.SetSetting(t.Context(), "B0", to.Ptr("other"), nil); err != nil {
		t.Fatal(err)
	}
	list := func(key string, label *string) (out []string) {
		t.Helper()
		for pages := client.NewListSettingsPager(azappconfig.SettingSelector{KeyFilter: &key, LabelFilter: label}, nil); pages.More(); {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range page.Settings {
				out = append(out, *s.Key+"="+*s.Value)
			}
		}
		return out
	}
	for want, got := range map[string][]string{
		"[A/1=two B0=x B1=x B2=x B3=x]": list("*", label),
		"[B0=x B1=x B2=x B3=x]":         list("B*", label),
		"[A/1=two B3=x]":                list("A/1,B3", label),
		"[B0=other]":                    list("*", to.Ptr("\x00")),
		"[]":                            list(`B\*`, label),
	} {
		if fmt.Sprint(got) != want {
			t.Errorf("listed %v, want %s", got, want)
		}
	}
	if _, err := client.SetReadOnly(t.Context(), "B0", true, &azappconfig.SetReadOnlyOptions{Label: label}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.DeleteSetting(t.Context(), "B0", &azappconfig.DeleteSettingOptions{Label: label}); statusOf(err) != http.StatusConflict {
		t.Errorf("deleted what is locked: %v", err)
	}
	if _, err := client.DeleteSetting(t.Context(), "B1", &azappconfig.DeleteSettingOptions{Label: label}); err != nil {
		t.Error(err)
	}
	if got := c.Settings(Store, *label); len(got) != 4 || got["A/1"] != "two" {
		t.Errorf("kept are %v", got)
	}
}

func statusOf(err error) int {
	var e *azcore.ResponseError
	if errors.As(err, &e) {
		return e.StatusCode
	}
	return 0
}

// storePrincipal gets tokens for App Configuration, whatever the store's address.
type storePrincipal struct{ principal }

// GetToken implements azcore.TokenCredential.
func (p storePrincipal) GetToken(ctx context.Context, _ policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return p.principal.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{configResource + "/.default"}})
}
