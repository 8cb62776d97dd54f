package azure

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"
)

// life is one deployment of a group: what a PUT, a start or a restart begins.
type life struct {
	body   *arm.ContainerGroup
	sealed map[string]map[string]string
	op     *operation
	mishap Mishap
	pace   Pace
	// after are the earlier lives, which end first.
	after []*life
	stop  chan struct{}
	done  chan struct{}

	once sync.Once
	by   ending // set before stop is closed
}

// ending is what ends a life before its time.
type ending int

const (
	byStop ending = iota + 1
	byDelete
	byDeploy
)

// interrupt ends a life, unless it is ending already. The first reason stands.
func (l *life) interrupt(by ending) {
	if l == nil {
		return
	}
	l.once.Do(func() {
		l.by = by
		close(l.stop)
	})
}

// ending says that the life was interrupted, but goes on.
func (l *life) ending() bool {
	select {
	case <-l.done:
		return false
	default:
	}
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// deploy begins a new life of a group, which ends the one before. The lock is
// held.
func (s *Server) deploy(g *group, op *operation) {
	l := &life{body: g.Body, sealed: g.Sealed, op: op, mishap: s.mishap(g.name()), pace: s.knobs.Pace, stop: make(chan struct{}), done: make(chan struct{})}
	inPlace := g.life != nil && !g.ended()
	if g.life != nil {
		l.after = []*life{g.life}
		g.life.interrupt(byDeploy)
	}
	if g.Address = s.address(g, inPlace); g.Body.Properties.IPAddress != nil {
		g.Body.Properties.IPAddress.IP = nil // it stands above
	}
	g.life, g.Provisioning, g.State, g.Events = l, pending, pending, nil
	old := g.Containers
	g.Containers = nil
	for i, c := range g.Body.Properties.Containers {
		n := &container{Name: *c.Name, Out: newOutput()}
		// In place, a container goes on as what it was: the same log, one more
		// run.
		if inPlace && i < len(old) && old[i].Name == n.Name {
			n.Restarts, n.Previous, n.Events = old[i].Restarts, old[i].Previous, old[i].Events
			if !s.knobs.RestartDropsLog {
				n.Out = old[i].Out
			}
			n.replaces = old[i]
		}
		g.Containers = append(g.Containers, n)
	}
	s.lives.Go(func() { s.live(g, l) })
}

// live takes a group through a life.
func (s *Server) live(g *group, l *life) {
	defer close(l.done)
	for _, earlier := range l.after {
		<-earlier.done
	}
	l.after = nil
	code, text := s.provision(g, l)
	s.settle(g, l, code, text)
}

// pause lets time pass. It is false if the life has to end.
func (s *Server) pause(l *life, t time.Duration) bool {
	timer := time.NewTimer(max(t, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.stop:
		return false
	case <-s.end:
		return false
	}
}

// untilEnd waits for the end of a life that comes from outside.
func (s *Server) untilEnd(l *life) {
	select {
	case <-l.stop:
	case <-s.end:
	}
}

// provision finds a place and runs the containers to their end. It returns the
// error of a deployment that fails.
func (s *Server) provision(g *group, l *life) (code, text string) {
	if !s.pause(l, l.pace.Pending) {
		return "", ""
	}
	switch m := l.mishap; m.Stage {
	case StageWait:
		s.untilEnd(l)
		return "", ""
	case StageCapacity:
		if !s.pause(l, m.After) {
			return "", ""
		}
		cpu, memory := sizeOf(l.body)
		refusal := Capacity(s.o.Location, cpu, memory)
		s.mu.Lock()
		g.Events = addEvent(g.Events, "Failed", refusal.Message, s.o.Now())
		s.mu.Unlock()
		return refusal.Code, refusal.Message
	case StageFail:
		if !s.pause(l, m.After) {
			return "", ""
		}
		return "InternalServerError", "Encountered internal server error."
	}
	s.mu.Lock()
	g.Provisioning = creating
	containers := g.Containers
	s.mu.Unlock()
	var all sync.WaitGroup
	begun := make(chan bool, len(containers)) // false for one that never ran
	for i, c := range containers {
		all.Go(func() { s.runContainer(l, c, l.body.Properties.Containers[i], begun) })
	}
	ok := true
	for range containers {
		ok = <-begun && ok
	}
	if ok {
		s.mu.Lock()
		if !l.ending() {
			g.Provisioning, g.State = succeeded, running
			s.conclude(l.op, "", "")
		}
		s.mu.Unlock()
	}
	all.Wait()
	if !ok {
		select {
		case <-l.stop:
		case <-s.end:
		default:
			return "InternalServerError", "The container group could not pull its images in time."
		}
	}
	return "", ""
}

// settle brings a group to what a life comes to.
func (s *Server) settle(g *group, l *life, code, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	interrupted := false
	select {
	case <-l.stop:
		interrupted = true
	default:
	}
	switch {
	case interrupted && (l.by == byDeploy || l.by == byDelete):
		s.conclude(l.op, canceled, "The operation was canceled by a later one.")
		return
	case interrupted:
		g.Provisioning, g.State = succeeded, stopped
		s.conclude(l.op, canceled, "The container group was stopped.")
	case code != "":
		g.Provisioning, g.State = failed, failed
		s.conclude(l.op, code, text)
	case s.closed && g.Provisioning != succeeded:
		g.Provisioning, g.State = failed, failed
		s.conclude(l.op, "InternalServerError", "The pocket cloud was closed.")
	default:
		g.State = succeeded
		for _, c := range g.Containers {
			if c.Current == nil || c.Current.ExitCode == nil || *c.Current.ExitCode != 0 {
				g.State = failed
			}
		}
	}
}

// addEvent adds an event, or counts one that is there already, as the cloud
// does.
func addEvent(list []*arm.Event, name, text string, now time.Time) []*arm.Event {
	now = now.UTC().Truncate(time.Second)
	kind := "Normal"
	if name == "Failed" {
		kind = "Warning"
	}
	for _, e := range list {
		if *e.Name == name && *e.Message == text {
			e.Count, e.LastTimestamp = to.Ptr(*e.Count+1), &now
			return list
		}
	}
	return append(list, &arm.Event{Name: &name, Type: &kind, Message: &text, Count: to.Ptr[int32](1), FirstTimestamp: &now, LastTimestamp: &now})
}

// sizeOf is what a group asks for, in cores and GB.
func sizeOf(b *arm.ContainerGroup) (cpu, memory float64) {
	for _, c := range b.Properties.Containers {
		cpu += *c.Properties.Resources.Requests.CPU
		memory += *c.Properties.Resources.Requests.MemoryInGB
	}
	return cpu, memory
}

// plain writes a number without needless digits.
func plain(f float64) string {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	return strings.TrimSuffix(s, ".0")
}
