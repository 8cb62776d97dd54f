package ledger_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// TestEncodeChangeIsCanonical fills changes by reflection, so that a member
// that is added and forgotten in the encoder fails here.
func TestEncodeChangeIsCanonical(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var in ledger.Change
		draw(rt, reflect.ValueOf(&in).Elem(), 100)
		in.V = ledger.ChangeVersion
		out, encoded, err := ledger.EncodeChange(in)
		if err != nil {
			rt.Fatal(err)
		}
		want, err := sdk.EncodeCanonical(out)
		if err != nil {
			rt.Fatal(err)
		}
		if !bytes.Equal(encoded, want) {
			rt.Fatalf("encoded\n%s\nwant\n%s", encoded, want)
		}
		var back ledger.Change
		if err := json.Unmarshal(encoded, &back); err != nil {
			rt.Fatal(err)
		}
		if !reflect.DeepEqual(back, out) {
			rt.Fatalf("decoded\n%+v\nwant\n%+v", back, out)
		}
	})
	// The same with every member set.
	rapid.Check(t, func(rt *rapid.T) {
		var in ledger.Change
		draw(rt, reflect.ValueOf(&in).Elem(), 0)
		out, encoded, err := ledger.EncodeChange(in)
		if err != nil {
			rt.Fatal(err)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(encoded, &members); err != nil || len(members) != reflect.TypeFor[ledger.Change]().NumField() {
			rt.Fatalf("%d members of %d: %s, %v", len(members), reflect.TypeFor[ledger.Change]().NumField(), encoded, err)
		}
		if want, err := sdk.EncodeCanonical(out); err != nil || !bytes.Equal(encoded, want) {
			rt.Fatalf("encoded\n%s\nwant\n%s", encoded, want)
		}
	})
}

// draw fills a value; a field stays zero with skip percent.
func draw(rt *rapid.T, v reflect.Value, skip int) {
	if skip > 0 && rapid.IntRange(0, 99).Draw(rt, "skip") < 50 {
		return
	}
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		*p = time.Unix(rapid.Int64Range(1, 9e9).Draw(rt, "sec"), rapid.Int64Range(0, 1e9-1).Draw(rt, "ns")).In(time.FixedZone("", 3600))
		return
	case *json.RawMessage:
		*p = []byte(rapid.SampledFrom([]string{`{}`, `{"b":1,"a":[true,null,"x\u0041<>&` + "\u2028" + `"]}`, ` { "z" : 1 } `, `"text"`, `17`}).Draw(rt, "json"))
		return
	case *sdk.ID:
		copy(p[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "id"))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		draw(rt, v.Elem(), 0)
	case reflect.Struct:
		for i := range v.NumField() {
			draw(rt, v.Field(i), skip)
		}
	case reflect.String:
		v.SetString(string(rapid.SliceOfN(rapid.Byte(), 1, 12).Draw(rt, "bytes")))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64Range(1, 1<<31-1).Draw(rt, "int"))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Map:
		v.Set(reflect.ValueOf(rapid.MapOfN(rapid.String(), rapid.String(), 1, 3).Draw(rt, "map")))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			draw(rt, v.Index(i), skip)
		}
	default:
		rt.Fatalf("a field of kind %s: teach draw about it", v.Kind())
	}
}

func TestEncodeChangeRefuses(t *testing.T) {
	for name, c := range map[string]ledger.Change{
		"too early": {SentAt: time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC)},
		"too late":  {EndedAt: time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC)},
		"not JSON":  {Handle: []byte("{")},
		"float":     {Handle: []byte(`{"x":1.5}`)},
		"spec":      {Requested: &ledger.Requested{Spec: []byte(`{"a":1,"a":2}`)}},
		"launch":    {Launched: &ledger.Launched{Launch: []byte(`x`)}},
	} {
		if _, _, err := ledger.EncodeChange(c); !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	in := ledger.Change{Handle: []byte(`null`), Message: ptr("a\xff"), Raw: map[string]string{"k\xfe": "v"}}
	out, b, err := ledger.EncodeChange(in)
	if err != nil || out.Handle != nil || string(b) != `{"message":"a`+"\uFFFD"+`","raw":{"k`+"\uFFFD"+`":"v"},"v":1}` {
		t.Errorf("%s, %+v, %v", b, out, err)
	}
	if *in.Message != "a\xff" || in.Raw["k\xfe"] != "v" {
		t.Error("the argument was changed")
	}
}
