package cloudrun

import (
	"encoding/json"
	"fmt"
	"time"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// savedService is a service between two servers. Its instances end with the one,
// and are started again by the other.
type savedService struct {
	Service   json.RawMessage `json:"service"`
	Born      time.Time       `json:"born"`
	Made      int             `json:"made"`
	Revisions []savedRevision `json:"revisions"`
}

type savedRevision struct {
	Revision json.RawMessage `json:"revision"`
	Template json.RawMessage `json:"template"`
	Scaling  json.RawMessage `json:"scaling"`
	Born     time.Time       `json:"born"`
	Ready    bool            `json:"ready"`
	// Failed and Message say why it can't serve.
	Failed  string `json:"failed,omitempty"`
	Message string `json:"message,omitempty"`
}

// saveServices is called with the lock held.
func (s *Service) saveServices() (out []savedService, err error) {
	put := func(m proto.Message) json.RawMessage {
		data, e := protojson.Marshal(m)
		if e != nil && err == nil {
			err = fmt.Errorf("save services: %w", e)
		}
		return data
	}
	for _, h := range s.services {
		if h.deleting {
			continue
		}
		kept := savedService{Service: put(h.view), Born: h.born, Made: h.made}
		for _, r := range h.revisions {
			k := savedRevision{Revision: put(r.view), Template: put(r.template), Scaling: put(r.scaling), Born: r.born, Ready: r.ready}
			if r.failed != nil {
				k.Failed, k.Message = r.failed.failed, r.failed.message
			}
			kept.Revisions = append(kept.Revisions, k)
		}
		out = append(out, kept)
	}
	return out, err
}

// loadServices takes services back, and starts what they want. The lock is held.
func (s *Service) loadServices(list []savedService) error {
	for _, kept := range list {
		h := newHosted("", kept.Born)
		h.view, h.made = &runpb.Service{}, kept.Made
		if err := protojson.Unmarshal(kept.Service, h.view); err != nil {
			return fmt.Errorf("load services: %w", err)
		}
		h.id = last(h.view.Name)
		for _, k := range kept.Revisions {
			r := &revision{view: &runpb.Revision{}, template: &runpb.RevisionTemplate{}, scaling: &runpb.ServiceScaling{}, born: k.Born, ready: k.Ready}
			for data, m := range map[*json.RawMessage]proto.Message{&k.Revision: r.view, &k.Template: r.template, &k.Scaling: r.scaling} {
				if err := protojson.Unmarshal(*data, m); err != nil {
					return fmt.Errorf("load services: %w", err)
				}
			}
			r.id = last(r.view.Name)
			if k.Failed != "" {
				r.failed = &outcome{failed: k.Failed, message: k.Message}
			}
			h.revisions = append(h.revisions, r)
		}
		s.services[h.id] = h
		op, generation := s.newOperation(h.view), h.view.Generation
		s.live(func() { s.reconcile(h, generation, op) })
	}
	return nil
}
