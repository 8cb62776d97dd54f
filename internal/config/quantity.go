package config

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// maxDigits bounds the digits of a number, so that no text makes a huge one.
const maxDigits = 40

// ParseMemory reads a size as docker's flags do, in bytes: a number, a space
// if any, and b, k, m, g, t or p in either case, where k is 1024 bytes and an
// appended b, i or ib changes nothing. 512m, 512MB and 512Mi are the same. It
// is more than zero; anything else is InvalidArgument.
func ParseMemory(s string) (int64, error) {
	const op = "parse memory"
	const want = "write 512m, 2g or a number of bytes"
	num, unit := splitNumber(s)
	if len(unit) > 1 {
		unit = strings.TrimPrefix(unit, " ")
	}
	unit = strings.ToLower(unit)
	shift, ok := uint(0), true
	switch strings.TrimSuffix(strings.TrimSuffix(unit, "b"), "i") {
	case "":
		ok = unit == "" || unit == "b"
	case "k":
		shift = 10
	case "m":
		shift = 20
	case "g":
		shift = 30
	case "t":
		shift = 40
	case "p":
		shift = 50
	default:
		ok = false
	}
	if !ok {
		return 0, badQuantity(op, s, want, "has no unit of memory at its end")
	}
	r, msg := decimal(num)
	if msg != "" {
		return 0, badQuantity(op, s, want, msg)
	}
	r.Mul(r, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), shift)))
	// Docker drops a fraction of a byte, and so do we.
	return positive(op, s, want, new(big.Int).Quo(r.Num(), r.Denom()))
}

// ParseMemoryQuantity reads a size as Kubernetes writes quantities, in bytes:
// 512Mi is 512 MiB, 512M is 512,000,000 bytes, 1e9 is 1,000,000,000. A
// fraction of a byte is rounded up, as there. The suffix m, which would be
// thousandths of a byte, is refused by naming Mi. It is more than zero;
// anything else is InvalidArgument.
func ParseMemoryQuantity(s string) (int64, error) {
	const op = "parse memory"
	const want = "write 512Mi, 2Gi or a number of bytes"
	num, unit := splitNumber(s)
	scale := big.NewRat(1, 1)
	switch unit {
	case "":
	case "k":
		scale.SetInt64(1e3)
	case "M":
		scale.SetInt64(1e6)
	case "G":
		scale.SetInt64(1e9)
	case "T":
		scale.SetInt64(1e12)
	case "P":
		scale.SetInt64(1e15)
	case "E":
		scale.SetInt64(1e18)
	case "Ki", "Mi", "Gi", "Ti", "Pi", "Ei":
		shift := 10 * uint(1+strings.IndexByte("KMGTPE", unit[0]))
		scale.SetInt(new(big.Int).Lsh(big.NewInt(1), shift))
	case "m":
		return 0, badQuantity(op, s, "write "+num+"Mi for mebibytes", "ends in m, which means thousandths of a byte")
	default:
		exp, ok := exponent(unit)
		if !ok {
			hint := want
			switch c := unit[0]; {
			case strings.IndexByte("kmgtpeKMGTPE", c) >= 0 && len(unit) <= 3:
				hint = "write " + num + strings.ToUpper(unit[:1]) + "i"
			}
			return 0, badQuantity(op, s, hint, "has no unit of memory at its end")
		}
		scale = exp
	}
	r, msg := decimal(num)
	if msg != "" {
		return 0, badQuantity(op, s, want, msg)
	}
	r.Mul(r, scale)
	return positive(op, s, want, ceil(r))
}

// exponent reads e9 or E-3.
func exponent(unit string) (*big.Rat, bool) {
	if len(unit) < 2 || (unit[0] != 'e' && unit[0] != 'E') {
		return nil, false
	}
	digits := unit[1:]
	neg := digits[0] == '-'
	if neg || digits[0] == '+' {
		digits = digits[1:]
	}
	if digits == "" || len(digits) > 2 {
		return nil, false
	}
	n := int64(0)
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return nil, false
		}
		n = n*10 + int64(c-'0')
	}
	p := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil))
	if neg {
		p.Inv(p)
	}
	return p, true
}

