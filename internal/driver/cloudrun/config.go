package cloudrun

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/internal/cloud/gcp"
	"github.com/windlass-run/windlass/sdk"
)

// placement is what the config gives for all jobs, and the options for one.
type placement struct {
	ServiceAccount string            `json:"service_account"`
	Network        string            `json:"network"`
	Subnetwork     string            `json:"subnetwork"`
	NetworkTags    []string          `json:"network_tags"`
	Connector      string            `json:"connector"`
	Egress         string            `json:"egress"`
	Labels         map[string]string `json:"labels"`
}

// config is what stands under `config:` of a provider.
type config struct {
	placement
	Project       string       `json:"project"`
	Region        string       `json:"region"`
	Endpoint      string       `json:"endpoint"`
	LogLate       sdk.Duration `json:"log_late"`
	LogQuiet      sdk.Duration `json:"log_quiet"`
	LogMax        sdk.Duration `json:"log_max"`
	VisibleWithin sdk.Duration `json:"visible_within"`
	ReadRate      int          `json:"read_rate"`
	WriteRate     int          `json:"write_rate"`
	LogRate       int          `json:"log_rate"`
	MetricRate    int          `json:"metric_rate"`
}

// options is what stands in JobSpec.Options.
type options struct {
	placement
}

const (
	egressPrivate = "private"
	egressAll     = "all"

	// Google gives the Admin API 3,000 reads and 180 writes a minute in a region.
	// https://cloud.google.com/run/quotas
	defaultReadRate  = 2400
	defaultWriteRate = 150
	// Google gives 60 reads of log entries a minute, for everybody in the project.
	// https://cloud.google.com/logging/quotas
	defaultLogRate = 50
	// Google gives 6,000 queries of time series a minute to a project; three make
	// a look at up to a hundred services.
	// https://cloud.google.com/monitoring/quotas
	defaultMetricRate = 600
	// Users see entries come some seconds late, and out of order.
	// https://github.com/apache/airflow/issues/36963
	defaultLogLate  = sdk.Duration(10 * time.Second)
	defaultLogQuiet = sdk.Duration(15 * time.Second)
	defaultLogMax   = sdk.Duration(2 * time.Minute)
	// A new job shows at once; nothing that Google publishes says by when surely.
	defaultVisibleWithin = sdk.Duration(30 * time.Second)
)

// filled returns the config with its defaults.
func (c config) filled() config {
	c.LogLate = cmp.Or(c.LogLate, defaultLogLate)
	c.LogQuiet = max(cmp.Or(c.LogQuiet, defaultLogQuiet), c.LogLate)
	c.LogMax = max(cmp.Or(c.LogMax, defaultLogMax), c.LogQuiet)
	c.VisibleWithin = cmp.Or(c.VisibleWithin, defaultVisibleWithin)
	c.ReadRate = cmp.Or(c.ReadRate, defaultReadRate)
	c.WriteRate = cmp.Or(c.WriteRate, defaultWriteRate)
	c.LogRate = cmp.Or(c.LogRate, defaultLogRate)
	c.MetricRate = cmp.Or(c.MetricRate, defaultMetricRate)
	return c
}

// check refuses what no job could run with.
func (c config) check(provider string) error {
	for _, p := range c.problems() {
		return &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: provider, Field: "config." + p.Field, Err: fmt.Errorf("%q: %s", p.Value, p.Message)}
	}
	return nil
}

var (
	// https://cloud.google.com/iam/docs/service-account-overview
	accountForm = form(`^[^@\s]+@[^@\s]+\.[^@\s]+$`)
	// https://cloud.google.com/run/docs/reference/rest/v2/VpcAccess
	connectorForm = form(`^projects/[^/]+/locations/[^/]+/connectors/[^/]+$`)
)

