package azure

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azappconfig"

	"github.com/windlass-run/windlass/sdk"
)

// storeForm is what a store of App Configuration is called.
// https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/resource-name-rules#microsoftappconfiguration
var storeForm = form(`^[a-zA-Z0-9][a-zA-Z0-9-]{3,48}[a-zA-Z0-9]$`)

// CheckConfigStore returns what is wrong with the name of a store of App
// Configuration, or nothing.
func CheckConfigStore(name string) string {
	if !storeForm().MatchString(name) {
		return "a store's name has 5 to 50 letters, digits and hyphens"
	}
	return ""
}

// ConfigStore is a store of App Configuration.
type ConfigStore struct {
	x      *Session
	client *azappconfig.Client
}

// ConfigValue is a setting's value, and the ETag of the state in which it was read.
type ConfigValue struct{ Value, ETag string }

// ConfigStore returns a store that CheckConfigStore has accepted.
func (x *Session) ConfigStore(name string) (*ConfigStore, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s, ok := x.stores[name]; ok {
		return s, nil
	}
	client, err := azappconfig.NewClient("https://"+name+x.place.appConfig, x.token, &azappconfig.ClientOptions{ClientOptions: x.options()})
	if err != nil {
		return nil, &sdk.Error{Code: sdk.Internal, Op: "open App Configuration", Provider: x.provider, Err: err}
	}
	s := &ConfigStore{x, client}
	x.stores[name] = s
	return s, nil
}

// List returns the settings of a label by key.
// https://learn.microsoft.com/en-us/azure/azure-app-configuration/rest-api-key-value
func (s *ConfigStore) List(ctx context.Context, op, label string) (map[string]ConfigValue, error) {
	out := map[string]ConfigValue{}
	for pages := s.client.NewListSettingsPager(azappconfig.SettingSelector{LabelFilter: &label}, nil); pages.More(); {
		var page azappconfig.ListSettingsPageResponse
		err := s.x.Call(ctx, op, func(ctx context.Context) (err error) {
			page, err = pages.NextPage(ctx)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, v := range page.Settings {
			if v.Key != nil && v.Value != nil && v.ETag != nil {
				out[*v.Key] = ConfigValue{*v.Value, string(*v.ETag)}
			}
		}
	}
	return out, nil
}

// Set writes a setting, where it is still as etag says; an empty one is where there
// is none. Another state is Aborted.
func (s *ConfigStore) Set(ctx context.Context, op, label, key, value, etag string) (newETag string, _ error) {
	var tag *azcore.ETag
	err := s.x.Call(ctx, op, func(ctx context.Context) error {
		if etag == "" {
			res, err := s.client.AddSetting(ctx, key, &value, &azappconfig.AddSettingOptions{Label: &label})
			tag = res.ETag
			return err
		}
		res, err := s.client.SetSetting(ctx, key, &value, &azappconfig.SetSettingOptions{Label: &label, OnlyIfUnchanged: to.Ptr(azcore.ETag(etag))})
		tag = res.ETag
		return err
	})
	if err != nil || tag == nil {
		return "", err
	}
	return string(*tag), nil
}

// Delete removes a setting, where it is still as etag says.
func (s *ConfigStore) Delete(ctx context.Context, op, label, key, etag string) error {
	return s.x.Call(ctx, op, func(ctx context.Context) error {
		_, err := s.client.DeleteSetting(ctx, key, &azappconfig.DeleteSettingOptions{Label: &label, OnlyIfUnchanged: to.Ptr(azcore.ETag(etag))})
		return err
	})
}
