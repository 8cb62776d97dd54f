package compose

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"

	"github.com/windlass-run/windlass/sdk"
)

// scene is all that is known of a service at one moment.
type scene struct {
	name    string
	model   model
	service service
	list    []instance
	journal journal
	drift   drift
	// underway: somebody changes it at the moment.
	underway bool
	// dry: nothing may be changed, not even the engine's images.
	dry bool
}

// look reads a service as it is shown.
func (p *provider) look(ctx context.Context, op, name string) (*scene, error) {
	s, err := p.see(ctx, op, name, false)
	if err == nil {
		s.underway, err = p.underway(ctx, name, s.journal)
	}
	return s, err
}

// underway reports whether the newest change of a journal goes on. One that was
// begun and whose end nobody noted is over when its lock is free.
func (p *provider) underway(ctx context.Context, name string, j journal) (bool, error) {
	if e := j.last(); e == nil || e.Ended != nil {
		return false, nil
	}
	return p.held(ctx, name)
}

// see reads a service, and asks Compose whether its containers are as the
// project's files say. A change (again) takes Compose's word from the look that
// came just before it.
func (p *provider) see(ctx context.Context, op, name string, again bool) (*scene, error) {
	s := &scene{name: name}
	var err error
	if s.list, err = p.list(ctx, op, name, false); err != nil {
		return nil, err
	}
	// Compose is asked for both things at once: each is a start of its program.
	var drifts chan drift
	var files []string
	if len(s.list) > 0 {
		if files, err = p.files(op); err != nil {
			return nil, err
		}
		dctx, cancel := context.WithCancel(ctx)
		drifts = make(chan drift, 1)
		defer func() {
			cancel()
			for range drifts {
			}
		}()
		go func() {
			defer close(drifts)
			drifts <- p.drift(dctx, op, files, s, again)
		}()
	}
	if s.model, err = p.resolve(ctx, op); err != nil {
		return nil, err
	}
	if s.service, err = p.service(op, name, s.model); err != nil {
		return nil, err
	}
	if s.journal, err = p.readJournal(op, name); err != nil {
		return nil, err
	}
	if drifts != nil {
		s.drift = <-drifts
		if !slices.Equal(files, s.model.files) {
			s.drift = p.drift(ctx, op, s.model.files, s, again)
		}
		if err := ctx.Err(); err != nil {
			return nil, p.ended(ctx, op)
		}
	}
	return s, nil
}

// drift asks what Compose would make anew of the containers of a scene.
func (p *provider) drift(ctx context.Context, op string, files []string, s *scene, again bool) drift {
	key, err := p.readKey(ctx, op, files, append(probeArgs(s.name, len(s.list)), s.ids()...))
	if err != nil {
		return drift{err: err}
	}
	if again {
		if d, ok := p.probed.take(p.clock, key); ok {
			return d
		}
	}
	d := p.probe(ctx, op, files, s.name, len(s.list))
	if d.err == nil && !again {
		p.probed.put(p.clock, key, d)
	}
	return d
}

// ids are the containers with the hashes of their configurations, in order.
func (s *scene) ids() []string {
	ids := make([]string, 0, len(s.list))
	for _, c := range s.list {
		ids = append(ids, c.id+" "+c.hash)
	}
	slices.Sort(ids)
	return ids
}

// stopped: nothing runs or will by itself, and that is what somebody wanted.
// The engine doesn't keep who ended a container. One with a restart policy that
// rests was stopped; of the others a clean end, or one by TERM or KILL, counts as
// that, and any end behind a stop through Windlass.
func (s *scene) stopped() bool {
	if len(s.list) == 0 || s.underway || slices.ContainsFunc(s.list, instance.live) {
		return false
	}
	if e := s.journal.last(); e != nil && e.Verb == verbStop {
		return true
	}
	return !slices.ContainsFunc(s.list, instance.failed)
}

// unmade: the project describes the service, and nothing was made of it, or all was
// removed, other than by scaling it to none.
func (s *scene) unmade() bool {
	return len(s.list) == 0 && !s.underway && !s.journal.none()
}

// sound: a container runs as the project's files say, so that the networks and
// volumes of the service are there: what is in use can't be removed.
func (s *scene) sound() bool {
	return s.drift.err == nil && len(s.drift.recreate) == 0 && slices.ContainsFunc(s.list, instance.running)
}

// desired is how many are to run. Compose keeps no count: the containers that
// are there are those that were asked for.
func (s *scene) desired() int {
	if s.stopped() {
		return 0
	}
	return len(s.list)
}

// generation changes with every change through Windlass, with the set of
// containers and their configuration, and with a stop; the engine's own restarts
// leave it alone.
func (s *scene) generation() string {
	var b strings.Builder
	if e := s.journal.last(); e != nil {
		fmt.Fprintln(&b, e.Op)
	}
	fmt.Fprintln(&b, s.stopped(), s.ids())
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:8])
}

// newest is the configuration of the container that was made last.
func (s *scene) newest() string {
	var hash string
	var last instance
	for _, c := range s.list {
		if hash == "" || c.started.After(last.started) {
			hash, last = c.hash, c
		}
	}
	return hash
}

