package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each module of the program has its licence in the notices; the fewest targets
// keep this fast, a release asks for all.
func TestNoticesOfTheProgram(t *testing.T) {
	var out, errs bytes.Buffer
	args := []string{"github.com/windlass-run/windlass/cmd/windlass", "linux/amd64", "windows/arm64"}
	if code := run(t.Context(), args, &out, &errs); code != 0 {
		t.Fatalf("notice ended with %d: %s", code, errs.Bytes())
	}
	for _, want := range []string{
		"\nGo 1.", "\nmodernc.org/sqlite v", "\ngithub.com/spf13/cobra v",
		// Compiled for Windows alone.
		"\ngithub.com/inconshreveable/mousetrap v",
		// Code that a module took over, with its licence in its own folder.
		"-- zstd/internal/xxhash/LICENSE.txt --",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the notices lack %q", want)
		}
	}
	for _, not := range []string{"\ngo.uber.org/goleak v", "\ngithub.com/windlass-run/windlass "} {
		if strings.Contains(out.String(), not) {
			t.Errorf("the notices have %q, which isn't others' code in the program", not)
		}
	}
}

func TestLicencesThatMayNotShipAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"none":    {map[string]string{}, "example.org/m v1.0.0"},
		"unknown": {map[string]string{"LICENSE": "All rights reserved."}, "example.org/m v1.0.0"},
		"GNU":     {map[string]string{"LICENSE": "GNU General Public\n  License, version 3"}, "example.org/m v1.0.0"},
		"GNU beside another": {map[string]string{
			"LICENSE": "Permission is hereby granted, free of charge, to any person obtaining a copy",
			"COPYING": "GNU Lesser General Public License",
		}, "example.org/m v1.0.0"},
		"MIT":     {map[string]string{"LICENSE.md": "Permission is hereby granted, free of charge,\r\nto any person obtaining a copy"}, ""},
		"MPL-2.0": {map[string]string{"LICENSE": "Mozilla Public License Version 2.0 … GNU General Public License"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range test.files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			files, err := addLicences(nil, dir, dir)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err = write(&out, []part{{name: "example.org/m v1.0.0", root: dir, files: files}})
			if test.want == "" {
				if err != nil || !strings.Contains(out.String(), "\nexample.org/m v1.0.0 ("+name+")\n") || strings.Contains(out.String(), "\r") {
					t.Errorf("write gave %v and\n%s", err, out.Bytes())
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("write gave %v, want it to refuse %s", err, test.want)
			}
			if out.Len() != 0 {
				t.Errorf("write wrote %q beside its refusal", out.Bytes())
			}
		})
	}
}

func TestNamesOfLicences(t *testing.T) {
	for name, want := range map[string]bool{
		"LICENSE": true, "LICENSE.txt": true, "License.md": true, "LICENCE": true, "LICENSE-MIT": true, "COPYING": true, "NOTICE.md": true, "PATENTS": true,
		"license.go": false, "license_test.go": false, "README": false, "licenses.json": false,
	} {
		if got := isLicence(name); got != want {
			t.Errorf("isLicence(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestArgumentsOfNotice(t *testing.T) {
	for _, args := range [][]string{nil, {"./cmd/windlass"}} {
		if code := run(t.Context(), args, &bytes.Buffer{}, &bytes.Buffer{}); code != 2 {
			t.Errorf("run(%q) = %d, want 2", args, code)
		}
	}
	var errs bytes.Buffer
	if code := run(t.Context(), []string{"./x", "linux"}, &bytes.Buffer{}, &errs); code != 1 || !strings.Contains(errs.String(), "GOOS/GOARCH") {
		t.Errorf("run with a target without architecture = %d, %q", code, errs.Bytes())
	}
}
