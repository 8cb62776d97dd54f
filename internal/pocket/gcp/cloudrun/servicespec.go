package cloudrun

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/genproto/googleapis/api"
	"google.golang.org/protobuf/types/known/durationpb"
)

// What a service has by default, and its bounds. See the rules for where they are
// from.
const (
	standardPort        = 8080
	standardRequestTime = 5 * time.Minute
	maxRequestTime      = time.Hour
	standardConcurrency = 80
	maxConcurrency      = 1000
	standardMax         = 100
	maxRevisionID       = 63
)

// Variable names that the platform sets in a service's containers:
// https://cloud.google.com/run/docs/container-contract#services-env-vars
const (
	varPort          = "PORT"
	varService       = "K_SERVICE"
	varRevision      = "K_REVISION"
	varConfiguration = "K_CONFIGURATION"
)

// normaliseService checks a service that somebody wants, and fills in what he
// left to the platform. Field is how the request names it.
func (s *Service) normaliseService(field, id string, v *runpb.Service) error {
	if err := checkMeta(field, v.Labels, v.Annotations); err != nil {
		return err
	}
	switch v.LaunchStage {
	case api.LaunchStage_LAUNCH_STAGE_UNSPECIFIED:
		v.LaunchStage = api.LaunchStage_GA
	case api.LaunchStage_ALPHA, api.LaunchStage_BETA, api.LaunchStage_GA:
	default:
		return violation(ruleLaunchStage, field+".launch_stage", "%s is not supported; use ALPHA, BETA or GA.", v.LaunchStage)
	}
	if v.BinaryAuthorization != nil || v.FunctionalType != 0 || v.IapEnabled || v.SshEnabled != nil || v.MultiRegionSettings != nil || len(v.CustomAudiences) > 0 ||
		v.ThreatDetectionEnabled || v.BuildConfig != nil {
		return refuse(ruleUnsupported, "The pocket cloud doesn't offer binary authorization, builds, IAP, SSH, audiences and several regions.")
	}
	if v.Ingress == runpb.IngressTraffic_INGRESS_TRAFFIC_UNSPECIFIED {
		v.Ingress = runpb.IngressTraffic_INGRESS_TRAFFIC_ALL
	}
	if err := normaliseScaling(field+".scaling", v); err != nil {
		return err
	}
	if v.Template == nil {
		return violation(ruleServiceRequired, field+".template", "must be set.")
	}
	if err := s.normaliseRevision(field+".template", id, v.Template); err != nil {
		return err
	}
	return normaliseTraffic(field+".traffic", v)
}

// normaliseScaling checks the scaling of the service as a whole.
func normaliseScaling(field string, v *runpb.Service) error {
	if v.Scaling == nil {
		v.Scaling = &runpb.ServiceScaling{}
	}
	c := v.Scaling
	if c.MinInstanceCount < 0 || c.MaxInstanceCount < 0 || c.GetManualInstanceCount() < 0 || c.MaxInstanceCount > 0 && c.MinInstanceCount > c.MaxInstanceCount {
		return violation(ruleScaling, field, "counts must not be negative, and the minimum not above the maximum.")
	}
	switch c.ScalingMode {
	case runpb.ServiceScaling_MANUAL:
		if c.MinInstanceCount > 0 || c.MaxInstanceCount > 0 {
			return violation(ruleScalingMode, field, "min_instance_count and max_instance_count can't be set in manual scaling mode.")
		}
		if c.ManualInstanceCount == nil {
			c.ManualInstanceCount = new(int32)
		}
	case runpb.ServiceScaling_SCALING_MODE_UNSPECIFIED, runpb.ServiceScaling_AUTOMATIC:
		if c.ManualInstanceCount != nil {
			return violation(ruleScalingMode, field+".manual_instance_count", "can only be set in manual scaling mode.")
		}
	}
	return nil
}

