package kubernetes

import (
	"cmp"
	"fmt"
	"path/filepath"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/hosted"
	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/sdk"
)

// config is what stands under `config:` of a provider.
type config struct {
	podspec.Placement
	Kubeconfig string       `json:"kubeconfig"`
	Context    string       `json:"context"`
	Namespace  string       `json:"namespace"`
	Rate       int          `json:"rate"`
	LogStall   sdk.Duration `json:"log_stall"`
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
	problems := c.Problems()
	if c.Kubeconfig != "" && !filepath.IsAbs(c.Kubeconfig) {
		problems = append(problems, sdk.Problem{Field: "kubeconfig", Value: c.Kubeconfig, Message: relative})
	}
	if c.Namespace != "" {
		if msg := kube.CheckName(c.Namespace); msg != "" {
			problems = append(problems, sdk.Problem{Field: "namespace", Value: c.Namespace, Message: msg})
		}
	}
	for _, p := range problems {
		return &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: provider, Field: "config." + p.Field, Err: fmt.Errorf("%q: %s", p.Value, p.Message)}
	}
	return nil
}

func configSchema(clouds []hosted.Cloud) sdk.Schema {
	own := []sdk.SchemaField{
		{Name: "kubeconfig", Type: sdk.TypeString, Default: "that of KUBECONFIG", Doc: "The whole path of the kubeconfig, one file. It may have no exec, auth-provider or tokenFile: those need KUBECONFIG."},
		{Name: "context", Type: sdk.TypeString, Default: "the kubeconfig's current one", Doc: "The context of the kubeconfig."},
		{Name: "namespace", Type: sdk.TypeString, Default: "the context's; within a cluster, the pod's; of a cluster of a cloud, default", Doc: "The namespace in which jobs run."},
		{Name: "rate", Type: sdk.TypeInt, Min: 1, Max: 100000, Default: fmt.Sprint(defaultRate), Doc: "The most calls a second of all providers of the cluster in one process; twice as many may come at once."},
		{Name: "log_stall", Type: sdk.TypeDuration, Default: time.Duration(defaultLogStall).String(), Doc: "A followed log that is silent for so long is opened again."},
	}
	for _, c := range clouds {
		own = append(own, c.Field())
	}
	return sdk.Schema{Doc: "Which cluster and namespace run the jobs, and where in it.", Fields: append(own, podspec.PlacementFields()...)}
}

func optionsSchema() sdk.Schema {
	return sdk.Schema{Doc: "What stands under config: too; a job's own values come first.", Fields: podspec.PlacementFields()}
}
