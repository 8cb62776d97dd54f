package sandbox

import (
	"fmt"
	"strings"
)

// jobField maps JobSpec's fields to those of a step that have another name.
func jobField(name string) string {
	switch name {
	case "args":
		return "command"
	case "workdir":
		return "work_dir"
	case "memory":
		return "memory_limit"
	case "cpu":
		return "cpu_limit"
	case "profile":
		return "security_profile"
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
	}
	return jobField(head) + rest
}
