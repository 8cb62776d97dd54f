package azure

import (
	"cmp"
	"encoding/hex"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"
)

// The documented limits of a group:
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-resource-and-quota-limits
const (
	maxContainers = 60
	maxCPU        = 4.0
	maxMemory     = 16.0 // GB
)

var (
	nameForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`) })
	envForm  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })
	subnet   = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Network/virtualNetworks/[^/]+/subnets/[^/]+$`)
	})
	identityForm = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.ManagedIdentity/userAssignedIdentities/[^/]+$`)
	})
	serverForm = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9.]*(:[0-9]+)?(/[-A-Za-z0-9._/]*)?$`)
	})
)

// legalName says whether a name is a group's or a container's. See
// https://learn.microsoft.com/en-us/azure/templates/microsoft.containerinstance/2023-05-01/containergroups
func legalName(name string) bool { return len(name) <= 63 && nameForm().MatchString(name) }

// check refuses what isn't legal or isn't offered, puts defaults in, and takes
// secrets out.
func (s *Server) check(name string, rg *resourceGroup, in *arm.ContainerGroup) (sealed map[string]map[string]string, _ *Error) {
	if !legalName(name) {
		return nil, refuse(ruleGroupName, "The container group name '%s' is invalid. It must have 1 to 63 lowercase letters, numbers and dashes, and it cannot start or end with a dash; consecutive dashes are not allowed.", name)
	}
	if in.Location == nil || *in.Location == "" {
		return nil, refuse(ruleLocationMissing, "The location property is required for this definition.")
	}
	if at := normalLocation(*in.Location); at != normalLocation(s.o.Location) {
		return nil, refuse(ruleLocation, "The provided location '%s' is not available for resource type '%s'. List of available regions for the resource type is '%s'.", *in.Location, groupType, s.o.Location)
	}
	in.Location = to.Ptr(normalLocation(*in.Location))
	tags := map[string]string{}
	for name, value := range in.Tags {
		tags[name] = *cmp.Or(value, to.Ptr(""))
	}
	if e := checkTags(tags); e != nil {
		return nil, e
	}
	in.Tags = pointers(tags)
	p := in.Properties
	if p == nil {
		return nil, refuse(ruleContainers, "The container group '%s' has no properties, thus no containers.", name)
	}
	in.ID, in.Name, in.Type, p.InstanceView, p.ProvisioningState = nil, nil, nil, nil, nil // read-only
	if e := unsupported(name, in); e != nil {
		return nil, e
	}
	if e := enums(name, p); e != nil {
		return nil, e
	}
	if e := checkIdentity(in.Identity); e != nil {
		return nil, e
	}
	if e := checkNetwork(p); e != nil {
		return nil, e
	}
	if e := checkAddress(name, p); e != nil {
		return nil, e
	}
	if e := checkRegistries(name, in); e != nil {
		return nil, e
	}
	return s.checkContainers(name, p)
}

// unsupported refuses what the pocket cloud can't do.
func unsupported(name string, in *arm.ContainerGroup) *Error {
	p := in.Properties
	for _, f := range []struct {
		member string
		set    bool
	}{
		{"zones", len(in.Zones) > 0},
		{"confidentialComputeProperties", p.ConfidentialComputeProperties != nil},
		{"dnsConfig", p.DNSConfig != nil},
		{"diagnostics", p.Diagnostics != nil},
		{"encryptionProperties", p.EncryptionProperties != nil},
		{"extensions", len(p.Extensions) > 0},
		{"ipAddress.dnsNameLabel", p.IPAddress != nil && p.IPAddress.DNSNameLabel != nil},
		{"initContainers", len(p.InitContainers) > 0},
		{"volumes", len(p.Volumes) > 0},
	} {
		if f.set {
			return refuse(ruleUnsupported, "The pocket cloud doesn't offer '%s' (container group '%s').", f.member, name)
		}
	}
	for _, c := range p.Containers {
		if c == nil || c.Properties == nil {
			continue
		}
		v := c.Properties
		gpu := v.Resources != nil && (v.Resources.Requests != nil && v.Resources.Requests.Gpu != nil || v.Resources.Limits != nil && v.Resources.Limits.Gpu != nil)
		if len(v.VolumeMounts) > 0 || v.LivenessProbe != nil || v.ReadinessProbe != nil || v.SecurityContext != nil || gpu {
			return refuse(ruleUnsupported, "The pocket cloud offers no volume mounts, probes, security contexts and GPUs (container group '%s').", name)
		}
	}
	return nil
}

