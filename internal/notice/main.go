// Command notice writes the notices of the third parties whose code is in the
// released program: for each module that is compiled into it, on any system
// that is released, the licences and notices that the module's authors put
// beside that code. It reads the modules themselves, so what it writes can't be
// out of date, and it fails for a module whose licence isn't one that this
// project may ship.
//
//	go run ./internal/notice ./cmd/windlass linux/amd64 windows/arm64 > NOTICES
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	if len(args) < 2 {
		_, _ = fmt.Fprintln(errs, "usage: notice PACKAGE GOOS/GOARCH...")
		return 2
	}
	parts, err := collect(ctx, args[0], args[1:])
	if err == nil {
		err = write(out, parts)
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "notice:", err)
		return 1
	}
	return 0
}

// part is one module, or Go's own library.
type part struct {
	// name is the module's path with its version.
	name string
	// files are its licences and notices, absolute, sorted.
	files []string
	// root is the folder that the names of files are shown relative to.
	root string
}

// listed is what is asked of go list for a package.
type listed struct {
	Dir        string
	ImportPath string
	Standard   bool
	Module     *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path, Version string }
	}
}

// collect lists what is compiled into the package on the targets, by name.
func collect(ctx context.Context, pkg string, targets []string) ([]part, error) {
	found := map[string]*part{}
	for _, target := range targets {
		packages, err := list(ctx, pkg, target)
		if err != nil {
			return nil, err
		}
		for _, p := range packages {
			if p.Standard || p.Module == nil || p.Module.Main {
				continue
			}
			m := p.Module
			name := m.Path + " " + m.Version
			if m.Replace != nil {
				name = m.Replace.Path + " " + m.Replace.Version
			}
			at := found[name]
			if at == nil {
				at = &part{name: name, root: m.Dir}
				found[name] = at
			}
			if at.files, err = addLicences(at.files, m.Dir, p.Dir); err != nil {
				return nil, fmt.Errorf("read the licences of %s: %w", p.ImportPath, err)
			}
		}
	}
	std, err := library(ctx)
	if err != nil {
		return nil, err
	}
	parts := []part{std}
	for _, p := range found {
		slices.Sort(p.files)
		parts = append(parts, *p)
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.name, b.name) })
	return parts, nil
}

// list names the packages that pkg is made of on a target, itself included.
func list(ctx context.Context, pkg, target string) ([]listed, error) {
	goos, goarch, ok := strings.Cut(target, "/")
	if !ok {
		return nil, fmt.Errorf("target %q: write it as GOOS/GOARCH", target)
	}
	text, err := goCommand(ctx, []string{"GOOS=" + goos, "GOARCH=" + goarch, "CGO_ENABLED=0"}, "list", "-deps", "-json=Dir,ImportPath,Standard,Module", pkg)
	if err != nil {
		return nil, err
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read what go list says for %s: %w", target, err)
		}
		all = append(all, p)
	}
}

// library is Go's standard library and runtime.
func library(ctx context.Context) (part, error) {
	text, err := goCommand(ctx, nil, "env", "GOROOT", "GOVERSION")
	if err != nil {
		return part{}, err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2 {
		return part{}, fmt.Errorf("go env said %q for GOROOT and GOVERSION", text)
	}
	p := part{name: "Go " + strings.TrimPrefix(lines[1], "go"), root: lines[0]}
	if p.files, err = addLicences(nil, p.root, p.root); err != nil {
		return part{}, fmt.Errorf("read the licence of Go: %w", err)
	}
	return p, nil
}

func goCommand(ctx context.Context, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // of this program's own caller
	cmd.Env = append(cmd.Environ(), env...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, errs.Bytes())
	}
	return out, nil
}

// addLicences adds the licences and notices of the folders from dir up to root
// that files lacks. Code that a module took over from elsewhere has its licence
// in its own folder.
func addLicences(files []string, root, dir string) ([]string, error) {
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if e.Type().IsRegular() && isLicence(e.Name()) && !slices.Contains(files, path) {
				files = append(files, path)
			}
		}
		up := filepath.Dir(dir)
		if dir == root || up == dir || len(up) < len(root) {
			return files, nil
		}
		dir = up
	}
}

// isLicence reports whether a file of this name is a licence or a notice, by
// the names that authors of Go modules use.
func isLicence(name string) bool {
	switch filepath.Ext(name) {
	case ".go", ".json", ".yml", ".yaml", ".sh":
		return false
	}
	name = strings.ToLower(name)
	for _, word := range []string{"license", "licence", "copying", "notice", "patents"} {
		if strings.HasPrefix(name, word) {
			return true
		}
	}
	return false
}

// unshipped is the kind of licences that this project may not ship.
const unshipped = "GNU"

// licences are the kinds that are known, each by words of its text. The first
// that fits counts: the Mozilla licence speaks of the GNU ones.
var licences = []struct{ kind, words string }{
	{"MPL-2.0", "mozilla public license version 2.0"},
	{"MPL-2.0", "mozilla public license, version 2.0"},
	{unshipped, "gnu general public license"},
	{unshipped, "gnu lesser general public license"},
	{unshipped, "gnu affero general public license"},
	{"Apache-2.0", "apache license version 2.0"},
	{"Apache-2.0", "licensed under the apache license, version 2.0"},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"BSD", "redistribution and use in source and binary forms, with or without modification"},
	{"ISC", "permission to use, copy, modify, and/or distribute this software for any purpose"},
	{"ISC", "permission to use, copy, modify, and distribute this software for any purpose"},
}

// kindOf names the licence that a text is, "" if it is none that is known.
func kindOf(text []byte) string {
	flat := strings.ToLower(strings.Join(strings.Fields(string(text)), " "))
	for _, l := range licences {
		if strings.Contains(flat, l.words) {
			return l.kind
		}
	}
	return ""
}

// write writes the notices. It fails, and names them all, where parts have no
// licence that is known, or one that may not ship.
func write(out io.Writer, parts []part) error {
	b := bytes.NewBufferString("Windlass contains software of others, each under the terms that follow its name.\n")
	var refused []string
	for _, p := range parts {
		var kinds []string
		var texts bytes.Buffer
		for _, file := range p.files {
			text, err := os.ReadFile(file) //nolint:gosec // a file of a module
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s: %s is gone; run go mod download", p.name, file)
			} else if err != nil {
				return err
			}
			if kind := kindOf(text); kind != "" && !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
			shown, err := filepath.Rel(p.root, file)
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(&texts, "\n-- %s --\n\n%s\n", filepath.ToSlash(shown), bytes.TrimSpace(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))))
		}
		if len(kinds) == 0 || slices.Contains(kinds, unshipped) {
			refused = append(refused, p.name)
			continue
		}
		_, _ = fmt.Fprintf(b, "\n%s\n%s (%s)\n%s", strings.Repeat("=", 72), p.name, strings.Join(kinds, ", "), texts.Bytes())
	}
	if len(refused) > 0 {
		return fmt.Errorf("%s: no licence was found that may ship: read what the module has, and replace it or add the kind in internal/notice", strings.Join(refused, ", "))
	}
	_, err := out.Write(b.Bytes())
	return err
}
