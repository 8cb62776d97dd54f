package drivertest

import (
	"os"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// NamesMissingRights checks that the provider's check finds nothing wrong where
// nothing is, tells of each right that is missing and of that alone, and makes
// nothing. Deny takes a right away and returns what gives it back.
func (w *World[P]) NamesMissingRights(p P, rights []string, deny func(right string) (restore func())) {
	t := w.T
	t.Helper()
	check := func() (missing []sdk.CheckItem) {
		res, err := p.Check(t.Context(), sdk.CheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range res.Items {
			if !it.OK {
				missing = append(missing, it)
			}
		}
		return missing
	}
	if got := check(); len(got) > 0 {
		t.Errorf("with all rights: %+v", got)
	}
	for _, right := range rights {
		restore := deny(right)
		got := check()
		restore()
		if len(got) != 1 || got[0].Name != right || !strings.Contains(got[0].Remedy, right) {
			t.Errorf("without %s: %+v", right, got)
		}
	}
	for o, err := range p.ListOwned(t.Context(), sdk.ListOwnedRequest{}) {
		t.Errorf("the check has made %+v, %v", o, err)
	}
}

// PageNames checks that a kind's page in docs/drivers names the schemes of secrets
// that the driver takes, and each of the words.
func PageNames(t *testing.T, d sdk.Driver, words ...string) {
	t.Helper()
	name := "docs/drivers/" + d.Kind + ".md"
	page, err := os.ReadFile("../../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range d.Schemes {
		words = append(words, "secret://"+s+"/")
	}
	for _, w := range words {
		if !strings.Contains(string(page), w) {
			t.Errorf("%s doesn't name %s", name, w)
		}
	}
}
