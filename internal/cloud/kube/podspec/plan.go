// Package podspec makes a pod's parts of a job's spec, for the drivers whose jobs
// are pods of Kubernetes: the container, its volumes, resources, security and
// secrets, and where it is placed. What Kubernetes can't do becomes a problem.
package podspec

import (
	"fmt"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

const (
	// MinGrace is the least time that the kubelet gives between TERM and KILL.
	// https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/kubelet/kuberuntime/kuberuntime_container.go
	MinGrace = 2 * time.Second
	// MaxGrace is what we take; Kubernetes has no bound of its own.
	MaxGrace = 24 * time.Hour
	// DefaultGrace is Kubernetes' own.
	DefaultGrace = 30 * time.Second
	// MaxTimeout is below what a pod's deadline may be, 2^31-1 seconds.
	MaxTimeout = 365 * 24 * time.Hour
	// StartSlack is what the pod's deadline leaves for its start where no start
	// time-out is set.
	StartSlack = 10 * time.Minute
)

// Plan is a launch in the making.
type Plan struct {
	Spec  sdk.JobSpec
	Place Placement
	// Name is that of the Secret that is made for the job.
	Name string
	// Sealed maps keys of that Secret to names of the launch's secrets.
	Sealed map[string]string

	Problems []sdk.Problem
	Fitted   []sdk.Fitted
	Warnings []string
}

// Bad adds a problem.
func (l *Plan) Bad(code sdk.Code, field, value, format string, args ...any) {
	l.Problems = append(l.Problems, sdk.Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...), Code: code})
}

// Fit notes what was chosen for a field that wasn't set.
func (l *Plan) Fit(field, value, why string) {
	l.Fitted = append(l.Fitted, sdk.Fitted{Field: field, Value: value, Why: why})
}

// RefuseFields refuses what a pod that runs once has no place for.
func (l *Plan) RefuseFields() {
	s := l.Spec
	no := func(field, value, why string) { l.Bad(sdk.Unimplemented, field, value, "%s", why) }
	if s.Image == "" {
		l.Bad(sdk.InvalidArgument, "image", "", "Kubernetes runs images, and none is given")
	}
	if s.PIDs > 0 {
		no("pids", fmt.Sprint(s.PIDs), "the number of processes is bounded by the kubelet's configuration alone; leave it out")
	}
	if s.Network != "" {
		no("network", s.Network, "a pod has the cluster's network; leave it out, or deny all traffic by the profile strict of the kind kubernetes")
	}
	for i, f := range s.Files {
		no(fmt.Sprintf("files[%d]", i), f.Path, "input files aren't offered on Kubernetes; put them into the image, or mount a volume")
	}
	if s.Stdin == sdk.StdinAttached || s.Stdin == sdk.StdinSpooled {
		no("stdin", string(s.Stdin), "a job's pod has no input")
	}
	if g := s.Grace; g != nil && (*g < MinGrace || *g > MaxGrace || *g%time.Second != 0) {
		l.Bad(sdk.InvalidArgument, "grace", g.String(), "Kubernetes gives whole seconds, from %s to %s", MinGrace, MaxGrace)
	}
	if s.Timeout > MaxTimeout {
		l.Bad(sdk.InvalidArgument, "timeout", s.Timeout.String(), "is more than %s", MaxTimeout)
	}
	if s.TTL > MaxTimeout {
		l.Bad(sdk.InvalidArgument, "ttl", s.TTL.String(), "is more than %s", MaxTimeout)
	}
}

// Seconds rounds up.
func Seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Grace is what the pod gives between TERM and KILL.
func (l *Plan) Grace() time.Duration {
	if l.Spec.Grace != nil {
		return *l.Spec.Grace
	}
	return DefaultGrace
}

// Deadline is the pod's own, counted from when a node takes it: 1.1 times the
// time-out and what it may take to start. Nil where there is no time-out.
func (l *Plan) Deadline() *int64 {
	t := l.Spec.Timeout
	if t <= 0 || t > MaxTimeout {
		return nil
	}
	start := StartSlack
	if l.Spec.StartTimeout > 0 {
		start = min(l.Spec.StartTimeout, MaxTimeout)
	}
	d := Seconds(t + t/10 + start)
	return &d
}
