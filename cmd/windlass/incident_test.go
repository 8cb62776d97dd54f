//go:build linux

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	pageBlock = regexp.MustCompile("(?s)<!-- (file|run):? ?([^\n]*?) -->\n```[a-z]+\n(.*?)```\n")
	anyBlock  = regexp.MustCompile("(?m)^```[a-z]+$")
)

// TestIncidentPage does what docs/how-to/operations/incident-response.md says, word
// by word, and looks for what it says is shown.
func TestIncidentPage(t *testing.T) {
	p := newProgram(t, "off")
	page, err := os.ReadFile("../../docs/how-to/operations/incident-response.md")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(p.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(os.Args[0], filepath.Join(bin, "windlass")); err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "PATH="+bin+":"+os.Getenv("PATH"))
	blocks := pageBlock.FindAllStringSubmatch(string(page), -1)
	if all := len(anyBlock.FindAllString(string(page), -1)); len(blocks) != all || all == 0 {
		t.Fatalf("%d of the page's %d blocks say what they are", len(blocks), all)
	}
	for _, b := range blocks {
		kind, arg, text := b[1], b[2], b[3]
		if kind == "file" {
			if err := os.WriteFile(filepath.Join(p.dir, arg), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		cmd := p.shell("set -e\n" + text)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", text, err, out)
		}
		if !regexp.MustCompile(arg).Match(out) {
			t.Errorf("%s shows no %q:\n%s", text, arg, out)
		}
	}
	log, _ := p.do("ledger", "log", "--target", "prod/shop/api")
	for _, who := range []string{"deploy@ci", "ben@laptop", "tester@here"} {
		if !strings.Contains(log, who) {
			t.Errorf("the ledger doesn't show %s:\n%s", who, log)
		}
	}
}