// ParseCPU reads a share of processors, in thousandths of a core: 0.5, 2, or
// 500m. Finer than a thousandth is InvalidArgument, as is zero and less.
func ParseCPU(s string) (int64, error) {
	const op = "parse cpu"
	const want = "write 0.5, 2 or 500m"
	num, unit := splitNumber(s)
	r, msg := decimal(num)
	if msg != "" {
		return 0, badQuantity(op, s, want, msg)
	}
	switch unit {
	case "":
		r.Mul(r, big.NewRat(1000, 1))
	case "m":
	default:
		return 0, badQuantity(op, s, want, "is no number of cores")
	}
	if !r.IsInt() {
		return 0, badQuantity(op, s, want, "is finer than a thousandth of a core")
	}
	return positive(op, s, want, r.Num())
}

// ParseDuration reads a time with a unit: what Go writes (90s, 5m, 1h30m),
// and days and weeks in front (30d, 2w, 1d12h), a day being 24 hours. It is not
// negative; anything else is InvalidArgument.
func ParseDuration(s string) (time.Duration, error) {
	const op = "parse duration"
	const want = "write 90s, 5m, 12h or 30d"
	bad := func(msg string) (time.Duration, error) { return 0, badQuantity(op, s, want, msg) }
	if s == "" {
		return bad("is empty")
	}
	if strings.HasPrefix(s, "-") {
		return bad("is negative")
	}
	rest, total := s, time.Duration(0)
	for _, u := range []struct {
		unit byte
		d    time.Duration
	}{{'w', 7 * 24 * time.Hour}, {'d', 24 * time.Hour}} {
		i := strings.IndexByte(rest, u.unit)
		if i < 0 {
			continue
		}
		n := int64(0)
		if i == 0 || i > 9 {
			return bad("is no duration")
		}
		for _, c := range []byte(rest[:i]) {
			if c < '0' || c > '9' {
				return bad("is no duration")
			}
			n = n*10 + int64(c-'0')
		}
		if n > int64((math.MaxInt64-total)/u.d) {
			return bad("is too long")
		}
		total, rest = total+time.Duration(n)*u.d, rest[i+1:]
	}
	if rest == "" {
		return total, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || rest[0] == '+' || rest[0] == '-' {
		if _, msg := decimal(rest); msg == "" {
			return bad("has no unit")
		}
		return bad("is no duration")
	}
	if total > math.MaxInt64-d {
		return bad("is too long")
	}
	return total + d, nil
}

// FormatDuration writes a duration as ParseDuration reads it, without the
// zeros that Go appends.
func FormatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	const day = 24 * time.Hour
	s := ""
	if d >= day {
		s, d = fmt.Sprintf("%dd", d/day), d%day
	}
	if d == 0 {
		return s
	}
	t := d.String()
	if strings.HasSuffix(t, "m0s") {
		t = t[:len(t)-2]
	}
	if strings.HasSuffix(t, "h0m") {
		t = t[:len(t)-2]
	}
	return s + t
}

// splitNumber parts the leading decimal number from what follows it.
func splitNumber(s string) (num, rest string) {
	i := 0
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		i++
	}
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.') {
		i++
	}
	return s[:i], s[i:]
}

// decimal reads digits with at most one point; msg says what is wrong.
func decimal(s string) (r *big.Rat, msg string) {
	body := strings.TrimPrefix(s, "+")
	switch {
	case strings.HasPrefix(s, "-"):
		return nil, "is negative"
	case len(body) > maxDigits:
		return nil, fmt.Sprintf("has more than %d digits", maxDigits)
	}
	whole, frac, point := strings.Cut(body, ".")
	if whole+frac == "" || point && frac == "" {
		return nil, "is no number"
	}
	for _, c := range []byte(whole + frac) {
		if c < '0' || c > '9' {
			return nil, "is no number"
		}
	}
	n, ok := new(big.Int).SetString(whole+frac, 10)
	if !ok {
		return nil, "is no number"
	}
	den := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(frac))), nil)
	return new(big.Rat).SetFrac(n, den), ""
}

func ceil(r *big.Rat) *big.Int {
	q, m := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q
}

func positive(op, s, want string, n *big.Int) (int64, error) {
	switch {
	case n.Sign() <= 0:
		return 0, badQuantity(op, s, "leave it out to set no limit", "is zero")
	case !n.IsInt64():
		return 0, badQuantity(op, s, want, "is too large")
	}
	return n.Int64(), nil
}

func badQuantity(op, s, want, msg string) error {
	if len(s) > 60 {
		s = s[:57] + "..."
	}
	return &sdk.Error{Code: sdk.InvalidArgument, Op: op, ID: ErrBadValue, Remedy: want, Err: fmt.Errorf("%q %s", s, msg)}
}
