package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

const (
	opRun = "run job"
	// rollback bounds the waits for a name that the engine has taken and whose
	// container it doesn't show yet, or no more.
	rollbackFirst = 10 * time.Millisecond
	rollbackMost  = 500 * time.Millisecond
)

// RunJob implements sdk.JobRunner. It creates the container and starts it, or
// goes on from where an earlier send of the launch was cut off: a container
// that was never started is started, any other is taken as it is.
func (p *provider) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	l := r.Launch
	if err := ctx.Err(); err != nil {
		return sdk.RunJobResult{}, p.fail(sdk.CodeOf(err), opRun, err)
	}
	if err := p.checkLaunch(opRun, l); err != nil {
		return sdk.RunJobResult{}, err
	}
	if len(l.Problems) > 0 {
		return sdk.RunJobResult{}, p.fail(sdk.InvalidArgument, opRun, fmt.Errorf("the launch has problems: %s", sdk.JoinProblems(l.Problems)))
	}
	req, err := decodeRequest(l.Request)
	if err != nil {
		return sdk.RunJobResult{}, p.fail(sdk.InvalidArgument, opRun, fmt.Errorf("read the launch: %w", err))
	}
	if err := p.sameEngine(ctx, opRun, l.Read[keyEngine]); err != nil {
		return sdk.RunJobResult{}, err
	}
	// Two sends at once might find the same container not started, and the
	// second start it when the first's job is over already.
	done, err := p.sending.enter(ctx, l.AttemptID)
	if err != nil {
		return sdk.RunJobResult{}, p.fail(sdk.CodeOf(err), opRun, err)
	}
	defer done()
	s := &send{p: p, launch: l, req: req, stdin: r.Stdin, progress: r.Progress, inDoubt: p.hasFolders(l.AttemptID)}
	if s.progress == nil {
		s.progress = func(string) {}
	}
	res, err := s.run(ctx)
	if err != nil && (sdk.IsClear(err) || !s.inDoubt) {
		// Nothing was made on the engine; nothing stays here either.
		if rm := p.removeFolders(l.AttemptID, nil); rm != nil {
			err = errors.Join(err, rm)
		}
	}
	return res, err
}

// checkLaunch refuses a launch of another provider, or of a newer version.
func (p *provider) checkLaunch(op string, l sdk.Launch) error {
	if l.V > sdk.LaunchVersion {
		e := p.fail(sdk.FailedPrecondition, op, fmt.Errorf("launch of version %d, this program reads up to %d", l.V, sdk.LaunchVersion))
		e.Remedy = "use a newer windlass"
		return e
	}
	return p.identity.Check(op, l.Identity)
}

// send is one sending of a launch.
type send struct {
	p        *provider
	launch   sdk.Launch
	req      request
	stdin    io.Reader
	progress func(string)
	// inDoubt: a container of the attempt may be there.
	inDoubt bool
}

func (s *send) run(ctx context.Context) (sdk.RunJobResult, error) {
	if err := s.putInputs(ctx); err != nil {
		return sdk.RunJobResult{}, err
	}
	found, err := s.ensureContainer(ctx)
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	s.inDoubt = true
	res := sdk.RunJobResult{Handle: s.p.handle(found.id, s.req.Name, s.launch.Read[keyEngine], s.launch.AttemptID), Adopted: found.adopted}
	if found.adopted && !found.state.startable() {
		return res, nil
	}
	if s.req.Files == filesCopy {
		if err := s.copyFiles(ctx, found.id); err != nil {
			return sdk.RunJobResult{}, unclear(err)
		}
	}
	if err := s.start(ctx, found.id); err != nil {
		return sdk.RunJobResult{}, err
	}
	return res, nil
}

// note says whose the attempt's folders are.
func (s *send) note() note {
	l := s.launch
	return note{Endpoint: s.p.identity.Endpoint, RunID: l.RunID, Attempt: l.AttemptID, Owner: l.Owner, LedgerID: l.LedgerID,
		Made: s.p.clock.Now().UTC(), Expires: l.Expires}
}

// unclear keeps an error from saying that nothing was made: the container is
// there, and sending the launch again goes on from it.
func unclear(err error) error {
	if !sdk.IsClear(err) {
		return err
	}
	e, ok := errors.AsType[*sdk.Error](err)
	if !ok {
		return err
	}
	out := *e
	out.Code, out.Retryable = sdk.Unavailable, true
	return &out
}

func (p *provider) handle(id, name, engineID string, attempt sdk.ID) sdk.JobHandle {
	h := sdk.JobHandle{V: sdk.HandleVersion, Kind: Kind, Identity: p.identity, ID: id, Name: name,
		Metadata: map[string]string{keyAttempt: attempt.String()}}
	if engineID != "" {
		h.Metadata[keyEngine] = engineID
	}
	return h
}

