package gapi

import (
	"unicode"
	"unicode/utf8"
)

// maxLabel is in characters.
const maxLabel = 63

// LegalLabel says whether key and value may be a label's: up to 63 lowercase
// letters, numerals, underscores and hyphens each, the key beginning with a
// letter. International characters are allowed. See
// https://cloud.google.com/resource-manager/docs/creating-managing-labels
func LegalLabel(key, value string) bool {
	first, _ := utf8.DecodeRuneInString(key)
	return lowerLetter(first) && legalText(key) && legalText(value)
}

func legalText(text string) bool {
	n := 0
	for _, r := range text {
		if n++; n > maxLabel || !lowerLetter(r) && !unicode.IsNumber(r) && r != '_' && r != '-' {
			return false
		}
	}
	return true
}

// lowerLetter takes letters without a case too.
func lowerLetter(r rune) bool {
	return r != utf8.RuneError && unicode.IsLetter(r) && !unicode.IsUpper(r) && !unicode.IsTitle(r)
}
