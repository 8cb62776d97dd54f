package digitalocean

import (
	"fmt"
	"slices"
	"time"

	"github.com/digitalocean/godo"
)

// invocation is one run of a job. Its exported fields are kept.
type invocation struct {
	View godo.JobInvocation
	Out  *output

	born    time.Time // by real time
	stop    chan struct{}
	stopped bool
}

// ended says whether the phase is a final one.
func (i *invocation) ended() bool {
	switch i.View.Phase {
	case godo.JOBINVOCATIONPHASE_Succeeded, godo.JOBINVOCATIONPHASE_Failed, godo.JOBINVOCATIONPHASE_Canceled, godo.JOBINVOCATIONPHASE_Skipped:
		return true
	}
	return false
}

// interrupt asks an invocation to end. It says whether there was something to
// end.
func (i *invocation) interrupt() bool {
	if i.ended() {
		return false
	}
	if !i.stopped {
		i.stopped = true
		close(i.stop)
	}
	return true
}

// newInvocation makes an invocation of a job. The lock is held.
func (s *Server) newInvocation(a *app, d *deployment, job string, out *output, trigger *godo.JobInvocationTrigger) *invocation {
	i := &invocation{Out: out, born: time.Now(), stop: make(chan struct{}), View: godo.JobInvocation{ID: uuid(s.o.NewID()), JobName: job,
		DeploymentID: d.View.ID, Phase: godo.JOBINVOCATIONPHASE_Pending, Trigger: trigger, CreatedAt: s.o.Now().UTC()}}
	a.Invocations = append(a.Invocations, i)
	return i
}

// showJobs makes the invocations of a deployment's own jobs. The lock is held.
func (s *Server) showJobs(d *deployment) {
	d.invocations = map[string]*invocation{}
	for _, job := range d.View.Spec.Jobs {
		if out := d.Outputs[job.Name]; out != nil {
			d.invocations[job.Name] = s.newInvocation(d.app, d, job.Name, out, &godo.JobInvocationTrigger{Type: godo.JOBINVOCATIONTRIGGERTYPE_Unknown})
		}
	}
}

// enter sets an invocation running.
func (s *Server) enter(i *invocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i.View.Phase, i.View.StartedAt = godo.JOBINVOCATIONPHASE_Running, s.o.Now().UTC()
}

// leave brings an invocation to its last phase.
func (s *Server) leave(i *invocation, phase godo.JobInvocationPhase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i.View.Phase, i.View.CompletedAt = phase, s.o.Now().UTC()
}

// skip ends an invocation that never ran.
func (s *Server) skip(i *invocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i.View.Phase == godo.JOBINVOCATIONPHASE_Pending {
		i.View.Phase, i.View.CompletedAt = godo.JOBINVOCATIONPHASE_Skipped, s.o.Now().UTC()
	}
}

// setSchedules starts the scheduled jobs of a deployment that became active, in
// place of those before; nil ends them. The lock is held.
func (s *Server) setSchedules(a *app, d *deployment) {
	if a.unschedule != nil {
		close(a.unschedule)
		a.unschedule = nil
	}
	if d == nil || s.closed {
		return
	}
	a.unschedule = make(chan struct{})
	for _, job := range d.View.Spec.Jobs {
		if job.Kind == godo.AppJobSpecKind_Scheduled {
			s.lives.Add(1)
			go func(stop <-chan struct{}) {
				defer s.lives.Done()
				s.schedule(a, d, job, stop)
			}(a.unschedule)
		}
	}
}

// reschedule takes up the schedules of apps that an earlier server left. The
// lock is held.
func (s *Server) reschedule() {
	for _, a := range s.apps {
		for _, d := range a.Deployments {
			if d.View.Phase == godo.DeploymentPhase_Active {
				s.setSchedules(a, d)
			}
		}
	}
}

// schedule starts a job whenever its time has come.
func (s *Server) schedule(a *app, d *deployment, job *godo.AppJobSpec, stop <-chan struct{}) {
	c, err := parseCron(job.Schedule.Cron)
	zone, err2 := time.LoadLocation(job.Schedule.TimeZone)
	if err != nil || err2 != nil {
		return // admit has checked both
	}
	for {
		now := s.o.Now().In(zone)
		at, ok := c.next(now)
		if !ok {
			return
		}
		timer := time.NewTimer(at.Sub(now))
		select {
		case <-timer.C:
		case <-stop:
			timer.Stop()
			return
		case <-s.end:
			timer.Stop()
			return
		}
		s.mu.Lock()
		s.invoke(a, d, job, &godo.JobInvocationTrigger{Type: godo.JOBINVOCATIONTRIGGERTYPE_Scheduled, Scheduled: &godo.TriggerMetadataScheduled{Schedule: job.Schedule}})
		s.mu.Unlock()
	}
}

