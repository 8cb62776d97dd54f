//go:build !unix

package pluginhost

// changeable says nothing here: rights aren't modes.
func changeable(string) string { return "" }
