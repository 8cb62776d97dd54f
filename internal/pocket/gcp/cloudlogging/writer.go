package cloudlogging

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/logging/apiv2/loggingpb"
	"google.golang.org/genproto/googleapis/api/monitoredres"
	ltype "google.golang.org/genproto/googleapis/logging/type"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// maxEntry is how much of a line one entry holds, so that with its labels it
// stays under the 256 KiB that an entry may have:
// https://cloud.google.com/logging/quotas
const maxEntry = 250 << 10

// maxLine bounds a line that doesn't end: what there is of it is written.
const maxLine = 4 << 20

// The logs of Cloud Run:
// https://cloud.google.com/run/docs/logging
const (
	stdout = "run.googleapis.com/stdout"
	stderr = "run.googleapis.com/stderr"
	system = "run.googleapis.com/varlog/system"
)

// Source is what entries come from: the attempt of a task, or where Service is
// set, an instance of a revision.
type Source struct {
	Location, Job, Execution string
	Task, Attempt            int
	Service, Revision        string
	// Instance is an ID of the container instance.
	Instance string
}

// Container takes a container's output. Lines end at \n, which isn't kept. A
// line that is a JSON object becomes a jsonPayload, its special members fields
// of the entry: https://cloud.google.com/logging/docs/structured-logging
type Container struct {
	service  *Service
	resource *monitoredres.MonitoredResource
	labels   map[string]string

	mu    sync.Mutex
	lines []*lines
}

// Open returns the output of a container.
func (s *Service) Open(from Source) *Container {
	if from.Service != "" {
		// https://cloud.google.com/monitoring/api/resources#tag_cloud_run_revision
		return &Container{
			service: s,
			resource: &monitoredres.MonitoredResource{Type: "cloud_run_revision", Labels: map[string]string{"project_id": s.o.Project.ID,
				"location": from.Location, "service_name": from.Service, "revision_name": from.Revision, "configuration_name": from.Service}},
			labels: map[string]string{"instanceId": from.Instance},
		}
	}
	return &Container{
		service: s,
		resource: &monitoredres.MonitoredResource{Type: "cloud_run_job",
			Labels: map[string]string{"project_id": s.o.Project.ID, "location": from.Location, "job_name": from.Job}},
		labels: map[string]string{"run.googleapis.com/execution_name": from.Execution, "run.googleapis.com/task_index": strconv.Itoa(from.Task),
			"run.googleapis.com/task_attempt": strconv.Itoa(from.Attempt), "instanceId": from.Instance},
	}
}

// Stdout returns the writer for standard output, for one goroutine.
func (c *Container) Stdout() io.Writer { return c.writer(stdout) }

// Stderr returns the writer for standard error, for one goroutine.
func (c *Container) Stderr() io.Writer { return c.writer(stderr) }

func (c *Container) writer(log string) io.Writer {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &lines{container: c, log: log}
	c.lines = append(c.lines, l)
	return l
}

// System writes a message of the platform.
func (c *Container) System(severity ltype.LogSeverity, text string) {
	e := c.entry(system)
	e.Severity, e.Payload = severity, &loggingpb.LogEntry_TextPayload{TextPayload: text}
	c.service.add(e)
}

// Close writes what is left of unfinished lines. No writer is used any more.
func (c *Container) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lines {
		if len(l.rest) > 0 {
			c.service.add(c.entries(l.log, l.rest)...)
			l.rest = nil
		}
	}
}

func (c *Container) entry(log string) *loggingpb.LogEntry {
	return &loggingpb.LogEntry{LogName: "projects/" + c.service.o.Project.ID + "/logs/" + url.PathEscape(log),
		Resource: c.resource, Labels: maps.Clone(c.labels)}
}

// entries makes a line's entries: one, or several for a long one.
func (c *Container) entries(log string, line []byte) []*loggingpb.LogEntry {
	if len(line) <= maxEntry {
		e := c.entry(log)
		if !structured(e, line) {
			e.Payload = &loggingpb.LogEntry_TextPayload{TextPayload: strings.ToValidUTF8(string(line), "\ufffd")}
		}
		return []*loggingpb.LogEntry{e}
	}
	var parts []*loggingpb.LogEntry
	for len(line) > 0 {
		n := min(maxEntry, len(line))
		for n < len(line) && n > maxEntry-utf8.UTFMax && !utf8.RuneStart(line[n]) {
			n--
		}
		e := c.entry(log)
		e.Payload = &loggingpb.LogEntry_TextPayload{TextPayload: strings.ToValidUTF8(string(line[:n]), "\ufffd")}
		parts = append(parts, e)
		line = line[n:]
	}
	uid := fmt.Sprintf("%x", c.service.o.Now().UnixNano())
	for i, e := range parts {
		e.Split = &loggingpb.LogSplit{Uid: uid, Index: int32(i), TotalSplits: int32(len(parts))} //nolint:gosec // a line has 4 MiB at most
	}
	return parts
}

// structured fills an entry from a line that is a JSON object.
func structured(e *loggingpb.LogEntry, line []byte) bool {
	if trimmed := bytes.TrimSpace(line); len(trimmed) == 0 || trimmed[0] != '{' {
		return false
	}
	var members map[string]any
	if json.Unmarshal(line, &members) != nil || !utf8.Valid(line) {
		return false
	}
	if text, ok := members["severity"].(string); ok {
		if severity, ok := ltype.LogSeverity_value[strings.ToUpper(text)]; ok {
			e.Severity = ltype.LogSeverity(severity)
			delete(members, "severity")
		}
	}
	if text, ok := members["time"].(string); ok {
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
			e.Timestamp = timestamppb.New(at)
			delete(members, "time")
		}
	}
	take := func(name string, set func(string)) {
		if text, ok := members["logging.googleapis.com/"+name].(string); ok {
			set(text)
			delete(members, "logging.googleapis.com/"+name)
		}
	}
	take("insertId", func(v string) { e.InsertId = v })
	take("trace", func(v string) { e.Trace = v })
	take("spanId", func(v string) { e.SpanId = v })
	if labels, ok := members["logging.googleapis.com/labels"].(map[string]any); ok {
		for k, v := range labels {
			if text, ok := v.(string); ok {
				e.Labels[k] = text
			}
		}
		delete(members, "logging.googleapis.com/labels")
	}
	payload, err := structpb.NewStruct(members)
	if err != nil {
		return false
	}
	e.Payload = &loggingpb.LogEntry_JsonPayload{JsonPayload: payload}
	return true
}

// lines cuts one output into lines.
type lines struct {
	container *Container
	log       string
	rest      []byte
}

// Write takes output in any portions.
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	var list []*loggingpb.LogEntry
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		line := p[:i]
		if len(l.rest) > 0 {
			line = append(l.rest, line...)
			l.rest = nil
		}
		list = append(list, l.container.entries(l.log, line)...)
		p = p[i+1:]
	}
	l.rest = append(l.rest, p...)
	if len(l.rest) >= maxLine {
		list = append(list, l.container.entries(l.log, l.rest)...)
		l.rest = nil
	}
	if len(list) > 0 {
		l.container.service.add(list...)
	}
	return n, nil
}
