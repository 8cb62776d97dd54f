package gsecrets

import (
	"encoding/json"
	"fmt"
	"slices"

	pb "cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// savedSecret is a secret between two servers.
type savedSecret struct {
	Secret   json.RawMessage `json:"secret"`
	Versions []savedVersion  `json:"versions"`
}

type savedVersion struct {
	Version json.RawMessage `json:"version"`
	Data    []byte          `json:"data"`
	Sum     int64           `json:"sum"`
}

// Save returns all secrets as JSON, payloads too.
func (s *Service) Save() (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []savedSecret
	for _, sec := range s.secrets {
		view, err := protojson.Marshal(sec.view)
		if err != nil {
			return nil, fmt.Errorf("save secrets: %w", err)
		}
		saved := savedSecret{Secret: view}
		for _, v := range sec.versions {
			view, err := protojson.Marshal(v.view)
			if err != nil {
				return nil, fmt.Errorf("save secrets: %w", err)
			}
			saved.Versions = append(saved.Versions, savedVersion{Version: view, Data: slices.Clone(v.data), Sum: v.sum})
		}
		list = append(list, saved)
	}
	return json.Marshal(list)
}

// Load takes back what Save returned, in a new service.
func (s *Service) Load(data json.RawMessage) error {
	var list []savedSecret
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("load secrets: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, saved := range list {
		sec := &secret{view: &pb.Secret{}}
		if err := protojson.Unmarshal(saved.Secret, sec.view); err != nil {
			return fmt.Errorf("load secrets: %w", err)
		}
		for i, sv := range saved.Versions {
			v := &version{number: i + 1, view: &pb.SecretVersion{}, data: sv.Data, sum: sv.Sum}
			if err := protojson.Unmarshal(sv.Version, v.view); err != nil {
				return fmt.Errorf("load secrets: %w", err)
			}
			sec.versions = append(sec.versions, v)
		}
		id, ok := gapi.Segments(sec.view.Name, "projects/*/secrets/*")
		if !ok {
			return fmt.Errorf("load secrets: %q is no secret's name", sec.view.Name)
		}
		s.secrets[id[1]] = sec
	}
	return nil
}
