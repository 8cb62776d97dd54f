package docker

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/moby/moby/api/pkg/authconfig"

	"github.com/windlass-run/windlass/sdk"
)

func pemOf(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestRegistryCredentials(t *testing.T) {
	dir := t.TempDir()
	basic := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	write(t, filepath.Join(dir, "config.json"), `{"auths":{
		"r.example:5000":{"auth":"`+basic("me:pass:word")+`"},
		"https://index.docker.io/v1/":{"auth":"`+basic("hub:x")+`"},
		"https://v2.example/v2/":{"username":"u","password":"p"},
		"token.example":{"identitytoken":"t"},
		"bad.example":{"auth":"!!"}},
		"unknown":{"member":1}}`)
	r := Registries{Dir: dir}
	for image, want := range map[string]string{
		"r.example:5000/a/b:1":      "me pass:word r.example:5000",
		"busybox":                   "hub x https://index.docker.io/v1/",
		"docker.io/library/busybox": "hub x https://index.docker.io/v1/",
		"v2.example/a@sha256:" + strings.Repeat("0", 64): "u p v2.example",
		"other.example/a": "",
		"r.example/a":     "",
	} {
		got, err := r.Auth(t.Context(), image)
		if err != nil {
			t.Errorf("%s: %v", image, err)
			continue
		}
		if want == "" {
			if got != "" {
				t.Errorf("%s: got credentials", image)
			}
			continue
		}
		a, err := authconfig.Decode(got)
		if err != nil || a.Username+" "+a.Password+" "+a.ServerAddress != want {
			t.Errorf("%s: got %+v, %v", image, a, err)
		}
	}
	if got, err := r.Auth(t.Context(), "token.example/a"); err != nil {
		t.Error(err)
	} else if a, err := authconfig.Decode(got); err != nil || a.IdentityToken != "t" {
		t.Errorf("token: %+v, %v", a, err)
	}
	if _, err := r.Auth(t.Context(), "bad.example/a"); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("a malformed entry: %v", err)
	}
	if _, err := r.Auth(t.Context(), "No Such"); !errors.Is(err, sdk.InvalidArgument) {
		t.Errorf("a malformed name: %v", err)
	}
	if got, err := (Registries{}).Auth(t.Context(), "r.example:5000/a"); err != nil || got != "" {
		t.Errorf("without a folder: %q, %v", got, err)
	}
	if got, err := (Registries{Dir: t.TempDir()}).Auth(t.Context(), "r.example:5000/a"); err != nil || got != "" {
		t.Errorf("without a file: %q, %v", got, err)
	}
}

// A file that isn't JSON may hold a password anywhere.
func TestF84BrokenFileIsNotQuoted(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "config.json"), `{"auths":{"r.example":{"password":canary}}}`)
	_, err := Registries{Dir: dir}.Auth(t.Context(), "r.example/a")
	if !errors.Is(err, sdk.FailedPrecondition) || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "'c'") {
		t.Errorf("got %v", err)
	}
}

func TestCredentialHelpers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the helper is a shell script")
	}
	bin, dir := t.TempDir(), t.TempDir()
	helper := "#!/bin/sh\nread key\ncase $1-$key in\n" +
		"get-r.example) echo '{\"Username\":\"h\",\"Secret\":\"s\"}';;\n" +
		"get-t.example) echo '{\"Username\":\"<token>\",\"Secret\":\"tok\"}';;\n" +
		"get-n.example) echo 'credentials not found in native keychain'; exit 1;;\n" +
		"*) echo canary; exit 2;; esac\n"
	write(t, filepath.Join(bin, "docker-credential-test"), helper)
	if err := os.Chmod(filepath.Join(bin, "docker-credential-test"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	write(t, filepath.Join(dir, "config.json"), `{"credsStore":"test","credHelpers":{"evil.example":"../evil"}}`)
	with := Registries{Dir: dir, Helpers: true}
	for image, want := range map[string]string{"r.example/a": "h s ", "t.example/a": "  tok", "n.example/a": ""} {
		got, err := with.Auth(t.Context(), image)
		if err != nil {
			t.Errorf("%s: %v", image, err)
			continue
		}
		if want == "" {
			if got != "" {
				t.Errorf("%s: got credentials", image)
			}
			continue
		}
		if a, err := authconfig.Decode(got); err != nil || a.Username+" "+a.Password+" "+a.IdentityToken != want {
			t.Errorf("%s: got %+v, %v", image, a, err)
		}
	}
	for _, image := range []string{"x.example/a", "evil.example/a"} {
		if _, err := with.Auth(t.Context(), image); !errors.Is(err, sdk.Unauthenticated) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %v", image, err)
		}
	}
	if got, err := (Registries{Dir: dir}).Auth(t.Context(), "r.example/a"); err != nil || got != "" {
		t.Errorf("a helper is run though it is not allowed: %q, %v", got, err)
	}
}
