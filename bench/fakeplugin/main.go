// Command fakeplugin is the fake backend as a plugin, for what starting one costs.
package main

import (
	"github.com/windlass-run/windlass/sdk/plugin"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func main() { plugin.Serve(fake.Driver()) }
