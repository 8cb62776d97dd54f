package docker

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/sdk"
)

const registryPassword = "p4ss-canary"

// registry serves one image, repo:1, to those who know the password.
// https://distribution.github.io/distribution/spec/api/
type registry struct {
	*httptest.Server
	blobs    map[string][]byte
	manifest []byte
	text     string
}

func digest(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// newRegistry serves the test image with a layer of its own on top.
func newRegistry(t *testing.T, b *bench) *registry {
	t.Helper()
	r := &registry{blobs: map[string][]byte{}, text: b.ids.NewID().String()}
	files := map[string][]byte{}
	b.api(t, func(ctx context.Context, api *client.Client) error {
		saved, err := api.ImageSave(ctx, []string{testneed.Image})
		if err != nil {
			return err
		}
		defer saved.Close()
		for in := tar.NewReader(saved); ; {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if files[h.Name], err = io.ReadAll(in); err != nil {
				return err
			}
		}
	})
	var index []struct {
		Config string
		Layers []string
	}
	must(t, json.Unmarshal(files["manifest.json"], &index))
	var config map[string]any
	must(t, json.Unmarshal(files[index[0].Config], &config))
	var own bytes.Buffer
	w := tar.NewWriter(&own)
	must(t, w.WriteHeader(&tar.Header{Name: "pulled", Mode: 0o644, Size: int64(len(r.text))}))
	_, err := w.Write([]byte(r.text))
	must(t, errors.Join(err, w.Close()))
	rootfs := config["rootfs"].(map[string]any)
	rootfs["diff_ids"] = append(rootfs["diff_ids"].([]any), digest(own.Bytes()))
	delete(config, "history")
	type part struct {
		MediaType string `json:"mediaType"`
		Size      int    `json:"size"`
		Digest    string `json:"digest"`
	}
	add := func(kind string, data []byte) part {
		r.blobs[digest(data)] = data
		return part{"application/vnd.docker." + kind, len(data), digest(data)}
	}
	configData, err := json.Marshal(config)
	must(t, err)
	layers := []part{}
	for _, name := range append(index[0].Layers, "") {
		data := own.Bytes()
		if name != "" {
			data = files[name]
		}
		var z bytes.Buffer
		zw := gzip.NewWriter(&z)
		_, err := zw.Write(data)
		must(t, errors.Join(err, zw.Close()))
		layers = append(layers, add("image.rootfs.diff.tar.gzip", z.Bytes()))
	}
	r.manifest, err = json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
		"config": add("container.image.v1+json", configData), "layers": layers})
	must(t, err)
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r *registry) host() string { return strings.TrimPrefix(r.URL, "http://") }

func (r *registry) serve(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	say := func(status int, code string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`, code, strings.ToLower(code))
	}
	if user, password, ok := req.BasicAuth(); !ok || user != "me" || password != registryPassword {
		w.Header().Set("Www-Authenticate", `Basic realm="test"`)
		say(http.StatusUnauthorized, "UNAUTHORIZED")
		return
	}
	rest := strings.TrimPrefix(req.URL.Path, "/v2/")
	switch name := rest[strings.LastIndex(rest, "/")+1:]; {
	case rest == "":
	case rest == "repo/manifests/1" || rest == "repo/manifests/"+digest(r.manifest):
		w.Header().Set("Content-Type", "application/vnd.docker.distribution.manifest.v2+json")
		w.Header().Set("Docker-Content-Digest", digest(r.manifest))
		_, _ = w.Write(r.manifest)
	case strings.HasPrefix(rest, "repo/blobs/") && r.blobs[name] != nil:
		_, _ = w.Write(r.blobs[name])
	default:
		say(http.StatusNotFound, "MANIFEST_UNKNOWN")
	}
}

// dockerConfig makes a folder for DOCKER_CONFIG with the registry's password.
func dockerConfig(t *testing.T, host, password string) string {
	t.Helper()
	dir := t.TempDir()
	auth := base64.StdEncoding.EncodeToString([]byte("me:" + password))
	must(t, os.WriteFile(filepath.Join(dir, "config.json"), fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host, auth), 0o600))
	return dir
}

func TestPrivateRegistry(t *testing.T) {
	t.Parallel()
	b := realEngine(t)
	r := newRegistry(t, b)
	with := func(dir string) *bench {
		return realEngine(t, func(o *sdk.OpenRequest) { o.Credentials = map[string]string{"DOCKER_CONFIG": dir} })
	}
	run := func(b *bench, image string, pull string) (sdk.RunJobResult, []string, error) {
		spec := sdk.JobSpec{Image: image, Args: sdk.Argv{"cat", "/pulled"}, Network: networkNone, Options: json.RawMessage(`{"pull":"` + pull + `"}`)}
		var lines []string
		res, err := b.RunJob(t.Context(), sdk.RunJobRequest{Launch: b.prepare(t, spec), Progress: func(s string) { lines = append(lines, s) }})
		return res, lines, err
	}
	image := r.host() + "/repo:1"
	known := with(dockerConfig(t, r.host(), registryPassword))
	t.Cleanup(func() {
		err := b.client.Call(context.Background(), "test", func(ctx context.Context, api *client.Client) error {
			_, err := api.ImageRemove(ctx, image, client.ImageRemoveOptions{Force: true})
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	for name, c := range map[string]struct {
		b     *bench
		image string
		code  sdk.Code
	}{
		"no password":    {b, image, sdk.PermissionDenied},
		"wrong password": {with(dockerConfig(t, r.host(), "wrong")), image, sdk.PermissionDenied},
		"no such tag":    {known, r.host() + "/repo:2", sdk.NotFound},
		"no registry":    {known, "127.0.0.1:1/repo:1", sdk.FailedPrecondition},
	} {
		_, _, err := run(c.b, c.image, pullMissing)
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != c.code || e.Reason != sdk.ReasonImagePull || e.Remedy == "" || strings.Contains(err.Error(), registryPassword) {
			t.Errorf("%s: %v: %v", name, sdk.CodeOf(err), err)
		}
	}
	res, lines, err := run(known, image, pullMissing)
	must(t, err)
	if o := known.logs(t, res.Handle, true, nil); o.out != r.text {
		t.Errorf("the pulled image shows %q, want %q", o.out, r.text)
	}
	if text := strings.Join(lines, "\n"); !strings.Contains(text, "pulling "+image) || !strings.Contains(text, "Pull complete") {
		t.Errorf("progress: %s", text)
	}
	if _, lines, err = run(known, image, pullMissing); err != nil || len(lines) > 0 {
		t.Errorf("an image that is there is pulled: %v, %v", lines, err)
	}
	if _, lines, err = run(known, image, pullAlways); err != nil || len(lines) == 0 {
		t.Errorf("pull always: %v, %v", lines, err)
	}
}
