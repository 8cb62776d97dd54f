package sdk_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// codec is one of the four encodings.
type codec struct {
	name   string
	random func(g gen) ([]byte, error)
	// again decodes, and encodes what came out.
	again func(data []byte) ([]byte, error)
	// least is a small legal encoding.
	least string
}

type encoder interface{ Encode() ([]byte, error) }

func again[T encoder](decode func([]byte) (T, error)) func([]byte) ([]byte, error) {
	return func(data []byte) ([]byte, error) {
		v, err := decode(data)
		if err != nil {
			return nil, err
		}
		return v.Encode()
	}
}

const someID = "0000000000000000000000000a"

func codecs() []codec {
	return []codec{
		{"spec", func(g gen) ([]byte, error) { return g.spec().Encode() }, again(sdk.DecodeSpec), `{"v":1}`},
		{"handle", func(g gen) ([]byte, error) { return g.handle().Encode() }, again(sdk.DecodeHandle), `{"id":"i","identity":{"kind":"k"},"kind":"k","v":1}`},
		{"launch", func(g gen) ([]byte, error) { return g.launch().Encode() }, again(sdk.DecodeLaunch),
			`{"attempt":1,"attempt_id":"` + someID + `","identity":{"kind":"k"},"kind":"k","ledger_id":"l","owner":"o","resubmit":{"by":"name"},"run_id":"` + someID + `","v":1}`},
		{"cursor", func(g gen) ([]byte, error) {
			return sdk.LogCursor{V: 1, Kind: g.text(), Position: g.texts()}.Encode()
		}, again(sdk.DecodeCursor), `{"kind":"k","v":1}`},
	}
}

func TestEncodingsRoundTrip(t *testing.T) {
	for _, c := range codecs() {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(500) {
				b, err := c.random(newGen(seed))
				if err != nil {
					t.Fatalf("seed %d: encode: %v", seed, err)
				}
				got, err := c.again(b)
				if err != nil {
					t.Fatalf("seed %d: decode %s: %v", seed, b, err)
				}
				if !bytes.Equal(got, b) {
					t.Fatalf("seed %d: changed from\n%s to\n%s", seed, b, got)
				}
			}
		})
	}
}

// TestSpecMeansTheSame compares values and not encodings, which could lose the
// same thing twice.
func TestSpecMeansTheSame(t *testing.T) {
	for seed := range uint64(500) {
		want := newGen(seed).spec()
		if ps := sdk.ValidateSpec(want); len(ps) > 0 {
			t.Fatalf("seed %d: %s", seed, sdk.JoinProblems(ps))
		}
		b, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := sdk.DecodeSpec(b)
		if err != nil {
			t.Fatal(err)
		}
		want.V = 1
		if len(want.Options) > 0 {
			if want.Options, err = sdk.CanonicalJSON(want.Options); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d:\n%#v\n%#v", seed, got, want)
		}
	}
}

func TestUnsetEmptyAndSetDiffer(t *testing.T) {
	seen := map[string]string{}
	zero := time.Duration(0)
	for name, s := range map[string]sdk.JobSpec{
		"unset":            {},
		"args empty":       {Args: sdk.Argv{}},
		"args set":         {Args: sdk.Argv{""}},
		"entrypoint empty": {Entrypoint: sdk.Argv{}},
		"entrypoint set":   {Entrypoint: sdk.Argv{"a"}},
		"grace zero":       {Grace: &zero},
	} {
		h, err := s.Hash()
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have the same hash", name, other)
		}
		seen[h] = name
		b, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := sdk.DecodeSpec(b)
		if err != nil {
			t.Fatal(err)
		}
		if (got.Args == nil) != (s.Args == nil) || (got.Entrypoint == nil) != (s.Entrypoint == nil) || (got.Grace == nil) != (s.Grace == nil) {
			t.Errorf("%s: unset and set were mixed up in %s", name, b)
		}
	}
}

