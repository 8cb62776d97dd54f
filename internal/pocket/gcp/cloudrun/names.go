package cloudrun

import (
	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// location checks the project and the location that a name begins with.
func (s *Service) location(project, location, permission, name string) error {
	if !s.o.Project.Is(project) {
		return gapi.PermissionDenied(permission, name)
	}
	if location != s.o.Location {
		return refuse(ruleLocation, "Location %s is not found or access is unauthorized.", location)
	}
	return s.o.Policy.Check(permission, name)
}

// parse reads a name of a pattern whose first two stars are project and
// location, and returns what stands for the rest.
func (s *Service) parse(name, pattern, permission string) ([]string, error) {
	values, ok := gapi.Segments(name, "projects/*/locations/*"+pattern)
	if !ok {
		return nil, refuse(ruleName, "Invalid resource name %q: want projects/*/locations/*%s.", name, pattern)
	}
	if err := s.location(values[0], values[1], permission, name); err != nil {
		return nil, err
	}
	return values[2:], nil
}

// prefix is what all names of the service begin with.
func (s *Service) prefix() string {
	return "projects/" + s.o.Project.ID + "/locations/" + s.o.Location
}

func (s *Service) jobName(id string) string { return s.prefix() + "/jobs/" + id }

// findJob returns a job that can be seen. The lock is held.
func (s *Service) findJob(id string) (*job, error) {
	j, ok := s.jobs[id]
	if !ok || s.o.Now().Before(j.born.Add(s.knobs.GetDelay)) {
		return nil, refuse(ruleJobMissing, "Resource '%s' of kind 'JOB' in region '%s' in project '%s' does not exist.", id, s.o.Location, s.o.Project.ID)
	}
	return j, nil
}

// findExecution returns an execution that can be seen. The lock is held.
func (s *Service) findExecution(jobID, id string) (*execution, error) {
	if j, ok := s.jobs[jobID]; ok {
		for _, e := range j.executions {
			if e.id == id && !s.o.Now().Before(e.born.Add(s.knobs.GetDelay)) {
				return e, nil
			}
		}
	}
	return nil, refuse(ruleExecMissing, "Resource '%s' of kind 'EXECUTION' in region '%s' in project '%s' does not exist.", id, s.o.Location, s.o.Project.ID)
}
