package config

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func TestParseMemory(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int64
		err  string
	}{
		{"512", 512, ""}, {"1b", 1, ""}, {"1k", 1 << 10, ""}, {"512m", 512 << 20, ""}, {"512M", 512 << 20, ""}, {"512MB", 512 << 20, ""},
		{"512Mi", 512 << 20, ""}, {"512MiB", 512 << 20, ""}, {"2g", 2 << 30, ""}, {"1.5g", 3 << 29, ""}, {"1t", 1 << 40, ""}, {"1p", 1 << 50, ""},
		{"2 gb", 2 << 30, ""}, {"0.5k", 512, ""}, {"1.0001k", 1024, ""}, {"+1k", 1024, ""},
		{"8191p", 8191 << 50, ""},
		{"", 0, "no number"}, {"m", 0, "no number"}, {"512mm", 0, "no unit"}, {"512x", 0, "no unit"}, {"1 ", 0, "no unit"}, {"1  k", 0, "no unit"},
		{"1i", 0, "no unit"}, {"1ib", 0, "no unit"}, {"1bb", 0, "no unit"}, {"-1m", 0, "negative"}, {"0", 0, "zero"}, {"0m", 0, "zero"}, {"0.1", 0, "zero"}, {"8192p", 0, "too large"},
		{"1..5g", 0, "no number"}, {"1.g", 0, "no number"}, {".g", 0, "no number"}, {"1e3", 0, "no unit"}, {"0x10", 0, "no unit"}, {strings.Repeat("9", 50), 0, "digits"},
	} {
		got, err := ParseMemory(c.in)
		check(t, "ParseMemory", c.in, got, err, c.want, c.err)
	}
}

func TestParseMemoryQuantity(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int64
		err  string
	}{
		{"512", 512, ""}, {"1Ki", 1 << 10, ""}, {"512Mi", 512 << 20, ""}, {"2Gi", 2 << 30, ""}, {"1Ti", 1 << 40, ""}, {"1Pi", 1 << 50, ""}, {"1Ei", 1 << 60, ""},
		{"1k", 1000, ""}, {"512M", 512_000_000, ""}, {"2G", 2_000_000_000, ""}, {"1.5Gi", 3 << 29, ""}, {"1e9", 1_000_000_000, ""}, {"5E3", 5000, ""}, {"1E", 1e18, ""},
		{"15e-1", 2, ""}, {"0.1", 1, ""}, {"1.1Ki", 1127, ""},
		{"512m", 0, "write 512Mi"}, {"128974848000m", 0, "write 128974848000Mi"}, {"512MB", 0, "write 512Mi"}, {"2g", 0, "write 2Gi"}, {"2gb", 0, "write 2Gi"}, {"2GiB", 0, "write 2Gi"},
		{"1u", 0, "no unit"}, {"1n", 0, "no unit"}, {"-1", 0, "negative"}, {"0", 0, "zero"}, {"", 0, "no number"}, {"1e", 0, "no unit"}, {"1e999", 0, "no unit"}, {"9Ei", 0, "too large"},
		{"1e99", 0, "too large"}, {"1e-99", 1, ""},
	} {
		got, err := ParseMemoryQuantity(c.in)
		check(t, "ParseMemoryQuantity", c.in, got, err, c.want, c.err)
	}
}

func TestParseCPU(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int64
		err  string
	}{
		{"1", 1000, ""}, {"0.5", 500, ""}, {"500m", 500, ""}, {".5", 500, ""}, {"2.25", 2250, ""}, {"0.001", 1, ""}, {"1.000", 1000, ""}, {"1.0m", 1, ""},
		{"0.0005", 0, "finer"}, {"0.5m", 0, "finer"}, {"0", 0, "zero"}, {"-1", 0, "negative"}, {"", 0, "no number"}, {"1c", 0, "no number of cores"}, {"1 ", 0, "no number of cores"},
		{"99999999999999999999", 0, "too large"},
	} {
		got, err := ParseCPU(c.in)
		check(t, "ParseCPU", c.in, got, err, c.want, c.err)
	}
}

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		in   string
		want time.Duration
		err  string
	}{
		{"90s", 90 * time.Second, ""}, {"1h30m", 90 * time.Minute, ""}, {"30d", 30 * day, ""}, {"2w", 14 * day, ""}, {"1w2d3h", 9*day + 3*time.Hour, ""},
		{"0s", 0, ""}, {"0", 0, ""}, {"0d", 0, ""}, {"1.5h", 90 * time.Minute, ""}, {"250ms", 250 * time.Millisecond, ""},
		{"", 0, "empty"}, {"5", 0, "no unit"}, {"1.5", 0, "no unit"}, {"-5s", 0, "negative"}, {"1d-5s", 0, "no duration"}, {"1.5d", 0, "no duration"}, {"d", 0, "no duration"},
		{"1d1w", 0, "no duration"}, {"999999999d", 0, "too long"}, {"106751d24h", 0, "too long"}, {"soon", 0, "no duration"}, {"1d2d", 0, "no duration"},
	} {
		got, err := ParseDuration(c.in)
		check(t, "ParseDuration", c.in, int64(got), err, int64(c.want), c.err)
	}
	for in, want := range map[time.Duration]string{0: "0s", 90 * time.Second: "1m30s", 30 * day: "30d", 2 * time.Hour: "2h", 5 * time.Minute: "5m",
		day + time.Hour: "1d1h", time.Hour + time.Second: "1h0m1s", 1500 * time.Millisecond: "1.5s", math.MaxInt64: "106751d23h47m16.854775807s"} {
		if got := FormatDuration(in); got != want {
			t.Errorf("FormatDuration(%d) is %s, want %s", in, got, want)
		}
	}
}

func check(t *testing.T, name, in string, got int64, err error, want int64, wantErr string) {
	t.Helper()
	switch {
	case wantErr == "" && (err != nil || got != want):
		t.Errorf("%s(%q) is %d, %v; want %d", name, in, got, err, want)
	case wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)):
		t.Errorf("%s(%q) is %d, %v; want an error with %q", name, in, got, err, wantErr)
	case err != nil && !errors.Is(err, sdk.InvalidArgument):
		t.Errorf("%s(%q): %v has another code", name, in, err)
	}
}

// FuzzQuantities looks for texts that panic, and for results outside what is
// promised.
func FuzzQuantities(f *testing.F) {
	for _, s := range []string{"512m", "1.5Gi", "500m", "1e9", "30d12h", "0.0001", "1w", "9223372036854775807", "+.5e-3", "1E", "2 gb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, parse := range map[string]func(string) (int64, error){"ParseMemory": ParseMemory, "ParseMemoryQuantity": ParseMemoryQuantity, "ParseCPU": ParseCPU} {
			n, err := parse(s)
			if err == nil && n <= 0 || err != nil && (n != 0 || !errors.Is(err, sdk.InvalidArgument)) {
				t.Errorf("%s(%q) is %d, %v", name, s, n, err)
			}
		}
		if n, err := ParseMemoryQuantity(s); err == nil {
			if again, err := ParseMemoryQuantity(formatSize(n)); err != nil || again != n {
				t.Errorf("%q is %d, which is written %s and read as %d, %v", s, n, formatSize(n), again, err)
			}
		}
		d, err := ParseDuration(s)
		if d < 0 || err != nil && !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("ParseDuration(%q) is %d, %v", s, d, err)
		}
		if err == nil {
			if again, err := ParseDuration(FormatDuration(d)); err != nil || again != d {
				t.Errorf("%q is %d, which is written %s and read as %d, %v", s, d, FormatDuration(d), again, err)
			}
		}
	})
}
