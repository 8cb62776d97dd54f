package digitalocean

import (
	"cmp"
	"time"

	"github.com/digitalocean/godo"
)

// The reasons that a failed step shows. Users see the types of
// https://docs.digitalocean.com/products/app-platform/reference/error-codes/
// with Deploy before those of containers.
const (
	codeExit       = "DeployContainerExitNonZero"
	codeExec       = "DeployContainerCommandNotExecutable"
	codeMemory     = "DeployContainerOutOfMemory"
	codeBuild      = "BuildJobFailed"
	codeExhausted  = "ResourceExhausted"
	codeInternal   = "InternalError"
	textExit       = "Your container exited with a non-zero exit code."
	textExec       = "Your container run command either didn't exist or was not executable."
	textMemory     = "Your container was out of memory."
	textBuild      = "Your build job failed. See the logs for details."
	textExhausted  = "Your account's App Platform resource limit was reached."
	textInternal   = "An internal error occurred."
	textClosed     = "The pocket cloud was closed."
	textTimedOut   = "The job was terminated: it took longer than its timeout."
	textCanceled   = "The job was canceled."
	textPull       = "Your container image could not be pulled"
	defaultTimeout = 30 * time.Minute
	defaultGrace   = 120 * time.Second
)

// live takes a deployment through its life.
func (s *Server) live(d *deployment) {
	defer close(d.done)
	phase := s.deploy(d)
	s.settle(d, phase)
}

// pause lets time pass in a phase. It is false if the deployment has to end.
func (s *Server) pause(d *deployment, t time.Duration) bool {
	select {
	case <-d.stop:
		return false
	case <-s.end:
		return false
	default:
	}
	if t <= 0 {
		return true
	}
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.stop:
		return false
	case <-s.end:
		return false
	}
}

// interrupted is the phase of a deployment that has to end.
func (s *Server) interrupted(d *deployment) godo.DeploymentPhase {
	s.mu.Lock()
	stopped := d.stopped
	s.mu.Unlock()
	return cmp.Or(stopped, godo.DeploymentPhase_Error)
}

// deploy goes from PENDING_BUILD to the end, and returns the last phase.
func (s *Server) deploy(d *deployment) godo.DeploymentPhase {
	for _, earlier := range d.after {
		select {
		case <-earlier:
		case <-d.stop:
			return s.interrupted(d)
		case <-s.end:
			return s.interrupted(d)
		}
	}
	if !s.pause(d, d.pace.PendingBuild) {
		return s.interrupted(d)
	}
	build, initialize, components := d.step("build"), d.step("build", "initialize"), d.step("build", "components")
	s.phase(d, godo.DeploymentPhase_Building)
	s.begin(d, build, initialize)
	if d.exhausted {
		s.fail(d, codeExhausted, textExhausted, initialize, build)
		return godo.DeploymentPhase_Error
	}
	s.finish(d, initialize)
	s.begin(d, components)
	s.begin(d, components.Steps...)
	if !s.pause(d, d.pace.Building) {
		return s.interrupted(d)
	}
	if m := d.mishap; m.Stage == StageBuild {
		if !s.pause(d, m.After) {
			return s.interrupted(d)
		}
		s.fail(d, cmp.Or(m.Code, codeBuild), cmp.Or(m.Message, textBuild), components.Steps[0], components, build)
		return s.rescue(d)
	}
	s.finish(d, components.Steps...)
	s.finish(d, components, build)
	s.phase(d, godo.DeploymentPhase_PendingDeploy)
	if d.mishap.Stage == StagePlace {
		select {
		case <-d.stop:
		case <-s.end:
		}
		return s.interrupted(d)
	}
	if !s.pause(d, d.pace.PendingDeploy) {
		return s.interrupted(d)
	}
	return s.roll(d)
}

