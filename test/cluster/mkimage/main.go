// mkimage writes an OCI image archive with one layer of local files, for
// "ctr images import".
//
//	mkimage -o x.tar -ref docker.io/library/x:1 -entrypoint '["/x"]' file:/bin/x=./x dir:/tmp:1777 link:/bin/sh=busybox text:/etc/passwd=root:x:0:0::/:/bin/sh
//
// https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"strings"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("mkimage: ")
	out := flag.String("o", "", "archive to write")
	refs := flag.String("ref", "", "full image names with their tags, apart by commas")
	entry := flag.String("entrypoint", "[]", "JSON list")
	cmd := flag.String("cmd", "[]", "JSON list")
	flag.Parse()
	if err := write(*out, strings.Split(*refs, ","), *entry, *cmd, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

// blob is a part of an image that is named by its hash.
type blob []byte

func (b blob) digest() string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func (b blob) descriptor(kind string) descriptor {
	return descriptor{MediaType: "application/vnd.oci.image." + kind, Digest: b.digest(), Size: len(b)}
}

func write(out string, refs []string, entry, cmd string, files []string) error {
	var l layer
	if err := l.add(files); err != nil {
		return err
	}
	var entrypoint, args []string
	for text, to := range map[string]*[]string{entry: &entrypoint, cmd: &args} {
		if err := json.Unmarshal([]byte(text), to); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	data := blob(l.buf.Bytes())
	config, err := json.Marshal(map[string]any{
		"created": "2026-01-01T00:00:00Z", "architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": entrypoint, "Cmd": args, "Env": []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{data.digest()}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": blob(config).descriptor("config.v1+json"), "layers": []descriptor{data.descriptor("layer.v1.tar")},
	})
	if err != nil {
		return err
	}
	var manifests []descriptor
	for _, ref := range refs {
		d := blob(manifest).descriptor("manifest.v1+json")
		d.Annotations = map[string]string{"io.containerd.image.name": ref, "org.opencontainers.image.ref.name": ref}
		manifests = append(manifests, d)
	}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": manifests})
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	add := func(name string, b []byte) {
		if err == nil {
			err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(b))})
		}
		if err == nil {
			_, err = w.Write(b)
		}
	}
	add("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	for _, b := range []blob{data, config, manifest} {
		add("blobs/sha256/"+strings.TrimPrefix(b.digest(), "sha256:"), b)
	}
	add("index.json", index)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return err
	}
	return os.WriteFile(out, archive.Bytes(), 0o644)
}
