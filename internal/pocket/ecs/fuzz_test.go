package ecs

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzPage cuts a listing into pages: together they are the listing, whatever
// the sizes; any other token is refused or harmless.
func FuzzPage(f *testing.F) {
	f.Add(7, int32(2), "x")
	f.Add(101, int32(100), "MSBh")
	f.Add(3, int32(1), "-1 a")
	f.Fuzz(func(t *testing.T, n int, size int32, forged string) {
		if n < 0 || n > 500 || size < 1 || size > maxDescribe {
			return
		}
		var all []string
		for i := range n {
			all = append(all, strings.Repeat("a", i))
		}
		s := &Service{}
		var got []string
		var token *string
		for range n + 1 {
			page, next, err := s.page(all, token, &size)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, page...)
			if token = next; token == nil {
				break
			}
		}
		if strings.Join(got, ",") != strings.Join(all, ",") || len(got) != len(all) {
			t.Errorf("%d entries in pages of %d came back as %d", n, size, len(got))
		}
		if page, _, err := s.page(all, &forged, &size); err == nil && len(page) > int(size) {
			t.Errorf("a forged token gives %d entries", len(page))
		}
	})
}

// FuzzOverridesSize counts the characters of the shortest spelling.
func FuzzOverridesSize(f *testing.F) {
	f.Add("plain", "<>&")
	f.Add("é🚀", "\u2028\x00\"\\")
	f.Fuzz(func(t *testing.T, name, value string) {
		body, err := json.Marshal(map[string]any{"overrides": map[string]any{name: []string{value}}})
		if err != nil {
			t.Fatal(err)
		}
		size, err := overridesSize(body)
		if err != nil {
			t.Fatal(err)
		}
		least := utf8.RuneCountInString(strings.ToValidUTF8(name, "")) + utf8.RuneCountInString(strings.ToValidUTF8(value, ""))
		if size < least || size > len(body) {
			t.Errorf("%d characters of a body of %d bytes with %d of text", size, len(body), least)
		}
	})
}

// FuzzQuantities reads cpu and memory: a number or a refusal.
func FuzzQuantities(f *testing.F) {
	for _, s := range []string{"256", "1 vCPU", ".25vcpu", "1 GB", "0.5GB", "-1", "1e99 GB", "NaN vcpu", "inf gb", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for what, parse := range map[string]func(*string) (*string, error){"cpu": cpuUnits, "memory": memoryMiB} {
			got, err := parse(&text)
			if err != nil {
				continue
			}
			if *got == "" || strings.Trim(*got, "+0123456789") != "" {
				t.Errorf("%s %q is %q", what, text, *got)
			}
		}
	})
}
