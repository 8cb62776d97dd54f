package plugin

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
)

const (
	// kindEphemeral is the kind of a job that runs once and now; the ecosystem's others
	// belong to a deployment or to a schedule.
	kindEphemeral = "EPHEMERAL"
	// maxTimeout is the most that timeout_seconds may be, in seconds.
	maxTimeout = 3600
)

// jobSpec reads a job of the published wire, for a provider that gives g. What it sets
// and we can't do is InvalidArgument, all at once: nothing is dropped.
func jobSpec(m *iacpb.JobSpec, g sdk.Guarantees) (sdk.JobSpec, error) {
	var errs []error
	field := ""
	refuse := func(name, format string, args ...any) {
		if field == "" {
			field = name
		}
		errs = append(errs, fmt.Errorf(name+": "+format, args...))
	}
	if k := m.GetKind(); k != "" && k != kindEphemeral {
		refuse("kind", "%q is none that runs once and now; send %s", k, kindEphemeral)
	}
	if m.GetCron() != "" {
		refuse("cron", "a job runs once; schedule it elsewhere")
	}
	if len(m.GetAlerts()) > 0 {
		refuse("alerts", "a job has none here")
	}
	if len(m.GetLogDestinations()) > 0 {
		refuse("log_destinations", "output is read with JobLogs, and goes nowhere besides")
	}
	if t := m.GetTarget(); t != nil {
		refuse("target", "a job runs beside no resource here")
	}
	if n := len(m.ProtoReflect().GetUnknown()) + len(m.GetTermination().ProtoReflect().GetUnknown()); n > 0 {
		refuse("spec", "has %d bytes of fields that this plugin doesn't know", n)
	}
	spec := sdk.JobSpec{V: sdk.SpecVersion, Name: m.GetName(), Image: m.GetImage()}
	if m.GetRunCommand() != "" {
		spec.Entrypoint, spec.Args = sdk.Argv{"/bin/sh", "-c"}, sdk.Argv{m.GetRunCommand()}
	}
	if len(m.GetEnvVars()) > 0 {
		spec.Env = m.GetEnvVars()
	}
	for name, ref := range m.GetEnvVarsSecret() {
		if _, err := sdk.ParseSecretRef(ref); err != nil {
			refuse("env_vars_secret", "%q: %w", name, err)
			continue
		}
		if spec.Secrets == nil {
			spec.Secrets = map[string]sdk.SecretRef{}
		}
		spec.Secrets[name] = sdk.SecretRef(ref)
	}
	if t := m.GetTermination(); t != nil {
		if t.GetDrainSeconds() != 0 {
			refuse("termination.drain_seconds", "a job has no requests to drain")
		}
		switch s := t.GetGracePeriodSeconds(); {
		case s < 0:
			refuse("termination.grace_period_seconds", "%d is negative", s)
		case s > 0:
			grace := time.Duration(s) * time.Second
			spec.Grace = &grace
		}
	}
	switch s := m.GetTimeoutSeconds(); {
	case s < 0 || s > maxTimeout:
		refuse("timeout_seconds", "%d isn't between 0 and %d", s, maxTimeout)
	case s > 0 && !g.Deadline.Native:
		refuse("timeout_seconds", "the backend ends no job by itself; cancel it instead")
	default:
		spec.Timeout = time.Duration(s) * time.Second
	}
	if len(errs) > 0 {
		return sdk.JobSpec{}, &sdk.Error{Code: sdk.InvalidArgument, Op: "read job", Field: field, Err: errors.Join(errs...)}
	}
	return spec, nil
}

// publishedField names a field of sdk.JobSpec, or what stands in one, as the published
// wire does. A command is one word there.
func publishedField(field string) string {
	whole, member := field, ""
	if i := strings.IndexAny(field, ".["); i >= 0 {
		whole, member = field[:i], field[i:]
	}
	switch whole {
	case "args", "entrypoint":
		return "run_command"
	case "env":
		return "env_vars" + member
	case "secrets":
		return "env_vars_secret" + member
	case "grace":
		return "termination.grace_period_seconds"
	case "timeout":
		return "timeout_seconds"
	}
	return field
}
