package gcp

import (
	"strings"
	"testing"

	"cloud.google.com/go/run/apiv2/runpb"
)

// ruleCase is a call that breaks a rule.
type ruleCase struct {
	rule string
	call call
}

// call is one by REST.
type call struct {
	method, path string
	body         any
}

func newCall(method, path string, body any) call { return call{method, path, body} }

// serviceCases break the rules of services and of their measurement.
func serviceCases(t *testing.T, c *cloud) []ruleCase {
	first := c.host(t, "taken", serviceOf(1, "sleep", "60"))
	c.patch(t, first.Name, func(v *runpb.Service) { v.Template.Revision = "taken-named" })
	services := "/v2/" + parent + "/services"
	one := "/v2/" + first.Name
	series := "/v3/projects/" + Project + "/timeSeries"
	good := doc{"template": doc{"containers": []any{doc{"image": "app", "command": []any{"sleep", "60"}}}}, "scaling": doc{"scalingMode": "MANUAL", "manualInstanceCount": 1}}
	create := func(changes doc) call { return newCall("POST", services+"?serviceId=new", with(good, changes)) }
	const box = "template.containers.0."
	limits := func(cpu, memory string) call {
		return create(doc{box + "resources": doc{"limits": doc{"cpu": cpu, "memory": memory}}})
	}
	return []ruleCase{
		{"run-service-missing", newCall("GET", services+"/none", nil)},
		{"run-service-missing", newCall("PATCH", services+"/none", good)},
		{"run-service-missing", newCall("DELETE", services+"/none", nil)},
		{"run-service-missing", newCall("GET", services+"/none/revisions", nil)},
		{"run-revision-missing", newCall("GET", one+"/revisions/none", nil)},
		{"run-revision-missing", newCall("DELETE", services+"/none/revisions/none", nil)},
		{"run-revision-serves", newCall("DELETE", one+"/revisions/taken-named", nil)},
		{"run-service-id", newCall("POST", services, good)},
		{"run-service-id", newCall("POST", services+"?serviceId="+strings.Repeat("a", 50), good)},
		{"run-service-name", create(doc{"name": parent + "/services/new"})},
		{"run-service-exists", newCall("POST", services+"?serviceId=taken", good)},
		{"run-service-required", create(doc{"template": nil})},
		{"run-update-mask", newCall("PATCH", one+"?updateMask=scaling.no", good)},
		{"run-etag", newCall("PATCH", one, with(good, doc{"etag": "x"}))},
		{"run-etag", newCall("DELETE", one+"?etag=x", nil)},
		{"run-revision-name", create(doc{"template.revision": "other"})},
		// Under a revision's name not even the scaling may change.
		{"run-revision-taken", newCall("PATCH", one+"?updateMask=scaling.manualInstanceCount", doc{"scaling": doc{"manualInstanceCount": 2}})},
		{"run-revision-taken", newCall("PATCH", one, with(good, doc{"template.revision": "taken-named", box + "image": "other"}))},
		{"run-scaling", create(doc{"scaling": doc{"minInstanceCount": 3, "maxInstanceCount": 2}})},
		{"run-scaling", create(doc{"scaling.manualInstanceCount": -1})},
		{"run-scaling", create(doc{"template.scaling": doc{"minInstanceCount": -1}})},
		{"run-scaling-mode", create(doc{"scaling.minInstanceCount": 1})},
		{"run-scaling-mode", create(doc{"scaling.scalingMode": "AUTOMATIC"})},
		{"run-request-timeout", create(doc{"template.timeout": "3601s"})},
		{"run-concurrency", create(doc{"template.maxInstanceRequestConcurrency": 1001})},
		{"run-traffic", create(doc{"traffic": []any{doc{"type": "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST", "percent": 99}}})},
		{"run-traffic", create(doc{"traffic": []any{doc{"type": "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION", "percent": 100}}})},
		{"run-service-port", create(doc{box + "ports": []any{doc{"containerPort": 0}}})},
		{"run-service-port", create(doc{box + "ports": many(2, doc{"containerPort": 80})})},
		{"run-service-cpu", limits("3", "512Mi")},
		{"run-service-cpu", limits("50m", "512Mi")},
		{"run-service-memory", limits("1", "64Mi")},
		{"run-service-account", create(doc{"template.serviceAccount": "me"})},
		{"run-env-reserved", create(doc{box + "env": []any{doc{"name": "PORT", "value": "1"}}})},
		{"run-label-system", create(doc{"annotations": doc{"autoscaling.knative.dev/minScale": "1"}})},
		{"run-launch-stage", create(doc{"launchStage": "DEPRECATED"})},
		{"run-unsupported", create(doc{"binaryAuthorization": doc{"useDefault": true}})},
		{"run-unsupported", create(doc{"template.serviceMesh": doc{"mesh": "m"}})},
		{"run-unsupported", create(doc{box + "baseImageUri": "x"})},
		{"run-unsupported", create(doc{box + "startupProbe": doc{}})},
		{"run-unsupported", newCall("PATCH", services+"/none?allowMissing=true", good)},
		{"run-page-size", newCall("GET", services+"?pageSize=-1", nil)},
		{"run-page-size", newCall("GET", one+"/revisions?pageSize=-1", nil)},

		{"monitoring-filter", newCall("GET", series+"?interval.endTime=2026-01-01T00:00:00Z", nil)},
		{"monitoring-filter", newCall("GET", series+`?interval.endTime=2026-01-01T00:00:00Z&filter=resource.type%3D"cloud_run_revision"`, nil)},
		{"monitoring-interval", newCall("GET", series+`?filter=metric.type%3D"a"`, nil)},
		{"monitoring-unsupported", newCall("GET", series+`?filter=metric.type%3D"a"&aggregation.perSeriesAligner=ALIGN_MEAN`, nil)},
		{"monitoring-name", newCall("GET", "/v3/folders/1/timeSeries", nil)},
	}
}
