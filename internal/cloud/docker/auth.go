package docker

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"

	"github.com/windlass-run/windlass/sdk"
)

const (
	hubDomain = "docker.io"
	// hubKey is the name under which Docker Hub stands in configuration files.
	hubKey = "https://index.docker.io/v1/"
	// tokenUser is what a credential helper says in place of a user name when
	// its secret is an identity token.
	tokenUser = "<token>"
)

// configFile is the part that matters of the vendor's config.json.
type configFile struct {
	Auths          map[string]authEntry `json:"auths"`
	CredsStore     string               `json:"credsStore"`
	CredHelpers    map[string]string    `json:"credHelpers"`
	CurrentContext string               `json:"currentContext"`
}

type authEntry struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// ConfigDir returns the folder of the vendor's configuration: DOCKER_CONFIG
// where it is set, the one in the user's home where ambient credentials are
// allowed, else nothing.
func ConfigDir(credentials map[string]string, ambient bool) string {
	if dir := credentials[VarConfig]; dir != "" {
		return dir
	}
	if !ambient {
		return ""
	}
	home := credentials["HOME"]
	if home == "" {
		var err error
		if home, err = os.UserHomeDir(); err != nil {
			return ""
		}
	}
	return filepath.Join(home, ".docker")
}

func readConfigFile(dir string) (configFile, error) {
	var c configFile
	file := filepath.Join(dir, "config.json")
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		// A parser's message may quote the file, which holds passwords.
		if _, ok := errors.AsType[*fs.PathError](err); !ok {
			err = errors.New("not the JSON that is expected")
		}
		return c, &sdk.Error{Code: sdk.FailedPrecondition, Op: "read registry credentials", Err: fmt.Errorf("%s: %w", file, err)}
	}
	return c, nil
}

// Registries finds the credentials of registries.
type Registries struct {
	// Dir is ConfigDir's answer; empty means that pulls go without credentials.
	Dir string
	// Helpers allows the credential helpers that the file names to be run.
	Helpers bool
}

// Auth returns the value of the X-Registry-Auth header for an image, or nothing
// where no credentials are known for its registry.
func (r Registries) Auth(ctx context.Context, image string) (string, error) {
	if r.Dir == "" {
		return "", nil
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", &sdk.Error{Code: sdk.InvalidArgument, Op: "read registry credentials", Field: "image", Err: err}
	}
	file, err := readConfigFile(r.Dir)
	if err != nil {
		return "", err
	}
	domain := reference.Domain(named)
	key := domain
	if domain == hubDomain {
		key = hubKey
	}
	auth, err := r.lookup(ctx, file, key)
	if err != nil || auth == (registry.AuthConfig{}) {
		return "", err
	}
	auth.ServerAddress = key
	return authconfig.Encode(auth)
}

func (r Registries) lookup(ctx context.Context, file configFile, key string) (registry.AuthConfig, error) {
	helper := file.CredHelpers[key]
	if helper == "" {
		helper = file.CredsStore
	}
	if helper != "" && r.Helpers {
		auth, err := runHelper(ctx, helper, key)
		if err != nil || auth != (registry.AuthConfig{}) {
			return auth, err
		}
	}
	for name, e := range file.Auths {
		if !sameRegistry(name, key) {
			continue
		}
		auth := registry.AuthConfig{Username: e.Username, Password: e.Password, IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken}
		if e.Auth != "" {
			raw, err := base64.StdEncoding.DecodeString(e.Auth)
			user, password, ok := strings.Cut(string(raw), ":")
			if err != nil || !ok {
				return registry.AuthConfig{}, sdk.Errorf(sdk.FailedPrecondition, "read registry credentials", "the entry of %s in %s is malformed", name, r.Dir)
			}
			auth.Username, auth.Password = user, strings.TrimRight(password, "\x00")
		}
		return auth, nil
	}
	return registry.AuthConfig{}, nil
}

// sameRegistry compares names as the vendor does: with or without scheme and
// path, but for the Hub, whose key is a whole address.
func sameRegistry(name, key string) bool {
	if name == key {
		return true
	}
	strip := func(s string) string {
		s = strings.TrimPrefix(strings.TrimPrefix(s, "https://"), "http://")
		s, _, _ = strings.Cut(s, "/")
		return s
	}
	return strip(name) == strip(key)
}

// runHelper asks a credential helper, under the protocol of
// docker/docker-credential-helpers. One that knows nothing gives nothing.
func runHelper(ctx context.Context, helper, key string) (registry.AuthConfig, error) {
	fail := func(err error) (registry.AuthConfig, error) {
		return registry.AuthConfig{}, &sdk.Error{Code: sdk.Unauthenticated, Op: "read registry credentials",
			Err: fmt.Errorf("helper docker-credential-%s for %s: %w", helper, key, err)}
	}
	if strings.ContainsAny(helper, "/\\") {
		return fail(errors.New("its name has a path"))
	}
	cmd := exec.CommandContext(ctx, "docker-credential-"+helper, "get")
	cmd.Stdin = strings.NewReader(key)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if said := out.String() + errs.String(); strings.Contains(said, "credentials not found") {
			return registry.AuthConfig{}, nil
		}
		// What it printed may hold the secret, so only how it ended is told.
		return fail(err)
	}
	var got struct{ Username, Secret string }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		return fail(errors.New("its answer is not the JSON that is expected"))
	}
	if got.Username == tokenUser {
		return registry.AuthConfig{IdentityToken: got.Secret}, nil
	}
	return registry.AuthConfig{Username: got.Username, Password: got.Secret}, nil
}
