//go:build !unix

package main

// enoughFiles: here memory is the only bound.
func enoughFiles() error { return nil }
