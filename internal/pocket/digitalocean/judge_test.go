package digitalocean

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/digitalocean/godo"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// official are DigitalOcean's own specifications: testdata/official/README.md.
type official struct {
	openapi doc
	spec    *jsonschema.Schema // of a request that creates an app
	specDoc doc
	schemas map[string]*jsonschema.Schema // of openapi, by pointer
}

const openAPI = "https://example.com/apps.openapi.json"

var judges struct {
	once sync.Once
	*official
	mu sync.Mutex
}

// theJudge reads the specifications once for all tests.
func theJudge(t testing.TB) *official {
	t.Helper()
	judges.once.Do(func() {
		load := func(name string) any {
			data, err := os.ReadFile(filepath.Join("testdata", "official", name))
			if err != nil {
				t.Fatal(err)
			}
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		o := &official{openapi: load("apps.openapi.json").(doc), specDoc: load("app-create-schema.json").(doc), schemas: map[string]*jsonschema.Schema{}}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("https://example.com/create.json", o.specDoc); err != nil {
			t.Fatal(err)
		}
		var err error
		if o.spec, err = c.Compile("https://example.com/create.json"); err != nil {
			t.Fatal(err)
		}
		judges.official = o
	})
	if judges.official == nil {
		t.Fatal("the specifications can't be read")
	}
	return judges.official
}

// at follows a pointer of the document.
func (o *official) at(pointer string) any {
	var v any = o.openapi
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "#/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		m, ok := v.(doc)
		if !ok {
			return nil
		}
		v = m[part]
	}
	return v
}

// schema compiles a part of the document.
func (o *official) schema(pointer string) (*jsonschema.Schema, error) {
	judges.mu.Lock()
	defer judges.mu.Unlock()
	if s := o.schemas[pointer]; s != nil {
		return s, nil
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft4) // OpenAPI 3.0 has its keywords
	c.AssertFormat()
	if err := c.AddResource(openAPI, o.openapi); err != nil {
		return nil, err
	}
	s, err := c.Compile(openAPI + pointer)
	if err == nil {
		o.schemas[pointer] = s
	}
	return s, err
}

// operation finds an operation and the pointer to it by its ID.
func (o *official) operation(id string) (pointer, path, method string, op doc) {
	for path, item := range o.openapi["paths"].(doc) {
		for method, op := range item.(doc) {
			if m, ok := op.(doc); ok && m["operationId"] == id {
				return "#/paths/" + strings.ReplaceAll(path, "/", "~1") + "/" + method, path, method, m
			}
		}
	}
	return "", "", "", nil
}

const jsonBody = "/content/application~1json/schema"

// reply is the pointer to the schema of an operation's reply.
func (o *official) reply(op doc, pointer string) string {
	response := op["responses"].(doc)["200"].(doc)
	if ref, ok := response["$ref"].(string); ok {
		return ref + jsonBody
	}
	return pointer + "/responses/200" + jsonBody
}

// newer are members and values that godo 1.239 has and the document hasn't: the
// client's own types are the later word.
var newer = []*regexp.Regexp{
	regexp.MustCompile(`\.(previous_deployment_id|cause_details|last_deployment_active_at)$`),
	regexp.MustCompile(`\.jobs\.(schedule|timeout)$`),
	regexp.MustCompile(`\.spec\.envs$`),
	regexp.MustCompile(`^\.meta$`), // of job invocations
	regexp.MustCompile(`^\.(max_free_static_apps|existing_starter_apps|max_free_starter_apps)$`),
	regexp.MustCompile(`/jobs/\d+/kind: `), // SCHEDULED
	regexp.MustCompile(`/trigger/type: `),  // SCHEDULED, where the document has SCHEDULE
}

func isNewer(text string) bool {
	return slices.ContainsFunc(newer, func(r *regexp.Regexp) bool { return r.MatchString(text) })
}

// unknown lists the members of a value that a schema of the document doesn't
// know.
func (o *official) unknown(schema doc, v any, path string) []string {
	switch v := v.(type) {
	case []any:
		items, _ := o.flat(schema)["items"].(doc)
		var out []string
		for _, inner := range v {
			if items != nil {
				out = append(out, o.unknown(items, inner, path)...)
			}
		}
		return out
	case doc:
		flat := o.flat(schema)
		members, _ := flat["properties"].(doc)
		if members == nil {
			return nil // it may hold anything
		}
		var out []string
		for name, inner := range v {
			member, ok := members[name].(doc)
			if !ok {
				out = append(out, path+"."+name)
				continue
			}
			out = append(out, o.unknown(member, inner, path+"."+name)...)
		}
		return out
	}
	return nil
}

