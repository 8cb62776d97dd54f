package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/internal/yamltree"
	"github.com/windlass-run/windlass/sdk"
)

// planned is a step with the place where it will run.
type planned struct {
	*Step
	env sandbox.Environment
}

// unstarted is why a step wasn't started that had its turn.
func (p planned) unstarted() *Failure {
	return &Failure{p.file.Path, p.Line, p.Name, sdk.ID{}, sdk.Errorf(sdk.Canceled, "start the step", "the file was cancelled before it")}
}

// plan finds every step's environment, and collects what is wrong with the file
// and what they and their backends refuse.
func (r *Runner) plan(ctx context.Context, f *File) ([]planned, error) {
	var out []planned
	ps := slices.Clone(f.problems)
	for _, s := range f.Steps {
		if s.config == nil || s.config.Value.Kind != yamltree.Map {
			continue // it is told of
		}
		env, wrong, err := r.place(ctx, s)
		if err != nil {
			return nil, err
		}
		ps = append(ps, wrong...)
		anywhere := s.draft.Validate()
		for _, p := range anywhere {
			ps = append(ps, s.problem(p.Field, ErrFile, valued(p), ""))
		}
		if env == nil {
			continue
		}
		for _, p := range env.Check(s.draft) {
			if !slices.Contains(anywhere, p) {
				ps = append(ps, s.refusal(env.Name(), p))
			}
		}
		out = append(out, planned{s, env})
	}
	ps = append(ps, neverThere(out)...)
	asked, err := r.askAll(ctx, out)
	if err != nil && len(ps) == 0 {
		return nil, err
	}
	told := ps
	for _, p := range asked {
		// A field that is refused without its backend is refused there in other words.
		if !slices.ContainsFunc(told, func(o Problem) bool { return o.Key == p.Key }) {
			ps = append(ps, p)
		}
	}
	return out, invalid("check steps", ps)
}

// neverThere tells of outputs that templates use and that the environment of the step
// never gives.
func neverThere(plan []planned) []Problem {
	var ps []Problem
	envs := map[string]sandbox.Environment{}
	for _, p := range plan {
		for _, u := range p.uses {
			if env := envs[u.step]; u.output == "stderr" && env != nil && env.Combined() {
				ps = append(ps, Problem{File: p.file.Path, Line: u.place.line, Column: u.place.col, Key: u.key, ID: ErrTemplate, Message: "the template: " + oneStream(u.step, env.Name())})
			}
		}
		envs[p.Name] = p.env
	}
	return ps
}

// place finds a step's environment; nil where there is none that could be asked.
func (r *Runner) place(ctx context.Context, s *Step) (sandbox.Environment, []Problem, error) {
	if s.placeless {
		return nil, nil, nil
	}
	var ps []Problem
	tell := func(err error) bool {
		var e *sdk.Error
		if !errors.As(err, &e) {
			return false
		}
		field := e.Field
		if field == "" {
			field = "exec_env"
		}
		ps = append(ps, s.problem(field, e.ID, cause(e), e.Remedy))
		return true
	}
	c, misplaced := s.Choice.Fitted()
	for _, err := range misplaced {
		tell(err)
	}
	env, err := r.Places.Find(ctx, c)
	if err != nil && !tell(err) {
		return nil, nil, err
	}
	return env, ps, nil
}

// askers is how many steps' backends are asked at a time.
const askers = 8

// askAll asks the backends of all steps. An error is that they couldn't be asked.
func (r *Runner) askAll(ctx context.Context, plan []planned) ([]Problem, error) {
	if len(plan) == 0 {
		return nil, nil
	}
	if r.Ready != nil {
		if err := r.Ready(ctx); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		select {
		case <-r.Stop:
			cancel()
		case <-ctx.Done():
		}
	})
	found := make([][]Problem, len(plan))
	turns := make(chan struct{}, askers)
	var asking sync.WaitGroup
	for i, p := range plan {
		turns <- struct{}{}
		asking.Go(func() {
			found[i] = p.ask(ctx)
			<-turns
		})
	}
	asking.Wait()
	switch {
	case r.stopped():
		return nil, plan[0].unstarted()
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	cancel()
	return slices.Concat(found...), nil
}

