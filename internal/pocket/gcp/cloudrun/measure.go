package cloudrun

import (
	"context"
	"slices"
	"time"

	"github.com/windlass-run/windlass/internal/pocket/run"
)

// Measurement is what a revision's instances used, at a time.
type Measurement struct {
	Service, Revision string
	At                time.Time
	// Instances are those that served.
	Instances int
	// CPU and Memory are the part of its limit that each instance used: of the
	// CPU since the measurement before. An instance that couldn't be measured, or
	// not yet, isn't among them.
	CPU, Memory []float64
}

// sampler measures services in the background, from the first instance on.
type sampler struct {
	running bool
	kept    []Measurement
}

type reading struct {
	at  time.Time
	cpu time.Duration
}

// keptMeasurements bounds the history: an hour at the standard pace.
const keptMeasurements = 720

// Measurements returns those that ended between two times, oldest first.
func (s *Service) Measurements(from, to time.Time) []Measurement {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Measurement
	for _, m := range s.sampler.kept {
		if m.At.After(from) && !m.At.After(to) {
			out = append(out, m)
		}
	}
	return out
}

// measureFrom starts the measuring, if nobody has. The lock is held.
func (s *Service) measureFrom() {
	if s.sampler.running {
		return
	}
	s.sampler.running = s.live(func() {
		last := map[run.Container]reading{}
		for {
			s.mu.Lock()
			every := s.knobs.Sample
			s.mu.Unlock()
			if !s.pause(max(every, time.Millisecond)) {
				return
			}
			last = s.sample(last)
		}
	})
}

// subject is a revision that is to be measured.
type subject struct {
	Measurement
	cores, memory float64 // the limits
	boxes         []run.Container
}

// sample measures every revision that has instances, and returns what CPU each
// has used.
func (s *Service) sample(last map[run.Container]reading) map[run.Container]reading {
	seen := map[run.Container]reading{}
	for _, m := range s.subjects() {
		for _, box := range m.boxes {
			meter, ok := box.(run.Meter)
			if !ok {
				continue
			}
			u, ok := meter.Usage(context.Background())
			if !ok {
				continue
			}
			now := s.o.Now()
			m.Memory = append(m.Memory, float64(u.Memory)/m.memory)
			before, known := last[box]
			if took := now.Sub(before.at); known && took > 0 {
				m.CPU = append(m.CPU, max((u.CPU-before.cpu).Seconds(), 0)/took.Seconds()/m.cores)
			}
			seen[box] = reading{now, u.CPU}
		}
		s.mu.Lock()
		m.At = s.o.Now()
		s.sampler.kept = append(s.sampler.kept, m.Measurement)
		if n := len(s.sampler.kept); n > keptMeasurements {
			s.sampler.kept = slices.Clone(s.sampler.kept[n-keptMeasurements:])
		}
		s.mu.Unlock()
	}
	return seen
}

func (s *Service) subjects() (out []subject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.services {
		for _, r := range h.revisions {
			m := subject{Measurement: Measurement{Service: h.id, Revision: r.id, Instances: r.instances()}}
			if m.Instances == 0 {
				continue
			}
			c := r.template.Containers[0]
			if cores, ok := quantity(c.GetResources().GetLimits()["cpu"]); ok {
				m.cores, _ = cores.Float64()
			}
			m.memory = float64(memoryMiB(c) * mebi)
			for _, p := range r.replicas {
				if p.box != nil {
					m.boxes = append(m.boxes, p.box)
				}
			}
			out = append(out, m)
		}
	}
	return out
}
