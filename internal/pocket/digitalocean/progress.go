package digitalocean

import (
	"time"

	"github.com/digitalocean/godo"
)

// newProgress lays out the steps of a deployment, as the examples of
// https://docs.digitalocean.com/reference/api/digitalocean/#operation/apps_get_deployment
// show them: to build and to deploy, each with its components.
func newProgress(spec *godo.AppSpec) *godo.DeploymentProgress {
	step := func(name string, inner ...*godo.DeploymentProgressStep) *godo.DeploymentProgressStep {
		return &godo.DeploymentProgressStep{Name: name, Status: godo.DeploymentProgressStepStatus_Pending, Steps: inner}
	}
	component := func(name, message string) *godo.DeploymentProgressStep {
		s := step(name)
		s.ComponentName, s.MessageBase = name, message
		return s
	}
	var build, deploy []*godo.DeploymentProgressStep
	for _, job := range spec.Jobs {
		build = append(build, component(job.Name, "Building job"))
		if job.Kind != godo.AppJobSpecKind_Scheduled {
			deploy = append(deploy, component(job.Name, "Running job"))
		} else {
			deploy = append(deploy, component(job.Name, "Deploying job"))
		}
	}
	p := &godo.DeploymentProgress{Steps: []*godo.DeploymentProgressStep{
		step("build", step("initialize"), step("components", build...)),
		step("deploy", step("initialize"), step("components", deploy...), step("finalize")),
	}}
	count(p)
	return p
}

// count sums up the steps that have none of their own.
func count(p *godo.DeploymentProgress) {
	p.PendingSteps, p.RunningSteps, p.SuccessSteps, p.ErrorSteps, p.TotalSteps = 0, 0, 0, 0, 0
	var visit func(steps []*godo.DeploymentProgressStep)
	visit = func(steps []*godo.DeploymentProgressStep) {
		for _, s := range steps {
			if len(s.Steps) > 0 {
				visit(s.Steps)
				continue
			}
			p.TotalSteps++
			switch s.Status {
			case godo.DeploymentProgressStepStatus_Pending:
				p.PendingSteps++
			case godo.DeploymentProgressStepStatus_Running:
				p.RunningSteps++
			case godo.DeploymentProgressStepStatus_Success:
				p.SuccessSteps++
			case godo.DeploymentProgressStepStatus_Error:
				p.ErrorSteps++
			}
		}
	}
	visit(p.Steps)
}

// step returns the step at a path of names.
func (d *deployment) step(path ...string) *godo.DeploymentProgressStep {
	steps := d.View.Progress.Steps
	var found *godo.DeploymentProgressStep
	for _, name := range path {
		for _, s := range steps {
			if s.Name == name {
				found, steps = s, s.Steps
				break
			}
		}
	}
	return found
}

// begin sets steps running.
func (s *Server) begin(d *deployment, steps ...*godo.DeploymentProgressStep) {
	s.change(d, func(now time.Time) {
		for _, st := range steps {
			st.Status, st.StartedAt = godo.DeploymentProgressStepStatus_Running, now
		}
	})
}

// finish ends steps well.
func (s *Server) finish(d *deployment, steps ...*godo.DeploymentProgressStep) {
	s.change(d, func(now time.Time) {
		for _, st := range steps {
			if st.StartedAt.IsZero() {
				st.StartedAt = now
			}
			st.Status, st.EndedAt = godo.DeploymentProgressStepStatus_Success, now
		}
	})
}

// fail ends a step, and those that it is part of, with a reason.
func (s *Server) fail(d *deployment, code, message string, steps ...*godo.DeploymentProgressStep) {
	s.change(d, func(now time.Time) {
		for _, st := range steps {
			if st.StartedAt.IsZero() {
				st.StartedAt = now
			}
			st.Status, st.EndedAt = godo.DeploymentProgressStepStatus_Error, now
			st.Reason = &godo.DeploymentProgressStepReason{Code: code, Message: message}
		}
	})
}

// change alters what is shown of a deployment.
func (s *Server) change(d *deployment, f func(now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now().UTC()
	d.View.UpdatedAt = now
	f(now)
	count(d.View.Progress)
}

// phase moves a deployment on.
func (s *Server) phase(d *deployment, phase godo.DeploymentPhase) {
	s.change(d, func(now time.Time) { d.View.Phase, d.View.PhaseLastUpdatedAt = phase, now })
}