// form compiles a pattern when it is first needed: most starts of the program
// need none.
func form(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// problems returns what is wrong with a placement, by field.
func (p placement) problems() []sdk.Problem {
	var out []sdk.Problem
	bad := func(field, value, message string) {
		out = append(out, sdk.Problem{Field: field, Value: value, Message: message, Code: sdk.InvalidArgument})
	}
	if p.ServiceAccount != "" && !accountForm().MatchString(p.ServiceAccount) {
		bad("service_account", p.ServiceAccount, "a service account is an e-mail address")
	}
	if p.Connector != "" && !connectorForm().MatchString(p.Connector) {
		bad("connector", p.Connector, "a connector is named projects/P/locations/L/connectors/C")
	}
	if p.Connector != "" && (p.Network != "" || p.Subnetwork != "") {
		bad("connector", p.Connector, "goes without network and subnetwork")
	}
	if p.Connector == "" && p.Network == "" && p.Subnetwork == "" && (p.Egress != "" || len(p.NetworkTags) > 0) {
		bad("egress", p.Egress, "egress and network_tags need network, subnetwork or connector")
	}
	if p.Connector != "" && len(p.NetworkTags) > 0 {
		bad("network_tags", strings.Join(p.NetworkTags, ","), "a connector has tags of its own")
	}
	for _, k := range sortedKeys(p.Labels) {
		if msg := checkUserLabel(k, p.Labels[k]); msg != "" {
			bad("labels."+k, p.Labels[k], msg)
		}
	}
	return out
}

// checkUserLabel returns what is wrong with a label that a user chose, or nothing.
func checkUserLabel(k, v string) string {
	if strings.HasPrefix(k, sdk.LabelPrefix) {
		return "names that start with " + sdk.LabelPrefix + " are ours"
	}
	return gcp.CheckLabel(k, v)
}

// with returns the placement of a job that sets o.
func (p placement) with(o placement) placement {
	p.ServiceAccount = cmp.Or(o.ServiceAccount, p.ServiceAccount)
	// A network that is set for a job replaces the config's altogether.
	if o.Connector != "" || o.Network != "" || o.Subnetwork != "" {
		p.Connector, p.Network, p.Subnetwork, p.NetworkTags, p.Egress = o.Connector, o.Network, o.Subnetwork, o.NetworkTags, o.Egress
	}
	if len(o.NetworkTags) > 0 {
		p.NetworkTags = o.NetworkTags
	}
	p.Egress = cmp.Or(o.Egress, p.Egress)
	labels := map[string]string{}
	for _, m := range []map[string]string{p.Labels, o.Labels} {
		for k, v := range m {
			labels[k] = v
		}
	}
	p.Labels = labels
	return p
}

// vpc is the way into a VPC network, nil for none.
func (p placement) vpc() *runpb.VpcAccess {
	if p.Connector == "" && p.Network == "" && p.Subnetwork == "" {
		return nil
	}
	v := &runpb.VpcAccess{Connector: p.Connector, Egress: runpb.VpcAccess_PRIVATE_RANGES_ONLY}
	if p.Egress == egressAll {
		v.Egress = runpb.VpcAccess_ALL_TRAFFIC
	}
	if p.Connector == "" {
		v.NetworkInterfaces = []*runpb.VpcAccess_NetworkInterface{{Network: p.Network, Subnetwork: p.Subnetwork, Tags: p.NetworkTags}}
	}
	return v
}

// placementFields are the members that the config and the options share.
func placementFields() []sdk.SchemaField {
	return []sdk.SchemaField{
		{Name: "service_account", Type: sdk.TypeString, Default: "the project's Compute Engine account", Doc: "The e-mail address of the service account that the job or service has, and by which Cloud Run fetches its secrets."},
		{Name: "network", Type: sdk.TypeString, Doc: "The VPC network of the network interface."},
		{Name: "subnetwork", Type: sdk.TypeString, Default: "the network's, of the region", Doc: "The subnetwork of the network interface."},
		{Name: "network_tags", Type: sdk.TypeList, Elem: &sdk.SchemaField{Type: sdk.TypeString}, Doc: "Network tags of the network interface."},
		{Name: "connector", Type: sdk.TypeString, Doc: "A Serverless VPC Access connector, projects/P/locations/L/connectors/C, instead of an interface."},
		{Name: "egress", Type: sdk.TypeString, Default: egressPrivate, Enum: []string{egressPrivate, egressAll}, Doc: "Which traffic goes through the VPC network: that to private addresses, or all."},
		{Name: "labels", Type: sdk.TypeMap, Doc: "Further labels of each job and service."},
	}
}

func configSchema() sdk.Schema {
	own := []sdk.SchemaField{
		{Name: "project", Type: sdk.TypeString, Default: "GOOGLE_CLOUD_PROJECT, else the project of the credentials", Doc: "The project's ID."},
		{Name: "region", Type: sdk.TypeString, Default: "GOOGLE_CLOUD_REGION", Doc: "The region, such as europe-west1."},
		{Name: "endpoint", Type: sdk.TypeString, Doc: "The address of a pocket cloud on this machine, which takes the calls to every service."},
		{Name: "log_late", Type: sdk.TypeDuration, Default: time.Duration(defaultLogLate).String(), Doc: "How long a line of output waits for older ones, which Cloud Logging may show later."},
		{Name: "log_quiet", Type: sdk.TypeDuration, Default: time.Duration(defaultLogQuiet).String(), Doc: "A job's output counts as whole once the job has ended and nothing came for this long; at least log_late."},
		{Name: "log_max", Type: sdk.TypeDuration, Default: time.Duration(defaultLogMax).String(), Doc: "The longest wait for output after a job's end."},
		{Name: "visible_within", Type: sdk.TypeDuration, Default: time.Duration(defaultVisibleWithin).String(), Doc: "A job that Cloud Run doesn't know counts as not visible yet for this long after its submit."},
		{Name: "read_rate", Type: sdk.TypeInt, Min: 1, Max: 1000000, Default: fmt.Sprint(defaultReadRate), Doc: "The most calls a minute that only read, of all providers of the project and region in one process."},
		{Name: "write_rate", Type: sdk.TypeInt, Min: 1, Max: 1000000, Default: fmt.Sprint(defaultWriteRate), Doc: "The most calls a minute that change something, counted in the same way."},
		{Name: "log_rate", Type: sdk.TypeInt, Min: 1, Max: 1000000, Default: fmt.Sprint(defaultLogRate), Doc: "The most reads of logs a minute, of all providers of the project in one process."},
		{Name: "metric_rate", Type: sdk.TypeInt, Min: 1, Max: 1000000, Default: fmt.Sprint(defaultMetricRate), Doc: "The most reads of metrics a minute, counted in the same way."},
	}
	return sdk.Schema{Doc: "Which project and region run the jobs and services, and as whom.", Fields: append(own, placementFields()...)}
}

func optionsSchema() sdk.Schema {
	return sdk.Schema{Doc: "What stands under config: too; a job's or service's own values come first.", Fields: placementFields()}
}
