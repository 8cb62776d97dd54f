package cloudlogging

import (
	"encoding/json"
	"fmt"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"
	"google.golang.org/protobuf/encoding/protojson"
)

// savedEntry is an entry between two servers.
type savedEntry struct {
	Entry   json.RawMessage `json:"entry"`
	Visible time.Time       `json:"visible"`
	Seq     int64           `json:"seq"`
}

// Save returns all entries as JSON.
func (s *Service) Save() (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]savedEntry, 0, len(s.entries))
	for _, e := range s.entries {
		data, err := protojson.Marshal(e.view)
		if err != nil {
			return nil, fmt.Errorf("save log entries: %w", err)
		}
		list = append(list, savedEntry{Entry: data, Visible: e.visible, Seq: e.seq})
	}
	return json.Marshal(list)
}

// Load takes back what Save returned, in a new service.
func (s *Service) Load(data json.RawMessage) error {
	var list []savedEntry
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("load log entries: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, saved := range list {
		view := &loggingpb.LogEntry{}
		if err := protojson.Unmarshal(saved.Entry, view); err != nil {
			return fmt.Errorf("load log entries: %w", err)
		}
		s.written = max(s.written, saved.Seq)
		s.insert(&entry{view: view, at: view.GetTimestamp().AsTime(), visible: saved.Visible, seq: saved.Seq})
	}
	return nil
}
