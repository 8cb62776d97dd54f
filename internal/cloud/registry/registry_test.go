package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const password = "canary-password-17"

func digestOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// server is a registry that gives documents by path to whoever has its token, and
// tokens to its user.
func server(t *testing.T, docs map[string]string) (host string, asked func() []string) {
	var mu sync.Mutex
	var calls []string
	var web *httptest.Server
	web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		calls = append(calls, r.URL.Path)
		mu.Unlock()
		if r.URL.Path == "/token" {
			user, pass, ok := r.BasicAuth()
			if r.URL.Query().Get("scope") != "repository:team/app:pull" || r.URL.Query().Get("service") != "test, service" || ok && (user != "u" || pass != password) {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			token := "anonymous"
			if ok {
				token = "mine"
			}
			_, _ = fmt.Fprintf(w, `{"token":%q}`, token)
			return
		}
		private := strings.Contains(r.URL.Path, "private")
		if a := r.Header.Get("Authorization"); a == "" || private && a != "Bearer mine" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+web.URL+`/token",service="test, service",scope="repository:team/app:pull"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		doc, ok := docs[strings.TrimPrefix(r.URL.Path, "/v2/team/app/")]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"errors":[{"code":"MANIFEST_UNKNOWN","message":"no such thing"}]}`))
			return
		}
		_, _ = w.Write([]byte(doc))
	}))
	t.Cleanup(web.Close)
	return strings.TrimPrefix(web.URL, "http://"), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(calls)
	}
}

