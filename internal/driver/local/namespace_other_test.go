//go:build darwin

package local

const elsewhereVerb = "look-from-elsewhere"

func elsewhere([]string) int { return 1 }
