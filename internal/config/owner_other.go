//go:build !unix

package config

import "io/fs"

// Owners and modes say nothing on systems with access lists; a folder in the
// user's profile is private there.
const checksModes = false

// writable leaves it to the first write to find out.
func writable(string) bool { return true }

func notMine(fs.FileInfo) string { return "" }

func stranger(fs.FileInfo, string) string { return "" }