// TestDecodeIsStrict feeds each decoder what a careless one would take.
func TestDecodeIsStrict(t *testing.T) {
	for _, c := range codecs() {
		t.Run(c.name, func(t *testing.T) {
			if _, err := c.again([]byte(c.least)); err != nil {
				t.Fatalf("the least encoding: %v", err)
			}
			with := func(member string) string { return strings.TrimSuffix(c.least, `"v":1}`) + member + `"v":1}` }
			for what, data := range map[string]string{
				"nothing":          "",
				"null":             "null",
				"a list":           "[]",
				"no version":       strings.Replace(c.least, `"v":1`, `"v":0`, 1),
				"negative version": strings.Replace(c.least, `"v":1`, `"v":-1`, 1),
				"text version":     strings.Replace(c.least, `"v":1`, `"v":"1"`, 1),
				"float version":    strings.Replace(c.least, `"v":1`, `"v":1.0`, 1),
				"unknown member":   with(`"unknown":1,`),
				"member twice":     with(`"v":1,`),
				"case of a member": strings.Replace(c.least, `"v"`, `"V"`, 1),
				"white space":      " " + c.least,
				"a newline behind": c.least + "\n",
				"a second value":   c.least + c.least,
				"cut":              c.least[:len(c.least)-1],
				"order":            `{"v":1,` + strings.TrimPrefix(strings.Replace(c.least, `"v":1`, `"v":1`, 1), `{`),
				"not UTF-8":        strings.Replace(c.least, `"k"`, "\"k\xff\"", 1) + "\xff",
				"half a surrogate": with(`"kind":"\ud800",`),
				"deep":             strings.Repeat("[", 100000),
			} {
				if _, err := c.again([]byte(data)); !errors.Is(err, sdk.InvalidArgument) {
					t.Errorf("%s: got %v, want InvalidArgument", what, err)
				}
			}
		})
	}
}

// TestNewerVersion: what a newer program wrote may well exist, so it is never
// NotFound, whatever else is in it.
func TestNewerVersion(t *testing.T) {
	for _, c := range codecs() {
		for _, data := range []string{
			strings.Replace(c.least, `"v":1`, `"v":2`, 1),
			`{"v":2}`,
			`{"id":{"other":"shape"},"kind":7,"new":[1.5],"v":99}`,
		} {
			_, err := c.again([]byte(data))
			if !errors.Is(err, sdk.FailedPrecondition) || errors.Is(err, sdk.NotFound) {
				t.Errorf("%s of a newer version: got %v, want FailedPrecondition", c.name, err)
			}
		}
	}
	h := sdk.JobHandle{V: 2, Kind: "k", Identity: sdk.Identity{Kind: "k"}, ID: "i"}
	if err := h.Check("read job status", h.Identity); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("check: got %v, want FailedPrecondition", err)
	}
}

func TestIdentityCheck(t *testing.T) {
	self := sdk.Identity{Kind: "k", Account: "a", Region: "r", Endpoint: "e"}
	h := sdk.JobHandle{V: 1, Kind: "k", Identity: self, ID: "i"}
	if err := h.Check("x", self); err != nil {
		t.Errorf("own handle: %v", err)
	}
	for _, other := range []sdk.Identity{{Kind: "k", Account: "b", Region: "r", Endpoint: "e"}, {Kind: "k", Account: "a", Region: "r2", Endpoint: "e"},
		{Kind: "k", Account: "a", Region: "r"}, {Kind: "q", Account: "a", Region: "r", Endpoint: "e"}} {
		if err := h.Check("x", other); !errors.Is(err, sdk.FailedPrecondition) {
			t.Errorf("%s: got %v, want FailedPrecondition", other, err)
		}
	}
	if got := self.String(); got != "k/a/r/e" {
		t.Errorf("got %q", got)
	}
}

