package aci

import (
	"encoding/json"
	"errors"

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
// what they go into.
type request struct {
	Group *arm.ContainerGroup `json:"group"`
	// Passwords are the secrets that are registries' passwords, by server.
	Passwords map[string]sdk.SecretRef `json:"passwords,omitempty"`
}

// encode gives the request in canonical form. The numbers are Azure's own, which
// that form doesn't know: the group stands in it as text.
func (r request) encode() (json.RawMessage, error) {
	group, err := json.Marshal(r.Group)
	if err != nil {
		return nil, err
	}
	return sdk.EncodeCanonical(wire{Group: string(group), Passwords: r.Passwords})
}

// wire is how a request is stored.
type wire struct {
	Group     string                   `json:"group"`
	Passwords map[string]sdk.SecretRef `json:"passwords,omitempty"`
}

func decodeRequest(raw json.RawMessage) (request, error) {
	var w wire
	if err := json.Unmarshal(raw, &w); err != nil {
		return request{}, err
	}
	r := request{Group: &arm.ContainerGroup{}, Passwords: w.Passwords}
	if err := json.Unmarshal([]byte(w.Group), r.Group); err != nil {
		return request{}, err
	}
	if p := r.Group.Properties; p == nil || len(p.Containers) != 1 || p.Containers[0].Properties == nil {
		return request{}, errors.New("it has no container")
	}
	return r, nil
}
