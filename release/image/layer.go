package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// file is a file or folder of an image.
type file struct {
	name   string // absolute
	mode   int64
	owner  int
	data   []byte
	folder bool
}

// layerOf is a layer of files and the folders above them, all of one time, by name.
func layerOf(files []file, at time.Time) (v1.Layer, error) {
	all := slices.Clone(files)
	for _, f := range files {
		for up := path.Dir(f.name); up != "/"; up = path.Dir(up) {
			if !slices.ContainsFunc(all, func(o file) bool { return o.name == up }) {
				all = append(all, file{name: up, mode: 0o755, folder: true})
			}
		}
	}
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for _, f := range all {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name[1:], Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.data)), ModTime: at.UTC().Truncate(time.Second)}
		if f.folder {
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	// Compressed by Go's own gzip, without a name and a time.
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil })
}

// authorities are Mozilla's, as PEM. One that Mozilla trusts under a condition is
// left out: a PEM can't say the condition.
func authorities() ([]byte, error) {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}
