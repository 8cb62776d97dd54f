package azure

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// Limits are what a subscription may have and do in a region, 0 for any number.
type Limits struct {
	// Groups is how many groups there may be, ended ones too.
	Groups int
	// Cores is how many CPUs groups that haven't ended may have.
	Cores int
	// CreatesPerHour, CreatesPer5Minutes, DeletesPerHour and DeletesPer5Minutes
	// bound calls.
	CreatesPerHour, CreatesPer5Minutes, DeletesPerHour, DeletesPer5Minutes int
	// Reads, Writes and Deletes bound a caller's calls of Resource Manager.
	Reads, Writes, Deletes Bucket
}

// Bucket is a rate with bursts.
type Bucket struct {
	// Size is how many calls it holds, 0 for any number.
	Size int
	// PerSecond is how many come back in a second.
	PerSecond int
}

// bucket is what is left of a Bucket.
type bucket struct {
	left float64
	at   time.Time
}

// APILimits are the documented ones of a new subscription:
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-resource-and-quota-limits
// and https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/request-limits-and-throttling
func APILimits() Limits {
	return Limits{Groups: 100, Cores: 100, CreatesPerHour: 300, CreatesPer5Minutes: 100, DeletesPerHour: 300, DeletesPer5Minutes: 100,
		Reads: Bucket{250, 25}, Writes: Bucket{200, 10}, Deletes: Bucket{200, 10}}
}

// SetLimits puts limits in force, none at first, and forgets what was called.
func (s *Server) SetLimits(l Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits, s.creates, s.deletes, s.buckets = l, nil, nil, map[string]*bucket{}
}

// used counts the groups and the CPUs in use, without one group.
func (s *Server) used(except *group) (groups int, cores float64) {
	s.prune()
	for _, g := range s.groups {
		if g == except {
			continue
		}
		groups++
		if !g.ended() {
			cpu, _ := sizeOf(g.Body)
			cores += cpu
		}
	}
	return groups, cores
}

// room refuses a group that is beyond a quota.
func (s *Server) room(in *arm.ContainerGroup, old *group) *Error {
	groups, cores := s.used(old)
	cpu, _ := sizeOf(in)
	switch l := s.limits; {
	case l.Groups > 0 && old == nil && groups >= l.Groups:
		return ruleError(ruleQuota, Quota("ContainerGroups", s.o.Location, float64(l.Groups), float64(groups), 1))
	case l.Cores > 0 && cores+cpu > float64(l.Cores):
		return ruleError(ruleQuota, Quota("StandardCores", s.o.Location, float64(l.Cores), cores, cpu))
	}
	return nil
}

// takeCall counts a call of Resource Manager, refuses one that is beyond the
// caller's rate, and tells what is left.
func (s *Server) takeCall(c *call) *Error {
	if c.route.plane != planeARM {
		return nil
	}
	kind, limit, usual := "Writes", s.limits.Writes, APILimits().Writes
	switch c.request.Method {
	case http.MethodGet, http.MethodHead:
		kind, limit, usual = "Reads", s.limits.Reads, APILimits().Reads
	case http.MethodDelete:
		kind, limit, usual = "Deletes", s.limits.Deletes, APILimits().Deletes
	}
	full := limit
	if full.Size == 0 {
		full = usual
	}
	key := c.who.Client + " " + kind
	b := s.buckets[key]
	if b == nil {
		b = &bucket{left: float64(full.Size), at: c.now}
		s.buckets[key] = b
	}
	b.left = min(float64(full.Size), b.left+c.now.Sub(b.at).Seconds()*float64(full.PerSecond))
	b.at = c.now
	if b.left < 1 && limit.Size > 0 {
		c.header.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil((1-b.left)/float64(max(1, full.PerSecond)))))))
		return refuse(ruleARMThrottled, "Number of '%s' requests for subscription '%s' actor '%s' exceeded. Please try again after '1' seconds after additional tokens are available. Refer to https://aka.ms/arm-throttling for additional information.", strings.ToLower(kind), s.o.SubscriptionID, c.who.Object)
	}
	b.left = max(0, b.left-1)
	c.header.Set("X-Ms-Ratelimit-Remaining-Subscription-"+kind, strconv.Itoa(int(b.left)))
	return nil
}

// takeCreate counts a call that creates or updates a group.
func (s *Server) takeCreate(c *call) *Error {
	return take(c, &s.creates, s.limits.CreatesPerHour, s.limits.CreatesPer5Minutes, APILimits().CreatesPerHour, APILimits().CreatesPer5Minutes)
}

func (s *Server) takeDelete(c *call) *Error {
	return take(c, &s.deletes, s.limits.DeletesPerHour, s.limits.DeletesPer5Minutes, APILimits().DeletesPerHour, APILimits().DeletesPer5Minutes)
}

