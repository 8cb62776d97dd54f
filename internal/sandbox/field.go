package sandbox

import (
	"fmt"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// field is one value that a step sets, under its own name and that of the job.
type field struct {
	name, job string
	set       func(Exec) bool
}

func fields() []field {
	return []field{
		{"image", "image", func(e Exec) bool { return e.Image != "" }},
		{"command", "args", func(e Exec) bool { return e.Command != nil }},
		{"image_entrypoint", "image_entrypoint", func(e Exec) bool { return e.ImageEntrypoint != nil }},
		{"env", "env", func(e Exec) bool { return len(e.Env) > 0 }},
		{"secrets", "secrets", func(e Exec) bool { return len(e.Secrets) > 0 }},
		{"allow_visible_secret", "allow_visible_secret", func(e Exec) bool { return e.AllowVisibleSecret }},
		{"mounts", "mounts", func(e Exec) bool { return len(e.Mounts) > 0 }},
		{"work_dir", "workdir", func(e Exec) bool { return e.WorkDir != "" }},
		{"tmpfs", "mounts", func(e Exec) bool { return len(e.Tmpfs) > 0 }},
		{"memory_limit", "memory", func(e Exec) bool { return e.Memory != 0 }},
		{"cpu_limit", "cpu", func(e Exec) bool { return e.CPU != 0 }},
		{"timeout", "timeout", func(e Exec) bool { return e.Timeout != 0 }},
		{"start_timeout", "start_timeout", func(e Exec) bool { return e.StartTimeout != 0 }},
		{"ttl", "ttl", func(e Exec) bool { return e.TTL != 0 }},
		{"network", "network", func(e Exec) bool { return e.Network != "" }},
		{"security_profile", "profile", func(e Exec) bool { return e.Profile != sdk.ProfileUnset }},
	}
}

// Fields returns the fields of a step that an environment honours or refuses,
// in the order of the documents.
func Fields() []string {
	var out []string
	for _, f := range fields() {
		out = append(out, f.name)
	}
	return out
}

// IsSet reports whether an execution sets a field of Fields.
func (e Exec) IsSet(name string) bool {
	for _, f := range fields() {
		if f.name == name {
			return f.set(e)
		}
	}
	return false
}

// Refused returns a problem for every field that is set and that the
// environment's Support refuses as a whole.
func Refused(env Environment, e Exec) []sdk.Problem {
	var ps []sdk.Problem
	for _, row := range env.Support() {
		if row.Refused != "" && e.IsSet(row.Field) {
			ps = append(ps, sdk.Problem{Field: row.Field, Message: row.Refused, Code: sdk.Unimplemented})
		}
	}
	return ps
}

// jobName returns JobSpec's name of a step's field.
func jobName(name string) string {
	for _, f := range fields() {
		if f.name == name {
			return f.job
		}
	}
	return name
}

// Field returns what a step's config calls a field that a problem of a job
// names. Of the job's mounts the first ones are the step's mounts, the rest its
// tmpfs.
func Field(job string, mounts int) string {
	head, rest := job, ""
	if i := strings.IndexAny(job, ".["); i >= 0 {
		head, rest = job[:i], job[i:]
	}
	if head == "mounts" {
		var n int
		if _, err := fmt.Sscanf(rest, "[%d]", &n); err == nil && n >= mounts {
			_, after, _ := strings.Cut(rest, "]")
			return fmt.Sprintf("tmpfs[%d]%s", n-mounts, after)
		}
		return job
	}
	for _, f := range fields() {
		if f.job == head {
			return f.name + rest
		}
	}
	return job
}
