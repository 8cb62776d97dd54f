package cloudrun

import (
	"testing"

	"cloud.google.com/go/run/apiv2/runpb"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestQuantity reads numbers with units.
func TestQuantity(t *testing.T) {
	for text, want := range map[string]string{"1": "1", "1000m": "1", "0.5": "1/2", "512Mi": "536870912", "2Gi": "2147483648", "1.5Gi": "1610612736", "1G": "1000000000", "3k": "3000", "4Ki": "4096"} {
		if got, ok := quantity(text); !ok || got.RatString() != want {
			t.Errorf("%s is %v, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", "Mi", "-1", "1e3", "1 Gi", "1gi", "1.", "99999999999999999999", "1Pi"} {
		if got, ok := quantity(text); ok {
			t.Errorf("%q was read as %v", text, got)
		}
	}
	if got := memoryMiB(&runpb.Container{Resources: &runpb.ResourceRequirements{Limits: map[string]string{"memory": "1.5Gi"}}}); got != 1536 {
		t.Errorf("1.5Gi are %d MiB", got)
	}
}

// FuzzQuantity reads anything without a panic, and nothing negative.
func FuzzQuantity(f *testing.F) {
	for _, s := range []string{"1", "512Mi", "0.5", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if q, ok := quantity(text); ok && q.Sign() < 0 {
			t.Errorf("%q is %v", text, q)
		}
	})
}

// TestImages tells names of images from others.
func TestImages(t *testing.T) {
	for name, want := range map[string]bool{"app": true, "busybox:local": true, "europe-docker.pkg.dev/p/r/app:1.0": true, "localhost:5000/app": true, "gcr.io/p/app_x@sha256:" +
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef": true, "": false, "App": false, "a b": false, "app@sha256:12": false, "http://x/y": false, "app:": false} {
		if got := imageForm().MatchString(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}