// enums puts defaults in and writes values as the cloud does, which takes them
// in any case.
func enums(name string, p *arm.ContainerGroupPropertiesProperties) *Error {
	if p.OSType == nil || !normal(&p.OSType, arm.PossibleOperatingSystemTypesValues()) {
		return refuse(ruleOSType, "The 'osType' for container group '%s' is invalid. The value must be one of 'Windows,Linux'.", name)
	}
	if *p.OSType != arm.OperatingSystemTypesLinux {
		return refuse(ruleUnsupported, "The pocket cloud offers no Windows containers (container group '%s').", name)
	}
	if p.RestartPolicy == nil {
		p.RestartPolicy = to.Ptr(arm.ContainerGroupRestartPolicyAlways)
	}
	if !normal(&p.RestartPolicy, arm.PossibleContainerGroupRestartPolicyValues()) {
		return refuse(ruleRestartPolicy, "The 'restartPolicy' for container group '%s' is invalid. The value must be one of 'Always,OnFailure,Never'.", name)
	}
	if p.SKU == nil {
		p.SKU = to.Ptr(arm.ContainerGroupSKUStandard)
	}
	if !normal(&p.SKU, arm.PossibleContainerGroupSKUValues()) {
		return refuse(ruleSKU, "The 'sku' for container group '%s' is invalid. The value must be one of 'Standard,Dedicated,Confidential'.", name)
	}
	if p.Priority != nil && !normal(&p.Priority, arm.PossibleContainerGroupPriorityValues()) {
		return refuse(rulePriority, "The 'priority' for container group '%s' is invalid. The value must be one of 'Regular,Spot'.", name)
	}
	if *p.SKU != arm.ContainerGroupSKUStandard || p.Priority != nil && *p.Priority == arm.ContainerGroupPrioritySpot {
		return refuse(ruleUnsupported, "The pocket cloud offers sku Standard and priority Regular only (container group '%s').", name)
	}
	return nil
}

// normal replaces a value by the one of the list that differs in case only, and
// says whether there is one.
func normal[T ~string](v **T, list []T) bool {
	i := slices.IndexFunc(list, func(t T) bool { return strings.EqualFold(string(t), string(**v)) })
	if i >= 0 {
		*v = &list[i]
	}
	return i >= 0
}

// checkIdentity checks the identities of a group. See
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-managed-identity
func checkIdentity(v *arm.ContainerGroupIdentity) *Error {
	if v == nil {
		return nil
	}
	v.PrincipalID, v.TenantID = nil, nil // read-only
	if v.Type == nil || !normal(&v.Type, arm.PossibleResourceIdentityTypeValues()) {
		return refuse(ruleIdentityType, "The identity type is invalid. The value must be one of 'SystemAssigned', 'UserAssigned', 'SystemAssigned, UserAssigned', 'None'.")
	}
	user := strings.Contains(string(*v.Type), string(arm.ResourceIdentityTypeUserAssigned))
	if user != (len(v.UserAssignedIdentities) > 0) {
		return refuse(ruleIdentityUser, "User assigned identities are given exactly with an identity type that has 'UserAssigned'.")
	}
	for _, id := range slices.Sorted(maps.Keys(v.UserAssignedIdentities)) {
		if !identityForm().MatchString(id) {
			return refuse(ruleIdentityUser, "The user assigned identity '%s' is no resource ID of one.", id)
		}
		v.UserAssignedIdentities[id] = &arm.UserAssignedIdentities{ClientID: to.Ptr(uuid(hex.EncodeToString(sum(id, "client")))), PrincipalID: to.Ptr(uuid(hex.EncodeToString(sum(id, "principal"))))}
	}
	return nil
}

// checkNetwork checks subnets. See
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-virtual-network-concepts
func checkNetwork(p *arm.ContainerGroupPropertiesProperties) *Error {
	if len(p.SubnetIDs) > 1 {
		return refuse(ruleSubnet, "A container group has one subnet.")
	}
	for _, s := range p.SubnetIDs {
		if s.ID == nil || !subnet().MatchString(*s.ID) {
			return refuse(ruleSubnet, "The subnet ID '%s' is no resource ID of a subnet.", *cmp.Or(s.ID, to.Ptr("")))
		}
	}
	return nil
}

