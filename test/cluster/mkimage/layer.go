package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// layer is a tar of an image's files. Folders come before what is in them.
type layer struct {
	buf  bytes.Buffer
	w    *tar.Writer
	made map[string]bool
}

// add writes files as the command line names them.
func (l *layer) add(files []string) error {
	l.w, l.made = tar.NewWriter(&l.buf), map[string]bool{".": true}
	for _, f := range files {
		if err := l.one(f); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
	}
	return l.w.Close()
}

func (l *layer) one(arg string) error {
	kind, rest, _ := strings.Cut(arg, ":")
	if kind == "dir" {
		name, text, has := strings.Cut(rest, ":")
		if !has {
			text = "755"
		}
		mode, err := strconv.ParseInt(text, 8, 64)
		if err != nil {
			return err
		}
		return l.folder(clean(name), mode)
	}
	name, source, has := strings.Cut(rest, "=")
	if !has {
		return fmt.Errorf("want %s:NAME=SOURCE", kind)
	}
	name = clean(name)
	if err := l.folder(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch kind {
	case "file":
		data, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		return l.put(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}, data)
	case "text":
		return l.put(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, []byte(source+"\n"))
	case "link":
		return l.put(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: source, Mode: 0o777}, nil)
	}
	return fmt.Errorf("want file, text, link or dir")
}

func clean(name string) string { return strings.TrimPrefix(path.Clean(name), "/") }

func (l *layer) folder(name string, mode int64) error {
	if l.made[name] {
		return nil
	}
	if err := l.folder(path.Dir(name), 0o755); err != nil {
		return err
	}
	l.made[name] = true
	return l.put(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}, nil)
}

func (l *layer) put(h *tar.Header, data []byte) error {
	h.Size = int64(len(data))
	if err := l.w.WriteHeader(h); err != nil {
		return err
	}
	_, err := l.w.Write(data)
	return err
}