func TestCanonicalJSON(t *testing.T) {
	for in, want := range map[string]string{
		` { "b" : 1 , "a" : [ true , null ] } `: `{"a":[true,null],"b":1}`,
		`"\u00e9\u003c\/"`:                      `"é</"`,
		`-0`:                                    `0`,
		`123456789012345678901234567890`:        `123456789012345678901234567890`,
		`{"":0,"a":{},"A":[]}`:                  `{"":0,"A":[],"a":{}}`,
		`"\ud83d\ude80"`:                        `"🚀"`,
		`"\\ud800"`:                             `"\\ud800"`,
		`"\u2028"`:                              "\"\\u2028\"",
	} {
		got, err := sdk.CanonicalJSON([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{``, `1.0`, `1e5`, `-1E2`, `{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `1 2`, `{`, `[1,]`, "\"\xff\"", `"\ud800"`,
		`"\ud800x"`, `"\udc00\ud800"`, `"\ud800\ud800"`, `"\\\ud800"`, `{"\ud83d":1}`, strings.Repeat("[", 200) + strings.Repeat("]", 200), `NaN`, `'a'`} {
		if got, err := sdk.CanonicalJSON([]byte(in)); !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("%s: got %s, %v; want InvalidArgument", in, got, err)
		}
	}
}

// TestNoFloats: values that are not whole are refused wherever they hide.
func TestNoFloats(t *testing.T) {
	for _, v := range []any{1.5, map[string]any{"a": []any{0.1}}, struct{ F float32 }{2.5}, 1e30} {
		if b, err := sdk.EncodeCanonical(v); !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("%v: got %s, %v; want InvalidArgument", v, b, err)
		}
	}
	if _, err := (sdk.JobSpec{Options: json.RawMessage(`{"x":0.5}`)}).Encode(); !errors.Is(err, sdk.InvalidArgument) {
		t.Errorf("options: got %v", err)
	}
	l := sdk.Launch{V: 1, Kind: "k", Request: json.RawMessage(`[1.0]`)}
	if _, err := l.Encode(); !errors.Is(err, sdk.InvalidArgument) {
		t.Errorf("request: got %v", err)
	}
}

// TestTextIsUTF8: encoding/json would replace what is not, in silence.
func TestTextIsUTF8(t *testing.T) {
	for what, v := range map[string]encoder{
		"name":     sdk.JobSpec{Name: "a\xff"},
		"label":    sdk.JobSpec{Labels: map[string]string{"a\xff": ""}},
		"env name": sdk.JobSpec{Env: sdk.Env{"a\xff": ""}},
		"mount":    sdk.JobSpec{Mounts: []sdk.Mount{{Target: "/\xff"}}},
		"handle":   sdk.JobHandle{V: 1, Metadata: map[string]string{"a": "\xff"}},
		"cursor":   sdk.LogCursor{V: 1, Position: map[string]string{"a": "\xff"}},
		"options":  sdk.JobSpec{Options: json.RawMessage("\"\xff\"")},
	} {
		if b, err := v.Encode(); !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("%s: got %s, %v; want InvalidArgument", what, b, err)
		}
	}
	// Arguments and values of variables are bytes.
	b, err := (sdk.JobSpec{Args: sdk.Argv{"\xff"}, Env: sdk.Env{"A": "\xff"}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := sdk.DecodeSpec(b)
	if err != nil || got.Args[0] != "\xff" || got.Env["A"] != "\xff" {
		t.Errorf("got %q, %q, %v", got.Args, got.Env, err)
	}
}

// TestHashIsStable holds the hash, by which idempotency keys are compared,
// against change by accident.
func TestHashIsStable(t *testing.T) {
	grace := 5 * time.Second
	s := sdk.JobSpec{Name: "n", Args: sdk.Argv{"a", "b"}, Env: sdk.Env{"X": "1", "A": "2"}, Timeout: time.Minute, Grace: &grace}
	b, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"args":["YQ==","Yg=="],"env":{"A":"Mg==","X":"MQ=="},"grace":5000000000,"name":"n","timeout":60000000000,"v":1}`
	if string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
	h, err := s.Hash()
	if err != nil || h != sdk.HashCanonical([]byte(want)) {
		t.Errorf("got %s, %v", h, err)
	}
}

func TestLaunchTimesAreOne(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := sdk.Launch{V: 1, Kind: "k", Expires: at}
	b := a
	b.Expires = at.In(time.FixedZone("x", 7200))
	ea, err1 := a.Encode()
	eb, err2 := b.Encode()
	if err1 != nil || err2 != nil || !bytes.Equal(ea, eb) {
		t.Errorf("equal times encode as %s and %s (%v, %v)", ea, eb, err1, err2)
	}
	data := bytes.Replace(ea, []byte("03:04:05Z"), []byte("05:04:05+02:00"), 1)
	if bytes.Equal(data, ea) {
		t.Fatal("nothing was replaced")
	}
	if _, err := sdk.DecodeLaunch(data); !errors.Is(err, sdk.InvalidArgument) {
		t.Errorf("a second form of the time: got %v, want InvalidArgument", err)
	}
}

// fuzzDecode: whatever is decoded is in the one canonical form, and nothing
// makes a decoder panic or answer NotFound.
func fuzzDecode(f *testing.F, name string) {
	var c codec
	for _, x := range codecs() {
		if x.name == name {
			c = x
		}
	}
	f.Add([]byte(c.least))
	f.Add([]byte(strings.Replace(c.least, `"v":1`, `"v":2`, 1)))
	f.Add([]byte(strings.Replace(c.least, `"v":1`, `"unknown":1.5,"v":1`, 1)))
	for seed := range uint64(20) {
		b, err := c.random(newGen(seed))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := c.again(data)
		switch {
		case err == nil && !bytes.Equal(out, data):
			t.Fatalf("%q was taken and is %q", data, out)
		case err != nil && !errors.Is(err, sdk.InvalidArgument) && !errors.Is(err, sdk.FailedPrecondition):
			t.Fatalf("%q: %v", data, err)
		}
	})
}

func FuzzDecodeSpec(f *testing.F) { fuzzDecode(f, "spec") }

func FuzzDecodeHandle(f *testing.F) { fuzzDecode(f, "handle") }

func FuzzDecodeLaunch(f *testing.F) { fuzzDecode(f, "launch") }

func FuzzDecodeCursor(f *testing.F) { fuzzDecode(f, "cursor") }

// FuzzCanonicalJSON: the canonical form is one that stays as it is, and means
// what the input meant.
func FuzzCanonicalJSON(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":[null,true,"\u00e9"]}`, `-0`, `1e5`, `"\ud800\udc00"`, `"\ud800"`, `{"a":1,"a":2}`, "\"\xff\"",
		"\"\u2028\"", `{"c":{"b":1,"a":[]},"b":"\"","a":{"y":0,"x":0}}`, ` [ 1 , { } ] `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		once, err := sdk.CanonicalJSON(data)
		if err != nil {
			if !errors.Is(err, sdk.InvalidArgument) {
				t.Fatalf("%q: %v", data, err)
			}
			return
		}
		twice, err := sdk.CanonicalJSON(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q: %q, then %q, %v", data, once, twice, err)
		}
		if a, b := anyOf(t, data), anyOf(t, once); !reflect.DeepEqual(a, b) {
			t.Fatalf("%q means %v, its canonical form %q means %v", data, a, once, b)
		}
	})
}

func anyOf(t *testing.T, data []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return fmt.Sprintf("undecodable: %v", err)
	}
	return plusZero(v)
}

// plusZero turns -0 into 0, which is the same integer.
func plusZero(v any) any {
	switch x := v.(type) {
	case json.Number:
		if x == "-0" {
			return json.Number("0")
		}
	case []any:
		for i := range x {
			x[i] = plusZero(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = plusZero(x[k])
		}
	}
	return v
}
