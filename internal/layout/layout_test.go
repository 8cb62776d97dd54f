package layout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestImports(t *testing.T)        { check(t, imports(layers)) }
func TestEnvironment(t *testing.T)    { check(t, readsEnvironment) }
func TestNoInit(t *testing.T)         { check(t, hasInit) }
func TestFileLength(t *testing.T)     { check(t, tooLong) }
func TestPackageNames(t *testing.T)   { check(t, badName) }
func TestPackageComment(t *testing.T) { check(t, noPackageComment) }
func TestNoSleeps(t *testing.T)       { check(t, sleeps) }
func TestTransports(t *testing.T)     { check(t, deadConnections) }

// TestTable checks that the table itself names only rows that exist and lets
// production imports go down only.
func TestTable(t *testing.T) {
	for i, l := range layers {
		if slices.ContainsFunc(layers[:i], func(o layer) bool { return o.path == l.path }) {
			t.Errorf("row %s stands twice", l.path)
		}
		for _, name := range l.may {
			at, _ := find(layers, name)
			if at < 0 || name != layers[at].path && !strings.HasSuffix(layers[at].path, "/*") {
				t.Errorf("row %s may import %s, which is no row", l.path, name)
			} else if at >= i {
				t.Errorf("row %s may import %s, which doesn't stand lower", l.path, name)
			}
		}
		for _, name := range l.never {
			if at, _ := find(layers, name); at < 0 && name != "*" {
				t.Errorf("row %s never imports %s, which is no row", l.path, name)
			}
		}
	}
}