// checkRegistries checks the credentials of registries, and forgets passwords:
// nothing is really pulled with them.
func checkRegistries(name string, in *arm.ContainerGroup) *Error {
	var seen []string
	for _, r := range in.Properties.ImageRegistryCredentials {
		server := *cmp.Or(r.Server, to.Ptr(""))
		if !serverForm().MatchString(server) || slices.Contains(seen, server) {
			return refuse(ruleRegistryServer, "The server '%s' in the 'imageRegistryCredentials' of container group '%s' is invalid or given twice. It is a name without a protocol such as 'http' and 'https'.", server, name)
		}
		seen = append(seen, server)
		byName := r.Username != nil && *r.Username != "" && r.Password != nil && *r.Password != ""
		if byName == (r.Identity != nil) || r.Identity != nil && (r.Username != nil || r.Password != nil) {
			return refuse(ruleRegistry, "The 'imageRegistryCredentials' of server '%s' in container group '%s' need a username with a password, or an identity.", server, name)
		}
		if r.Identity != nil && (in.Identity == nil || !slices.ContainsFunc(slices.Collect(maps.Keys(in.Identity.UserAssignedIdentities)), func(id string) bool { return strings.EqualFold(id, *r.Identity) })) {
			return refuse(ruleRegistry, "The identity '%s' of registry '%s' isn't one of container group '%s'.", *r.Identity, server, name)
		}
		r.Password = nil
	}
	return nil
}

// checkContainers checks containers, and takes secure variables out.
func (s *Server) checkContainers(name string, p *arm.ContainerGroupPropertiesProperties) (map[string]map[string]string, *Error) {
	if n := len(p.Containers); n == 0 || n > maxContainers {
		return nil, refuse(ruleContainers, "The container group '%s' has %d containers. It must have 1 to %d.", name, n, maxContainers)
	}
	sealed := map[string]map[string]string{}
	var cpu, memory float64
	for _, c := range p.Containers {
		own := *cmp.Or(c.Name, to.Ptr(""))
		if !legalName(own) {
			return nil, refuse(ruleContainerName, "The container name '%s' in container group '%s' is invalid. It must have 1 to 63 lowercase letters, numbers and dashes, and it cannot start or end with a dash; consecutive dashes are not allowed.", own, name)
		}
		if sealed[own] != nil {
			return nil, refuse(ruleContainerTwice, "The container name '%s' in container group '%s' is not unique.", own, name)
		}
		v := c.Properties
		if v == nil || v.Image == nil || *v.Image == "" || strings.ContainsAny(*v.Image, " \t\r\n") {
			return nil, refuse(ruleImage, "The image in container '%s' of container group '%s' is not specified or invalid.", own, name)
		}
		v.InstanceView = nil // read-only
		asked, e := checkResources(name, own, v.Resources)
		if e != nil {
			return nil, e
		}
		cpu, memory = cpu+*asked.CPU, memory+*asked.MemoryInGB
		if sealed[own], e = seal(name, own, v); e != nil {
			return nil, e
		}
		for _, word := range v.Command {
			if strings.ContainsRune(*word, 0) {
				return nil, refuse(ruleCommand, "The command in container '%s' of container group '%s' has a NUL character.", own, name)
			}
		}
	}
	if cpu > maxCPU || memory > maxMemory {
		return nil, ruleError(ruleSize, Capacity(s.o.Location, cpu, memory))
	}
	return sealed, nil
}

func checkResources(group, name string, r *arm.ResourceRequirements) (*arm.ResourceRequests, *Error) {
	if r == nil || r.Requests == nil || r.Requests.CPU == nil || r.Requests.MemoryInGB == nil {
		return nil, refuse(ruleResources, "The resource requests are not specified in container '%s' of contain group '%s'. Both memory and CPU requests are required since API version '2017-07-01-preview'.", name, group)
	}
	ask := r.Requests
	if *ask.CPU <= 0 || *ask.MemoryInGB <= 0 {
		return nil, refuse(ruleResourceValue, "The CPU and memory requests in container '%s' of container group '%s' must be positive.", name, group)
	}
	sizes := []*float64{ask.MemoryInGB}
	if r.Limits != nil && r.Limits.MemoryInGB != nil {
		sizes = append(sizes, r.Limits.MemoryInGB)
	}
	for _, size := range sizes {
		if tenths := *size * 10; math.Abs(tenths-math.Round(tenths)) > 1e-6 {
			return nil, refuse(ruleMemoryStep, "The memory requirement is '%s' in container '%s' of container group '%s'. The memory requirement should be times of 0.1 GB.", plain(*size), name, group)
		}
	}
	if l := r.Limits; l != nil && (l.CPU != nil && *l.CPU < *ask.CPU || l.MemoryInGB != nil && *l.MemoryInGB < *ask.MemoryInGB) {
		return nil, refuse(ruleResourceLimit, "The resource limits in container '%s' of container group '%s' are below its requests.", name, group)
	}
	return ask, nil
}