// keyAttempt is the key of a handle's metadata by which the attempt's folders
// are found when its container is gone.
const keyAttempt = "attempt_id"

// putInputs resolves the secrets and puts what is mounted where the request
// says. Values go to files in memory, or into the request, and nowhere else.
func (s *send) putInputs(ctx context.Context) error {
	p, l := s.p, s.launch
	values := map[string]sdk.SecretValue{}
	for name, ref := range l.Secrets {
		if p.secrets == nil {
			return p.fail(sdk.FailedPrecondition, opRun, errors.New("the launch has secrets and this provider was opened without a resolver"))
		}
		v, err := p.secrets.ResolveSecret(ctx, ref)
		if err != nil {
			return err
		}
		values[name] = v
	}
	if s.req.Secrets == sdk.SecretVisibleEnv {
		env := slices.Clone(s.req.Body.Env)
		for _, name := range slices.Sorted(maps.Keys(values)) {
			env = append(env, name+"="+string(values[name].Reveal()))
		}
		cfg := *s.req.Body.Config
		cfg.Env = env
		s.req.Body.Config = &cfg
	}
	n := s.note()
	noFolder := func(what string) error {
		return p.fail(sdk.FailedPrecondition, opRun, fmt.Errorf("the launch mounts %s from the machine that it was prepared on", what))
	}
	if s.req.Secrets == sdk.SecretFile {
		if p.tmp == nil {
			return noFolder("secrets")
		}
		err := p.tmp.prepare(n)
		for name, v := range values {
			if err == nil {
				err = put(p.tmp.secretPath(l.AttemptID, name), v.Reveal(), secretMode)
			}
		}
		if err != nil {
			return p.fail(sdk.FailedPrecondition, opRun, fmt.Errorf("put secrets into memory: %w", err))
		}
	}
	if s.req.Files == filesBind {
		if p.files == nil {
			return noFolder("input files")
		}
		if err := p.files.prepare(n); err != nil {
			return p.fail(sdk.FailedPrecondition, opRun, fmt.Errorf("put input files: %w", err))
		}
		for i, f := range l.Files {
			name := p.files.filePath(l.AttemptID, i)
			err := put(name, f.Data, fileMode(f))
			if err == nil && s.req.UID >= 0 {
				err = giveTo(name, s.req.UID)
			}
			if err != nil {
				return p.fail(sdk.FailedPrecondition, opRun, fmt.Errorf("put input file %s: %w", f.Path, err))
			}
		}
	}
	return nil
}

func fileMode(f sdk.InputFile) os.FileMode {
	if f.Mode == 0 {
		return 0o644
	}
	return os.FileMode(f.Mode)
}

// found is the attempt's container.
type found struct {
	id      string
	adopted bool
	state   containerState
}

// ensureContainer creates the container, or finds the one that an earlier send
// created. The name makes sure that there is never a second one.
func (s *send) ensureContainer(ctx context.Context) (found, error) {
	if s.req.Pull == pullAlways {
		f, err := s.lookUp(ctx)
		if err == nil || !errors.Is(err, sdk.NotFound) {
			return f, err
		}
		if err := s.pull(ctx); err != nil {
			return found{}, err
		}
	}
	plat, err := platform(s.req.Platform)
	if err != nil {
		return found{}, s.p.fail(sdk.InvalidArgument, opRun, err)
	}
	pulled := s.req.Pull != pullMissing
	wait, deadline := rollbackFirst, s.p.clock.Now().Add(s.p.client.Timeout())
	for {
		var id string
		err := s.p.client.Call(ctx, opRun, func(ctx context.Context, api *client.Client) error {
			res, err := api.ContainerCreate(ctx, client.ContainerCreateOptions{
				Config: s.req.Body.Config, HostConfig: s.req.Body.HostConfig, NetworkingConfig: s.req.Body.NetworkingConfig,
				Platform: plat, Name: s.req.Name,
			})
			id = res.ID
			for _, w := range res.Warnings {
				s.progress("engine: " + w)
			}
			return err
		})
		s.inDoubt = s.inDoubt || err != nil && !sdk.IsClear(err)
		switch {
		case err == nil:
			return found{id: id}, nil
		case errors.Is(err, sdk.NotFound) && noSuchImage(err):
			if pulled {
				return found{}, s.p.pullError(err, err.Error())
			}
			if err := s.pull(ctx); err != nil {
				return found{}, err
			}
			pulled = true
		case nameTaken(err):
			f, err := s.lookUp(ctx)
			if !errors.Is(err, sdk.NotFound) {
				return f, err
			}
			// The engine is still making it, or is taking it back.
			if !s.p.clock.Now().Before(deadline) {
				e := s.p.fail(sdk.Unavailable, opRun, fmt.Errorf("the engine holds the name %s and shows no container of it", s.req.Name))
				e.Retryable = true
				return found{}, e
			}
			if err := s.p.clock.Sleep(ctx, wait); err != nil {
				return found{}, s.p.fail(sdk.CodeOf(err), opRun, err)
			}
			wait = min(2*wait, rollbackMost)
		default:
			return found{}, s.createError(err)
		}
	}
}

