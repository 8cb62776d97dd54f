package digitalocean

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/digitalocean/godo"
)

// deployment is one of an app's. Its exported fields are kept.
type deployment struct {
	View godo.Deployment
	// Outputs are those of the jobs that a deployment runs, by name.
	Outputs map[string]*output

	app    *app
	born   time.Time // by real time
	pace   Pace
	mishap Mishap
	// stop is closed when the deployment is to end in phase stopped.
	stop    chan struct{}
	stopped godo.DeploymentPhase
	done    chan struct{} // closed at its end
	// after are the earlier deployments that must end first.
	after []chan struct{}
	// exhausted says that the account has too many apps.
	exhausted bool
	// invocations are those of its jobs, if they are shown.
	invocations map[string]*invocation
}

// ended says whether the phase is a final one.
func (d *deployment) ended() bool {
	switch d.View.Phase {
	case godo.DeploymentPhase_Active, godo.DeploymentPhase_Superseded, godo.DeploymentPhase_Error, godo.DeploymentPhase_Canceled:
		return true
	}
	return false
}

// interrupt asks a deployment to end in a phase. It says whether there was
// something to end.
func (d *deployment) interrupt(phase godo.DeploymentPhase) bool {
	if d.ended() {
		return false
	}
	if d.stopped == "" {
		d.stopped = phase
		close(d.stop)
	}
	return true
}

// byUser is the cause of a deployment that a caller wants.
func (s *Server) byUser(action godo.DeploymentCauseDetailsDigitalOceanUserActionName) *godo.DeploymentCauseDetails {
	return &godo.DeploymentCauseDetails{Type: godo.DeploymentCauseDetailsType_Manual, DigitalOceanUserAction: &godo.DeploymentCauseDetailsDigitalOceanUserAction{
		Name: action, User: &godo.DeploymentCauseDetailsDigitalOceanUser{UUID: s.account, Email: "pocket@example.com", FullName: "Pocket"}}}
}

// Maintain deploys an app anew, as the platform does for its own reasons, and
// returns the deployment's ID. The app's jobs run again.
func (s *Server) Maintain(appID string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.apps {
		if a.ID == appID && !s.closed {
			return s.startDeployment(a, "maintenance", &godo.DeploymentCauseDetails{Internal: true, Type: godo.DeploymentCauseDetailsType_Maintenance}).View.ID, nil
		}
	}
	return "", fmt.Errorf("maintain app %s: there is no such app", appID)
}

// startDeployment makes an app's next deployment, which takes the place of one
// that is under way.
func (s *Server) startDeployment(a *app, cause string, details *godo.DeploymentCauseDetails) *deployment {
	now := s.o.Now().UTC()
	d := &deployment{app: a, born: time.Now(), pace: s.knobs.Pace, mishap: s.mishap(a.Spec.Name, false), Outputs: map[string]*output{},
		stop: make(chan struct{}), done: make(chan struct{}), exhausted: s.knobs.MaxApps > 0 && len(s.apps) > s.knobs.MaxApps}
	d.View = godo.Deployment{ID: uuid(s.o.NewID()), Spec: cloneSpec(a.Spec), CreatedAt: now, UpdatedAt: now, PhaseLastUpdatedAt: now, Phase: godo.DeploymentPhase_PendingBuild,
		Cause: cause, CauseDetails: details, TierSlug: tier(a.Spec), Progress: newProgress(a.Spec)}
	for _, job := range a.Spec.Jobs {
		d.View.Jobs = append(d.View.Jobs, &godo.DeploymentJob{Name: job.Name})
		if job.Kind != godo.AppJobSpecKind_Scheduled {
			d.Outputs[job.Name] = newOutput(job.Name)
		}
	}
	for _, earlier := range a.Deployments {
		if earlier.interrupt(godo.DeploymentPhase_Superseded) {
			d.after = append(d.after, earlier.done)
		}
		if earlier.View.Phase == godo.DeploymentPhase_Active {
			d.View.PreviousDeploymentID = earlier.View.ID
		}
	}
	if s.knobs.DeployInvocations {
		s.showJobs(d)
	}
	a.Deployments = append(a.Deployments, d)
	s.lives.Add(1)
	go func() {
		defer s.lives.Done()
		s.live(d)
	}()
	return d
}

// cloneSpec returns a copy that an update of the app doesn't touch: a deployment
// keeps the spec that it was made with. An admitted spec isn't changed in place.
func cloneSpec(spec *godo.AppSpec) *godo.AppSpec {
	out := *spec
	return &out
}

func (s *Server) listDeployments(c *call) (any, *Error) {
	a, e := s.find(c)
	if e != nil {
		return nil, e
	}
	types := c.query["deployment_types"]
	var out []*godo.Deployment
	for _, d := range slices.Backward(a.Deployments) {
		if visible(d.born, s.knobs.DeploymentDelay) && (len(types) == 0 || slices.Contains(types, string(d.View.CauseDetails.Type))) {
			out = append(out, &d.View)
		}
	}
	return paged(s, c, "deployments", out)
}

func (s *Server) createDeployment(c *call) (any, *Error) {
	a, e := s.find(c)
	if e != nil {
		return nil, e
	}
	var in godo.DeploymentCreateRequest
	if len(bytes.TrimSpace(c.body)) > 0 {
		if e := read(c.body, &in); e != nil {
			return nil, e
		}
	}
	d := s.startDeployment(a, "manual", s.byUser(godo.DeploymentCauseDetailsDigitalOceanUserActionName_CreateDeployment))
	return map[string]any{"deployment": &d.View}, nil
}

// findDeployment returns the deployment that a call is for.
func (s *Server) findDeployment(c *call) (*app, *deployment, *Error) {
	a, e := s.find(c)
	if e != nil {
		return nil, nil, e
	}
	for _, d := range a.Deployments {
		if d.View.ID == c.path("deployment_id") && visible(d.born, s.knobs.DeploymentDelay) {
			return a, d, nil
		}
	}
	return nil, nil, refuse(ruleDeployment, "deployment not found")
}

func (s *Server) getDeployment(c *call) (any, *Error) {
	_, d, e := s.findDeployment(c)
	if e != nil {
		return nil, e
	}
	return map[string]any{"deployment": &d.View}, nil
}

func (s *Server) cancelDeployment(c *call) (any, *Error) {
	_, d, e := s.findDeployment(c)
	if e != nil {
		return nil, e
	}
	if !d.interrupt(godo.DeploymentPhase_Canceled) {
		return nil, refuse(ruleCancelDone, "deployment is %s and can't be canceled", d.View.Phase)
	}
	return map[string]any{"deployment": &d.View}, nil
}
