package gcp

import (
	"fmt"

	"github.com/windlass-run/windlass/sdk"
)

// The bounds of labels.
// https://cloud.google.com/resource-manager/docs/creating-managing-labels
const (
	MaxLabels     = 64
	MaxLabelBytes = 63
)

// CheckLabel returns what is wrong with a label, or nothing.
func CheckLabel(key, value string) string {
	switch {
	case key == "":
		return "a label needs a name"
	case len(key) > MaxLabelBytes || len(value) > MaxLabelBytes:
		return fmt.Sprintf("a label's name and value have at most %d characters", MaxLabelBytes)
	case key[0] < 'a' || key[0] > 'z':
		return "a label's name begins with a lowercase letter"
	}
	for _, s := range []string{key, value} {
		for i := 0; i < len(s); i++ {
			if !labelByte(s[i]) {
				return fmt.Sprintf("%q may not stand in a label; lowercase letters, digits, _ and - may", s[i])
			}
		}
	}
	return ""
}

func labelByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// LabelValue returns a legal value of a label for a text; different texts have
// different values.
func LabelValue(s string) string {
	if s == "" {
		return ""
	}
	return sdk.NameRule{Max: MaxLabelBytes, Lower: true, Allowed: labelByte}.Fit(s)
}