// seal checks a container's variables, and takes the secure ones out: their
// values aren't shown again. See
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-environment-variables
func seal(group, name string, v *arm.ContainerProperties) (map[string]string, *Error) {
	out := map[string]string{}
	for _, e := range v.EnvironmentVariables {
		if e.Name == nil || !envForm().MatchString(*e.Name) {
			return nil, refuse(ruleEnvName, "The environment variable name in container '%s' of container group '%s' is invalid. A valid environment variable name must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName').", name, group)
		}
		if (e.Value == nil) == (e.SecureValue == nil) {
			return nil, refuse(ruleEnvValue, "The environment variable '%s' in container '%s' of container group '%s' must have either a value or a secure value.", *e.Name, name, group)
		}
		if text := cmp.Or(e.Value, e.SecureValue); strings.ContainsRune(*text, 0) {
			return nil, refuse(ruleEnvValue, "The environment variable '%s' in container '%s' of container group '%s' has a NUL character.", *e.Name, name, group)
		}
		if e.SecureValue != nil {
			out[*e.Name] = *e.SecureValue
			e.SecureValue = nil
		}
	}
	if v.EnvironmentVariables == nil {
		v.EnvironmentVariables = []*arm.EnvironmentVariable{}
	}
	return out, nil
}

// changes refuses to change what a living group can't change. See
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-update
func (g *group) changes(in *arm.ContainerGroup) *Error {
	if g.ended() { // it is deployed as a new one
		return nil
	}
	was, is := g.Body.Properties, in.Properties
	sizes := func(p *arm.ContainerGroupPropertiesProperties) (out []float64) {
		for _, c := range p.Containers {
			out = append(out, *c.Properties.Resources.Requests.CPU, *c.Properties.Resources.Requests.MemoryInGB)
		}
		return out
	}
	network := func(p *arm.ContainerGroupPropertiesProperties) string {
		if len(p.SubnetIDs) == 0 {
			return ""
		}
		return strings.ToLower(*p.SubnetIDs[0].ID)
	}
	if *was.OSType != *is.OSType || *was.RestartPolicy != *is.RestartPolicy || network(was) != network(is) || !slices.Equal(sizes(was), sizes(is)) {
		return refuse(ruleUpdate, "The updates on container group '%s' are invalid. If you are going to update the os type, restart policy, network profile, CPU, memory or GPU resources for a container group, you must delete it first and then create a new one.", g.name())
	}
	return nil
}

// pullable refuses images that can't be pulled.
func (s *Server) pullable(in *arm.ContainerGroup) *Error {
	for _, c := range in.Properties.Containers {
		if s.knobs.Images != nil && !slices.Contains(s.knobs.Images, *c.Properties.Image) {
			return refuse(ruleInaccessible, "The image '%s' in container group is not accessible. Please check the image and registry credential.", *c.Properties.Image)
		}
	}
	return nil
}

// checkTags keeps to the limits of tags. See
// https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/tag-resources
func checkTags(tags map[string]string) *Error {
	if len(tags) > 50 {
		return refuse(ruleTagCount, "The maximum number of tags allowed on a resource is '50', the number of tags is '%d'.", len(tags))
	}
	var seen []string
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		switch {
		case name == "" || len(name) > 512 || len(tags[name]) > 256:
			return refuse(ruleTagLength, "The tag '%.20s' has a name of '%d' and a value of '%d' characters. The limits are '512' and '256'.", name, len(name), len(tags[name]))
		case strings.ContainsAny(name, `<>%&\?/`):
			return refuse(ruleTagName, "The tag names '%s' have reserved characters '<,>,%%,&,\\,?,/' or control characters.", name)
		case slices.ContainsFunc(seen, func(s string) bool { return strings.EqualFold(s, name) }):
			return refuse(ruleTagTwice, "The tag name '%s' is given twice: names are compared without case.", name)
		}
		seen = append(seen, name)
	}
	return nil
}

func pointers(m map[string]string) map[string]*string {
	if len(m) == 0 {
		return nil
	}
	out := map[string]*string{}
	for k, v := range m {
		out[k] = &v
	}
	return out
}
