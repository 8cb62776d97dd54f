package argo

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/sdk"
)

// config is what stands under `config:` of a provider.
type config struct {
	podspec.Placement
	Kubeconfig      string       `json:"kubeconfig"`
	Context         string       `json:"context"`
	Namespace       string       `json:"namespace"`
	Endpoint        string       `json:"endpoint"`
	CAFile          string       `json:"ca_file"`
	InstanceID      string       `json:"instance_id"`
	ExecutorAccount string       `json:"executor_service_account"`
	ArchiveLogs     bool         `json:"archive_logs"`
	Rate            int          `json:"rate"`
	LogStall        sdk.Duration `json:"log_stall"`
}

// options is what stands in JobSpec.Options.
type options struct {
	podspec.Placement
}

const (
	defaultRate     = 50
	defaultLogStall = sdk.Duration(time.Minute)
)

// relative is what is wrong with a path that isn't a whole one.
const relative = "the keeper works in another folder: write the whole path"

func (c config) filled() config {
	c.Rate = cmp.Or(c.Rate, defaultRate)
	c.LogStall = cmp.Or(c.LogStall, defaultLogStall)
	return c
}

// check refuses what no job could run with.
func (c config) check(provider string) error {
	problems := c.problems(c.Placement)
	bad := func(field, value, message string) {
		problems = append(problems, sdk.Problem{Field: field, Value: value, Message: message})
	}
	for field, name := range map[string]string{"namespace": c.Namespace, "executor_service_account": c.ExecutorAccount} {
		if name != "" && kube.CheckName(name) != "" {
			bad(field, name, kube.CheckName(name))
		}
	}
	if c.InstanceID != "" && kube.LabelValue(c.InstanceID) != c.InstanceID {
		bad("instance_id", c.InstanceID, "is no label's value")
	}
	if c.Kubeconfig != "" && !filepath.IsAbs(c.Kubeconfig) {
		bad("kubeconfig", c.Kubeconfig, relative)
	}
	switch {
	case c.Endpoint != "" && c.Kubeconfig != "":
		bad("kubeconfig", c.Kubeconfig, "isn't used beside endpoint, whose token is in ARGO_TOKEN")
	case c.Endpoint != "" && c.Context != "":
		bad("context", c.Context, "is of a kubeconfig, which isn't used beside endpoint")
	case c.Endpoint != "" && c.Namespace == "":
		bad("namespace", "", "is needed beside endpoint")
	case c.Endpoint == "" && c.CAFile != "":
		bad("ca_file", c.CAFile, "is of Argo Server, and needs endpoint; a kubeconfig has its own")
	}
	for _, p := range problems {
		return &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: provider, Field: "config." + p.Field, Err: fmt.Errorf("%q: %s", p.Value, p.Message)}
	}
	return nil
}

// problems returns what is wrong with a placement, by field. Argo substitutes in all
// of a pod.
func (c config) problems(p podspec.Placement) []sdk.Problem {
	out := p.Problems()
	for k, v := range p.Annotations {
		if strings.Contains(k+v, tag) {
			out = append(out, sdk.Problem{Field: "annotations." + k, Value: v, Code: sdk.Unimplemented, Message: substituted})
		}
	}
	return out
}

// placementFields are those of a pod that Argo has a place for.
func placementFields() []sdk.SchemaField {
	return slices.DeleteFunc(podspec.PlacementFields(), func(f sdk.SchemaField) bool { return f.Name == "pod" })
}

func configSchema() sdk.Schema {
	own := []sdk.SchemaField{
		{Name: "kubeconfig", Type: sdk.TypeString, Default: "that of KUBECONFIG", Doc: "The whole path of the kubeconfig, one file. It may have no exec, auth-provider or tokenFile: those need KUBECONFIG."},
		{Name: "context", Type: sdk.TypeString, Default: "the kubeconfig's current one", Doc: "The context of the kubeconfig."},
		{Name: "namespace", Type: sdk.TypeString, Default: "the context's; within a cluster, the pod's", Doc: "The namespace in which jobs run; required with endpoint."},
		{Name: "endpoint", Type: sdk.TypeString, Default: "none: the Kubernetes API is used", Doc: "The address of Argo Server, through which all is done then."},
		{Name: "ca_file", Type: sdk.TypeString, Default: "the machine's authorities", Doc: "A file with the certificates, in PEM, that Argo Server's is checked against."},
		{Name: "instance_id", Type: sdk.TypeString, Doc: "The instance ID of the workflow controller, where it has one."},
		{Name: "executor_service_account", Type: sdk.TypeString, Doc: "The service account of Argo's own containers. The job's container then gets no token, but for one of service_account."},
		{Name: "archive_logs", Type: sdk.TypeBool, Doc: "Has Argo archive the output, which is read from there through endpoint where nothing of it was read before the end."},
		{Name: "rate", Type: sdk.TypeInt, Min: 1, Max: 100000, Default: fmt.Sprint(defaultRate), Doc: "The most calls a second of all providers of the server in one process; twice as many may come at once."},
		{Name: "log_stall", Type: sdk.TypeDuration, Default: time.Duration(defaultLogStall).String(), Doc: "A followed log that is silent for so long is opened again."},
	}
	return sdk.Schema{Doc: "Which cluster, or Argo Server, and namespace run the jobs, and where in it.", Fields: append(own, placementFields()...)}
}

func optionsSchema() sdk.Schema {
	return sdk.Schema{Doc: "What stands under config: too; a job's own values come first.", Fields: placementFields()}
}