// take counts a call, refuses one that is beyond a limit, and tells what is
// left.
func take(c *call, made *[]time.Time, hour, minutes, hourUsual, minutesUsual int) *Error {
	calls := *made
	for len(calls) > 0 && !calls[0].After(c.now.Add(-time.Hour)) {
		calls = calls[1:]
	}
	recent := 0
	for i := len(calls) - 1; i >= 0 && calls[i].After(c.now.Add(-5*time.Minute)); i-- {
		recent++
	}
	var again time.Time
	switch {
	case hour > 0 && len(calls) >= hour:
		again = calls[len(calls)-hour].Add(time.Hour)
	case minutes > 0 && recent >= minutes:
		again = calls[len(calls)-minutes].Add(5 * time.Minute)
	default:
		calls = append(calls, c.now)
		recent++
	}
	*made = calls
	left := func(limit, usual, n int) string {
		if limit == 0 {
			limit = usual
		}
		return strconv.Itoa(max(0, limit-n))
	}
	c.header.Set("X-Ms-Ratelimit-Remaining-Subscription-Resource-Requests-Pt5m", left(minutes, minutesUsual, recent))
	c.header.Set("X-Ms-Ratelimit-Remaining-Subscription-Resource-Requests-Pt1h", left(hour, hourUsual, len(calls)))
	if again.IsZero() {
		return nil
	}
	c.header.Set("Retry-After", strconv.Itoa(int((again.Sub(c.now)+time.Second-1)/time.Second)))
	return ruleError(ruleThrottled, Throttled())
}

// listUsage tells quotas and what is used. See
// https://learn.microsoft.com/en-us/rest/api/container-instances/location/list-usage
func (s *Server) listUsage(c *call) (result, *Error) {
	if normalLocation(c.path["location"]) != normalLocation(s.o.Location) {
		return result{}, refuse(ruleLocation, "The provided location '%s' is not available for resource type '%s'. List of available regions for the resource type is '%s'.", c.path["location"], groupType, s.o.Location)
	}
	groups, cores := s.used(nil)
	usage := func(name, words string, used float64, limit, usual int) *arm.Usage {
		if limit == 0 {
			limit = usual
		}
		return &arm.Usage{ID: to.Ptr("/subscriptions/" + s.o.SubscriptionID + "/providers/Microsoft.ContainerInstance/locations/" + s.o.Location + "/usages/" + name), Unit: to.Ptr("Count"),
			CurrentValue: to.Ptr(int32(math.Ceil(used))), Limit: to.Ptr(int32(limit)), Name: &arm.UsageName{Value: &name, LocalizedValue: &words}} //nolint:gosec // far below
	}
	return result{http.StatusOK, arm.UsageListResult{Value: []*arm.Usage{
		usage("ContainerGroups", "Container Groups", float64(groups), s.limits.Groups, APILimits().Groups),
		usage("StandardCores", "Standard Cores", cores, s.limits.Cores, APILimits().Cores),
	}}}, nil
}

// The refusals that follow come from Azure's own state, which a pocket cloud
// hasn't: they are for Faults.

// Capacity is the refusal of a region without room. See
// https://learn.microsoft.com/en-us/troubleshoot/azure/azure-container-instances/configuration-setup/service-unavailable-requested-resource-is-not-available
func Capacity(location string, cpu, memory float64) *fault.Refusal {
	return &fault.Refusal{Status: http.StatusConflict, Code: "ServiceUnavailable",
		Message: fmt.Sprintf("The requested resource is not available in the location '%s' at this moment. Please retry with a different resource request or in another location. Resource requested: '%s' CPU '%s' GB memory 'Linux' OS", location, plain(cpu), plain(memory))}
}

// Quota is the refusal of a request beyond a quota. See
// https://learn.microsoft.com/en-us/troubleshoot/azure/azure-container-instances/configuration-setup/spot-container-group-quota-reached-error
func Quota(name, location string, limit, used, asked float64) *fault.Refusal {
	return &fault.Refusal{Status: http.StatusBadRequest, Code: "ContainerGroupQuotaReached",
		Message: fmt.Sprintf("Resource type '%s' container group quota '%s' exceeded in region '%s'. Limit: '%s', Usage: '%s' Requested: '%s'.", groupType, name, location, plain(limit), plain(used), plain(asked))}
}

// InaccessibleImage is the refusal of an image that can't be pulled. See
// https://learn.microsoft.com/en-us/troubleshoot/azure/azure-container-instances/configuration-setup/inaccessible-image
func InaccessibleImage(image, group string) *fault.Refusal {
	return &fault.Refusal{Status: http.StatusBadRequest, Code: "InaccessibleImage",
		Message: fmt.Sprintf("The image '%s' in container group '%s' is not accessible. Please check the image and registry credential.", image, group)}
}

// RegistryError is the refusal for a registry that refuses. See
// https://learn.microsoft.com/en-us/troubleshoot/azure/azure-container-instances/configuration-setup/docker-hub-rate-limit-registryerrorresponse
func RegistryError(server string) *fault.Refusal {
	return &fault.Refusal{Status: http.StatusConflict, Code: "RegistryErrorResponse",
		Message: fmt.Sprintf("An error response is received from the docker registry '%s'. Please retry later.", server)}
}

// Transitioning is the refusal of a group that something goes on with. See
// https://learn.microsoft.com/en-us/troubleshoot/azure/azure-container-instances/configuration-setup/container-group-transitioning-state
func Transitioning(group string) *fault.Refusal {
	return &fault.Refusal{Status: http.StatusConflict, Code: "ContainerGroupTransitioning",
		Message: fmt.Sprintf("The container group '%s' is still transitioning, please retry later.", group)}
}

// Throttled is the refusal of a call beyond a rate.
func Throttled() *fault.Refusal {
	return &fault.Refusal{Status: http.StatusTooManyRequests, Code: "TooManyRequests", Message: "The request is being throttled as the limit has been reached for operation type."}
}
