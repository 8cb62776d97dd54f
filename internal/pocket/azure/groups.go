package azure

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"
)

const groupType = "Microsoft.ContainerInstance/containerGroups"

// group is a container group. Its exported fields are kept from one server to
// the next.
type group struct {
	Resource string // the resource group
	// Body is what was asked for, with defaults and without secrets.
	Body *arm.ContainerGroup
	// Sealed are the secure variables, by container and name.
	Sealed map[string]map[string]string
	// Provisioning is that of the last operation, State the group's own.
	Provisioning, State string
	Events              []*arm.Event
	// Address is the group's IP address, where it has one.
	Address    string
	Containers []*container

	born time.Time // by real time
	// gone is when the group can't be found any more; zero while it isn't
	// deleted.
	gone time.Time
	life *life
}

// Changes is how often a group was deployed, started, restarted or stopped by a
// call: for tests.
func (s *Server) Changes(resourceGroup, name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes[strings.ToLower(resourceGroup+"/"+name)]
}

// count notes a change of a group. The lock is held.
func (s *Server) count(g *group) { s.changes[strings.ToLower(g.Resource+"/"+g.name())]++ }

func (g *group) name() string { return *g.Body.Name }

// transitioning says that an operation on the group goes on.
func (g *group) transitioning() bool {
	return g.life != nil && (g.Provisioning == pending || g.Provisioning == creating || g.life.ending())
}

// ended says that nothing of the group runs any more.
func (g *group) ended() bool {
	return g.State == succeeded || g.State == failed || g.State == stopped
}

// visible says whether a thing of some age is shown.
func visible(born time.Time, delay time.Duration) bool {
	return delay <= 0 || time.Since(born) >= delay
}

// prune forgets the groups that are deleted.
func (s *Server) prune() {
	now := time.Now()
	s.groups = slices.DeleteFunc(s.groups, func(g *group) bool { return !g.gone.IsZero() && !now.Before(g.gone) })
}

// lookup finds a group that isn't deleted, however new; nil for none.
func (s *Server) lookup(resource, name string) *group {
	s.prune()
	for _, g := range s.groups {
		if g.gone.IsZero() && strings.EqualFold(g.Resource, resource) && strings.EqualFold(g.name(), name) {
			return g
		}
	}
	return nil
}

// find returns the group that a call is for.
func (s *Server) find(c *call) (*group, *Error) {
	rg, e := s.findResourceGroup(c.path["rg"])
	if e != nil {
		return nil, e
	}
	s.prune()
	for _, g := range slices.Backward(s.groups) {
		if strings.EqualFold(g.Resource, rg.Name) && strings.EqualFold(g.name(), c.path["name"]) && visible(g.born, s.knobs.GetDelay) {
			return g, nil
		}
	}
	return nil, refuse(ruleGroup, "The Resource '%s/%s' under resource group '%s' was not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix", groupType, c.path["name"], rg.Name)
}

// free refuses what can't be done to a group while something goes on with it.
func (g *group) free() *Error {
	if g.transitioning() {
		return refuse(ruleTransitioning, "The container group '%s' is still transitioning, please retry later.", g.name())
	}
	return nil
}

// putGroup makes a group, or deploys one anew that is there: it does what it was
// asked to, once more.
func (s *Server) putGroup(c *call) (result, *Error) {
	rg, e := s.findResourceGroup(c.path["rg"])
	if e != nil {
		return result{}, e
	}
	var in arm.ContainerGroup
	if e := read(c.body, s.shapes.group, &in); e != nil {
		return result{}, e
	}
	sealed, e := s.check(c.path["name"], rg, &in)
	if e != nil {
		return result{}, e
	}
	old := s.lookup(rg.Name, c.path["name"])
	if old != nil {
		if e := old.free(); e != nil {
			return result{}, e
		}
		if e := old.changes(&in); e != nil {
			return result{}, e
		}
	}
	if e := s.room(&in, old); e != nil {
		return result{}, e
	}
	if e := s.pullable(&in); e != nil {
		return result{}, e
	}
	if e := s.takeCreate(c); e != nil {
		return result{}, e
	}
	g, status := old, http.StatusOK
	if g == nil {
		// One that is deleted, but still seen, makes way.
		s.groups = slices.DeleteFunc(s.groups, func(o *group) bool {
			return strings.EqualFold(o.Resource, rg.Name) && strings.EqualFold(o.name(), c.path["name"])
		})
		g = &group{Resource: rg.Name, born: time.Now()}
		s.groups = append(s.groups, g)
		status = http.StatusCreated
	} else if s.knobs.SamePutKeeps && !g.ended() && same(g, &in, sealed) {
		return result{status, s.view(g, true)}, nil
	}
	in.ID = to.Ptr("/subscriptions/" + s.o.SubscriptionID + "/resourceGroups/" + rg.Name + "/providers/" + groupType + "/" + c.path["name"])
	in.Name, in.Type = to.Ptr(c.path["name"]), to.Ptr(groupType)
	g.Body, g.Sealed = &in, sealed
	op := s.begin(c.now)
	s.count(g)
	s.deploy(g, op)
	s.announce(c, op, false)
	v := s.view(g, true)
	for _, c := range v.Properties.Containers { // not begun
		c.Properties.InstanceView = nil
	}
	return result{status, v}, nil
}

