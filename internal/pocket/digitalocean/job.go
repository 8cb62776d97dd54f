package digitalocean

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/internal/pocket/run"
)

// task is a job that is to run.
type task struct {
	app    *app
	spec   *godo.AppSpec
	job    *godo.AppJobSpec
	out    *output
	mishap Mishap
	// limit is the most time that it gets, 0 for what its timeout says.
	limit time.Duration
	// stop ends it with its deployment, canceled alone.
	stop, canceled <-chan struct{}
	// unknown is called when its phase is hidden, and when it shows again.
	unknown func(bool)
}

// outcome is how a job ended.
type outcome struct {
	phase godo.JobInvocationPhase
	// code and message are the reason that a step shows; code is empty where
	// the pages have none.
	code, message string
	// interrupted says that the deployment has to end.
	interrupted bool
}

func failedWith(code, message string) outcome {
	return outcome{phase: godo.JOBINVOCATIONPHASE_Failed, code: code, message: message}
}

// runJob runs a job to its end.
func (s *Server) runJob(t task) outcome {
	defer t.out.close()
	s.mu.Lock()
	spec, err := s.container(t)
	delay := s.knobs.LogDelay
	s.mu.Unlock()
	if err != nil {
		return failedWith(codeExec, textExec)
	}
	stdout, stderr := t.out.open(delay, s.o.Now)
	spec.Stdout, spec.Stderr = stdout, stderr
	c, err := s.executor.Start(context.Background(), spec)
	if err != nil {
		var start *run.StartError
		switch {
		case errors.As(err, &start) && start.Phase == run.Start:
			return failedWith(codeExec, textExec)
		case start != nil && start.Phase == run.Pull:
			// The page of error codes has none for it, so that its words alone tell.
			return failedWith("", textPull+": "+spec.Image+": "+start.Text+".")
		}
		return failedWith(codeInternal, textInternal)
	}
	how := s.watch(t, c)
	select {
	case <-c.Done():
	case <-s.end:
		c.Stop(0)
		<-c.Done()
	}
	return how
}

// watch waits for what ends a running job, and stops it unless it ended by
// itself.
func (s *Server) watch(t task, c run.Container) outcome {
	limit := defaultTimeout
	if t.job.Timeout != "" {
		limit, _ = time.ParseDuration(t.job.Timeout) // admit has checked it
	}
	if t.limit > 0 {
		limit = min(limit, t.limit)
	}
	grace := defaultGrace
	if t.job.Termination != nil && t.job.Termination.GracePeriodSeconds > 0 {
		grace = time.Duration(t.job.Termination.GracePeriodSeconds) * time.Second
	}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	var struck <-chan time.Time
	switch t.mishap.Stage {
	case StageOOM, StageHost, StageUnknown:
		timer := time.NewTimer(t.mishap.After)
		defer timer.Stop()
		struck = timer.C
	}
	if t.mishap.Stage == StageUnknown {
		t.unknown(true)
	}
	for {
		select {
		case <-c.Done():
			if t.mishap.Stage == StageUnknown && struck != nil {
				<-struck
				t.unknown(false)
			}
			return endOf(c.Exit(), t.mishap)
		case <-struck:
			struck = nil
			switch m := t.mishap; m.Stage {
			case StageUnknown:
				t.unknown(false)
				continue
			case StageOOM:
				c.Stop(0)
				return failedWith(cmp.Or(m.Code, codeMemory), cmp.Or(m.Message, textMemory))
			default:
				c.Stop(0)
				return failedWith(cmp.Or(m.Code, codeInternal), cmp.Or(m.Message, textInternal))
			}
		case <-deadline.C:
			c.Stop(grace)
			return failedWith("", textTimedOut)
		case <-t.canceled:
			c.Stop(grace)
			return outcome{phase: godo.JOBINVOCATIONPHASE_Canceled, message: textCanceled}
		case <-t.stop:
			c.Stop(grace)
			return outcome{phase: godo.JOBINVOCATIONPHASE_Canceled, message: textCanceled, interrupted: true}
		case <-s.end:
			c.Stop(0)
			return outcome{phase: godo.JOBINVOCATIONPHASE_Failed, code: codeInternal, message: textClosed, interrupted: true}
		}
	}
}

// endOf tells an end that the job came to by itself.
func endOf(exit run.Exit, m Mishap) outcome {
	switch {
	case exit.OOM:
		return failedWith(codeMemory, textMemory)
	case exit.Code != 0:
		return failedWith(cmp.Or(m.Code, codeExit), cmp.Or(m.Message, textExit))
	}
	return outcome{phase: godo.JOBINVOCATIONPHASE_Succeeded}
}

// container says what an executor is to run. The lock is held.
func (s *Server) container(t task) (run.Spec, error) {
	size, _ := sizeOf(t.job.InstanceSizeSlug) // admit has checked it
	env, err := s.environment(t)
	if err != nil {
		return run.Spec{}, err
	}
	spec := run.Spec{Name: t.app.Spec.Name + "-" + t.job.Name + "-" + s.o.NewID()[:8], Image: reference(t.job.Image), Env: env, MemoryMiB: size.memory}
	command := t.job.RunCommand
	if command == "" {
		return spec, nil
	}
	argv := []string{"/bin/sh", "-c", command}
	if s.knobs.NoShell {
		if argv, err = words(command); err != nil {
			return spec, err
		}
	}
	if s.knobs.KeepEntrypoint {
		spec.Command = argv
	} else {
		spec.Entrypoint = argv
	}
	return spec, nil
}

// bound are the variables in a value that are put in.
var bound = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_.-]*\}`)

// environment is what a job gets: the app's variables, and its own over them.
// The lock is held.
func (s *Server) environment(t task) ([]string, error) {
	values := map[string]string{}
	var names []string
	put := func(prefix string, envs []*godo.AppVariableDefinition) error {
		for _, v := range envs {
			if v.Scope == godo.AppVariableScope_BuildTime {
				continue
			}
			value := v.Value
			if v.Type == godo.AppVariableType_Secret {
				var err error
				if value, err = s.vault.open(value); err != nil {
					return err
				}
			}
			if _, ok := values[prefix+v.Key]; !ok && prefix == "" {
				names = append(names, v.Key)
			}
			values[prefix+v.Key] = value
		}
		return nil
	}
	err := errors.Join(put("", t.spec.Envs), put("", t.job.Envs), put("_self.", t.job.Envs))
	for _, job := range t.spec.Jobs {
		err = errors.Join(err, put(job.Name+".", job.Envs))
	}
	values["APP_ID"] = cmp.Or(values["APP_ID"], t.app.ID)
	var out []string
	for _, name := range names {
		value := bound.ReplaceAllStringFunc(values[name], func(ref string) string {
			inner := strings.TrimSuffix(strings.TrimPrefix(ref, "${"), "}")
			if v, ok := values[inner]; ok && (inner == "APP_ID" || strings.Contains(inner, ".")) {
				return v
			}
			return ref
		})
		out = append(out, name+"="+value)
	}
	return out, err
}
