package aci

import (
	"encoding/json"
	"errors"
	"math"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/sdk"
)

const (
	tagName = sdk.LabelPrefix + "name"

	groupPrefix = "windlass-"
	// container is the name of a group's only container.
	container = "main"
)

// groupID names an attempt's group: windlass- and the attempt's 26 characters, of
// the 63 that a name may have.
// https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/resource-name-rules#microsoftcontainerinstance
func groupID(attempt sdk.ID) string { return groupPrefix + attempt.String() }

// request is what a launch stores: the group without the values of secrets, and
// the secrets that are registries' passwords, by server.
type request struct {
	Group     *arm.ContainerGroup
	Passwords map[string]sdk.SecretRef
}

// wire is how a request is stored: the canonical form knows no fractions, so the
// size stands beside the group.
type wire struct {
	Group     json.RawMessage          `json:"group"`
	MilliCPU  int64                    `json:"milli_cpu"`
	MemoryMiB int64                    `json:"memory_mib"`
	Passwords map[string]sdk.SecretRef `json:"passwords,omitempty"`
}

// encode gives the request in canonical form.
func (r request) encode() (json.RawMessage, error) {
	c := r.Group.Properties.Containers[0].Properties
	size := c.Resources
	w := wire{MilliCPU: int64(math.Round(*size.Requests.CPU * 1000)), MemoryMiB: int64(math.Round(*size.Requests.MemoryInGB * (gib / mib))), Passwords: r.Passwords}
	c.Resources = nil
	var err error
	w.Group, err = json.Marshal(r.Group)
	if c.Resources = size; err != nil {
		return nil, err
	}
	return sdk.EncodeCanonical(w)
}

func decodeRequest(raw json.RawMessage) (request, error) {
	var w wire
	if err := json.Unmarshal(raw, &w); err != nil {
		return request{}, err
	}
	r := request{Group: &arm.ContainerGroup{}, Passwords: w.Passwords}
	if err := json.Unmarshal(w.Group, r.Group); err != nil {
		return request{}, err
	}
	p := r.Group.Properties
	if p == nil || len(p.Containers) != 1 || p.Containers[0] == nil || p.Containers[0].Properties == nil {
		return request{}, errors.New("it has no container")
	}
	for _, reg := range p.ImageRegistryCredentials {
		if reg == nil || reg.Server == nil {
			return request{}, errors.New("it has a registry without a server")
		}
	}
	p.Containers[0].Properties.Resources = &arm.ResourceRequirements{Requests: &arm.ResourceRequests{
		CPU: to.Ptr(float64(w.MilliCPU) / 1000), MemoryInGB: to.Ptr(float64(w.MemoryMiB) / (gib / mib))}}
	return r, nil
}
