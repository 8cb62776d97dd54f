package azure

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/windlass-run/windlass/sdk"
)

// The bounds of tags.
// https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/tag-resources#limitations
const (
	MaxTags      = 50
	maxTagName   = 512
	maxTagValue  = 256
	tagForbidden = `<>%&\?/`
)

// CheckTag returns what is wrong with a tag, or nothing.
func CheckTag(name, value string) string {
	switch {
	case name == "":
		return "a tag needs a name"
	case !utf8.ValidString(name) || !utf8.ValidString(value):
		return "a tag is text in UTF-8"
	case utf8.RuneCountInString(name) > maxTagName:
		return fmt.Sprintf("a tag's name has at most %d characters", maxTagName)
	case utf8.RuneCountInString(value) > maxTagValue:
		return fmt.Sprintf("a tag's value has at most %d characters", maxTagValue)
	case strings.ContainsAny(name, tagForbidden):
		return "a tag's name has none of the characters " + tagForbidden
	case strings.TrimSpace(name) != name:
		return "a tag's name neither begins nor ends with a space"
	}
	for _, prefix := range []string{"microsoft", "azure", "windows"} {
		if strings.HasPrefix(strings.ToLower(name), prefix) {
			return "names that start with " + prefix + " are Azure's own"
		}
	}
	return ""
}

// TagValue returns a legal value of a tag for a text; different texts have
// different values. A text that fits stays as it is.
func TagValue(s string) string {
	if s == "" {
		return ""
	}
	other := func(c rune) bool { return c > unicode.MaxASCII }
	// What is fitted is ASCII, so that a text with other letters is like none of it.
	if CheckTag("name", s) == "" && strings.ContainsFunc(s, other) && !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	return sdk.NameRule{Max: maxTagValue, Allowed: func(c byte) bool { return c >= 0x20 && c < 0x7f }}.Fit(s)
}