// same says whether a group is asked for as it is.
func same(g *group, in *arm.ContainerGroup, sealed map[string]map[string]string) bool {
	bare := clone(g.Body)
	bare.ID, bare.Name, bare.Type = nil, nil, nil
	a, err1 := encode(bare)
	b, err2 := encode(in)
	x, err3 := encode(g.Sealed)
	y, err4 := encode(sealed)
	return cmp.Or(err1, err2, err3, err4) == nil && string(a) == string(b) && string(x) == string(y)
}

func (s *Server) getGroup(c *call) (result, *Error) {
	g, e := s.find(c)
	if e != nil {
		return result{}, e
	}
	return result{http.StatusOK, s.view(g, true)}, nil
}

func (s *Server) patchGroup(c *call) (result, *Error) {
	g, e := s.find(c)
	if e != nil {
		return result{}, e
	}
	var in arm.Resource
	if e := read(c.body, s.shapes.update, &in); e != nil {
		return result{}, e
	}
	if in.Location != nil && normalLocation(*in.Location) != *g.Body.Location || len(in.Zones) > 0 {
		return result{}, refuse(rulePatch, "Only the tags of container group '%s' can be updated.", g.name())
	}
	tags := map[string]string{}
	for name, value := range in.Tags {
		if value != nil {
			tags[name] = *value
		}
	}
	if e := checkTags(tags); e != nil {
		return result{}, e
	}
	if in.Tags != nil {
		g.Body.Tags = pointers(tags)
	}
	return result{http.StatusOK, s.view(g, true)}, nil
}

