package clouds

import (
	"errors"
	"slices"
	"testing"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/credential"
	"github.com/windlass-run/windlass/internal/driver/all"
	"github.com/windlass-run/windlass/sdk"
)

// TestEveryKindHasCredentials: each kind of this program has a row of variables; on
// a cloud nothing is tried without them.
func TestEveryKindHasCredentials(t *testing.T) {
	table := credential.Table()
	for _, d := range all.Drivers() {
		i := slices.IndexFunc(table, func(r credential.Row) bool { return r.Kind == d.Kind })
		if i < 0 {
			t.Errorf("%s takes no variables: it has no row", d.Kind)
			continue
		}
		_, cloud := yards[d.Kind]
		_, err := credential.FromEnv(config.EnvOf(nil), nil).ResolveCredentials(t.Context(), credential.ResolveRequest{Provider: "prod", Kind: d.Kind})
		// A cluster's credentials are a file, which isn't made up.
		pocket := len(table[i].Endpoints) > 0
		if errors.Is(err, sdk.Unauthenticated) != cloud || table[i].Needed != cloud || (table[i].Pocket != nil) != pocket {
			t.Errorf("%s: %v; needed %t, pocket %t", d.Kind, err, table[i].Needed, table[i].Pocket != nil)
		}
	}
}
