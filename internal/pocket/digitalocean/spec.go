package digitalocean

import (
	"regexp"
	"slices"
	"time"

	"github.com/digitalocean/godo"
)

var (
	nameForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}[a-z0-9]$`)
	envForm  = regexp.MustCompile(`^[_A-Za-z][_A-Za-z0-9]*$`)
)

// invalid words the refusal of a spec, which tells the first fault only:
// https://github.com/digitalocean/godo/issues/415
func invalid(rule, name, format string, args ...any) *Error {
	e := refuse(rule, format, args...)
	e.Message = `error validating app spec field "` + name + `": ` + e.Message
	return e
}

// admit checks a spec, fills its defaults in, and seals its secrets.
func (s *Server) admit(spec *godo.AppSpec) *Error {
	if spec == nil {
		return refuse(ruleSpec, "app spec is required")
	}
	if !nameForm.MatchString(spec.Name) {
		return invalid(ruleName, "name", "must match %s", nameForm)
	}
	if e := unsupported(spec); e != nil {
		return e
	}
	if spec.Region == "" {
		spec.Region = defaultRegion
	}
	if regionOf(spec.Region) == nil {
		return invalid(ruleRegion, "region", "%q is not a region", spec.Region)
	}
	if len(spec.Jobs) == 0 {
		return refuse(ruleComponents, "error validating app spec: at least one component is required")
	}
	if e := s.admitEnvs("envs", spec.Envs); e != nil {
		return e
	}
	names := map[string]bool{}
	for _, job := range spec.Jobs {
		if job == nil {
			return refuse(ruleType, "a job is null")
		}
		if !nameForm.MatchString(job.Name) {
			return invalid(ruleCompName, "jobs.name", "must match %s", nameForm)
		}
		if names[job.Name] {
			return invalid(ruleCompTwice, "jobs.name", "component name %q is not unique", job.Name)
		}
		names[job.Name] = true
		if e := s.admitJob(job); e != nil {
			return e
		}
	}
	return nil
}

// field is a member of a spec that may be set.
type field struct {
	name string
	set  bool
}

// unsupported refuses what only the pocket cloud can't do.
func unsupported(spec *godo.AppSpec) *Error {
	for _, f := range []field{
		{"services", len(spec.Services) > 0}, {"static_sites", len(spec.StaticSites) > 0}, {"workers", len(spec.Workers) > 0},
		{"functions", len(spec.Functions) > 0}, {"databases", len(spec.Databases) > 0}, {"domains", len(spec.Domains) > 0},
		{"alerts", len(spec.Alerts) > 0}, {"ingress", spec.Ingress != nil && len(spec.Ingress.Rules) > 0},
		{"egress", spec.Egress != nil && spec.Egress.Type != ""}, {"features", len(spec.Features) > 0},
		{"maintenance", spec.Maintenance != nil}, {"vpc", spec.Vpc != nil},
	} {
		if f.set {
			return invalid(ruleUnsupported, f.name, "the pocket cloud doesn't offer it")
		}
	}
	return nil
}

func (s *Server) admitJob(job *godo.AppJobSpec) *Error {
	for _, f := range []field{{"git", job.Git != nil}, {"github", job.GitHub != nil}, {"gitlab", job.GitLab != nil}, {"bitbucket", job.Bitbucket != nil}} {
		if f.set && job.Image != nil {
			return invalid(ruleSource, "jobs."+f.name, "only one source may be set")
		} else if f.set {
			return invalid(ruleUnsupported, "jobs."+f.name, "the pocket cloud doesn't offer it")
		}
	}
	for _, f := range []field{
		{"dockerfile_path", job.DockerfilePath != ""}, {"build_command", job.BuildCommand != ""}, {"source_dir", job.SourceDir != ""},
		{"environment_slug", job.EnvironmentSlug != ""}, {"alerts", len(job.Alerts) > 0}, {"log_destinations", len(job.LogDestinations) > 0},
	} {
		if f.set {
			return invalid(ruleUnsupported, "jobs."+f.name, "the pocket cloud doesn't offer it")
		}
	}
	switch job.Kind {
	case "", godo.AppJobSpecKind_Unspecified:
		job.Kind = godo.AppJobSpecKind_PostDeploy
	case godo.AppJobSpecKind_PreDeploy, godo.AppJobSpecKind_PostDeploy, godo.AppJobSpecKind_FailedDeploy, godo.AppJobSpecKind_Scheduled:
	default:
		return invalid(ruleKind, "jobs.kind", "%q is not a kind of job", job.Kind)
	}
	if e := admitSchedule(job); e != nil {
		return e
	}
	if job.Timeout != "" {
		if d, err := time.ParseDuration(job.Timeout); err != nil || d <= 0 {
			return invalid(ruleTimeout, "jobs.timeout", "%q is not a positive duration", job.Timeout)
		}
	}
	if t := job.Termination; t != nil && (t.GracePeriodSeconds < 0 || t.GracePeriodSeconds > 600) {
		return invalid(ruleGrace, "jobs.termination.grace_period_seconds", "must be between 1 and 600")
	}
	if job.InstanceSizeSlug == "" {
		job.InstanceSizeSlug = defaultSize
	}
	if _, ok := sizeOf(job.InstanceSizeSlug); !ok {
		return invalid(ruleSlug, "jobs.instance_size_slug", "%q is not an instance size", job.InstanceSizeSlug)
	}
	if job.InstanceCount == 0 {
		job.InstanceCount = 1
	}
	if job.InstanceCount != 1 {
		return invalid(ruleCount, "jobs.instance_count", "%d instances of a job", job.InstanceCount)
	}
	if job.Image == nil {
		return invalid(ruleSource, "jobs", "component %q has no source", job.Name)
	}
	if e := s.admitImage(job.Image); e != nil {
		return e
	}
	return s.admitEnvs("jobs.envs", job.Envs)
}

func admitSchedule(job *godo.AppJobSpec) *Error {
	scheduled := job.Kind == godo.AppJobSpecKind_Scheduled
	switch {
	case scheduled && job.Schedule == nil:
		return invalid(ruleSchedule, "jobs.schedule", "a job of kind SCHEDULED needs a schedule")
	case !scheduled && job.Schedule != nil:
		return invalid(ruleSchedule, "jobs.schedule", "only a job of kind SCHEDULED has a schedule")
	case !scheduled:
		return nil
	}
	if _, err := parseCron(job.Schedule.Cron); err != nil {
		return invalid(ruleCron, "jobs.schedule.cron", "%v", err)
	}
	if job.Schedule.TimeZone == "" {
		job.Schedule.TimeZone = "UTC"
	}
	if _, err := time.LoadLocation(job.Schedule.TimeZone); err != nil || job.Schedule.TimeZone == "Local" {
		return invalid(ruleTimeZone, "jobs.schedule.time_zone", "%q is not a time zone", job.Schedule.TimeZone)
	}
	return nil
}

func (s *Server) admitImage(i *godo.ImageSourceSpec) *Error {
	switch i.RegistryType {
	case godo.ImageSourceSpecRegistryType_DOCR:
		if i.Registry != "" {
			return invalid(ruleRegistry, "jobs.image.registry", "must be empty for DOCR")
		}
	case godo.ImageSourceSpecRegistryType_DockerHub:
		if i.Registry == "" {
			return invalid(ruleRegistry, "jobs.image.registry", "is required for DOCKER_HUB")
		}
	case godo.ImageSourceSpecRegistryType_Ghcr:
	default:
		return invalid(ruleRegistryType, "jobs.image.registry_type", "%q is not a registry type", i.RegistryType)
	}
	if i.Repository == "" {
		return invalid(ruleRepository, "jobs.image.repository", "is required")
	}
	if i.Tag != "" && i.Digest != "" {
		return invalid(ruleTagDigest, "jobs.image.tag", "cannot be specified if digest is provided")
	}
	if i.DeployOnPush != nil && i.DeployOnPush.Enabled && (i.RegistryType != godo.ImageSourceSpecRegistryType_DOCR || i.Digest != "") {
		return invalid(ruleDeployOnPush, "jobs.image.deploy_on_push", "is only for DOCR images with a tag")
	}
	if i.Tag == "" && i.Digest == "" {
		i.Tag = "latest"
	}
	var e *Error
	i.RegistryCredentials, e = s.sealField("jobs.image.registry_credentials", i.RegistryCredentials)
	return e
}

func (s *Server) admitEnvs(path string, envs []*godo.AppVariableDefinition) *Error {
	var seen []string
	for _, v := range envs {
		if v == nil {
			return refuse(ruleType, "a variable is null")
		}
		if !envForm.MatchString(v.Key) {
			return invalid(ruleEnvKey, path+".key", "must match %s", envForm)
		}
		if slices.Contains(seen, v.Key) {
			return invalid(ruleEnvTwice, path+".key", "%s is set twice", v.Key)
		}
		seen = append(seen, v.Key)
		switch v.Scope {
		case "", godo.AppVariableScope_Unset:
			v.Scope = godo.AppVariableScope_RunAndBuildTime
		case godo.AppVariableScope_RunTime, godo.AppVariableScope_BuildTime, godo.AppVariableScope_RunAndBuildTime:
		default:
			return invalid(ruleEnvScope, path+".scope", "%q is not a scope", v.Scope)
		}
		switch v.Type {
		case "", godo.AppVariableType_General:
		case godo.AppVariableType_Secret:
			var e *Error
			if v.Value, e = s.sealField(path+".value", v.Value); e != nil {
				return e
			}
		default:
			return invalid(ruleEnvType, path+".type", "%q is not a type of variable", v.Type)
		}
	}
	return nil
}

// reference is an image's name as a container engine takes it.
func reference(i *godo.ImageSourceSpec) string {
	name := i.Repository
	if i.Registry != "" && i.Registry != "library" {
		name = i.Registry + "/" + name
	}
	switch i.RegistryType {
	case godo.ImageSourceSpecRegistryType_DOCR:
		name = "registry.digitalocean.com/" + name
	case godo.ImageSourceSpecRegistryType_Ghcr:
		name = "ghcr.io/" + name
	}
	if i.Digest != "" {
		return name + "@" + i.Digest
	}
	return name + ":" + i.Tag
}