func (s *Server) deleteGroup(c *call) (result, *Error) {
	if _, e := s.findResourceGroup(c.path["rg"]); e != nil {
		return result{}, e
	}
	g := s.lookup(c.path["rg"], c.path["name"])
	if g == nil {
		return result{status: http.StatusNoContent}, nil
	}
	if s.knobs.BusyDelete {
		if e := g.free(); e != nil {
			return result{}, e
		}
	}
	if e := s.takeDelete(c); e != nil {
		return result{}, e
	}
	out := s.view(g, true)
	g.gone = time.Now().Add(max(s.knobs.DeleteDelay, s.knobs.DeleteTakes))
	g.life.interrupt(byDelete)
	if s.knobs.DeleteTakes <= 0 {
		return result{http.StatusOK, out}, nil
	}
	op, takes := s.begin(c.now), s.knobs.DeleteTakes
	s.lives.Go(func() {
		select {
		case <-time.After(takes):
		case <-s.end:
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conclude(op, "", "")
	})
	s.announce(c, op, true)
	return result{status: http.StatusAccepted}, nil
}

// stopGroup ends what runs. A group that has ended by itself stays as it is.
func (s *Server) stopGroup(c *call) (result, *Error) {
	g, e := s.find(c)
	if e != nil {
		return result{}, e
	}
	// One that still looks for a node or an image can be stopped, but nothing
	// can be stopped twice at a time.
	if g.life != nil && g.life.ending() || g.Provisioning == pending && g.life != nil && g.life.mishap.Stage != StageWait {
		return result{}, g.free()
	}
	if !g.ended() {
		s.count(g)
		g.life.interrupt(byStop)
	}
	return result{status: http.StatusNoContent}, nil
}

// startGroup deploys a group anew that has ended.
func (s *Server) startGroup(c *call) (result, *Error) {
	g, e := s.find(c)
	if e != nil {
		return result{}, e
	}
	if e := g.free(); e != nil {
		return result{}, e
	}
	if !g.ended() {
		return result{status: http.StatusNoContent}, nil
	}
	if e := s.room(g.Body, g); e != nil {
		return result{}, e
	}
	op := s.begin(c.now)
	s.count(g)
	s.deploy(g, op)
	s.announce(c, op, true)
	return result{status: http.StatusAccepted}, nil
}

// restartGroup runs the containers once more.
func (s *Server) restartGroup(c *call) (result, *Error) {
	g, e := s.find(c)
	if e != nil {
		return result{}, e
	}
	if e := g.free(); e != nil {
		return result{}, e
	}
	op := s.begin(c.now)
	s.count(g)
	s.deploy(g, op)
	s.announce(c, op, true)
	return result{status: http.StatusNoContent}, nil
}

// listGroups lists those of a resource group, or of the subscription.
func (s *Server) listGroups(c *call) (result, *Error) {
	in, scoped := c.path["rg"]
	if scoped {
		if _, e := s.findResourceGroup(in); e != nil {
			return result{}, e
		}
	}
	s.prune()
	var found []*group
	for _, g := range s.groups {
		if (!scoped || strings.EqualFold(g.Resource, in)) && visible(g.born, s.knobs.ListDelay) {
			found = append(found, g)
		}
	}
	slices.SortStableFunc(found, func(a, b *group) int { return cmp.Compare(*a.Body.ID, *b.Body.ID) })
	page, next, e := paged(c, found, func(g *group) string { return *g.Body.ID }, s.knobs.PageSize)
	if e != nil {
		return result{}, e
	}
	out := arm.ContainerGroupListResult{Value: []*arm.ContainerGroup{}}
	for _, g := range page {
		out.Value = append(out.Value, s.view(g, s.knobs.ListsView))
	}
	if next != "" {
		out.NextLink = &next
	}
	return result{http.StatusOK, out}, nil
}

// paged cuts the page that a skip token asks for out of a sorted list. Size 0
// means everything.
func paged[T any](c *call, list []T, key func(T) string, size int) (page []T, next string, _ *Error) {
	if text := c.request.URL.Query().Get("$skiptoken"); text != "" {
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			return nil, "", refuse(ruleQuery, "The $skiptoken '%s' is malformed.", text)
		}
		list = slices.DeleteFunc(list, func(v T) bool { return key(v) <= string(raw) })
	}
	if size <= 0 || len(list) <= size {
		return list, "", nil
	}
	query := c.request.URL.Query()
	query.Set("$skiptoken", base64.RawURLEncoding.EncodeToString([]byte(key(list[size-1]))))
	return list[:size], c.base() + c.request.URL.EscapedPath() + "?" + query.Encode(), nil
}

// view shows a group. Secrets aren't in Body; the instance view is added.
func (s *Server) view(g *group, instance bool) *arm.ContainerGroup {
	v := clone(g.Body)
	p := v.Properties
	p.ProvisioningState = &g.Provisioning
	if v.Identity != nil && v.Identity.Type != nil && strings.Contains(string(*v.Identity.Type), string(arm.ResourceIdentityTypeSystemAssigned)) {
		v.Identity.PrincipalID, v.Identity.TenantID = to.Ptr(identityClient), &s.o.TenantID
	}
	if p.IPAddress != nil && g.Address != "" {
		p.IPAddress.IP = &g.Address
	}
	if !instance {
		return v
	}
	state := g.State
	if g.life != nil && g.life.mishap.Stage == StageGroupState {
		state = g.life.mishap.State
	}
	p.InstanceView = &arm.ContainerGroupPropertiesInstanceView{State: &state, Events: slices.Clone(g.Events)}
	if p.InstanceView.Events == nil {
		p.InstanceView.Events = []*arm.Event{}
	}
	for i, c := range g.Containers {
		if s.knobs.StopDropsView && g.State == stopped {
			continue
		}
		p.Containers[i].Properties.InstanceView = c.view()
	}
	return clone(v)
}
