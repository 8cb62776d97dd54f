package appplatform

import (
	"encoding/json"
	"errors"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/sdk"
)

// jobName is the name of the app's only component.
const jobName = "job"

// request is what a launch sends. Values of secrets come in when it is sent.
type request struct {
	App *godo.AppCreateRequest `json:"app"`
	// Login is where the registry's credentials are.
	Login sdk.SecretRef `json:"registry_credentials,omitzero"`
	// Nonce is set where the command writes its exit code.
	Nonce string `json:"exit_nonce,omitzero"`
}

func (r request) encode() (json.RawMessage, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return sdk.CanonicalJSON(b)
}

func decodeRequest(raw json.RawMessage) (*request, error) {
	r := &request{}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, err
	}
	if r.App == nil || component(r.App.Spec) == nil {
		return nil, errors.New("it has no app with one job")
	}
	return r, nil
}
