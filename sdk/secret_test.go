package sdk_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/windlass-run/windlass/sdk"
)

// TestF84SecretsNeverPrint tries every way in which a value gets into text.
func TestF84SecretsNeverPrint(t *testing.T) {
	const canary = "c4nary-value"
	v := sdk.NewSecretValue([]byte(canary))
	type exported struct{ V sdk.SecretValue }
	type hidden struct{ v sdk.SecretValue }
	type deep struct {
		m map[string]hidden
		p *hidden
		s []sdk.SecretValue
		a any
	}
	leaks := func(how, text string) {
		t.Helper()
		for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), strings.Trim(fmt.Sprint([]byte(canary)), "[]"),
			strings.Trim(fmt.Sprintf("%#v", []byte(canary)), "[]byte{}"), "YzRuYXJ5LXZhbHVl"} {
			if strings.Contains(text, form) {
				t.Errorf("%s shows the value: %s", how, text)
			}
		}
	}
	values := map[string]any{"value": v, "pointer": &v, "exported": exported{v}, "hidden": hidden{v}, "pointer to hidden": &hidden{v},
		"deep":  deep{m: map[string]hidden{"a": {v}}, p: &hidden{v}, s: []sdk.SecretValue{v}, a: v},
		"slice": []sdk.SecretValue{v}, "map": map[string]sdk.SecretValue{"a": v}, "any": []any{v, hidden{v}},
		"resolved": fmt.Errorf("x: %v", v)}
	for what, x := range values {
		for _, verb := range strings.Fields("%v %+v %#v %s %q %x %X %d %c %U %t %e %g %b %o %T %p %10.3s %-20v %+q %#x") {
			leaks(what+" with "+verb, fmt.Sprintf(verb, x))
		}
		leaks(what+" printed", fmt.Sprint(x))
		if b, err := json.Marshal(x); err == nil {
			leaks(what+" as JSON", string(b))
		}
		if b, err := xml.Marshal(x); err == nil {
			leaks(what+" as XML", string(b))
		}
		var buf bytes.Buffer
		if err := gob.NewEncoder(&buf).Encode(x); err == nil {
			leaks(what+" as gob", buf.String())
		}
		for _, h := range []slog.Handler{slog.NewTextHandler(&buf, nil), slog.NewJSONHandler(&buf, nil)} {
			slog.New(h).Info("x", "secret", x, slog.Group("g", "s", x))
		}
		leaks(what+" logged", buf.String())
		if b, err := sdk.EncodeCanonical(x); err == nil {
			leaks(what+" as canonical JSON", string(b))
		}
	}
	for _, text := range []string{v.String(), v.GoString(), fmt.Sprint(v)} {
		if text != sdk.Redacted {
			t.Errorf("got %q", text)
		}
	}
	if b, err := json.Marshal(exported{v}); err != nil || string(b) != `{"V":"[redacted]"}` {
		t.Errorf("got %s, %v", b, err)
	}
	if string(v.Reveal()) != canary || (sdk.SecretValue{}).Reveal() != nil {
		t.Error("Reveal gives something else")
	}
}

func TestParseSecretRef(t *testing.T) {
	for in, want := range map[string]sdk.ParsedSecretRef{
		"secret://env/TOKEN":                     {Scheme: "env", Path: "TOKEN"},
		"secret://file//etc/token":               {Scheme: "file", Path: "/etc/token"},
		"secret://aws-sm/a/b#key":                {Scheme: "aws-sm", Path: "a/b", Key: "key"},
		"secret://gcp/p/s?version=3":             {Scheme: "gcp", Path: "p/s", Version: "3"},
		"secret://vault/kv/x#k?version=a%20b":    {Scheme: "vault", Path: "kv/x", Key: "k", Version: "a b"},
		"secret://env/name with é and spaces":    {Scheme: "env", Path: "name with é and spaces"},
		"secret://k8s/ns/secret#tls.crt":         {Scheme: "k8s", Path: "ns/secret", Key: "tls.crt"},
		"secret://az/vault/s?version=0123456789": {Scheme: "az", Path: "vault/s", Version: "0123456789"},
	} {
		got, err := sdk.ParseSecretRef(in)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "TOKEN", "secret:/env/A", "secret://", "secret://env", "secret://env/", "secret:///A", "secret://ENV/A",
		"secret://en v/A", "secret://env/A#", "secret://env/A?v=1", "secret://env/A?version=", "secret://env/A?version=1&version=2",
		"secret://env/A?version=1&x=2", "secret://env/A\n", "secret://env/\x00", "secret://env/A?version=%00", "secret://env/A?version=%zz",
		"secret://env/#k", "secret://env/\xff", " secret://env/A"} {
		if got, err := sdk.ParseSecretRef(in); !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("%q: got %+v, %v; want InvalidArgument", in, got, err)
		}
	}
	// What stands where a reference should may be the secret itself.
	if _, err := sdk.ParseSecretRef("hunter2-hunter2"); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

func FuzzParseSecretRef(f *testing.F) {
	for _, s := range []string{"secret://env/A", "secret://file//x#k?version=1", "secret://a-b/c?version=%20", "secret://env/A#b#c", "x", "secret://env/A?"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := sdk.ParseSecretRef(s)
		if err != nil {
			if !errors.Is(err, sdk.InvalidArgument) || p != (sdk.ParsedSecretRef{}) {
				t.Fatalf("%q: %+v, %v", s, p, err)
			}
			return
		}
		if p.Scheme == "" || p.Path == "" || !strings.HasPrefix(s, "secret://"+p.Scheme+"/"+p.Path) {
			t.Fatalf("%q: %+v", s, p)
		}
		for _, part := range []string{p.Path, p.Key, p.Version} {
			if !utf8.ValidString(part) || strings.ContainsAny(part, "\x00\n\r\x7f") {
				t.Fatalf("%q: %+v", s, p)
			}
		}
	})
}