// ask asks a step's backend about what is known of the step.
func (p planned) ask(ctx context.Context) []Problem {
	if p.open("security_profile") {
		return nil // what is refused hangs on it
	}
	var ps []Problem
	for _, err := range p.env.Ask(ctx, p.known()) {
		var refused *sandbox.ProblemsError
		var e *sdk.Error
		switch {
		case errors.As(err, &refused):
			for _, x := range refused.Problems {
				if !p.open(x.Field) {
					ps = append(ps, p.refusal(p.env.Name(), x))
				}
			}
		case errors.As(err, &e) && p.set(e.Field):
			if !p.open(e.Field) {
				ps = append(ps, p.problem(e.Field, e.ID, cause(e), e.Remedy))
			}
		case e != nil && e.Code == sdk.Unimplemented:
			ps = append(ps, p.problem(p.whereabouts(), cmp.Or(e.ID, sandbox.ErrRefused), p.env.Name()+" can't run it: "+cause(e), e.Remedy))
		default:
			id, remedy := ErrBackend, ""
			if e != nil {
				id, remedy = cmp.Or(e.ID, id), e.Remedy
			}
			ps = append(ps, p.problem(p.whereabouts(), id, "can't be asked whether it takes this step: "+strings.TrimSuffix(err.Error(), "; "+remedy), remedy))
		}
	}
	return ps
}

// set reports whether the step's config sets a field, by its path.
func (s *Step) set(field string) bool {
	head, _, _ := strings.Cut(field, ".")
	head, _, _ = strings.Cut(head, "[")
	return head != "" && s.config.Value.Get(head) != nil
}

// whereabouts is the key that says most exactly where the step runs.
func (s *Step) whereabouts() string {
	for _, key := range []string{"provider", "argo_module", "exec_env"} {
		if s.config.Value.Get(key) != nil {
			return key
		}
	}
	return ""
}

// open reports whether something that isn't known yet has to do with a field.
func (s *Step) open(field string) bool {
	within := func(a, b string) bool {
		rest, ok := strings.CutPrefix(a, b)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	return slices.ContainsFunc(s.later, func(key string) bool {
		for _, k := range append(together(key), key) {
			if within(field, k) || within(k, field) {
				return true
			}
		}
		return false
	})
}

// together are the fields that a backend takes in view of a key: what an image's
// entrypoint is, and sizes that it has in pairs.
func together(key string) []string {
	switch key {
	case "image":
		return []string{"image_entrypoint", "command"}
	case "memory_limit", "cpu_limit":
		return []string{"memory_limit", "cpu_limit"}
	}
	return nil
}

// known is the draft without what isn't known yet, as far as that may be left out.
func (s *Step) known() sandbox.Exec {
	e := s.draft
	e.Secrets = maps.Clone(e.Secrets)
	for _, key := range s.later {
		switch key {
		case "image":
			e.Image = ""
		case "work_dir":
			e.WorkDir = ""
		case "network":
			e.Network = ""
		case "memory_limit":
			e.Memory = 0
		case "cpu_limit":
			e.CPU = 0
		case "timeout":
			e.Timeout = 0
		case "start_timeout":
			e.StartTimeout = 0
		case "ttl":
			e.TTL = 0
		case "secrets":
			e.Secrets = nil
		}
		if name, ok := strings.CutPrefix(key, "secrets."); ok {
			delete(e.Secrets, name)
		}
	}
	return e
}

// cause is an error's own words, without what its problem says elsewhere.
func cause(e *sdk.Error) string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return e.Error()
}

func (s *Step) refusal(env string, p sdk.Problem) Problem {
	return s.problem(p.Field, sandbox.ErrRefused, env+" refuses it: "+valued(p), "")
}

// valued is what a problem says, with the value. A quantity stands in the file as
// it was typed, and here in bytes or thousandths of a core.
func valued(p sdk.Problem) string {
	if p.Value == "" || p.Field == "memory_limit" || p.Field == "cpu_limit" || strings.HasSuffix(p.Field, "].size") {
		return p.Message
	}
	return fmt.Sprintf("%q: %s", p.Value, p.Message)
}

// problem is something wrong with a field of the step's config, at its place.
func (s *Step) problem(field, id, message, remedy string) Problem {
	p := Problem{File: s.file.Path, ID: id, Key: s.key(), Message: message, Remedy: remedy}
	p.Line, p.Column = s.config.Place(field, true)
	if field != "" {
		p.Key += "." + field
	}
	return p
}
