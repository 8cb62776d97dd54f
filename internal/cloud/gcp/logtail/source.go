package logtail

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"
)

// The logs of output, and the labels that say whose it is.
// https://cloud.google.com/run/docs/logging
const (
	logStdout      = "run.googleapis.com%2Fstdout"
	logStderr      = "run.googleapis.com%2Fstderr"
	labelExecution = "run.googleapis.com/execution_name"
	labelInstance  = "instanceId"
	typeRevision   = "cloud_run_revision"
)

// source is whose output is read: an execution of a job, or else a service of a
// region.
type source struct{ execution, region, service string }

func (s source) compare(t source) int {
	return cmp.Or(cmp.Compare(s.execution, t.execution), cmp.Compare(s.region, t.region), cmp.Compare(s.service, t.service))
}

// sourceOf tells whose an entry is.
// https://cloud.google.com/monitoring/api/resources#tag_cloud_run_revision
func sourceOf(e *loggingpb.LogEntry) source {
	if r := e.GetResource(); r.GetType() == typeRevision {
		return source{region: r.GetLabels()["location"], service: r.GetLabels()["service_name"]}
	}
	return source{execution: e.GetLabels()[labelExecution]}
}

// filter selects the output of the followers' sources.
// https://cloud.google.com/logging/docs/view/logging-query-language
func filter(project string, group []*follower) string {
	var names []string
	services := map[string][]string{}
	var since time.Time
	for i, f := range group {
		if f.source.service != "" {
			services[f.source.region] = append(services[f.source.region], fmt.Sprintf("%q", f.source.service))
		} else {
			names = append(names, fmt.Sprintf("%q", f.source.execution))
		}
		if at := f.since(); i == 0 || at.Before(since) {
			since = at
		}
	}
	var whose []string
	if len(names) > 0 {
		whose = append(whose, fmt.Sprintf(`resource.type="cloud_run_job" AND labels.%q=(%s)`, labelExecution, alternatives(names)))
	}
	for region, list := range services {
		whose = append(whose, fmt.Sprintf(`resource.type=%q AND resource.labels.location=%q AND resource.labels.service_name=(%s)`, typeRevision, region, alternatives(list)))
	}
	slices.Sort(whose)
	s := whose[0]
	if len(whose) > 1 {
		s = "((" + strings.Join(whose, ") OR (") + "))"
	}
	s += fmt.Sprintf(` AND logName=("projects/%s/logs/%s" OR "projects/%[1]s/logs/%[3]s")`, project, logStdout, logStderr)
	if !since.IsZero() {
		s += ` AND timestamp>="` + since.UTC().Format(time.RFC3339Nano) + `"`
	}
	return s
}

func alternatives(names []string) string {
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " OR ")
}
