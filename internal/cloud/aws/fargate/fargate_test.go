package fargate

import (
	"strings"
	"testing"
)

// TestFit: a legal size is taken as it is, a missing half is fitted,
// and anything else is refused with the nearest that there is.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		name        string
		cpu, memory int64 // thousandths of a core, MiB
		want        Size
		fields      string
		near        string
	}{
		{"nothing", 0, 0, Size{256, 512}, "", ""},
		{"cores alone", 1000, 0, Size{1024, 2048}, "", ""},
		{"quarter", 250, 0, Size{256, 512}, "", ""},
		{"memory alone", 0, 8192, Size{1024, 8192}, "", ""},
		{"much memory alone", 0, 122880, Size{16384, 122880}, "", ""},
		{"both", 500, 3072, Size{512, 3072}, "", ""},
		{"largest", 16000, 122880, Size{16384, 122880}, "", ""},
		{"odd cores", 300, 0, Size{512, 1024}, "cpu", "500m with 1Gi"},
		{"three cores", 3000, 0, Size{4096, 8192}, "cpu", "4 with 8Gi"},
		{"too many cores", 32000, 0, Size{16384, 122880}, "cpu", "16 with 120Gi"},
		{"odd memory alone", 0, 700, Size{256, 1024}, "memory", "250m with 1Gi"},
		{"too little memory for the cores", 1000, 512, Size{1024, 2048}, "memory", "1 with 2Gi"},
		{"too much memory for the cores", 250, 4096, Size{512, 4096}, "memory", "500m with 4Gi"},
		{"between two steps", 8000, 18432, Size{8192, 20480}, "memory", "8 with 20Gi"},
		{"both odd", 300, 700, Size{512, 1024}, "cpu memory", "500m with 1Gi"},
		{"too much memory", 0, 1 << 20, Size{16384, 122880}, "memory", "16 with 120Gi"},
	} {
		got, ps := Fit(c.cpu, c.memory*mib)
		var fields []string
		for _, p := range ps {
			fields = append(fields, p.Field)
			if !strings.Contains(p.Message, c.near) {
				t.Errorf("%s: %s: %s; want %q", c.name, p.Field, p.Message, c.near)
			}
		}
		if got != c.want || strings.Join(fields, " ") != c.fields {
			t.Errorf("%s: %v, problems with %q; want %v, %q", c.name, got, fields, c.want, c.fields)
		}
	}
	if _, ps := Fit(0, 512*mib+1); len(ps) != 1 {
		t.Errorf("a byte more than 512 MiB: %v", ps)
	}
}

// TestTable: each size that the table has is legal as it stands.
func TestTable(t *testing.T) {
	n := 0
	for _, r := range sizes() {
		for _, m := range r.memories() {
			n++
			if got, ps := Fit(r.cpu*1000/1024, m*mib); len(ps) > 0 || got != (Size{r.cpu, m}) {
				t.Errorf("%d with %d: %v, %v", r.cpu, m, got, ps)
			}
		}
	}
	if n != 3+4+7+13+23+12+12 {
		t.Errorf("%d sizes", n)
	}
}
