//go:build linux || darwin

package local

import (
	"errors"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
	"github.com/windlass-run/windlass/internal/driver/local/proc"
	"github.com/windlass-run/windlass/sdk"
)

// stage is how far an attempt has come.
type stage int

const (
	// stageAbsent: there is no folder. stageUnsent: there is one, nothing has
	// begun in it and nobody is at it. stageStarting: somebody is at it.
	stageAbsent stage = iota
	stageUnsent
	stageStarting
	// stageHeld: a supervisor has begun and lives.
	stageHeld
	stageEnded
	// stageLost: the supervisor has died without a record of the end.
	// stageRebooted: it went down with the machine, or may have been started
	// just before that.
	stageLost
	stageRebooted
)

func (s stage) String() string {
	switch s {
	case stageAbsent:
		return "absent"
	case stageUnsent:
		return "not started"
	case stageStarting:
		return "starting"
	case stageHeld:
		return "running"
	case stageEnded:
		return "ended"
	case stageLost:
		return "supervisor lost"
	case stageRebooted:
		return "lost at a reboot"
	}
	return "unknown"
}

// begun reports whether the job ran, or may have.
func (s stage) begun() bool { return s >= stageHeld }

// view is what the folder says.
type view struct {
	stage stage
	// launch is zero when the folder was made and nothing written yet.
	launch  attempt.Launch
	begun   attempt.Begun
	started attempt.Started
	end     attempt.End
}

// look reads an attempt's folder, and asks the kernel whether its supervisor
// lives. It changes nothing.
func (p *provider) look(f attempt.Folder) (view, error) {
	v, err := p.read(f)
	if err != nil || v.stage != stageLost && v.stage != stageUnsent {
		return v, err
	}
	// It may have begun, or ended, between the look at its record and the look
	// at the supervisor.
	return p.read(f)
}

func (p *provider) read(f attempt.Folder) (view, error) {
	var v view
	var err error
	if v.launch, err = attempt.Read[attempt.Launch](f, attempt.LaunchFile); err != nil {
		if !errors.Is(err, attempt.ErrNone) {
			return v, err
		}
		there, err := f.Exists()
		if err != nil || !there {
			return v, err
		}
	}
	if v.begun, err = attempt.Read[attempt.Begun](f, attempt.BegunFile); err != nil {
		if !errors.Is(err, attempt.ErrNone) {
			return v, err
		}
		if v.launch.V > 0 && v.launch.BootID != p.bootID {
			v.stage = stageRebooted
			return v, nil
		}
		held, err := f.Held()
		v.stage = stageUnsent
		if held {
			v.stage = stageStarting
		}
		return v, err
	}
	if v.started, err = attempt.Read[attempt.Started](f, attempt.StartedFile); err != nil && !errors.Is(err, attempt.ErrNone) {
		return v, err
	}
	v.end, err = attempt.Read[attempt.End](f, attempt.EndFile)
	switch {
	case err == nil:
		v.stage = stageEnded
		return v, nil
	case !errors.Is(err, attempt.ErrNone):
		return v, err
	}
	v.stage, err = lifeOf(f, v.begun.Supervisor)
	return v, err
}

// lifeOf judges a supervisor that has left no record of the end.
func lifeOf(f attempt.Folder, supervisor proc.Identity) (stage, error) {
	life, err := supervisor.Look()
	if err != nil {
		return 0, err
	}
	switch life {
	case proc.Alive:
		return stageHeld, nil
	case proc.Rebooted:
		return stageRebooted, nil
	case proc.Foreign:
		// PIDs of another namespace say nothing here; its lock does.
		held, err := f.Held()
		if err == nil && held {
			return stageHeld, nil
		}
		return stageLost, err
	}
	return stageLost, nil
}

func (p *provider) absent(op string, id sdk.ID) error {
	return p.failf(sdk.NotFound, op, "no job of attempt %s in %s", id, p.state)
}
