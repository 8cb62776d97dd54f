package sandbox

import (
	"slices"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// Spec returns the execution as a job. Its profile is the given one.
func (e Exec) Spec(p sdk.Profile) sdk.JobSpec {
	return sdk.JobSpec{V: sdk.SpecVersion, Name: e.Name, Image: e.Image, Args: e.Command, ImageEntrypoint: e.ImageEntrypoint,
		Env: e.Env, Secrets: e.Secrets, AllowVisibleSecret: e.AllowVisibleSecret,
		Mounts: slices.Concat(e.Mounts, e.Tmpfs), Workdir: e.WorkDir, Memory: e.Memory, CPU: e.CPU, Timeout: e.Timeout, StartTimeout: e.StartTimeout, TTL: e.TTL,
		Network: e.Network, Profile: p}
}

// secretPrefix begins every secret reference.
const secretPrefix = "secret://"

// Validate returns what no environment takes, every problem at once, under the
// names that a step's config has.
func (e Exec) Validate() []sdk.Problem {
	ps := sdk.ValidateSpec(e.Spec(e.Profile))
	for k, v := range e.Env {
		if strings.HasPrefix(v, secretPrefix) {
			ps = append(ps, sdk.Problem{Field: "env." + k, Message: "is a secret reference, which stands under secrets", Code: sdk.InvalidArgument})
		}
	}
	for i := range ps {
		ps[i].Field = Field(ps[i].Field, len(e.Mounts))
	}
	slices.SortStableFunc(ps, func(a, b sdk.Problem) int { return strings.Compare(a.Field, b.Field) })
	return ps
}
