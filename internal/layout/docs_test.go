package layout

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestNamedTestsExist: documents that say which test holds a promise name tests that
// are there.
func TestNamedTestsExist(t *testing.T) {
	root := filepath.Join("..", "..")
	there := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, top := range []string{"bench", "cmd", "internal", "sdk", "test"} {
		if err := filepath.WalkDir(filepath.Join(root, top), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			b, err := os.ReadFile(path)
			for _, m := range declared.FindAllSubmatch(b, -1) {
				there[string(m[1])] = true
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"threat-model.md", "compatibility.md", "uninstall.md"} {
		b, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		tests := regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(b, -1)
		if len(tests) == 0 {
			t.Errorf("docs/%s names no test", name)
		}
		slices.SortFunc(tests, func(a, b [][]byte) int { return slices.Compare(a[1], b[1]) })
		for _, m := range tests {
			if !there[string(m[1])] {
				t.Errorf("docs/%s names %s, which isn't there", name, m[1])
			}
		}
	}
}