// createError gives the engine's refusals their reason.
func (s *send) createError(err error) error {
	e, ok := errors.AsType[*sdk.Error](err)
	if !ok {
		return err
	}
	if strings.Contains(err.Error(), "bind source path does not exist") {
		for _, m := range s.req.Body.HostConfig.Mounts {
			if ours := s.p.ours(m.Source); ours && strings.Contains(err.Error(), m.Source) {
				out := *e
				out.Code, out.Remedy = sdk.FailedPrecondition, "the engine doesn't share this machine's files: set remote: true in the provider's config"
				return &out
			}
		}
	}
	if sdk.IsClear(err) && e.Code == sdk.Aborted {
		out := *e
		out.Code, out.Reason = sdk.FailedPrecondition, sdk.ReasonInvalidSpec
		return &out
	}
	return err
}

func (p *provider) ours(file string) bool {
	return p.tmp != nil && strings.HasPrefix(file, p.tmp.base) || p.files != nil && strings.HasPrefix(file, p.files.base)
}

func noSuchImage(err error) bool {
	return strings.Contains(strings.ToLower(err.Error()), "no such image")
}

// nameTaken goes by the words: Podman gives them with the status 500.
func nameTaken(err error) bool {
	s := err.Error()
	return strings.Contains(s, "already in use by") && strings.Contains(s, "container name") ||
		(errors.Is(err, sdk.Aborted) || errors.Is(err, sdk.AlreadyExists)) && strings.Contains(s, "already in use") && strings.Contains(s, "name")
}

// lookUp finds the attempt's container by its name. A container of that name
// with other labels is not ours.
func (s *send) lookUp(ctx context.Context) (found, error) {
	c, err := s.p.inspect(ctx, opRun, s.req.Name)
	if err != nil {
		return found{}, err
	}
	if err := s.p.sameAttempt(opRun, c, s.launch); err != nil {
		return found{}, err
	}
	return found{id: c.ID, adopted: true, state: readState(c)}, nil
}

func (p *provider) sameAttempt(op string, c container.InspectResponse, l sdk.Launch) error {
	want := map[string]string{
		sdk.LabelRun: l.RunID.String(), sdk.LabelAttempt: l.AttemptID.String(),
		sdk.LabelNumber: strconv.Itoa(l.Attempt), sdk.LabelOwner: l.Owner, sdk.LabelLedger: l.LedgerID,
	}
	for k, v := range want {
		if c.Config == nil || c.Config.Labels[k] != v {
			return p.fail(sdk.AlreadyExists, op, fmt.Errorf("a container %s is there that isn't this attempt's: its label %s differs", c.Name, k))
		}
	}
	return nil
}

// start starts the container. An answer that is not clear is cleared up by a
// look at the container, where the engine still answers.
func (s *send) start(ctx context.Context, id string) error {
	var in *input
	if s.launch.Stdin != sdk.StdinNone {
		var err error
		if in, err = s.attach(ctx, id); err != nil {
			return unclear(err)
		}
	}
	err := s.p.client.Call(ctx, opRun, func(ctx context.Context, api *client.Client) error {
		_, err := api.ContainerStart(ctx, id, client.ContainerStartOptions{})
		return err
	})
	if err == nil {
		in.begin()
		return nil
	}
	if ctx.Err() != nil {
		in.begin() // it may run, and wait for its input
		return err
	}
	c, look := s.p.inspect(ctx, opRun, id)
	switch st := readState(c); {
	case errors.Is(look, sdk.NotFound):
		in.close()
		return s.p.fail(sdk.NotFound, opRun, fmt.Errorf("the container was removed before it could start: %w", err))
	case look != nil:
		in.begin()
		return unclear(err)
	case st.ran:
		in.begin()
		return nil
	case !st.startable():
		// It will never run, and its state says why.
		in.close()
		return nil
	case !sdk.IsClear(err):
		in.begin()
		return err
	}
	// The engine refused and kept no record: take the container back, so that
	// the refusal is all there is.
	in.close()
	if rm := s.p.removeContainer(ctx, opRun, id, false); rm != nil && !errors.Is(rm, sdk.NotFound) {
		return unclear(err)
	}
	return err
}