// TestRules gives each rule small trees and the findings that they must yield.
func TestRules(t *testing.T) {
	ours := func(path string) string { return fmt.Sprintf("import _ %q", module+"/"+path) }
	const none = ""
	for _, c := range []struct {
		name string
		rule func([]*file) []string
		file string
		src  string
		want string // a part of the one finding; empty for none
	}{
		{"a transport without pings", deadConnections, "internal/cloud/aws/a.go", "import \"net/http\"\n\nvar t = &http.Transport{ForceAttemptHTTP2: true}", "reach.Pings"},
		{"a transport with pings", deadConnections, "internal/cloud/aws/a.go", "import \"net/http\"\n\nvar t = &http.Transport{ForceAttemptHTTP2: true, HTTP2: nil}", none},
		{"a transport of HTTP/1", deadConnections, "internal/cloud/aws/a.go", "import \"net/http\"\n\nvar t = &http.Transport{}", none},
		{"sdk imports std", imports(layers), "sdk/a.go", `import _ "encoding/json"`, none},
		{"sdk imports a library", imports(layers), "sdk/a.go", `import _ "pgregory.net/rapid"`, "standard library alone"},
		{"sdk imports golang.org/x", imports(layers), "sdk/a.go", `import _ "golang.org/x/sync/errgroup"`, "standard library alone"},
		{"sdk tests import a library", imports(layers), "sdk/a_test.go", `import _ "pgregory.net/rapid"`, none},
		{"sdk imports internal", imports(layers), "sdk/a.go", ours("internal/ledger"), "doesn't list it"},
		{"sdk's own part", imports(layers), "sdk/a.go", ours("sdk/part"), none},
		{"sdk imports the plugin side", imports(layers), "sdk/a.go", ours("sdk/plugin"), "doesn't list it"},
		{"suite imports fake", imports(layers), "sdk/providertest/a.go", ours("sdk/providertest/fake"), none},
		{"suite imports a library", imports(layers), "sdk/providertest/a.go", `import _ "go.uber.org/goleak"`, "standard library alone"},
		{"driver imports its cloud", imports(layers), "internal/driver/ecs/a.go", ours("internal/cloud/aws"), none},
		{"driver imports its cloud's part", imports(layers), "internal/driver/ecs/a.go", ours("internal/cloud/aws/name"), none},
		{"driver imports another cloud", imports(layers), "internal/driver/ecs/a.go", ours("internal/cloud/gcp"), "doesn't list it"},
		{"driver imports another driver", imports(layers), "internal/driver/compose/a.go", ours("internal/driver/docker"), "doesn't list it"},
		{"driver's test imports the suite", imports(layers), "internal/driver/local/a_test.go", ours("sdk/providertest"), none},
		{"driver's test imports a pocket cloud", imports(layers), "internal/driver/ecs/a_test.go", ours("internal/pocket/ecs"), none},
		{"driver imports the suite", imports(layers), "internal/driver/local/a.go", ours("sdk/providertest"), "only tests may"},
		{"cloud imports another cloud", imports(layers), "internal/cloud/aws/a.go", ours("internal/cloud/gcp"), "doesn't list it"},
		{"cloud imports its part", imports(layers), "internal/cloud/aws/a.go", ours("internal/cloud/aws/name"), none},
		{"control imports the ledger", imports(layers), "internal/control/a.go", ours("internal/ledger"), none},
		{"control imports the store", imports(layers), "internal/control/a.go", ours("internal/ledger/sqlite"), "doesn't list it"},
		{"control's test imports the store", imports(layers), "internal/control/a_test.go", ours("internal/ledger/sqlite"), none},
		{"control imports failpoints", imports(layers), "internal/control/a.go", ours("internal/failpoint"), none},
		{"sdk imports failpoints", imports(layers), "sdk/a.go", ours("internal/failpoint"), "doesn't list it"},
		{"pocket imports failpoints", imports(layers), "internal/pocket/a.go", ours("internal/failpoint"), "in tests too"},
		{"control imports config", imports(layers), "internal/control/a.go", ours("internal/config"), "doesn't list it"},
		{"control imports a driver", imports(layers), "internal/control/a.go", ours("internal/driver/local"), "in tests too"},
		{"control's test imports fake", imports(layers), "internal/control/a_test.go", ours("sdk/providertest/fake"), none},
		{"control's test imports the ledger's suite", imports(layers), "internal/control/a_test.go", ours("internal/ledger/ledgertest"), none},
		{"control's test imports keeper", imports(layers), "internal/control/a_test.go", ours("internal/keeper"), "go down only"},
		{"ledger imports its suite", imports(layers), "internal/ledger/a.go", ours("internal/ledger/ledgertest"), "only tests may"},
		{"store imports the ledger", imports(layers), "internal/ledger/sqlite/a.go", ours("internal/ledger"), none},
		{"cli imports control", imports(layers), "internal/cli/a.go", ours("internal/control"), none},
		{"cli imports a driver", imports(layers), "internal/cli/a.go", ours("internal/driver/docker"), "in tests too"},
		{"cli's test imports all drivers", imports(layers), "internal/cli/a_test.go", ours("internal/driver/all"), "in tests too"},
		{"pocket imports sdk", imports(layers), "internal/pocket/ecs/a.go", ours("sdk"), "in tests too"},
		{"pocket's test imports sdk", imports(layers), "internal/pocket/ecs/a_test.go", ours("sdk"), "in tests too"},
		{"pocket imports its part", imports(layers), "internal/pocket/ecs/a.go", ours("internal/pocket/wire"), none},
		{"pocket's test waits", imports(layers), "internal/pocket/ecs/a_test.go", ours("internal/testwait"), none},
		{"the list imports drivers", imports(layers), "internal/driver/all/a.go", ours("internal/driver/ecs"), none},
		{"the list imports fake", imports(layers), "internal/driver/all/a.go", ours("sdk/providertest/fake"), none},
		{"the list imports control", imports(layers), "internal/driver/all/a.go", ours("internal/control"), "doesn't list it"},
		{"main imports all", imports(layers), "cmd/windlass/a.go", ours("internal/driver/all"), none},
		{"main imports a test's helper", imports(layers), "cmd/windlass/a.go", ours("internal/testwait"), "only tests may"},
		{"a library imports main", imports(layers), "internal/cli/a.go", ours("cmd/windlass"), "doesn't list it"},
		{"no layer", imports(layers), "internal/surprise/a.go", "", "has no layer"},
		{"imports no layer", imports(layers), "internal/control/a.go", ours("internal/surprise"), "it has no layer"},
		{"a longer name is another package", imports(layers), "internal/controls/a.go", "", "has no layer"},
		{"a driver without a row", imports(layers), "internal/driver/nomad/a.go", "", "has no layer"},

		{"reads the environment", readsEnvironment, "internal/cli/a.go", `import "os"; var v = os.Getenv("X")`, "a.go:2: os.Getenv"},
		{"by another name", readsEnvironment, "internal/cli/a.go", `import sys "os"; var v = sys.Environ()`, "os.Environ"},
		{"by a dot import", readsEnvironment, "internal/cli/a.go", `import . "os"; var v = Getenv("X")`, "os.Getenv"},
		{"by syscall", readsEnvironment, "cmd/windlass/a.go", `import "syscall"; func f() { syscall.Setenv("A", "b") }`, "syscall.Setenv"},
		{"as a value", readsEnvironment, "internal/cli/a.go", `import "os"; var v = os.LookupEnv`, "os.LookupEnv"},
		{"config may", readsEnvironment, "internal/config/a.go", `import "os"; var v = os.Getenv("X")`, none},
		{"tests may", readsEnvironment, "internal/cli/a_test.go", `import "os"; var v = os.Getenv("X")`, none},
		{"another os", readsEnvironment, "internal/cli/a.go", `import "x.org/os"; var v = os.Getenv("X")`, none},

		{"init", hasInit, "sdk/a.go", "func init() {}", "init function"},
		{"method init", hasInit, "sdk/a.go", "type t int; func (t) init() {}", none},

		{"800 lines", tooLong, "sdk/a.go", strings.Repeat("\n", 799), none},
		{"801 lines", tooLong, "sdk/a.go", strings.Repeat("\n", 800), "801 lines"},

		{"sleep", sleeps, "sdk/a_test.go", `import "time"; func f() { time.Sleep(1) }`, "a_test.go:2: time.Sleep"},
		{"sleep in a closure", sleeps, "sdk/a_test.go", `import "time"; func f() { go func() { time.Sleep(1) }() }`, "time.Sleep"},
		{"sleep in production", sleeps, "sdk/a.go", `import "time"; func f() { time.Sleep(1) }`, none},
		{"slow double", sleeps, "sdk/a_test.go", "import \"time\"\nfunc f() {\n\ttime.Sleep(1) //sleep: the server is slow\n}", none},
		{"no reason", sleeps, "sdk/a_test.go", "import \"time\"\nfunc f() {\n\ttime.Sleep(1) //sleep: \n}", "time.Sleep"},
		{"virtual sleep", sleeps, "sdk/a_test.go", `import ("time"; "testing"; "testing/synctest")
			func f(t *testing.T) { synctest.Test(t, func(t *testing.T) { go func() { time.Sleep(1) }() }) }`, none},
		{"sleep beside the bubble", sleeps, "sdk/a_test.go", `import ("time"; "testing"; "testing/synctest")
			func f(t *testing.T) { time.Sleep(1); synctest.Test(t, nil) }`, "time.Sleep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := parse(c.file, []byte("package a\n"+c.src))
			if err != nil {
				t.Fatal(err)
			}
			expect(t, c.rule([]*file{f}), c.want)
		})
	}
}

