// Command image writes the released program's container image, from nothing but
// the program: a tar that Docker, Podman and containerd load, in the OCI layout
// (https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md) with
// the manifest.json of `docker save` beside it.
//
//	image -version v1.2.0 -time 2026-11-29T05:00:00Z -o x.tar PROGRAM [DOCUMENT...]
//
// The same arguments make the same bytes on any machine. It is a module of its own,
// so that what it needs isn't needed by the program.
package main

import (
	"debug/buildinfo"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, errs io.Writer) int {
	var r request
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(errs)
	out := flags.String("o", "", "the tar to write")
	made := flags.String("time", "", "when the commit was made, as RFC 3339 writes it: the image's own time")
	flags.StringVar(&r.version, "version", "", "the version, as `windlass version` says it")
	flags.StringVar(&r.revision, "revision", "", "the commit")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	var err error
	if r.time, err = time.Parse(time.RFC3339, *made); err != nil || *out == "" || r.version == "" || flags.NArg() == 0 {
		_, _ = fmt.Fprintln(errs, "usage: image -version VERSION -time TIME [-revision COMMIT] -o FILE PROGRAM [DOCUMENT...]")
		return 2
	}
	r.program, r.documents = flags.Arg(0), flags.Args()[1:]
	img, err := r.image()
	if err == nil {
		err = archive(*out, img, repository+":"+tag(r.version))
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "image:", err)
		return 1
	}
	return 0
}

const (
	repository = "windlass"
	source     = "https://github.com/windlass-run/windlass"

	// user is nobody on the machine: an engine without user namespaces gives it no
	// more rights than that.
	user     = 65532
	program  = "/usr/bin/windlass"
	home     = "/home/windlass"
	data     = "/var/lib/windlass"
	trusted  = "/etc/ssl/certs/ca-certificates.crt"
	document = "/usr/share/doc/windlass"
)

// request is an image to make.
type request struct {
	version, revision string
	time              time.Time
	// program is the file of the program; documents are licences and notices.
	program   string
	documents []string
}

// image is the image: what is in it, and how it starts.
func (r request) image() (v1.Image, error) {
	arch, err := architecture(r.program)
	if err != nil {
		return nil, err
	}
	files, err := r.files()
	if err != nil {
		return nil, err
	}
	layer, err := layerOf(files, r.time)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: r.time.UTC()}, CreatedBy: "github.com/windlass-run/windlass/release/image"}})
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Created, file.OS, file.Architecture = v1.Time{Time: r.time.UTC()}, "linux", arch
	file.Config = v1.Config{
		Entrypoint: []string{program},
		User:       fmt.Sprintf("%d:%d", user, user),
		WorkingDir: home,
		Env: []string{
			"PATH=/usr/bin",
			"HOME=" + home,
			// The file of the user is /etc/windlass/windlass.yaml, where a ConfigMap or
			// a bind mount puts it.
			"XDG_CONFIG_HOME=/etc",
			// Below the place of a volume: that of Kubernetes may be writable by all, and
			// the state folder may not.
			"WINDLASS_STATE=" + data + "/state",
			"WINDLASS_PLUGINS=" + data + "/plugins",
			// A container ends with its first process, and so would a keeper.
			"WINDLASS_KEEPER=off",
		},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "windlass",
			"org.opencontainers.image.source":   source,
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.created":  r.time.UTC().Format(time.RFC3339),
		},
	}
	if r.revision != "" {
		file.Config.Labels["org.opencontainers.image.revision"] = r.revision
	}
	return mutate.ConfigFile(img, file)
}

// architecture is that of a program of Go for Linux, by what its build left in it.
func architecture(program string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	if set["GOOS"] != "linux" || set["GOARCH"] == "" {
		return "", fmt.Errorf("%s was built for %s/%s: an image needs linux", program, set["GOOS"], set["GOARCH"])
	}
	if set["CGO_ENABLED"] != "0" {
		return "", fmt.Errorf("%s was built with cgo, and an image from nothing has no C library: build it with CGO_ENABLED=0", program)
	}
	return set["GOARCH"], nil
}

// files are all that is in the image.
func (r request) files() ([]file, error) {
	text, err := os.ReadFile(r.program)
	if err != nil {
		return nil, err
	}
	roots, err := authorities()
	if err != nil {
		return nil, err
	}
	files := []file{
		{name: program, mode: 0o755, data: text},
		{name: trusted, mode: 0o644, data: roots},
		{name: "/etc/passwd", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:0:root:/root:/nologin\nwindlass:x:%d:%d:windlass:%s:/nologin\n", user, user, home)},
		{name: "/etc/group", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:\nwindlass:x:%d:\n", user)},
		{name: "/etc/windlass", mode: 0o755, folder: true},
		// Some clusters give a pod a user of their own choice: it finds nothing in the home,
		// and makes its state folder, which is private, beside those of others.
		{name: home, mode: 0o755, folder: true, owner: user},
		{name: data, mode: 0o1777, folder: true, owner: user},
		{name: "/tmp", mode: 0o1777, folder: true},
		{name: "/root", mode: 0o700, folder: true},
	}
	for _, from := range r.documents {
		text, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: path.Join(document, filepath.Base(from)), mode: 0o644, data: text})
	}
	return files, nil
}
