//go:build !unix

package joblog

func captureUntilKilled() {}