func (s *scene) status() sdk.DeploymentStatus {
	desired, ready, updated := s.desired(), 0, 0
	st := sdk.DeploymentStatus{Path: sdk.WorkloadPath(s.name), Image: s.image(), Desired: &desired, Ready: &ready, Updated: &updated,
		Generation: s.generation(), Stopped: s.stopped()}
	st.GenerationSeen = st.Generation
	newest := s.newest()
	for _, c := range s.list {
		if c.ready() {
			ready++
		}
		if c.hash == newest {
			updated++
		}
		st.Instances = append(st.Instances, c.status())
		if f := c.failure(); f != nil && (st.Failure == nil || f.At.After(st.Failure.At)) {
			st.Failure = f
		}
	}
	if st.Stopped {
		n := len(s.list)
		st.Restores, st.Failure = &n, nil
	}
	if st.Unmade = s.unmade(); st.Unmade {
		n := s.service.replicas()
		st.Restores = &n
	}
	st.Rollout = s.rollout(updated)
	st.Warnings = s.warnings(updated)
	return st
}

// image is the one that the containers were made from, else that of the files.
func (s *scene) image() string {
	if len(s.list) > 0 {
		return s.list[len(s.list)-1].image
	}
	return s.service.Image
}

// rollout judges the last change: Compose itself is done when its command is,
// but for containers that aren't healthy yet.
func (s *scene) rollout(updated int) sdk.RolloutState {
	if s.underway {
		return sdk.RolloutProgressing
	}
	if s.stopped() {
		return sdk.RolloutComplete
	}
	out := sdk.RolloutComplete
	for _, c := range s.list {
		switch {
		case c.failed(), c.looping(), c.health == container.Unhealthy:
			return sdk.RolloutFailed
		case !c.ready():
			out = sdk.RolloutProgressing
			if !c.live() && c.state != container.StateCreated {
				out = sdk.RolloutUnknown
			}
		}
	}
	if out == sdk.RolloutComplete && updated < len(s.list) {
		return sdk.RolloutUnknown
	}
	return out
}

func (s *scene) warnings(updated int) []string {
	var out []string
	if n := len(s.list) - updated; n > 0 {
		out = append(out, fmt.Sprintf("%d of %d containers have another configuration than the newest", n, len(s.list)))
	}
	if s.unmade() {
		out = append(out, fmt.Sprintf("it has no containers yet: `svc start` makes %d", s.service.replicas()))
	}
	switch n := len(s.drift.recreate); {
	case s.drift.err != nil:
		out = append(out, "whether the configuration has drifted can't be told: "+text(s.drift.err))
	case n > 0:
		out = append(out, fmt.Sprintf("the configuration has drifted: the project's files, settings or image are not what %s made with", count(n, "container was", "containers were")))
	}
	if e := s.journal.last(); e != nil && e.Failed != "" {
		out = append(out, fmt.Sprintf("the last change, a %s, failed: %s", e.Verb, e.Failed))
	} else if e != nil && e.Ended == nil && !s.underway {
		out = append(out, fmt.Sprintf("the end of the last change, a %s, was not seen", e.Verb))
	}
	return out
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// text is an error without what stands beside it where it is shown.
func text(err error) string {
	if e := asError(err); e != nil && e.Err != nil {
		return e.Err.Error()
	}
	return err.Error()
}

func (c instance) status() sdk.InstanceStatus {
	restarts := c.restarts
	st := sdk.InstanceStatus{Name: c.name, State: c.instanceState(), Ready: c.ready(), Generation: short(c.hash), Restarts: &restarts, Started: c.started}
	if f := c.failure(); f != nil && !st.Ready {
		st.Reason, st.Message = f.Reason, f.Message
	}
	return st
}

// short is as much of a configuration's hash as people compare.
func short(hash string) string { return hash[:min(len(hash), 12)] }

func (c instance) instanceState() sdk.InstanceState {
	switch c.state {
	case container.StateCreated, container.StateRestarting:
		return sdk.InstancePending
	case container.StateRunning, container.StatePaused:
		return sdk.InstanceRunning
	case container.StateRemoving:
		return sdk.InstanceStopping
	case container.StateExited, container.StateDead:
		return sdk.InstanceEnded
	}
	return sdk.InstanceUnknown
}

// failure is why a container doesn't serve, in the engine's words.
func (c instance) failure() *sdk.WorkloadFailure {
	f := &sdk.WorkloadFailure{Instance: c.name, At: c.finished}
	switch {
	case c.oom && !c.running():
		f.Reason, f.Message = sdk.ReasonOOMKilled, "the kernel ended it for want of memory"
	case c.state == container.StateCreated && c.problem != "":
		f.Reason, f.Message = sdk.ReasonFailedToStart, line(c.problem)
	case c.problem != "" && !c.running():
		f.Reason, f.Message = sdk.ReasonFailedToStart, line(c.problem)
	case c.state == container.StateRestarting, c.failed():
		f.Reason, f.Message = c.ended(&c.code)
	case c.shaky():
		f.Reason, f.Message = c.ended(c.last)
	case c.health == container.Unhealthy:
		f.Reason, f.Message, f.At = sdk.ReasonUnknown, "its health check fails: "+line(c.problem), c.started
	case c.state == container.StatePaused:
		f.Reason, f.Message, f.At = sdk.ReasonUnknown, "it is paused", c.started
	default:
		return nil
	}
	return f
}

// ended tells of an end with this code, nil where it isn't known, and of what the
// engine did about it.
func (c instance) ended(code *int) (sdk.Reason, string) {
	reason, words := sdk.ReasonUnknown, "it ended"
	if code != nil {
		words += fmt.Sprintf(" with code %d", *code)
		if reason = sdk.ReasonNonzeroExit; *code == 0 {
			reason = sdk.ReasonCompleted
		}
	}
	if c.restarts > 0 {
		words += ", and was started again " + count(c.restarts, "time", "times")
	}
	return reason, words
}

// line makes one line of the engine's or a program's words.
func line(s string) string {
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "?")
	if len(s) > maxWords {
		s = strings.ToValidUTF8(s[:maxWords], "") + "…"
	}
	return s
}