func TestRulesOfPackages(t *testing.T) {
	for _, c := range []struct {
		name string
		rule func([]*file) []string
		file string
		src  string
		want string
	}{
		{"util", badName, "internal/util/a.go", "package util", "says nothing"},
		{"util's external test", badName, "internal/util/a_test.go", "package util_test", "says nothing"},
		{"two words", badName, "internal/job_log/a.go", "package job_log", "lowercase noun"},
		{"capitals", badName, "internal/jobLog/a.go", "package jobLog", "lowercase noun"},
		{"not the folder's", badName, "internal/joblog/a.go", "package logs", "named as its folder"},
		{"external test", badName, "internal/joblog/a_test.go", "package joblog_test", ""},
		{"command", badName, "cmd/windlass/a.go", "package main", ""},

		{"generated init", hasInit, "sdk/a.go", "// Code generated by x. DO NOT EDIT.\n\npackage sdk\n\nfunc init() {}", ""},
		{"generated length", tooLong, "sdk/a.go", "// Code generated by x. DO NOT EDIT.\n\npackage sdk\n" + strings.Repeat("\n", 900), ""},

		{"no comment", noPackageComment, "sdk/a.go", "package sdk", "no file has a package comment"},
		{"comment of another form", noPackageComment, "sdk/a.go", "// The contract.\npackage sdk", "no file has a package comment"},
		{"detached comment", noPackageComment, "sdk/a.go", "// Package sdk is it.\n\npackage sdk", "no file has a package comment"},
		{"comment", noPackageComment, "sdk/a.go", "// Package sdk is it.\npackage sdk", ""},
		{"command's comment", noPackageComment, "cmd/windlass/a.go", "// Command windlass is it.\npackage main", ""},
		{"tests only", noPackageComment, "sdk/a_test.go", "package sdk", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := parse(c.file, []byte(c.src))
			if err != nil {
				t.Fatal(err)
			}
			expect(t, c.rule([]*file{f}), c.want)
		})
	}
}

func expect(t *testing.T, got []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(got) > 0:
		t.Errorf("found %q, want nothing", got)
	case want != "" && (len(got) != 1 || !strings.Contains(got[0], want)):
		t.Errorf("found %q, want one with %q", got, want)
	}
}