// flat joins what a schema is composed of.
func (o *official) flat(schema doc) doc {
	if ref, ok := schema["$ref"].(string); ok {
		return o.flat(o.at(ref).(doc))
	}
	out, members := doc{}, doc{}
	for k, v := range schema {
		out[k] = v
	}
	add := func(s doc) {
		for k, v := range s {
			if k == "properties" {
				for name, member := range v.(doc) {
					members[name] = member
				}
			} else if out[k] == nil {
				out[k] = v
			}
		}
	}
	if p, ok := schema["properties"].(doc); ok {
		add(doc{"properties": p})
	}
	for _, kind := range []string{"allOf", "anyOf", "oneOf"} {
		parts, _ := schema[kind].([]any)
		for _, part := range parts {
			add(o.flat(part.(doc)))
		}
	}
	if len(members) > 0 {
		out["properties"] = members
	}
	return out
}

// failures are the leaves of what a validation found.
func failures(err error) []string {
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return []string{err.Error()}
	}
	var out []string
	var visit func(e *jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			out = append(out, fmt.Sprintf("/%s: %s", strings.Join(e.InstanceLocation, "/"), e.Error()))
		}
		for _, c := range e.Causes {
			visit(c)
		}
	}
	visit(v)
	return out
}

// verdict lists what is wrong with a call: a request that was taken, or a reply.
func (o *official) verdict(action string, status int, request, reply []byte) []string {
	pointer, _, _, op := o.operation(action)
	if op == nil {
		if action == "account_get" {
			return nil // of another part of the document
		}
		return []string{"no such operation"}
	}
	var wrong []string
	check := func(what, pointer string, body []byte) {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v: %s", what, err, body))
			return
		}
		s, err := o.schema(pointer)
		if err != nil {
			wrong = append(wrong, err.Error())
			return
		}
		if err := s.Validate(v); err != nil {
			for _, f := range failures(err) {
				if !isNewer(f) {
					wrong = append(wrong, what+": "+f)
				}
			}
		}
		for _, name := range o.unknown(o.at(pointer).(doc), v, "") {
			if !isNewer(name) {
				wrong = append(wrong, what+": unknown "+name)
			}
		}
	}
	if status != 200 {
		check("error", "#/components/schemas/error", reply)
		return wrong
	}
	// Where all is optional, clients send nothing or null.
	if op["requestBody"] != nil && len(request) > 0 && string(bytes.TrimSpace(request)) != "null" {
		check("request", pointer+"/requestBody"+jsonBody, request)
	}
	target := o.reply(op, pointer)
	if schema, ok := o.at(target).(doc); ok && strings.Contains(action, "_job_invocation") && schema["$ref"] == "#/components/schemas/app_job_invocation" {
		// The document says so in words, and its schema forgets the envelope.
		var envelope map[string]json.RawMessage
		if err := json.Unmarshal(reply, &envelope); err != nil || len(envelope) != 1 {
			return append(wrong, fmt.Sprintf("reply: want job_invocation alone: %s", reply))
		}
		reply = envelope["job_invocation"]
	}
	check("reply", target, reply)
	if action == "apps_create" {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(request))
		if err == nil {
			err = o.spec.Validate(v)
		}
		if err != nil {
			wrong = append(wrong, "the official schema of an app: "+err.Error())
		}
		for _, name := range o.unknown(o.specDoc, v, "") {
			wrong = append(wrong, "the official schema of an app: unknown "+name)
		}
	}
	return wrong
}

// typed are what godo decodes a reply into; its roots aren't exported.
var typed = map[string]reflect.Type{
	"apps_create": reflect.TypeFor[struct {
		App godo.App `json:"app"`
	}](),
	"apps_get": reflect.TypeFor[struct {
		App godo.App `json:"app"`
	}](),
	"apps_update": reflect.TypeFor[struct {
		App godo.App `json:"app"`
	}](),
	"apps_validate_appSpec": reflect.TypeFor[godo.AppProposeResponse](),
	"apps_list_regions": reflect.TypeFor[struct {
		Regions []godo.AppRegion `json:"regions"`
	}](),
	"apps_list_instanceSizes": reflect.TypeFor[struct {
		Sizes []godo.AppInstanceSize `json:"instance_sizes"`
	}](),
	"apps_get_deployment": reflect.TypeFor[struct {
		Deployment godo.Deployment `json:"deployment"`
	}](),
	"apps_create_deployment": reflect.TypeFor[struct {
		Deployment godo.Deployment `json:"deployment"`
	}](),
	"apps_get_job_invocation": reflect.TypeFor[struct {
		Invocation godo.JobInvocation `json:"job_invocation"`
	}](),
	"apps_cancel_job_invocation": reflect.TypeFor[struct {
		Invocation godo.JobInvocation `json:"job_invocation"`
	}](),
	"apps_get_logs":           reflect.TypeFor[godo.AppLogs](),
	"apps_get_logs_aggregate": reflect.TypeFor[godo.AppLogs](),
	"account_get": reflect.TypeFor[struct {
		Account godo.Account `json:"account"`
	}](),
}

