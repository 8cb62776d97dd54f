package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	mdLink  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdFence = regexp.MustCompile("(?ms)^```.*?^```$")
	mdHead  = regexp.MustCompile(`(?m)^#+ (.+)$`)
	mdMark  = regexp.MustCompile("[`*]|\\]\\([^)]*\\)|\\[")
)

// TestLinks follows each link of a document to a file or a heading of this repository.
// Templates are judged by the documents that come of them.
func TestLinks(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "templates") {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range mdLink.FindAllStringSubmatch(mdFence.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			seen++
			file, heading, _ := strings.Cut(m[1], "#")
			to := path
			if file != "" {
				to = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %s isn't there", path, m[1])
			} else if heading != "" && !headings(t, to)[heading] {
				t.Errorf("%s: %s has no heading #%s", path, to, heading)
			}
		}
		return nil
	})
	if err != nil || seen < 100 {
		t.Fatalf("%d links, %v", seen, err)
	}
}

// headings are the anchors of a document, as its host makes them of headings.
func headings(t *testing.T, path string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, m := range mdHead.FindAllStringSubmatch(mdFence.ReplaceAllString(string(text), ""), -1) {
		var b strings.Builder
		for _, c := range strings.ToLower(mdMark.ReplaceAllString(m[1], "")) {
			switch {
			case c == ' ':
				b.WriteByte('-')
			case c == '-' || c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c):
				b.WriteRune(c)
			}
		}
		out[b.String()] = true
	}
	return out
}
