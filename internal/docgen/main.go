// Command docgen writes the documents that are made from the code's own tables:
// go run ./internal/docgen writes them, with -check it says which are out of
// date instead and fails.
//
// A document is a generator in documents(): a path below the module's root and
// a function that returns its text. Prose stands in templates/, tables come from
// the code, so that what is written can't differ from what is done.
package main

//go:generate go run .

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("docgen", flag.ContinueOnError)
	flags.SetOutput(errs)
	check := flags.Bool("check", false, "compare the documents with what would be written, and write nothing")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	root, err := moduleRoot()
	if err == nil {
		err = generate(root, documents(), *check, out)
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "docgen:", err)
		return 1
	}
	return 0
}

// document is one generated file.
type document struct {
	// path is relative to the module's root, with slashes.
	path string
	// text returns the whole file.
	text func() ([]byte, error)
}

// documents is the list of all generated documents.
func documents() []document {
	return append([]document{
		{"docs/configuration.md", configuration},
		{"docs/secrets.md", secrets},
		{"docs/prices.md", prices},
		{"docs/providers.md", providers},
		{"docs/states.md", states},
		{"docs/state-machine.md", machine},
		{"docs/exec-environments.md", environments},
		{"docs/pocket.md", pocket},
		{"docs/pocket-gcp.md", pocketGCP},
		{"docs/pocket-digitalocean.md", pocketDigitalOcean},
		{"docs/pocket-azure.md", pocketAzure},
	}, commandDocs()...)
}

var errOutdated = errors.New("documents are out of date: run go run ./internal/docgen and commit what changes")

// generate writes the documents below root that differ, or, to check, says how
// they do.
func generate(root string, docs []document, check bool, out io.Writer) error {
	outdated := false
	for _, d := range docs {
		want, err := d.text()
		if err != nil {
			return fmt.Errorf("write %s: %w", d.path, err)
		}
		path := filepath.Join(root, filepath.FromSlash(d.path))
		have, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		switch {
		case err == nil && bytes.Equal(have, want):
		case check:
			outdated = true
			if _, err := fmt.Fprintf(out, "%s differs\n%s", d.path, difference(string(have), string(want))); err != nil {
				return err
			}
		default:
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path, want, 0o644); err != nil { //nolint:gosec // documents are for everyone
				return err
			}
		}
	}
	if outdated {
		return errOutdated
	}
	return nil
}

// difference shows the lines from the first to the last that differ, up to a
// screenful.
func difference(have, want string) string {
	const most = 20
	a, b := strings.Split(have, "\n"), strings.Split(want, "\n")
	from := 0
	for from < len(a) && from < len(b) && a[from] == b[from] {
		from++
	}
	ea, eb := len(a), len(b)
	for ea > from && eb > from && a[ea-1] == b[eb-1] {
		ea, eb = ea-1, eb-1
	}
	var s strings.Builder
	for _, side := range []struct {
		sign  string
		lines []string
	}{{"-", a[from:ea]}, {"+", b[from:eb]}} {
		for i, line := range side.lines {
			if i == most {
				fmt.Fprintf(&s, "%s (%d more lines)\n", side.sign, len(side.lines)-most)
				break
			}
			fmt.Fprintf(&s, "%s%d: %s\n", side.sign, from+i+1, line)
		}
	}
	return s.String()
}

// moduleRoot returns the folder of go.mod, from the working folder upwards.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		up := filepath.Dir(at)
		if up == at {
			return "", fmt.Errorf("no go.mod from %s upwards", dir)
		}
		at = up
	}
}
