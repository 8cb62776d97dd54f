package providertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

func secretChecks() []Check {
	return []Check{
		{Name: "secret-delivered", Doc: "A secret's value reaches the job byte for byte.", Needs: []string{"JobLogger"}, run: checkSecretDelivered},
		{Name: "secret-hidden", Doc: "A secret's value is nowhere but in the job.", run: checkSecretHidden},
		{Name: "secret-missing", Doc: "A secret that can't be resolved is a clear error, and nothing is made.", run: checkSecretMissing},
		{Name: "secret-visible", Doc: "Where secrets would be visible they are refused unless that is allowed.", run: checkSecretVisible},
	}
}

// secretSpec returns a spec with a secret that the job shows the sum of.
func (s *suite) secretSpec(t T, name string, value []byte) sdk.JobSpec {
	t.Helper()
	if s.g.Secrets == "" || s.h.Secrets == nil && s.h.PutSecret == nil {
		t.Skipf("the backend delivers no secrets")
	}
	spec := s.spec(t, Do(Step{Do: ActShowSecret, Name: name}, Exit(3)))
	where := "WL_CANARY_" + s.ids.NewID().String()
	if s.h.PutSecret != nil {
		spec.Secrets = map[string]sdk.SecretRef{name: s.h.PutSecret(t, where, value)}
	} else {
		spec.Secrets = map[string]sdk.SecretRef{name: s.h.Secrets.Set(where, value)}
	}
	spec.AllowVisibleSecret = s.g.Secrets == sdk.SecretVisibleEnv
	return spec
}

func checkSecretDelivered(s *suite, t T) {
	for _, value := range []string{"s3cret " + s.ids.NewID().String(), "two\nlines \"quoted\" $HOME é", strings.Repeat("long", 1000)} {
		j := s.startSpec(t, s.secretSpec(t, "WL_SECRET", []byte(value)), nil)
		if got, want := s.shown(t, j.handle), fmt.Sprintf("secret WL_SECRET %x\n", sha256.Sum256([]byte(value))); got != want {
			t.Errorf("a secret of %d bytes did not arrive: got %q, want %q", len(value), got, want)
		}
	}
}

// Canary is a value that is sought where it must not be.
type Canary []byte

// Forms returns the value and its encodings: base64 at each of the three
// offsets that it may have within other bytes, hex, JSON and URL escapes.
func (c Canary) Forms() [][]byte {
	out := [][]byte{bytes.Clone(c), []byte(hex.EncodeToString(c)), []byte(strings.ToUpper(hex.EncodeToString(c))), []byte(url.QueryEscape(string(c)))}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			e := enc.EncodeToString(append(make([]byte, shift), c...))
			// The characters that depend on the neighbours are left out.
			from := (shift*8 + 5) / 6
			out = append(out, []byte(e[from:len(e)-1]))
		}
	}
	if j, err := json.Marshal(string(c)); err == nil {
		out = append(out, j[1:len(j)-1])
	}
	return out
}

// In reports whether the value is in data in any of its forms.
func (c Canary) In(data []byte) bool { return anyIn(c.Forms(), data) }

func anyIn(forms [][]byte, data []byte) bool {
	return slices.ContainsFunc(forms, func(f []byte) bool { return bytes.Contains(data, f) })
}

func checkSecretHidden(s *suite, t T) {
	canary := Canary("canary\"<" + s.ids.NewID().String() + ">")
	spec := s.secretSpec(t, "WL_SECRET", canary)
	forms := canary.Forms()
	sought := func(where string, v any) {
		t.Helper()
		b, ok := v.([]byte)
		if !ok {
			b = fmt.Appendf(nil, "%+v", v)
			if j, err := json.Marshal(v); err == nil {
				b = append(b, j...)
			}
		}
		if anyIn(forms, b) {
			t.Errorf("the secret is in %s", where)
		}
	}
	l := s.prepare(t, spec)
	b, err := l.Encode()
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	sought("the launch", b)
	j := s.startLaunch(t, l, nil)
	if b, err = j.handle.Encode(); err != nil {
		t.Fatalf("encode: %v", err)
	}
	sought("the handle", b)
	sought("the state of a new job", s.status(t, j.handle))
	sought("the state of an ended job", s.ended(t, j.handle))
	if sdk.Has(s.p, sdk.Logger().String()) {
		sought("the log", s.wholeLog(t, j.handle, nil).all())
	}
	if sdk.Has(s.p, sdk.Lister().String()) {
		sought("the list", s.owned(t, l.Owner))
	}
	for op, err := range s.handleCalls(t.Context(), foreign(j.handle)) {
		sought("the error of "+string(op), fmt.Sprint(err))
	}
	if s.h.Exposed != nil && s.g.Secrets != sdk.SecretVisibleEnv {
		for name, b := range s.h.Exposed(t, j.handle) {
			sought(name, b)
		}
	}
}

func foreign(h sdk.JobHandle) sdk.JobHandle {
	h.Identity.Account += "-other"
	return h
}

func checkSecretMissing(s *suite, t T) {
	spec := s.secretSpec(t, "WL_SECRET", []byte("x"))
	if s.g.Secrets == sdk.SecretReference {
		t.Skipf("the backend resolves references itself")
	}
	key := s.ids.NewID().String()
	with := s.spec(t, Do(Mark(key)))
	with.Secrets, with.AllowVisibleSecret = map[string]sdk.SecretRef{"WL_SECRET": "secret://env/WL_NO_SUCH_SECRET"}, spec.AllowVisibleSecret
	r := s.request(with)
	l, err := s.runner().PrepareJob(t.Context(), r)
	if err == nil && len(l.Problems) > 0 {
		if !namesField(l.Problems, "secrets") {
			t.Errorf("refused for something else: %s", sdk.JoinProblems(l.Problems))
		}
		return
	}
	if err == nil {
		var res sdk.RunJobResult
		if res, err = s.send(t.Context(), s.p, l, nil); err == nil {
			s.tidyUp(t, res.Handle)
		}
	}
	if !errors.Is(err, sdk.NotFound) && !errors.Is(err, sdk.InvalidArgument) && !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("run with a secret that doesn't exist: got %v, want a clear error", err)
	}
	if left := s.leftovers(t, sdk.Launch{RunID: r.RunID, Owner: l.Owner}); len(left) > 0 {
		t.Errorf("left behind: %s", strings.Join(left, ", "))
	}
	if n := s.h.Marks(t, key); n != 0 {
		t.Errorf("the job ran %d times", n)
	}
}

func checkSecretVisible(s *suite, t T) {
	if s.g.Secrets != sdk.SecretVisibleEnv {
		t.Skipf("secrets are delivered by %s", s.g.Secrets)
	}
	spec := s.secretSpec(t, "WL_SECRET", []byte("x"))
	spec.AllowVisibleSecret = false
	if !namesField(s.problems(t, spec), "secrets") {
		t.Errorf("a secret that would be visible is not refused")
	}
	spec.AllowVisibleSecret = true
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if l, err := s.runner().PrepareJob(ctx, s.request(spec)); err != nil || len(l.Problems) > 0 {
		t.Errorf("a visible secret that is allowed is refused: %s %v", sdk.JoinProblems(l.Problems), err)
	}
}
