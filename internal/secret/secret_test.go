package secret

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func vars(pairs ...string) func(string) (string, bool) {
	m := map[string]string{}
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		m[k] = v
	}
	return func(name string) (string, bool) {
		v, ok := m[name]
		return v, ok
	}
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	abs := filepath.ToSlash(write(t, filepath.Join(dir, "abs"), "canary\n"))
	write(t, filepath.Join(dir, "empty"), "")
	write(t, filepath.Join(dir, "raw"), "\x00\xff\r\n\n")
	big := write(t, filepath.Join(dir, "big"), strings.Repeat("x", MaxBytes+1))
	write(t, filepath.Join(dir, "most"), strings.Repeat("x", MaxBytes))
	r := NewResolver(Local(vars("TOKEN=canary", "EMPTY=", "BIG="+strings.Repeat("x", MaxBytes+1), "a b=c"), dir), nil)
	for _, c := range []struct {
		ref  string
		want string
		err  string
		code sdk.Code
		id   string
	}{
		{ref: "secret://env/TOKEN", want: "canary"},
		{ref: "secret://env/a b", want: "c"},
		{ref: "secret://file/abs", want: "canary\n"},
		{ref: "secret://file/" + abs, want: "canary\n"},
		{ref: "secret://file/raw", want: "\x00\xff\r\n\n"},
		{ref: "secret://file/most", want: strings.Repeat("x", MaxBytes)},
		{ref: "secret://env/NONE", err: "the variable NONE isn't set", code: sdk.NotFound, id: ErrNotFound},
		{ref: "secret://env/EMPTY", err: "the variable EMPTY is empty", code: sdk.FailedPrecondition, id: ErrUnusable},
		{ref: "secret://env/BIG", err: "is larger than 1048576 bytes", code: sdk.FailedPrecondition, id: ErrUnusable},
		{ref: "secret://env/TOKEN#key", err: "the scheme env has no keys", code: sdk.InvalidArgument, id: ErrUnusable},
		{ref: "secret://file/abs?version=2", err: "the scheme file has no versions", code: sdk.InvalidArgument, id: ErrUnusable},
		{ref: "secret://file/none", err: filepath.Join(dir, "none") + " doesn't exist", code: sdk.NotFound, id: ErrNotFound},
		{ref: "secret://file" + abs, err: "write secret://file/" + abs + " for the absolute path", code: sdk.NotFound, id: ErrNotFound},
		{ref: "secret://file/empty", err: "is empty", code: sdk.FailedPrecondition, id: ErrUnusable},
		{ref: "secret://file/big", err: big + " is larger than", code: sdk.FailedPrecondition, id: ErrUnusable},
		{ref: "secret://file/.", err: "is no regular file", code: sdk.FailedPrecondition, id: ErrUnusable},
		{ref: "secret://fil/x", err: `no scheme is called "fil" here; did you mean "file"?; the schemes are env, file`, code: sdk.Unimplemented, id: ErrUnknownScheme},
		{ref: "canary", err: "a reference starts with secret://", code: sdk.InvalidArgument},
	} {
		v, err := r.ResolveSecret(t.Context(), sdk.SecretRef(c.ref))
		if c.err == "" {
			if err != nil || string(v.Reveal()) != c.want {
				t.Errorf("%s: %d bytes, %v", c.ref, len(v.Reveal()), err)
			}
			continue
		}
		var e *sdk.Error
		if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.err) || !errors.As(err, &e) || e.ID != c.id || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %v, want %s with %q", c.ref, err, c.code, c.err)
		}
	}
}

func TestUnreadableSecretFile(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads every file")
	}
	dir := t.TempDir()
	if err := os.Chmod(write(t, filepath.Join(dir, "f"), "x"), 0); err != nil {
		t.Fatal(err)
	}
	_, err := NewResolver(Local(vars(), dir), nil).ResolveSecret(t.Context(), "secret://file/f")
	if !errors.Is(err, sdk.FailedPrecondition) || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
}

func TestCheck(t *testing.T) {
	local := []string{SchemeEnv, SchemeFile}
	refs := map[string]sdk.SecretRef{"A": "secret://env/X", "B": "secret://aws-sm/y", "C": "canary", "D": "secret://fil/z"}
	docker := sdk.Driver{Kind: "docker", Schemes: []string{"env", "file"}, Guarantees: sdk.Guarantees{Secrets: sdk.SecretFile}}
	var got []string
	for _, p := range Check(refs, local, docker) {
		got = append(got, p.String())
	}
	want := []string{
		`secrets.B "secret://aws-sm/y": the kind docker takes no secret of the scheme aws-sm; it takes env, file: fetch the value yourself, and name the variable that holds it by secret://env/`,
		`secrets.C: parse secret reference: a reference starts with secret://; write secret://SCHEME/PATH[#KEY][?version=V]`,
		`secrets.D "secret://fil/z": the kind docker takes no secret of the scheme fil; did you mean "file"? it takes env, file`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if ps := Check(map[string]sdk.SecretRef{"A": "secret://env/X"}, local, sdk.Driver{Kind: "none"}); len(ps) != 1 || !strings.Contains(ps[0].Message, "takes no secrets") {
		t.Errorf("got %v", ps)
	}
	for delivery, want := range map[sdk.SecretDelivery]Delivery{
		sdk.SecretReference: {How: "passed on; the backend fetches it"}, sdk.SecretSealed: {How: "fetched by the driver, sealed"}, "": {Refused: true, How: "refused"},
		sdk.SecretVisibleEnv: {How: "resolved, a visible variable; needs `--allow-visible-secret`", NeedsVisible: true},
	} {
		if got := Deliver("aws-sm", local, sdk.Driver{Schemes: []string{"aws-sm"}, Guarantees: sdk.Guarantees{Secrets: delivery}}); got != want {
			t.Errorf("%s: %+v", delivery, got)
		}
	}
}

func TestExplanations(t *testing.T) {
	known := map[string]bool{}
	for _, e := range Explanations() {
		known[e.ID] = e.What != "" && e.Why != "" && e.Do != ""
	}
	for _, id := range []string{ErrUnknownScheme, ErrNotFound, ErrUnusable, ErrNotHeld} {
		if !known[id] {
			t.Errorf("%s has no explanation", id)
		}
	}
}

func TestFurtherSchemes(t *testing.T) {
	schemes := Local(vars(), "")
	schemes["vault"] = func(_ context.Context, ref sdk.ParsedSecretRef) (sdk.SecretValue, error) {
		if ref.Path == "down" {
			return sdk.SecretValue{}, sdk.Errorf(sdk.Unavailable, "read vault", "no answer")
		}
		return sdk.NewSecretValue([]byte(ref.Path + "/" + ref.Key + "/" + ref.Version)), nil
	}
	r := NewResolver(schemes, nil)
	if v, err := r.ResolveSecret(t.Context(), "secret://vault/a/b#k?version=3"); err != nil || string(v.Reveal()) != "a/b/k/3" {
		t.Errorf("got %q, %v", v.Reveal(), err)
	}
	if _, err := r.ResolveSecret(t.Context(), "secret://vault/down"); !errors.Is(err, sdk.Unavailable) {
		t.Errorf("got %v", err)
	}
}