// RunNow starts a scheduled job of an active deployment, as the control panel
// does, and returns the invocation's ID. The API has no call for it.
func (s *Server) RunNow(appID, job string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.apps {
		for _, d := range a.Deployments {
			if a.ID != appID || d.View.Phase != godo.DeploymentPhase_Active || s.closed {
				continue
			}
			for _, j := range d.View.Spec.Jobs {
				if j.Name == job && j.Kind == godo.AppJobSpecKind_Scheduled {
					return s.invoke(a, d, j, &godo.JobInvocationTrigger{Type: godo.JOBINVOCATIONTRIGGERTYPE_Manual, Manual: &godo.TriggerMetadataManual{
						User: &godo.DeploymentCauseDetailsDigitalOceanUser{UUID: s.account, Email: "pocket@example.com", FullName: "Pocket"}}}), nil
				}
			}
		}
	}
	return "", fmt.Errorf("run job %s of app %s: no active deployment has it as a scheduled job", job, appID)
}

// invoke runs a scheduled job once. One that still runs makes the new invocation
// be skipped. The lock is held.
func (s *Server) invoke(a *app, d *deployment, job *godo.AppJobSpec, trigger *godo.JobInvocationTrigger) string {
	busy := slices.ContainsFunc(a.Invocations, func(i *invocation) bool { return i.View.JobName == job.Name && !i.ended() })
	m := s.mishap(a.Spec.Name, true)
	i := s.newInvocation(a, d, job.Name, newOutput(job.Name), trigger)
	if busy || m.Stage == StageSkip {
		i.Out.close()
		i.View.Phase, i.View.CompletedAt = godo.JOBINVOCATIONPHASE_Skipped, i.View.CreatedAt
		return i.View.ID
	}
	s.lives.Add(1)
	go func() {
		defer s.lives.Done()
		timer := time.NewTimer(d.pace.Initialize)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.end:
		case <-i.stop:
			i.Out.close()
			s.leave(i, godo.JOBINVOCATIONPHASE_Canceled)
			return
		}
		s.enter(i)
		how := s.runJob(task{app: a, spec: d.View.Spec, job: job, out: i.Out, mishap: m, canceled: i.stop, unknown: func(on bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			i.View.Phase = godo.JOBINVOCATIONPHASE_Running
			if on {
				i.View.Phase = godo.JOBINVOCATIONPHASE_Unknown
			}
		}})
		s.leave(i, how.phase)
	}()
	return i.View.ID
}

func (s *Server) listInvocations(c *call) (any, *Error) {
	a, e := s.find(c)
	if e != nil {
		return nil, e
	}
	names, of := c.query["job_names"], c.query.Get("deployment_id")
	var out []*godo.JobInvocation
	for _, i := range slices.Backward(a.Invocations) {
		if (of == "" || i.View.DeploymentID == of) && (len(names) == 0 || slices.Contains(names, i.View.JobName)) && visible(i.born, s.knobs.InvocationDelay) {
			out = append(out, &i.View)
		}
	}
	return paged(s, c, "job_invocations", out)
}

// findInvocation returns the invocation that a call is for.
func (s *Server) findInvocation(c *call) (*invocation, *Error) {
	a, e := s.find(c)
	if e != nil {
		return nil, e
	}
	name := c.path("job_name")
	if name == "" {
		name = c.query.Get("job_name")
	}
	for _, i := range a.Invocations {
		if i.View.ID == c.path("job_invocation_id") && (name == "" || i.View.JobName == name) {
			return i, nil
		}
	}
	return nil, refuse(ruleInvocation, "job invocation not found")
}

func (s *Server) getInvocation(c *call) (any, *Error) {
	i, e := s.findInvocation(c)
	if e != nil {
		return nil, e
	}
	return map[string]any{"job_invocation": &i.View}, nil
}

func (s *Server) cancelInvocation(c *call) (any, *Error) {
	i, e := s.findInvocation(c)
	if e != nil {
		return nil, e
	}
	if !i.interrupt() {
		return nil, refuse(ruleCancelDone, "job invocation is %s and can't be canceled", i.View.Phase)
	}
	return map[string]any{"job_invocation": &i.View}, nil
}
