package cloudrun

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/genproto/googleapis/api"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// The bounds of a job. See the rules for where they are from.
const (
	maxJobID       = 49
	maxLabels      = 64
	maxTasks       = 10_000
	maxRetries     = 10
	standardTries  = 3
	standardTime   = 10 * time.Minute
	previewTime    = 24 * time.Hour
	maxTime        = 168 * time.Hour
	maxAnnotations = 256 << 10
	maxTokenSum    = 62
)

// Forms of names. They are compiled when they are first needed, since the
// program that holds the pocket clouds seldom starts them.
var (
	jobIDForm     = form(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	dnsLabel      = form(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	annotationKey = form(`^([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	emailForm     = form(`^[^@\s]+@[^@\s]+\.[^@\s]+$`)
	connectorForm = form(`^(projects/[^/]+/locations/[^/]+/connectors/)[a-z]([-a-z0-9]{0,24})$`)
	secretForm    = form(`^(projects/[^/]+/secrets/)?[A-Za-z0-9_-]{1,255}$`)
	quantityForm  = form(`^([0-9]{1,18}(?:\.[0-9]{1,9})?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?$`)
	// imageForm is a reference as registries take it, with tag or digest.
	imageForm = form(`^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?$`)
)

func form(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

func systemNamespaces() []string {
	return []string{"run.googleapis.com", "cloud.googleapis.com", "serving.knative.dev", "autoscaling.knative.dev"}
}

// normalise checks a job that somebody wants, and fills in what he left to the
// platform. Field is how the request names the job.
func (s *Service) normalise(field, id string, j *runpb.Job) error {
	if err := checkMeta(field, j.Labels, j.Annotations); err != nil {
		return err
	}
	switch j.LaunchStage {
	case api.LaunchStage_LAUNCH_STAGE_UNSPECIFIED:
		j.LaunchStage = api.LaunchStage_GA
	case api.LaunchStage_ALPHA, api.LaunchStage_BETA, api.LaunchStage_GA:
	default:
		return violation(ruleLaunchStage, field+".launch_stage", "%s is not supported; use ALPHA, BETA or GA.", j.LaunchStage)
	}
	if j.BinaryAuthorization != nil || j.FunctionalType != 0 {
		return refuse(ruleUnsupported, "The pocket cloud doesn't offer binary authorization and functional types.")
	}
	if err := checkToken(field, id, j); err != nil {
		return err
	}
	t := j.Template
	if t.GetTemplate() == nil {
		return violation(ruleJobRequired, field+".template.template", "must be set.")
	}
	field += ".template"
	if err := checkMeta(field, t.Labels, t.Annotations); err != nil {
		return err
	}
	if t.GetDelayExecution() {
		return refuse(ruleUnsupported, "The pocket cloud doesn't offer delayed executions.")
	}
	if t.TaskCount == 0 {
		t.TaskCount = 1
	}
	if t.TaskCount < 1 || t.TaskCount > maxTasks {
		return violation(ruleTaskCount, field+".task_count", "%d is not between 1 and %d.", t.TaskCount, maxTasks)
	}
	if t.Parallelism < 0 || t.Parallelism > t.TaskCount {
		return violation(ruleParallelism, field+".parallelism", "%d is not between 0 and task_count, %d.", t.Parallelism, t.TaskCount)
	}
	return s.normaliseTask(field+".template", j, t.Template)
}

func (s *Service) normaliseTask(field string, j *runpb.Job, t *runpb.TaskTemplate) error {
	if t.EncryptionKey != "" || t.NodeSelector != nil || t.Sandboxes != nil || t.WorkloadIdentityConfig != nil || t.GpuZonalRedundancyDisabled != nil {
		return refuse(ruleUnsupported, "The pocket cloud doesn't offer encryption keys, node selectors, sandboxes and workload identities.")
	}
	if t.Retries == nil {
		t.Retries = &runpb.TaskTemplate_MaxRetries{MaxRetries: standardTries}
	}
	if n := t.GetMaxRetries(); n < 0 || n > maxRetries {
		return violation(ruleRetries, field+".max_retries", "%d is not between 0 and %d.", n, maxRetries)
	}
	if t.Timeout == nil {
		t.Timeout = durationpb.New(standardTime)
	}
	if err := checkTimeout(ruleTimeout, field+".timeout", t.Timeout, j.LaunchStage); err != nil {
		return err
	}
	switch {
	case t.ServiceAccount == "":
		t.ServiceAccount = s.o.Project.Number + "-compute@developer.gserviceaccount.com"
	case !emailForm().MatchString(t.ServiceAccount):
		return violation(ruleAccount, field+".service_account", "%q is not an e-mail address.", t.ServiceAccount)
	}
	switch t.ExecutionEnvironment {
	case runpb.ExecutionEnvironment_EXECUTION_ENVIRONMENT_UNSPECIFIED:
		t.ExecutionEnvironment = runpb.ExecutionEnvironment_EXECUTION_ENVIRONMENT_GEN2
	case runpb.ExecutionEnvironment_EXECUTION_ENVIRONMENT_GEN2:
	default:
		return violation(ruleGeneration, field+".execution_environment", "%s is not supported for jobs.", t.ExecutionEnvironment)
	}
	if err := checkVPC(field+".vpc_access", t.VpcAccess); err != nil {
		return err
	}
	volumes, err := checkVolumes(field, t.Volumes)
	if err != nil {
		return err
	}
	return s.normaliseContainers(field, forJobs, t.Containers, volumes)
}

func checkTimeout(rule, field string, d *durationpb.Duration, stage api.LaunchStage) error {
	if !d.IsValid() || d.AsDuration() < time.Second || d.AsDuration() > maxTime {
		return violation(rule, field, "%s is not between 1s and %ds.", d.AsDuration(), int(maxTime.Seconds()))
	}
	if d.AsDuration() > previewTime && stage == api.LaunchStage_GA {
		return violation(rulePreview, field, "%s is above 24 hours, which is a preview feature: set the launch stage to BETA.", d.AsDuration())
	}
	return nil
}

// checkToken checks the name of an execution to be made with the job.
func checkToken(field, id string, j *runpb.Job) error {
	if j.CreateExecution == nil {
		return nil
	}
	token := j.GetStartExecutionToken() + j.GetRunExecutionToken()
	if !dnsLabel().MatchString(token) || len(id)+len(token) > maxTokenSum {
		return violation(ruleToken, field+".create_execution", "the token %q must be of lowercase letters, numerals and hyphens, and together with the job's name shorter than 63 characters.", token)
	}
	return nil
}

func checkMeta(field string, labels, annotations map[string]string) error {
	if len(labels) > maxLabels {
		return violation(ruleLabelCount, field+".labels", "there are %d, at most %d are allowed.", len(labels), maxLabels)
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if system(k) {
			return violation(ruleLabelSystem, field+".labels", "%q is a system label, which is not supported.", k)
		}
		if !gapi.LegalLabel(k, labels[k]) {
			return violation(ruleLabel, field+".labels", "%q=%q: keys and values have up to 63 lowercase letters, numerals, underscores and hyphens, and keys begin with a letter.", k, labels[k])
		}
	}
	key, size := annotationKey(), 0
	for _, k := range slices.Sorted(maps.Keys(annotations)) {
		if system(k) {
			return violation(ruleLabelSystem, field+".annotations", "%q is a system annotation, which is not supported.", k)
		}
		if size += len(k) + len(annotations[k]); size > maxAnnotations || !key.MatchString(k) {
			return violation(ruleAnnotation, field+".annotations", "%q is no legal key, or all together are above 256 KiB.", k)
		}
	}
	return nil
}

func system(key string) bool {
	namespace, _, ok := strings.Cut(key, "/")
	return ok && slices.ContainsFunc(systemNamespaces(), func(n string) bool { return namespace == n || strings.HasSuffix(namespace, "."+n) })
}

func checkVPC(field string, v *runpb.VpcAccess) error {
	if v == nil {
		return nil
	}
	if (v.Connector == "") == (len(v.NetworkInterfaces) == 0) || len(v.NetworkInterfaces) > 1 {
		return violation(ruleVPC, field, "set either connector or one of network_interfaces.")
	}
	if v.Connector != "" && !connectorForm().MatchString(v.Connector) {
		return violation(ruleConnector, field+".connector", "%q must have the form projects/*/locations/*/connectors/*.", v.Connector)
	}
	for i, n := range v.NetworkInterfaces {
		if n.Network == "" && n.Subnetwork == "" {
			return violation(ruleVPC, fmt.Sprintf("%s.network_interfaces[%d]", field, i), "at least one of network or subnetwork must be specified.")
		}
	}
	return nil
}

// checkVolumes returns the names of the volumes.
func checkVolumes(field string, list []*runpb.Volume) (map[string]*runpb.Volume, error) {
	names := map[string]*runpb.Volume{}
	for i, v := range list {
		at := fmt.Sprintf("%s.volumes[%d]", field, i)
		if !dnsLabel().MatchString(v.Name) || names[v.Name] != nil {
			return nil, violation(ruleVolumeName, at+".name", "%q is no DNS label, or is there twice.", v.Name)
		}
		names[v.Name] = v
		if v.VolumeType == nil {
			return nil, violation(ruleVolumeType, at, "a volume must have a type.")
		}
		if secret := v.GetSecret(); secret != nil {
			if err := checkSecretVolume(at+".secret", secret); err != nil {
				return nil, err
			}
		}
	}
	return names, nil
}

func checkSecretVolume(field string, v *runpb.SecretVolumeSource) error {
	legal := func(mode int32) bool { return mode >= 0 && mode <= 0o777 }
	if !secretForm().MatchString(v.Secret) || !legal(v.DefaultMode) {
		return violation(ruleVolumeSecret, field, "secret %q with mode %#o is not legal.", v.Secret, v.DefaultMode)
	}
	for i, item := range v.Items {
		if item.Path == "" || strings.HasPrefix(item.Path, "/") || item.Version == "" || !legal(item.Mode) {
			return violation(ruleVolumeSecret, fmt.Sprintf("%s.items[%d]", field, i), "items must specify a relative path and a version.")
		}
	}
	return nil
}