func (s *Service) normaliseRevision(field, id string, t *runpb.RevisionTemplate) error {
	if err := checkMeta(field, t.Labels, t.Annotations); err != nil {
		return err
	}
	if t.Revision != "" && (len(t.Revision) > maxRevisionID || !jobIDForm().MatchString(t.Revision) || !strings.HasPrefix(t.Revision, id+"-")) {
		return violation(ruleRevisionName, field+".revision", "%q must be prefixed by the service's name, and have up to %d lowercase letters, numerals and hyphens.", t.Revision, maxRevisionID)
	}
	if t.EncryptionKey != "" || t.NodeSelector != nil || t.Sandboxes != nil || t.WorkloadIdentityConfig != nil || t.GpuZonalRedundancyDisabled != nil || t.ServiceMesh != nil ||
		t.EncryptionKeyRevocationAction != 0 || t.EncryptionKeyShutdownDuration != nil || t.AmbientNetworking != nil {
		return refuse(ruleUnsupported, "The pocket cloud doesn't offer encryption keys, node selectors, sandboxes, meshes and workload identities.")
	}
	if c := t.Scaling; c.GetMinInstanceCount() < 0 || c.GetMaxInstanceCount() < 0 || c.GetMaxInstanceCount() > 0 && c.GetMinInstanceCount() > c.GetMaxInstanceCount() {
		return violation(ruleScaling, field+".scaling", "counts must not be negative, and the minimum not above the maximum.")
	}
	if t.Scaling == nil {
		t.Scaling = &runpb.RevisionScaling{}
	}
	t.Scaling.MaxInstanceCount = cmp.Or(t.Scaling.MaxInstanceCount, standardMax)
	if t.Timeout == nil {
		t.Timeout = durationpb.New(standardRequestTime)
	}
	if d := t.Timeout; !d.IsValid() || d.AsDuration() < time.Second || d.AsDuration() > maxRequestTime {
		return violation(ruleRequestTimeout, field+".timeout", "%s is not between 1s and %ds.", d.AsDuration(), int(maxRequestTime.Seconds()))
	}
	if t.MaxInstanceRequestConcurrency < 0 || t.MaxInstanceRequestConcurrency > maxConcurrency {
		return violation(ruleConcurrency, field+".max_instance_request_concurrency", "%d is not between 1 and %d.", t.MaxInstanceRequestConcurrency, maxConcurrency)
	}
	t.MaxInstanceRequestConcurrency = cmp.Or(t.MaxInstanceRequestConcurrency, standardConcurrency)
	switch {
	case t.ServiceAccount == "":
		t.ServiceAccount = s.o.Project.Number + "-compute@developer.gserviceaccount.com"
	case !emailForm().MatchString(t.ServiceAccount):
		return violation(ruleAccount, field+".service_account", "%q is not an e-mail address.", t.ServiceAccount)
	}
	if err := checkVPC(field+".vpc_access", t.VpcAccess); err != nil {
		return err
	}
	volumes, err := checkVolumes(field, t.Volumes)
	if err != nil {
		return err
	}
	return s.normaliseContainers(field, forServices, t.Containers, volumes)
}

// normalisePorts checks the port of a service's container, and fills in 8080.
func normalisePorts(field string, c *runpb.Container) error {
	if len(c.Ports) == 0 {
		c.Ports = []*runpb.ContainerPort{{Name: "http1", ContainerPort: standardPort}}
	}
	p := c.Ports[0]
	if p.Name = cmp.Or(p.Name, "http1"); len(c.Ports) > 1 || p.ContainerPort < 1 || p.ContainerPort > 65535 || p.Name != "http1" && p.Name != "h2c" {
		return violation(ruleServicePort, field+".ports", "there must be one port, from 1 to 65535, named http1 or h2c.")
	}
	return nil
}

// checkServiceSize checks the CPU and memory of a service's container:
// https://cloud.google.com/run/docs/configuring/services/cpu
func checkServiceSize(field string, cpu, memory *big.Rat) error {
	whole := cpu.IsInt() && slices.Contains([]int64{1, 2, 4, 6, 8}, cpu.Num().Int64())
	if part := cpu.Cmp(big.NewRat(8, 100)) >= 0 && cpu.Cmp(big.NewRat(1, 1)) < 0; !whole && !part {
		return violation(ruleServiceCPU, field+".limits.cpu", "Invalid value specified for cpu: %s. It must be 1, 2, 4, 6 or 8, or from 0.08 to less than 1.", cpu.FloatString(3))
	}
	if memory.Cmp(big.NewRat(128*mebi, 1)) < 0 || memory.Cmp(big.NewRat(32*gibi, 1)) > 0 {
		return violation(ruleServiceMemory, field+".limits.memory", "Invalid value specified for memory: it must be between 128Mi and 32Gi.")
	}
	return nil
}

// normaliseTraffic checks where requests go, and sends all to the latest revision
// where nothing is said.
func normaliseTraffic(field string, v *runpb.Service) error {
	const latest, named = runpb.TrafficTargetAllocationType_TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST, runpb.TrafficTargetAllocationType_TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION
	if len(v.Traffic) == 0 {
		v.Traffic = []*runpb.TrafficTarget{{Type: latest, Percent: 100}}
	}
	sum := int32(0)
	for i, t := range v.Traffic {
		at := fmt.Sprintf("%s[%d]", field, i)
		if t.Type != latest && t.Type != named || (t.Type == named) != (t.Revision != "") || t.Percent < 0 || t.Percent > 100 {
			return violation(ruleTraffic, at, "must be of the latest revision, or name one, with 0 to 100 percent.")
		}
		sum += t.Percent
	}
	if sum != 100 {
		return violation(ruleTraffic, field, "percents must be 100 together, are %d.", sum)
	}
	return nil
}