func TestEntrypoint(t *testing.T) {
	config, none := `{"config":{"Entrypoint":["/bin/app","--x"]}}`, `{"config":{"Cmd":["sh"]}}`
	image := `{"schemaVersion":2,"config":{"digest":"` + digestOf(config) + `"}}`
	bare := `{"schemaVersion":2,"config":{"digest":"` + digestOf(none) + `"}}`
	index := func(platforms ...string) string {
		var parts []string
		for _, p := range platforms {
			system, arch, _ := strings.Cut(p, "/")
			parts = append(parts, fmt.Sprintf(`{"digest":%q,"platform":{"os":%q,"architecture":%q}}`, digestOf(map[bool]string{true: image, false: bare}[p == "linux/amd64"]), system, arch))
		}
		return `{"schemaVersion":2,"manifests":[` + strings.Join(parts, ",") + `]}`
	}
	host, _ := server(t, map[string]string{
		"manifests/latest": image, "manifests/bare": bare, "manifests/many": index("linux/arm64", "linux/amd64"), "manifests/arm": index("linux/arm64"),
		"manifests/" + digestOf(image): image, "manifests/" + digestOf("other"): image, "manifests/private": image, "manifests/broken": "{", "manifests/empty": "{}",
		"manifests/large": strings.Repeat("x", maxDocument+1), "manifests/lost": `{"config":{"digest":"sha256:00"}}`,
		"blobs/" + digestOf(config): config, "blobs/" + digestOf(none): none, "blobs/sha256:00": "tampered",
	})
	mine := Login{Username: "u", Password: sdk.NewSecretValue([]byte(password))}
	for name, c := range map[string]struct {
		ref   string
		login Login
		want  string // the entrypoint, or words of the error
	}{
		"no tag":            {"", Login{}, "[/bin/app --x]"},
		"none":              {":bare", Login{}, "[]"},
		"an index":          {":many", Login{}, "[/bin/app --x]"},
		"a digest":          {"@" + digestOf(image), Login{}, "[/bin/app --x]"},
		"private":           {":private", mine, "[/bin/app --x]"},
		"private, nobody":   {":private", Login{}, "401"},
		"wrong password":    {":private", Login{Username: "u", Password: sdk.NewSecretValue([]byte(password + "x"))}, "403"},
		"another platform":  {":arm", Login{}, "none for Linux on amd64"},
		"unknown":           {":nosuch", Login{}, "404 MANIFEST_UNKNOWN no such thing"},
		"another's digest":  {"@" + digestOf("other"), Login{}, "isn't it"},
		"tampered":          {":lost", Login{}, "isn't it"},
		"no JSON":           {":broken", Login{}, "no JSON"},
		"no configuration":  {":empty", Login{}, "names no configuration"},
		"too large":         {":large", Login{}, "larger than"},
		"a name that isn't": {":a:b", Login{}, "no image's name"},
	} {
		got, err := Entrypoint(t.Context(), host+"/team/app"+c.ref, c.login)
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, c.want) || strings.Contains(text, "canary") {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}

// TestPasswordsGoToSafePlaces: a challenge that names another place for tokens gets
// none without TLS.
func TestPasswordsGoToSafePlaces(t *testing.T) {
	for _, challenge := range []string{`Bearer realm="http://example.com/token"`, `Bearer realm=":"`, `Bearer`, `Digest x="y"`, ``} {
		c := &client{http: &http.Client{Transport: &http.Transport{}}, login: Login{Username: "u", Password: sdk.NewSecretValue([]byte(password))}}
		if got, err := c.answer(t.Context(), challenge); err == nil {
			t.Errorf("%s: %q", challenge, got)
		}
	}
}

// TestLoginHelps: the refusals that a user could get past are told from the rest.
func TestLoginHelps(t *testing.T) {
	basic := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(basic.Close)
	var shut *httptest.Server
	shut = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+shut.URL+`/token"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(shut.Close)
	bearer, _ := server(t, nil)
	user := Login{Username: "u", Password: sdk.NewSecretValue([]byte("wrong"))}
	for _, c := range []struct {
		host, ref string
		login     Login
		helps     bool
	}{
		{basic.URL, "team/app", Login{}, true}, {basic.URL, "team/app", user, false}, {shut.URL, "team/app", Login{}, true}, {shut.URL, "team/app", user, false},
		{bearer, "team/app:private", Login{}, true}, {bearer, "team/app:private", user, false}, {bearer, "team/app:nosuch", Login{}, false},
	} {
		if _, err := Entrypoint(t.Context(), strings.TrimPrefix(c.host, "http://")+"/"+c.ref, c.login); err == nil || errors.Is(err, ErrLogin) != c.helps {
			t.Errorf("%s as %q: %v", c.ref, c.login.Username, err)
		}
	}
}

// TestSentOn: a registry may keep its documents elsewhere, where nobody reads the
// way there.
func TestSentOn(t *testing.T) {
	config := `{"config":{"Entrypoint":["/bin/app"]}}`
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(config)) }))
	t.Cleanup(store.Close)
	for to, want := range map[string]string{store.URL + "/x": "[/bin/app]", "http://store.example.com/x": "without TLS", "/again": "on and on"} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/manifests/") {
				_, _ = fmt.Fprintf(w, `{"config":{"digest":%q}}`, digestOf(config))
				return
			}
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
		}))
		got, err := Entrypoint(t.Context(), strings.TrimPrefix(web.URL, "http://")+"/team/app", Login{})
		web.Close()
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, want) {
			t.Errorf("to %s: %s", to, text)
		}
	}
}

func TestCancelled(t *testing.T) {
	host, asked := server(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Entrypoint(ctx, host+"/team/app", Login{}); err == nil || len(asked()) > 0 {
		t.Errorf("%v, %d calls", err, len(asked()))
	}
}

func TestHosts(t *testing.T) {
	for image, want := range map[string]string{"busybox": "docker.io", "team/app:1": "docker.io", "r.azurecr.io/app@sha256:" + strings.Repeat("0", 64): "r.azurecr.io", "localhost:5000/x": "localhost:5000"} {
		if got, err := Host(image); err != nil || got != want {
			t.Errorf("%s: %s, %v", image, got, err)
		}
	}
	for pair, want := range map[[2]string]bool{{"index.docker.io", "docker.io"}: true, {"R.azurecr.io", "r.azurecr.io"}: true, {"a.io", "b.io"}: false} {
		if Same(pair[0], pair[1]) != want {
			t.Errorf("%v", pair)
		}
	}
	for domain, want := range map[string]string{"docker.io": "https://registry-1.docker.io", "localhost:5000": "http://localhost:5000", "127.0.0.1:1": "http://127.0.0.1:1", "r.azurecr.io": "https://r.azurecr.io"} {
		if got := baseOf(domain); got != want {
			t.Errorf("%s: %s", domain, got)
		}
	}
}

// FuzzParameters: whatever a registry sends, reading its challenge comes to an end,
// and what is quoted comes back.
func FuzzParameters(f *testing.F) {
	f.Add(`realm="https://a/b",service="x, y",scope="z"`, "value")
	f.Add(`a="\"`, `q"uo\te`)
	f.Add(`=,=`, "")
	f.Fuzz(func(t *testing.T, s, value string) {
		parameters(s)
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value)
		if got := parameters(`first="` + quoted + `", Second=plain`); got["first"] != value || got["second"] != "plain" {
			t.Errorf("%q became %q", value, got)
		}
	})
}
