package argo

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// tag begins what Argo substitutes, in every text of a Workflow and of its pod, and
// there is no way to escape it.
// https://argo-workflows.readthedocs.io/en/latest/variables/
const tag = "{{"

// substituted is the problem with a text that can't be kept from it.
const substituted = "Argo would substitute what stands in {{ }} here; leave it out"

// emptyName is a variable without a value. Kubernetes expands $(NAME) in arguments and
// variables when the container starts, after Argo has substituted, so that an empty
// one keeps two braces apart until then.
const emptyName = "WINDLASS_EMPTY"

// apart keeps all braces of a text apart.
func apart(s string) string {
	if !strings.Contains(s, tag) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		b.WriteByte(s[i])
		if s[i] == '{' && i+1 < len(s) && s[i+1] == '{' {
			b.WriteString("$(" + emptyName + ")")
		}
	}
	return b.String()
}

// escape keeps Argo from substituting in what Kubernetes expands: arguments and
// variables, whose own $ are escaped already. It reports whether anything was to be
// done.
func escape(c *corev1.Container) (changed bool) {
	each := func(s *string) {
		if to := apart(*s); to != *s {
			*s, changed = to, true
		}
	}
	for i := range c.Command {
		each(&c.Command[i])
	}
	for i := range c.Args {
		each(&c.Args[i])
	}
	for i := range c.Env {
		each(&c.Env[i].Value)
	}
	if changed {
		// A variable's value may only refer to those before it.
		c.Env = append([]corev1.EnvVar{{Name: emptyName}}, c.Env...)
	}
	return changed
}
