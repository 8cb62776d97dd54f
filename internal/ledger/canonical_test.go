package ledger

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/windlass-run/windlass/sdk"
)

// FuzzIsCanonical: what passes the quick look is what the thorough one returns.
func FuzzIsCanonical(f *testing.F) {
	for _, s := range []string{`{}`, `[]`, `{"a":1,"b":[true,null,"x"]}`, `{"b":1,"a":2}`, `{"a":1,"a":2}`, `-0`, `00`, `1.5`, `1e3`, `"\u0041"`, `{"a":1}x`, ` 1`, `[1,]`,
		`{"a"}`, `tru`, `"é"`, `{"":0}`, `-`, `[[[[]]]]`, `12345678901234567890`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !isCanonical(b) {
			return
		}
		want, err := sdk.CanonicalJSON(b)
		if err != nil || !bytes.Equal(want, b) {
			t.Errorf("%q passes, but becomes %q, %v", b, want, err)
		}
	})
}

func TestIsCanonicalKnowsTheUsual(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var value func(depth int) any
		value = func(depth int) any {
			kind := rapid.IntRange(0, 5).Draw(rt, "kind")
			if depth > 3 {
				kind %= 4
			}
			switch kind {
			case 0:
				return rapid.Int64().Draw(rt, "int")
			case 1:
				return rapid.StringMatching(`[ !#-\[\]-~]*`).Draw(rt, "text")
			case 2:
				return rapid.Bool().Draw(rt, "bool")
			case 3:
				return nil
			case 4:
				return []any{value(depth + 1), value(depth + 1)}
			}
			m := map[string]any{}
			for range rapid.IntRange(0, 3).Draw(rt, "members") {
				m[rapid.StringMatching(`[a-zA-Z_]*`).Draw(rt, "key")] = value(depth + 1)
			}
			return m
		}
		raw, err := json.Marshal(value(0))
		if err != nil {
			rt.Fatal(err)
		}
		b, err := sdk.CanonicalJSON(raw)
		if err != nil {
			rt.Fatal(err)
		}
		if !isCanonical(b) {
			rt.Fatalf("%s takes the slow way", b)
		}
		if !bytes.Equal(b, raw) && isCanonical(raw) {
			rt.Fatalf("%s passes, but becomes %s", raw, b)
		}
	})
}