// ofGodo says what godo would not make of a reply.
func ofGodo(action string, reply []byte) string {
	t, ok := typed[action]
	if !ok {
		return ""
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(reply))
	if err != nil {
		return err.Error()
	}
	if e := fits(v, t, ""); e != nil {
		return e.Message
	}
	return ""
}

// judge checks every call that a test made.
func (c *cloud) judge(t testing.TB) {
	t.Helper()
	o := theJudge(t)
	seen := map[string]bool{}
	for _, call := range c.Calls().Calls("") {
		if strings.HasPrefix(call.Action, "log_") || call.Status == 0 {
			continue
		}
		if call.Status == 200 {
			if w := ofGodo(call.Action, call.Reply); w != "" {
				t.Errorf("godo doesn't know of %s: %s", call.Action, w)
			}
		}
		for _, w := range o.verdict(call.Action, call.Status, call.Request, call.Reply) {
			if text := call.Action + ": " + w; !seen[text] {
				seen[text] = true
				t.Errorf("DigitalOcean's specification says of %s", text)
			}
		}
	}
}

// TestJudge makes sure that the judge sees faults on both sides.
func TestJudge(t *testing.T) {
	o := theJudge(t)
	const spec = `{"spec":{"name":"app","jobs":[{"name":"main"}]}}`
	for name, k := range map[string]struct {
		action         string
		status         int
		request, reply string
		want           string
	}{
		"right":          {"apps_create", 200, spec, `{"app":{"id":"x","spec":{"name":"app"},"created_at":"2026-01-01T00:00:00Z"}}`, ""},
		"bad name":       {"apps_create", 200, `{"spec":{"name":"App"}}`, `{}`, "request: /spec/name"},
		"wrong type":     {"apps_create", 200, `{"spec":{"name":"app","jobs":[{"name":"main","instance_count":"1"}]}}`, `{}`, "official schema"},
		"unknown member": {"apps_create", 200, `{"spec":{"name":"app","jobs":[{"name":"main","comand":"x"}]}}`, `{}`, "unknown .spec.jobs.comand"},
		"unknown reply":  {"apps_get", 200, ``, `{"app":{"spec":{"name":"app"},"nosuch":1}}`, "reply: unknown .app.nosuch"},
		"phase":          {"apps_get_deployment", 200, ``, `{"deployment":{"phase":"DONE"}}`, "reply: /deployment/phase"},
		"time":           {"apps_get_deployment", 200, ``, `{"deployment":{"created_at":"today"}}`, "reply: /deployment/created_at"},
		"invocation":     {"apps_get_job_invocation", 200, ``, `{"job_invocation":{"phase":"DONE"}}`, "reply: /phase"},
		"no envelope":    {"apps_get_job_invocation", 200, ``, `{"id":"x","phase":"FAILED"}`, "want job_invocation alone"},
		"error":          {"apps_get", 404, ``, `{"id":"not_found"}`, "error: /"},
		"no operation":   {"apps_start_job", 200, ``, `{}`, "no such operation"},
	} {
		got := strings.Join(o.verdict(k.action, k.status, []byte(k.request), []byte(k.reply)), "\n")
		if (k.want == "") != (got == "") || !strings.Contains(got, k.want) {
			t.Errorf("%s: the judge says %q, want %q", name, got, k.want)
		}
	}
}

// TestOperations compares the operations with the document's: path, method,
// scope and parameters.
func TestOperations(t *testing.T) {
	o := theJudge(t)
	variable := regexp.MustCompile(`\{[a-z_]+\}`)
	for _, r := range routes() {
		if r.action == "account_get" {
			continue
		}
		_, path, method, op := o.operation(r.action)
		if op == nil {
			t.Errorf("the document has no %s", r.action)
			continue
		}
		if variable.ReplaceAllString(path, "{}") != variable.ReplaceAllString(r.pattern, "{}") || !strings.EqualFold(method, r.method) {
			t.Errorf("%s is %s %s, not %s %s", r.action, method, path, r.method, r.pattern)
		}
		if scopes := fmt.Sprint(op["security"]); op["security"] != nil && !strings.Contains(scopes, r.scope) {
			t.Errorf("%s needs %s, not %s", r.action, scopes, r.scope)
		}
		var want []string
		list, _ := op["parameters"].([]any)
		for _, p := range list {
			p := p.(doc)
			if ref, ok := p["$ref"].(string); ok {
				p = o.at(ref).(doc)
			}
			if p["in"] == "query" {
				want = append(want, p["name"].(string))
			}
		}
		for _, name := range r.query {
			// godo names the component in the query, and asks for a tail.
			if !slices.Contains(want, name) && name != "component_name" && name != "tail_lines" {
				t.Errorf("%s has no parameter %s", r.action, name)
			}
		}
		for _, name := range want {
			if !slices.Contains(r.query, name) {
				t.Errorf("%s doesn't take the parameter %s", r.action, name)
			}
		}
	}
}
