package yamltree

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestYAMLValues(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", `{}`},
		{"comment alone", "# nothing\n", `{}`},
		{"separator alone", "---\n", `{}`},
		{"byte order mark", "\ufeffa: 1\n", `{"a":1}`},
		{"carriage returns", "a: 1\r\nb: x\r\n", `{"a":1,"b":"x"}`},
		{"scalars", "a: 1\nb: 0x10\nc: 1.5\nd: true\ne: null\nf: ~\ng: yes\nh: '1'\ni: \"x\\ty\"\n", `{"a":1,"b":16,"c":1.5,"d":true,"e":null,"f":null,"g":"yes","h":"1","i":"x\ty"}`},
		{"big number", "a: 18446744073709551615\n", `{"a":18446744073709551615}`},
		{"block text", "a: |\n  one\n  two\nb: >-\n  three\n  four\n", `{"a":"one\ntwo\n","b":"three four"}`},
		{"lists", "a:\n  - x\n  - [1, {b: 2}]\n", `{"a":["x",[1,{"b":2}]]}`},
		{"anchor", "a: &x {b: 1}\nc: *x\nd: &s text\ne: *s\n", `{"a":{"b":1},"c":{"b":1},"d":"text","e":"text"}`},
		{"merge", "a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n", `{"a":{"b":1,"c":2},"d":{"c":3,"b":1}}`},
		{"merge of several", "a: &x {b: 1}\nb: &y {b: 2, c: 3}\nd:\n  <<: [*x, *y]\n", `{"a":{"b":1},"b":{"b":2,"c":3},"d":{"b":1,"c":3}}`},
		{"tags", "a: !!str 5\nb: !!int 5\nc: !!float 5\n", `{"a":"5","b":5,"c":5}`},
		{"keys", "1: a\ntrue: b\n1.5: c\n\"q\": d\n", `{"1":"a","true":"b","1.5":"c","q":"d"}`},
		{"markup", "a: <&>\n", "{\"a\":\"\\u003c\\u0026\\u003e\"}"},
	} {
		n, err := Parse([]byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := string(n.JSON()); got != c.want || !json.Valid(n.JSON()) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestYAMLBombs gives what would take a careless reader all memory or time.
func TestYAMLBombs(t *testing.T) {
	laughs := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := '1'; i <= '9'; i++ {
		prev := string(i - 1)
		laughs += "a" + string(i) + ": &a" + string(i) + " [" + strings.TrimSuffix(strings.Repeat("*a"+prev+", ", 10), ", ") + "]\n"
	}
	for name, in := range map[string]string{
		"laughs": laughs, "brackets": strings.Repeat("[", 100_000), "braces": strings.Repeat("{a: ", 50_000), "dashes": strings.Repeat("- ", 100_000),
		"questions": strings.Repeat("? ", 100_000), "itself": "a: &a [*a]\n",
	} {
		_, err := Parse([]byte(in))
		var se *SyntaxError
		if !errors.As(err, &se) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// FuzzParse looks for files that panic, and for trees that give no JSON or no
// places.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"a: [1, {b: 2}]\n", "a: &x {b: 1}\nc: *x\n", "- - a\n", "? [a]\n: b\n", "<<: {a: b}\n", "a: |2\n  x\n", "a: 'x\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			t.Skip("the parser's time grows with the square of the size")
		}
		n, err := Parse(data)
		if err != nil {
			var se *SyntaxError
			if !errors.As(err, &se) || se.Line < 1 || se.Column < 1 || se.Message == "" {
				t.Fatalf("%q: %v", data, err)
			}
			return
		}
		if !json.Valid(n.JSON()) || n.Line < 1 || n.Column < 1 {
			t.Fatalf("%q: %s at %d:%d", data, n.JSON(), n.Line, n.Column)
		}
	})
}
