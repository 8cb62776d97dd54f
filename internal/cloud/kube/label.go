package kube

import (
	"regexp"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windlass-run/windlass/sdk"
)

// labelRule is what a label's value may be: 63 characters, letters and digits at
// the ends.
// https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
func labelRule() sdk.NameRule {
	return sdk.NameRule{Max: 63, AlnumEnds: true, Allowed: func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
	}}
}

// LabelValue fits any text into a label's value: different texts get different
// values. Empty stays empty.
func LabelValue(s string) string {
	if s == "" {
		return ""
	}
	return labelRule().Fit(s)
}

// CheckLabel returns what is wrong with a label that a user chose, or nothing.
func CheckLabel(key, value string) string {
	switch {
	case strings.HasPrefix(key, sdk.LabelPrefix):
		return "names that start with " + sdk.LabelPrefix + " are ours"
	case key == "job-name", key == "controller-uid", strings.HasPrefix(key, "batch.kubernetes.io/"):
		return "this label belongs to Kubernetes' own Job controller"
	}
	if msgs := validation.IsQualifiedName(key); len(msgs) > 0 {
		return strings.Join(msgs, "; ")
	}
	if msgs := validation.IsValidLabelValue(value); len(msgs) > 0 {
		return strings.Join(msgs, "; ")
	}
	return ""
}

// CheckName returns what is wrong with the name of an object, or nothing.
// https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
func CheckName(name string) string {
	return strings.Join(validation.IsDNS1123Subdomain(name), "; ")
}

var keyForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[-._a-zA-Z0-9]{1,253}$`) })

// CheckKey returns what is wrong with a key of a Secret, or nothing.
// https://kubernetes.io/docs/concepts/configuration/secret/#restriction-names-data
func CheckKey(key string) string {
	if !keyForm().MatchString(key) || key == "." || key == ".." {
		return "a Secret's keys have letters, digits, -, _ and . only"
	}
	return ""
}

// Escape keeps text as it is through Kubernetes' own expansion of $(NAME): $$
// stands for one $.
// https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
func Escape(s string) string { return strings.ReplaceAll(s, "$", "$$") }
