//go:build unix

package pluginhost_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/sdk"
)

func (y *yard) checked(name string) (out []sdk.CheckItem) {
	y.t.Helper()
	return slices.DeleteFunc(y.plugins.Check(y.t.Context(), "fake"), func(it sdk.CheckItem) bool { return it.Name != name })
}

// TestPluginEntryConfig: what an entry's config has wrong is told with its place by a
// check, and by whoever opens a provider, who isn't told that it is the provider's.
func TestPluginEntryConfig(t *testing.T) {
	y := newYard(t, "", nil, "config:", "  nam: c", "  evidence: soon", "  capabilities: [JobRunner, Flying]")
	file := filepath.Join(y.dir, config.FileName)
	want := []string{file + `:5:7: plugins.fake.config.nam: is not known (did you mean "name"?)`, file + `:6:17: plugins.fake.config.evidence: wants a duration such as 90s or 5m, has "soon"`,
		file + `:7:33: plugins.fake.config.capabilities[1]: "Flying" is none of `}
	items := y.checked("config")
	if len(items) != len(want) {
		t.Fatalf("%d items: %+v", len(items), items)
	}
	for i, it := range items {
		if it.OK || !strings.HasPrefix(it.Detail, want[i]) || it.Remedy != "`windlass provider describe fake` shows what the plugin takes" {
			t.Errorf("item %d: %+v, want %s", i, it, want[i])
		}
	}
	_, err := y.tryOpen(sdk.OpenRequest{Config: json.RawMessage(`{"name": "c"}`)})
	if sdk.CodeOf(err) != sdk.InvalidArgument || len(config.ProblemsOf(err)) != len(want) {
		t.Errorf("opened: %v", err)
	}
	for _, w := range want {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("opened: %v, want %s", err, w)
		}
	}
}

// TestPluginEntryConfigIsTaken: a check says so, and what the entry has the providers needn't.
func TestPluginEntryConfigIsTaken(t *testing.T) {
	y := newYard(t, "", nil, "config: {name: c}")
	if items := y.checked("config"); len(items) != 1 || !items[0].OK {
		t.Errorf("%+v", items)
	}
	if p, err := y.tryOpen(sdk.OpenRequest{}); err != nil || p.Info().Identity.Account != "c" {
		t.Errorf("opened: %v", err)
	}
	if items := newYard(t, "", nil).checked("config"); len(items) > 0 {
		t.Errorf("an entry without a config: %+v", items)
	}
}

// TestPluginEntryConfigIsRefused: what the plugin itself finds wrong has the place of the
// entry where it stands there, and is left to the provider's where it stands there.
func TestPluginEntryConfigIsRefused(t *testing.T) {
	y := newYard(t, "picky", nil, "config: {name: mars, dir: /x}")
	_, err := y.tryOpen(sdk.OpenRequest{})
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != sdk.InvalidArgument || e.Field != "plugins.fake.config.name" || status.Code(err) != codes.InvalidArgument {
		t.Fatalf("%+v", err)
	}
	if want := "plugins.fake.config.name: " + filepath.Join(y.dir, config.FileName) + ":4:14: no such planet"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	_, err = y.tryOpen(sdk.OpenRequest{Config: json.RawMessage(`{"name": "mars"}`)})
	if !errors.As(err, &e) || e.Field != "config.name" || strings.Contains(err.Error(), config.FileName) {
		t.Errorf("the provider's own: %+v", err)
	}
}

// TestPublishedPluginConfigIsRefused: a published plugin refuses all that it was told, which
// may stand in two places.
func TestPublishedPluginConfigIsRefused(t *testing.T) {
	y := newYard(t, "published", nil, "config: {region: refused}")
	file := filepath.Join(y.dir, config.FileName)
	if items := y.checked("config"); len(items) != 1 || !items[0].OK {
		t.Errorf("a check: %+v", items)
	}
	entry := "no such region; it was told what stands under plugins.fake.config (" + file + ":4:5)"
	for own, want := range map[string]string{`{}`: entry, `{"plugin": {"more": 1}}`: entry + " and config.plugin of the provider"} {
		if _, err := y.tryOpen(sdk.OpenRequest{Config: json.RawMessage(own)}); sdk.CodeOf(err) != sdk.InvalidArgument || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", own, err, want)
		}
	}
	y = newYard(t, "published", nil)
	if _, err := y.tryOpen(sdk.OpenRequest{Config: json.RawMessage(`{"plugin": {"region": "refused"}}`)}); err == nil || !strings.HasSuffix(err.Error(), "it was told what stands under config.plugin of the provider") {
		t.Errorf("without a config of the entry: %v", err)
	}
}

// TestRequiredByTheEntry: a member that the plugin requires and its entry has isn't asked of
// a provider again.
func TestRequiredByTheEntry(t *testing.T) {
	schema := sdk.Schema{Fields: []sdk.SchemaField{{Name: "region", Type: sdk.TypeString, Required: true}, {Name: "token", Type: sdk.TypeString, Required: true}}}
	got := pluginhost.Given(schema, json.RawMessage(`{"region": "x"}`))
	if got.Fields[0].Required || !got.Fields[1].Required || !schema.Fields[0].Required {
		t.Errorf("%+v", got)
	}
	if got := pluginhost.Given(schema, nil); !got.Fields[0].Required || !got.Fields[1].Required {
		t.Errorf("of nothing: %+v", got)
	}
}
