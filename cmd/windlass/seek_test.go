package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

func asExit(err error, into **exec.ExitError) bool { return errors.As(err, into) }

func itoa(n int) string { return strconv.Itoa(n) }

// seek looks for a text in every file below a folder, in any form in which a
// program may have written it, and returns the first file that has it.
func seek(dir, text string) (string, error) {
	found := ""
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || found != "" || !d.Type().IsRegular() {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if holds(data, text) {
			found = path
		}
		return nil
	})
	return found, err
}

// holds reports whether data has a text: as it is, in base64 at any of the
// three places within a group, in hex, JSON-escaped, or within gzip.
func holds(data []byte, text string) bool {
	forms := [][]byte{[]byte(text), []byte(hex.EncodeToString([]byte(text)))}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		for shift := range 3 {
			padded := enc.EncodeToString(append(make([]byte, shift), text...))
			// The ends depend on the neighbours; the middle doesn't.
			if len(padded) > 12 {
				forms = append(forms, []byte(padded[4:len(padded)-4]))
			}
		}
	}
	escaped := make([]byte, 0, 6*len(text))
	for _, c := range []byte(text) {
		escaped = append(escaped, `\u00`...)
		escaped = append(escaped, hex.EncodeToString([]byte{c})...)
	}
	forms = append(forms, escaped)
	if quoted, err := json.Marshal(text); err == nil {
		forms = append(forms, bytes.Trim(quoted, `"`))
	}
	for _, f := range forms {
		if bytes.Contains(data, f) {
			return true
		}
	}
	for i := 0; ; {
		at := bytes.Index(data[i:], []byte{0x1f, 0x8b, 8})
		if at < 0 {
			return false
		}
		i += at
		if r, err := gzip.NewReader(bytes.NewReader(data[i:])); err == nil {
			plain, _ := io.ReadAll(io.LimitReader(r, 64<<20))
			if holds(plain, text) {
				return true
			}
		}
		i++
	}
}

func TestHolds(t *testing.T) {
	const text = "canary-5f1c9e"
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write([]byte("x" + text + "y")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"plain": []byte("a" + text + "b"), "hex": []byte(hex.EncodeToString([]byte("q" + text))),
		"base64": []byte(base64.StdEncoding.EncodeToString([]byte("q" + text + "r"))), "base64, shifted": []byte(base64.StdEncoding.EncodeToString([]byte("qq" + text + "r"))),
		"gzip": append([]byte("junk"), zipped.Bytes()...),
	} {
		if !holds(data, text) {
			t.Errorf("%s isn't found", name)
		}
	}
	if holds([]byte("canary-5f1c9"), text) {
		t.Error("found what isn't there")
	}
}
