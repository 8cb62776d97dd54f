package layout

// module is the path that all imports of ours begin with.
const module = "github.com/windlass-run/windlass"

// layer is a row of the table: a subtree of packages that sit at one height. A
// package belongs to the row with the longest path that covers it, so a row
// inside another takes its packages out of that.
type layer struct {
	// path is relative to the module. A last element of * makes every folder
	// there a unit of its own; otherwise the subtree is one unit. Packages of
	// one unit may import each other.
	path string
	// may names the rows that the production files may import.
	may []string
	// never names rows that even the test files may not import.
	never []string
	// stdOnly forbids production files everything but the standard library
	// and what may allows.
	stdOnly bool
	// testing marks packages that only test files may import, and other rows
	// that have this mark.
	testing bool
	// open marks packages that every row may import, but for those of stdOnly
	// and those that never import it.
	open bool
	// root marks a composition root: it may import every row that isn't
	// testing.
	root bool
}

// layers is the table, low to high. Production files import what their row
// allows. Test files may besides import any lower row and any testing row, but
// for what never forbids. A package that no row covers fails the test: give it
// a row.
var layers = []layer{
	{path: "internal/layout"},
	{path: "internal/testwait", stdOnly: true, testing: true},
	{path: "internal/testneed", stdOnly: true, testing: true},
	{path: "internal/testneed/dockerd", may: []string{"internal/testneed", "internal/testwait"}, stdOnly: true, testing: true},
	{path: "internal/testneed/cluster", may: []string{"internal/testneed", "internal/testwait"}, stdOnly: true, testing: true},
	{path: "internal/failpoint", stdOnly: true, open: true},

	{path: "sdk", stdOnly: true},
	{path: "sdk/providertest/fake", may: []string{"sdk"}, stdOnly: true},
	{path: "sdk/providertest", may: []string{"sdk", "sdk/providertest/fake"}, stdOnly: true, testing: true},
	{path: "sdk/workloadtest", may: []string{"sdk", "sdk/providertest", "sdk/providertest/fake"}, stdOnly: true, testing: true},
	{path: "sdk/plugin", may: []string{"sdk"}},
	{path: "examples", may: []string{"sdk", "sdk/plugin"}},

	{path: "internal/pocket", never: everything},
	{path: "internal/telemetry", may: []string{"sdk"}},

	{path: "internal/cloud/reach", may: []string{"sdk"}},
	{path: "internal/cloud/budget", may: []string{"sdk"}},
	{path: "internal/cloud/hosted", may: []string{"sdk"}, stdOnly: true},
	{path: "internal/cloud/*", may: []string{"sdk", "internal/cloud/reach", "internal/cloud/budget", "internal/cloud/hosted"}},
	{path: "internal/cloud/argo", may: []string{"sdk", "internal/cloud/kube"}},
	{path: "internal/driver/launch", may: []string{"sdk"}, stdOnly: true},
	{path: "internal/driver/sight", stdOnly: true},
	{path: "internal/driver/noexec", may: []string{"sdk"}, stdOnly: true},
	{path: "internal/driver/turn", may: []string{"sdk"}, stdOnly: true},
	{path: "internal/driver/glance", stdOnly: true},
	{path: "internal/driver/resource", may: []string{"sdk"}, stdOnly: true},
	{path: "internal/driver/local", may: below("sdk")},
	{path: "internal/driver/docker", may: below("sdk", "internal/cloud/docker")},
	{path: "internal/driver/compose", may: below("sdk", "internal/cloud/docker")},
	{path: "internal/driver/kubernetes", may: below("sdk", "internal/cloud/kube", "internal/cloud/hosted")},
	{path: "internal/driver/argo", may: below("sdk", "internal/cloud/argo", "internal/cloud/kube")},
	{path: "internal/driver/ecs", may: below("sdk", "internal/cloud/aws")},
	{path: "internal/driver/batch", may: below("sdk", "internal/cloud/aws")},
	{path: "internal/driver/cloudrun", may: below("sdk", "internal/cloud/gcp")},
	{path: "internal/driver/aci", may: below("sdk", "internal/cloud/azure", "internal/cloud/registry")},
	{path: "internal/driver/appplatform", may: below("sdk", "internal/cloud/do", "internal/cloud/registry")},
	{path: "internal/driver/drivertest", may: []string{"sdk", "sdk/plugin", "sdk/providertest", "internal/pocket", "internal/testneed", "internal/testwait"}, stdOnly: true, testing: true},

	{path: "internal/joblog", may: []string{"sdk"}},
	{path: "internal/ledger", may: []string{"sdk"}},
	{path: "internal/ledger/sqlite", may: []string{"sdk", "internal/ledger"}},
	{path: "internal/ledger/ledgertest", may: []string{"sdk", "internal/ledger"}, testing: true},
	{path: "internal/secret", may: []string{"sdk"}},
	{path: "internal/price", may: []string{"sdk"}},
	{path: "internal/control", may: []string{"sdk", "internal/ledger", "internal/joblog", "internal/secret"}, never: drivers},
	{path: "internal/sandbox", may: []string{"sdk", "internal/ledger", "internal/joblog", "internal/control"}, never: drivers},
	{path: "internal/yamltree", may: []string{"sdk"}},
	{path: "internal/config", may: []string{"sdk", "internal/yamltree"}},
	{path: "internal/runner", may: []string{"sdk", "sdk/plugin", "internal/config", "internal/ledger", "internal/joblog", "internal/control", "internal/sandbox", "internal/yamltree"}, never: drivers},
	{path: "internal/credential", may: []string{"sdk", "internal/config"}},
	{path: "internal/discover", may: []string{"internal/config"}},
	{path: "internal/registry", may: []string{"sdk", "internal/config", "internal/credential", "internal/secret"}, never: drivers},
	{path: "internal/pluginhost/iac", may: []string{"sdk", "sdk/plugin", "internal/driver/launch"}},
	{path: "internal/pluginhost", may: []string{"sdk", "sdk/plugin", "internal/config", "internal/pluginhost/iac"}},
	{path: "internal/keeper", may: []string{"sdk", "internal/ledger", "internal/joblog", "internal/secret", "internal/control",
		"internal/config", "internal/credential", "internal/registry", "internal/pluginhost", "internal/telemetry"}, never: drivers},
	{path: "internal/step", may: []string{"sdk", "internal/config", "internal/sandbox", "internal/yamltree"}, never: drivers},
	{path: "internal/resource", may: []string{"sdk", "internal/config", "internal/yamltree"}, never: drivers},
	{path: "internal/cli", may: []string{"sdk", "internal/config", "internal/credential", "internal/ledger", "internal/joblog",
		"internal/discover", "internal/price", "internal/secret", "internal/registry", "internal/control", "internal/keeper", "internal/pluginhost", "internal/sandbox", "internal/runner", "internal/step", "internal/resource", "internal/telemetry"}, never: drivers},
	{path: "internal/driver/all", may: append([]string{"sdk", "sdk/providertest/fake", "internal/cloud/aws", "internal/cloud/azure", "internal/cloud/gcp"}, driverRows...)},

	{path: "internal/docgen", root: true},
	{path: "internal/notice", stdOnly: true},
	{path: "cmd", root: true},
	{path: "test", root: true, testing: true},
	{path: "bench", root: true, testing: true},
}

var (
	driverRows = []string{"internal/driver/local", "internal/driver/docker", "internal/driver/compose", "internal/driver/kubernetes",
		"internal/driver/argo", "internal/driver/ecs", "internal/driver/batch", "internal/driver/cloudrun", "internal/driver/aci",
		"internal/driver/appplatform"}
	// parts are what drivers share that belongs to no vendor.
	parts   = []string{"internal/driver/launch", "internal/driver/sight", "internal/driver/noexec", "internal/driver/turn", "internal/driver/glance", "internal/driver/resource"}
	drivers = append([]string{"internal/driver/all"}, driverRows...)
	// everything stands for all rows but those of testing.
	everything = []string{"*"}
)

// below returns what a driver may import: parts besides.
func below(rows ...string) []string { return append(rows, parts...) }

// environment names the packages that may read the process's environment,
// beside test files. In failpoint it is only under a build tag for crash tests.
var environment = []string{"internal/config", "internal/credential", "internal/failpoint", "internal/testneed", "sdk/plugin/cookie"}

// vague are package names that say nothing of what the package is for.
var vague = []string{"base", "common", "helper", "helpers", "misc", "shared", "types", "util", "utils"}

// maxLines bounds a file that people write.
const maxLines = 800
