package gcp

import "testing"

// FuzzQuantity: no text makes a negative quantity.
func FuzzQuantity(f *testing.F) {
	for _, s := range []string{"1", "500m", "512Mi", "2Gi", "1k", "x", "-1", "2147483647Gi"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if Quantity(s, 1000) < 0 || Quantity(s, 1) < 0 {
			t.Errorf("%q is negative", s)
		}
	})
}
