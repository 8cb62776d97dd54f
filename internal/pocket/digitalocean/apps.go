package digitalocean

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/digitalocean/godo"
)

// app is an app with all that it made. Its exported fields are kept from one
// server to the next.
type app struct {
	ID               string
	Project          string
	Spec             *godo.AppSpec // with sealed secrets
	Created, Updated time.Time
	LastActive       time.Time
	Deployments      []*deployment // by age
	Invocations      []*invocation // by age

	born time.Time // by real time
	// gone is when the app can't be found any more; zero while it isn't
	// deleted.
	gone time.Time
	// unschedule ends what starts its scheduled jobs.
	unschedule chan struct{}
}

// visible says whether a thing of some age is shown.
func visible(born time.Time, delay time.Duration) bool {
	return delay <= 0 || time.Since(born) >= delay
}

// prune forgets the apps that are deleted.
func (s *Server) prune() {
	now := time.Now()
	s.apps = slices.DeleteFunc(s.apps, func(a *app) bool { return !a.gone.IsZero() && !now.Before(a.gone) })
}

// find returns the app that a call is for.
func (s *Server) find(c *call) (*app, *Error) {
	id := cmp.Or(c.path("app_id"), c.path("id"))
	s.prune()
	for _, a := range s.apps {
		if a.ID == id && visible(a.born, s.knobs.GetDelay) {
			return a, nil
		}
	}
	return nil, refuse(ruleApp, "app not found")
}

// byName returns the app of a name, nil for none.
func (s *Server) byName(name string) *app {
	s.prune()
	for _, a := range s.apps {
		if a.Spec.Name == name {
			return a
		}
	}
	return nil
}

// taken refuses a name that another app has.
func (s *Server) taken(name string, except *app) *Error {
	if other := s.byName(name); other != nil && other != except {
		e := refuse(ruleNameTaken, "App name %q already exists in this account.", name)
		e.Status = cmp.Or(s.knobs.NameTaken, e.Status)
		return e
	}
	return nil
}

func (s *Server) createApp(c *call) (any, *Error) {
	var in godo.AppCreateRequest
	if e := read(c.body, &in); e != nil {
		return nil, e
	}
	if e := s.admit(in.Spec); e != nil {
		return nil, e
	}
	if e := s.taken(in.Spec.Name, nil); e != nil {
		return nil, e
	}
	a := &app{ID: uuid(s.o.NewID()), Project: cmp.Or(in.ProjectID, s.account), Spec: in.Spec, Created: c.now, Updated: c.now, born: time.Now()}
	s.apps = append(s.apps, a)
	s.startDeployment(a, "initial deployment", s.byUser(godo.DeploymentCauseDetailsDigitalOceanUserActionName_UpdateSpec))
	return s.one(a), nil
}

func (s *Server) getApp(c *call) (any, *Error) {
	a, e := s.find(c)
	if e != nil {
		return nil, e
	}
	if name := c.query.Get("name"); name != "" && name != a.Spec.Name {
		return nil, refuse(ruleApp, "app not found")
	}
	return s.one(a), nil
}

func (s *Server) listApps(c *call) (any, *Error) {
	s.prune()
	var out []*godo.App
	for _, a := range slices.Backward(s.apps) {
		if visible(a.born, s.knobs.ListDelay) {
			v := s.view(a)
			if c.query.Get("with_projects") != "true" {
				v.ProjectID = ""
			}
			out = append(out, v)
		}
	}
	return paged(s, c, "apps", out)
}

func (s *Server) updateApp(c *call) (any, *Error) {
	a, e := s.find(c)
	if e != nil {
		return nil, e
	}
	var in godo.AppUpdateRequest
	if e := read(c.body, &in); e != nil {
		return nil, e
	}
	if e := s.admit(in.Spec); e != nil {
		return nil, e
	}
	if e := s.taken(in.Spec.Name, a); e != nil {
		return nil, e
	}
	a.Spec, a.Updated = in.Spec, c.now
	s.startDeployment(a, "app spec updated", s.byUser(godo.DeploymentCauseDetailsDigitalOceanUserActionName_UpdateSpec))
	return s.one(a), nil
}

func (s *Server) deleteApp(c *call) (any, *Error) {
	a, e := s.find(c)
	if e != nil {
		return nil, e
	}
	if a.gone.IsZero() {
		a.gone = time.Now().Add(s.knobs.DeleteDelay)
		s.setSchedules(a, nil)
		for _, d := range a.Deployments {
			d.interrupt(godo.DeploymentPhase_Canceled)
		}
		for _, i := range a.Invocations {
			i.interrupt()
		}
	}
	return map[string]string{"id": a.ID}, nil
}

func (s *Server) propose(c *call) (any, *Error) {
	var in godo.AppProposeRequest
	if e := read(c.body, &in); e != nil {
		return nil, e
	}
	var of *app
	if in.AppID != "" {
		s.prune()
		i := slices.IndexFunc(s.apps, func(a *app) bool { return a.ID == in.AppID })
		if i < 0 {
			return nil, refuse(ruleApp, "app not found")
		}
		of = s.apps[i]
	}
	if e := s.admit(in.Spec); e != nil {
		return nil, e
	}
	out := godo.AppProposeResponse{AppNameAvailable: true, ExistingStaticApps: "0", MaxFreeStaticApps: "3", ExistingStarterApps: "0", MaxFreeStarterApps: "3", Spec: in.Spec}
	if s.taken(in.Spec.Name, of) != nil {
		out.AppNameAvailable = false
		for n := 2; ; n++ {
			suffix := fmt.Sprintf("-%d", n)
			name := in.Spec.Name[:min(len(in.Spec.Name), 32-len(suffix))] + suffix
			if s.taken(name, of) == nil {
				out.AppNameSuggestion = name
				break
			}
		}
	}
	for _, job := range in.Spec.Jobs {
		size, _ := sizeOf(job.InstanceSizeSlug) // admit has checked it
		out.AppCost += float32(size.price)
	}
	return out, nil
}

// one is the reply that shows an app.
func (s *Server) one(a *app) any { return map[string]any{"app": s.view(a)} }

// view shows an app. One of jobs alone has no address.
func (s *Server) view(a *app) *godo.App {
	v := &godo.App{ID: a.ID, OwnerUUID: s.account, Spec: a.Spec, CreatedAt: a.Created, UpdatedAt: a.Updated, LastDeploymentActiveAt: a.LastActive,
		Region: regionOf(a.Spec.Region), TierSlug: tier(a.Spec), ProjectID: a.Project}
	for _, d := range a.Deployments {
		v.LastDeploymentCreatedAt = d.View.CreatedAt
		switch d.View.Phase {
		case godo.DeploymentPhase_Active:
			v.ActiveDeployment = &d.View
		case godo.DeploymentPhase_PendingBuild:
			v.PendingDeployment = &d.View
		default:
			if !d.ended() {
				v.InProgressDeployment = &d.View
			}
		}
	}
	return v
}

// tier is that of the largest component.
func tier(spec *godo.AppSpec) string {
	for _, job := range spec.Jobs {
		if size, _ := sizeOf(job.InstanceSizeSlug); size.tier == "professional" {
			return size.tier
		}
	}
	return "basic"
}