// roll runs the jobs of DEPLOYING.
func (s *Server) roll(d *deployment) godo.DeploymentPhase {
	deploy, initialize, components, finalize := d.step("deploy"), d.step("deploy", "initialize"), d.step("deploy", "components"), d.step("deploy", "finalize")
	s.phase(d, godo.DeploymentPhase_Deploying)
	s.begin(d, deploy, initialize)
	if !s.pause(d, d.pace.Initialize) {
		return s.interrupted(d)
	}
	if m := d.mishap; m.Stage == StageInternal {
		if !s.pause(d, m.After) {
			return s.interrupted(d)
		}
		s.fail(d, cmp.Or(m.Code, codeInternal), cmp.Or(m.Message, textInternal), initialize, deploy)
		return s.rescue(d)
	}
	s.finish(d, initialize)
	s.begin(d, components)
	// The app's other components would come between the two kinds of jobs.
	for _, kind := range []godo.AppJobSpecKind{godo.AppJobSpecKind_PreDeploy, godo.AppJobSpecKind_Scheduled, godo.AppJobSpecKind_PostDeploy} {
		for _, job := range d.View.Spec.Jobs {
			if job.Kind != kind {
				continue
			}
			step := d.step("deploy", "components", job.Name)
			if kind == godo.AppJobSpecKind_Scheduled {
				s.finish(d, step)
				continue
			}
			if how := s.deployJob(d, job, step); how.phase != godo.JOBINVOCATIONPHASE_Succeeded {
				if how.interrupted {
					return s.interrupted(d)
				}
				s.fail(d, how.code, how.message, components, deploy)
				return s.rescue(d)
			}
		}
	}
	s.finish(d, components)
	s.begin(d, finalize)
	if !s.pause(d, d.pace.Finalize) {
		return s.interrupted(d)
	}
	s.finish(d, finalize, deploy)
	return godo.DeploymentPhase_Active
}

// rescue runs the jobs for a failed deployment.
func (s *Server) rescue(d *deployment) godo.DeploymentPhase {
	for _, job := range d.View.Spec.Jobs {
		if job.Kind == godo.AppJobSpecKind_FailedDeploy {
			if how := s.deployJob(d, job, d.step("deploy", "components", job.Name)); how.interrupted {
				return s.interrupted(d)
			}
		}
	}
	return godo.DeploymentPhase_Error
}

// deployJob runs a job as a step of its deployment.
func (s *Server) deployJob(d *deployment, job *godo.AppJobSpec, step *godo.DeploymentProgressStep) outcome {
	s.begin(d, step)
	var canceled <-chan struct{}
	i := d.invocations[job.Name]
	if i != nil {
		canceled = i.stop
		s.enter(i)
	}
	how := s.runJob(task{app: d.app, spec: d.View.Spec, job: job, out: d.Outputs[job.Name], mishap: d.mishap, limit: defaultTimeout,
		stop: d.stop, canceled: canceled, unknown: func(on bool) {
			if on {
				s.phase(d, godo.DeploymentPhase_Unknown)
			} else {
				s.phase(d, godo.DeploymentPhase_Deploying)
			}
		}})
	if i != nil {
		s.leave(i, how.phase)
	}
	if how.phase == godo.JOBINVOCATIONPHASE_Succeeded {
		s.finish(d, step)
	} else {
		s.fail(d, how.code, how.message, step)
	}
	return how
}

// settle brings a deployment to its last phase.
func (s *Server) settle(d *deployment, phase godo.DeploymentPhase) {
	for _, out := range d.Outputs {
		out.close()
	}
	for _, i := range d.invocations {
		s.skip(i)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now().UTC()
	if phase == godo.DeploymentPhase_Active {
		for _, other := range d.app.Deployments {
			if other.View.Phase == godo.DeploymentPhase_Active {
				other.View.Phase, other.View.PhaseLastUpdatedAt, other.View.UpdatedAt = godo.DeploymentPhase_Superseded, now, now
			}
		}
		d.app.LastActive = now
	}
	d.View.Phase, d.View.PhaseLastUpdatedAt, d.View.UpdatedAt = phase, now, now
	if phase == godo.DeploymentPhase_Active && d.app.gone.IsZero() {
		s.setSchedules(d.app, d)
	}
}
