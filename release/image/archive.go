package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// tag is a version as an image's tag, which has no plus sign
// (https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md#pulling-manifests).
func tag(version string) string {
	return strings.ReplaceAll(strings.TrimPrefix(version, "v"), "+", "-")
}

// archive writes an image's tar: an OCI layout, and the manifest.json by which
// engines know it that don't read those.
func archive(to string, img v1.Image, ref string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(to), ".image-*")
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err == nil {
			err = os.Rename(f.Name(), to)
		}
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	w := tar.NewWriter(f)
	if err := writeAll(w, img, ref); err != nil {
		return err
	}
	return w.Close()
}

func writeAll(w *tar.Writer, img v1.Image, ref string) error {
	desc, err := partial.Descriptor(img)
	if err != nil {
		return err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return err
	}
	desc.Platform = &v1.Platform{OS: file.OS, Architecture: file.Architecture}
	// containerd takes the name from the first, other tools the tag from the second.
	desc.Annotations = map[string]string{"io.containerd.image.name": "docker.io/library/" + ref, "org.opencontainers.image.ref.name": ref[strings.Index(ref, ":")+1:]}
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{*desc}})
	if err != nil {
		return err
	}
	config, err := img.ConfigName()
	if err != nil {
		return err
	}
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	var names []string
	blobs := map[v1.Hash]func() (io.ReadCloser, error){
		desc.Digest: bytesOf(img.RawManifest),
		config:      bytesOf(img.RawConfigFile),
	}
	order := []v1.Hash{desc.Digest, config}
	for _, l := range layers {
		d, err := l.Digest()
		if err != nil {
			return err
		}
		blobs[d], order, names = l.Compressed, append(order, d), append(names, blob(d))
	}
	docker, err := json.Marshal([]any{map[string]any{"Config": blob(config), "RepoTags": []string{ref}, "Layers": names}})
	if err != nil {
		return err
	}
	if err := put(w, "oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	for _, d := range order {
		r, err := blobs[d]()
		if err != nil {
			return err
		}
		data, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
		if err := put(w, blob(d), data); err != nil {
			return err
		}
	}
	return errors.Join(put(w, "index.json", index), put(w, "manifest.json", docker))
}

func bytesOf(read func() ([]byte, error)) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		b, err := read()
		return io.NopCloser(bytes.NewReader(b)), err
	}
}

// blob is where a layout has a blob.
func blob(d v1.Hash) string { return "blobs/" + d.Algorithm + "/" + d.Hex }

func put(w *tar.Writer, name string, data []byte) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}
