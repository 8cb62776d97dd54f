package gcp

import (
	"math"
	"strconv"
	"strings"
)

// Quantity reads a number of Kubernetes' form, as Cloud Run writes limits of CPU and
// memory, in 1/scale; what can't be read is 0.
// https://cloud.google.com/run/docs/reference/rest/v2/Container#ResourceRequirements
func Quantity(text string, scale int64) int64 {
	for _, u := range []struct {
		suffix    string
		num, over int64
	}{{"m", 1, 1000}, {"Ki", 1 << 10, 1}, {"Mi", 1 << 20, 1}, {"Gi", 1 << 30, 1}, {"k", 1e3, 1}, {"M", 1e6, 1}, {"G", 1e9, 1}, {"", 1, 1}} {
		if digits, ok := strings.CutSuffix(text, u.suffix); ok {
			n, err := strconv.ParseInt(digits, 10, 64)
			if err != nil || n < 0 || n > math.MaxInt64/(u.num*scale) {
				return 0
			}
			return n * u.num * scale / u.over
		}
	}
	return 0
}
