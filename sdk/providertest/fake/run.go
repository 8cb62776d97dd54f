package fake

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// PrepareJob implements sdk.JobRunner.
func (p *provider) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	ctx, cancel := p.limit(ctx)
	defer cancel()
	in, err := p.cloud.enter(ctx, OpPrepareJob, nil)
	if err != nil {
		return sdk.Launch{}, err
	}
	req, ps := p.request(r.Spec)
	raw, err := sdk.EncodeCanonical(req)
	if err != nil {
		ps = append(ps, sdk.Problem{Field: "name", Value: r.Spec.Name, Message: err.Error(), Code: sdk.InvalidArgument})
	}
	l := sdk.Launch{
		V: sdk.LaunchVersion, Kind: p.self.Kind, Identity: p.self,
		RunID: r.RunID, AttemptID: r.AttemptID, Attempt: r.Attempt, Owner: p.open.Owner, LedgerID: p.open.LedgerID,
		Request: raw, Secrets: r.Spec.Secrets, Files: r.Spec.Files, Stdin: r.Spec.Stdin,
		Resubmit: sdk.ResubmitRule{By: p.g.Submit.By}, Problems: ps,
		NativeDeadline: time.Duration(req.Deadline), Expires: r.Expires,
	}
	switch p.g.Submit.By {
	case sdk.SubmitByName:
		l.Names = map[string]string{"job": jobPrefix + r.AttemptID.String()}
	case sdk.SubmitByToken:
		l.Token, l.Resubmit.Window = r.AttemptID.String(), p.g.Submit.TokenWindow
	}
	if r.Spec.Grace == nil && p.g.Grace.Supported {
		l.Fitted = append(l.Fitted, sdk.Fitted{Field: "grace", Value: time.Duration(req.Grace).String(), Why: "the backend's default"})
	}
	return l, in.done()
}

// request translates a spec; the problems come all at once.
func (p *provider) request(s sdk.JobSpec) (request, []sdk.Problem) {
	ps := sdk.ValidateSpec(s)
	refuse := func(field, value, msg string) {
		ps = append(ps, sdk.Problem{Field: field, Value: value, Message: msg, Code: sdk.Unimplemented})
	}
	req := request{Name: s.Name, Image: s.Image, Env: s.Env, Workdir: s.Workdir, User: s.User,
		Lines: p.g.Logs.Fidelity != sdk.LogBytes, Combined: !p.g.Logs.Apart, TokenWindow: Duration(p.g.Submit.TokenWindow)}
	if s.GPU > 0 {
		refuse("gpu", fmt.Sprint(s.GPU), "the backend has no GPUs")
	}
	if s.Network != "" {
		refuse("network", s.Network, "the backend has no networks")
	}
	for i, m := range s.Mounts {
		refuse(fmt.Sprintf("mounts[%d]", i), m.Target, "the backend has no file system to mount")
	}
	req.Grace = Duration(p.g.Grace.Default)
	if s.Grace != nil {
		g := p.g.Grace
		switch {
		case !g.Supported:
			refuse("grace", s.Grace.String(), "the backend kills at once")
		case *s.Grace < g.Min || *s.Grace > g.Max:
			refuse("grace", s.Grace.String(), fmt.Sprintf("is outside %s to %s", g.Min, g.Max))
		}
		req.Grace = Duration(*s.Grace)
	}
	if s.Stdin != sdk.StdinNone && !slices.Contains(p.g.Stdin, s.Stdin) {
		refuse("stdin", string(s.Stdin), "the backend doesn't take it")
	}
	if p.g.Secrets == sdk.SecretVisibleEnv && !s.AllowVisibleSecret {
		for _, name := range sortedKeys(s.Secrets) {
			refuse("secrets."+name, string(s.Secrets[name]), "would be visible to all who may describe the job; allow_visible_secret permits it")
		}
	}
	if d := p.g.Deadline; d.Native && s.Timeout > 0 {
		limit := s.Timeout + s.Timeout/10
		if d.FromSubmit {
			start := s.StartTimeout
			if start == 0 {
				start = 10 * time.Minute
			}
			limit += start
		}
		req.Deadline = Duration(min(max(limit, d.Min), d.Max))
	}
	ps = append(ps, p.script(s, &req)...)
	sort.SliceStable(ps, func(i, j int) bool { return ps[i].Field < ps[j].Field })
	return req, ps
}

// script fills in what the job does and its arguments.
func (p *provider) script(s sdk.JobSpec, req *request) []sdk.Problem {
	if ps := optionsSchema().Validate("options", s.Options); len(ps) > 0 {
		return ps
	}
	var o struct {
		Script []Step `json:"script"`
	}
	if len(s.Options) > 0 {
		if err := json.Unmarshal(s.Options, &o); err != nil {
			return []sdk.Problem{{Field: "options", Message: err.Error(), Code: sdk.InvalidArgument}}
		}
	}
	if o.Script == nil {
		words, field := slices.Concat(s.Entrypoint, s.Args), "args"
		if len(s.Entrypoint) > 0 {
			field = "entrypoint"
		}
		steps, ps := parseWords(field, words)
		req.Steps = steps
		return ps
	}
	req.Steps = o.Script
	req.Args = slices.Concat(s.Entrypoint, s.Args)
	switch p.g.Argv {
	case sdk.ArgvSubstituting:
		if !p.set.Unescaped {
			req.Args = escape(req.Args)
		}
		req.Expand = expandRefs
	case sdk.ArgvOneString:
		req.Args, req.Expand = sdk.Argv{shellJoin(req.Args)}, expandShell
	}
	return checkSteps("options.script", o.Script)
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// RunJob implements sdk.JobRunner.
func (p *provider) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	ctx, cancel := p.limit(ctx)
	defer cancel()
	rec, err := p.record(ctx, r.Launch)
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	v, adopted, err := p.cloud.submit(ctx, rec, p.g.Submit.By == sdk.SubmitByName)
	if errors.Is(err, sdk.AlreadyExists) {
		if v, err = p.existing(ctx, rec); err != nil {
			return sdk.RunJobResult{}, err
		}
		adopted = true
	}
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	if r.Launch.Stdin != sdk.StdinNone && r.Stdin != nil && v.stdin == nil {
		p.pumps.start(p.cloud, v.rec.ID, r.Stdin)
	}
	return sdk.RunJobResult{Handle: p.handle(v), Adopted: adopted}, nil
}

// record turns a launch into what is sent.
func (p *provider) record(ctx context.Context, l sdk.Launch) (*record, error) {
	const op = "run job"
	if l.V > sdk.LaunchVersion {
		return nil, &sdk.Error{Code: sdk.FailedPrecondition, Op: op, Remedy: "use a newer windlass",
			Err: fmt.Errorf("launch of version %d, this program reads up to %d", l.V, sdk.LaunchVersion)}
	}
	if err := p.self.Check(op, l.Identity); err != nil {
		return nil, err
	}
	if len(l.Problems) > 0 {
		return nil, sdk.Errorf(sdk.InvalidArgument, op, "the launch has problems: %s", sdk.JoinProblems(l.Problems))
	}
	dec := json.NewDecoder(bytes.NewReader(l.Request))
	dec.DisallowUnknownFields()
	rec := &record{RunID: l.RunID, AttemptID: l.AttemptID, Attempt: l.Attempt, Owner: l.Owner, LedgerID: l.LedgerID,
		Token: l.Token, Expires: l.Expires, Stdin: l.Stdin, Files: map[string]string{}, Secrets: map[string]string{}}
	if err := dec.Decode(&rec.Request); err != nil {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: op, Field: "request", Err: err}
	}
	for _, f := range l.Files {
		rec.Files[f.Path] = sum(f.Data)
	}
	for _, name := range sortedKeys(l.Secrets) {
		if p.g.Secrets == sdk.SecretReference {
			rec.Secrets[name] = string(l.Secrets[name])
			continue
		}
		if p.open.Secrets == nil {
			return nil, sdk.Errorf(sdk.FailedPrecondition, op, "secret %s: no resolver of secrets was given", name)
		}
		v, err := p.open.Secrets.ResolveSecret(ctx, l.Secrets[name])
		if err != nil {
			return nil, &sdk.Error{Code: sdk.CodeOf(err), Op: op, Field: "secrets." + name, Err: err}
		}
		rec.Secrets[name] = sum(v.Reveal())
		if p.g.Secrets == sdk.SecretVisibleEnv {
			if rec.Request.Env == nil {
				rec.Request.Env = sdk.Env{}
			}
			rec.Request.Env[name] = string(v.Reveal())
		}
	}
	return rec, nil
}

func sum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// existing reads the job whose name is taken. It is ours if it is this
// attempt's; a job that was removed in between is gone for good.
func (p *provider) existing(ctx context.Context, rec *record) (*view, error) {
	v, _, err := p.cloud.describe(ctx, OpJobStatus, rec.ID)
	if err != nil {
		return nil, &sdk.Error{Code: sdk.Unavailable, Op: "run job", Retryable: true, Err: fmt.Errorf("read the job that exists: %w", err)}
	}
	if v.rec.AttemptID != rec.AttemptID || v.rec.LedgerID != rec.LedgerID {
		return nil, sdk.Errorf(sdk.AlreadyExists, "run job", "the name %s belongs to attempt %s of ledger %s", rec.ID, v.rec.AttemptID, v.rec.LedgerID)
	}
	return v, nil
}

func (p *provider) handle(v *view) sdk.JobHandle {
	return sdk.JobHandle{V: sdk.HandleVersion, Kind: p.self.Kind, Identity: p.self, ID: v.rec.ID, Name: v.rec.Request.Name,
		Metadata: map[string]string{"accepted": v.rec.Accepted.UTC().Format(time.RFC3339Nano)}}
}

// pumps read the standard inputs of jobs until the provider is closed.
type pumps struct {
	mu     sync.Mutex
	closed bool
	open   map[*pump]bool
}

type pump struct {
	mu    sync.Mutex
	data  []byte
	ended bool
	cloud *Cloud
	id    string
}

func (s *pumps) start(c *Cloud, id string, r io.Reader) {
	p := &pump{cloud: c, id: id}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		p.end()
		return
	}
	if s.open == nil {
		s.open = map[*pump]bool{}
	}
	s.open[p] = true
	s.mu.Unlock()
	go func() {
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Read(buf)
			if !p.add(buf[:n]) || err != nil {
				break
			}
		}
		p.end()
		s.mu.Lock()
		delete(s.open, p)
		s.mu.Unlock()
	}()
}

// add reports false once the input has ended.
func (p *pump) add(data []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.data = append(p.data, data...)
	}
	return !p.ended
}

// end gives the job its input. A failed reader is the end of input, as a lost
// pipe is.
func (p *pump) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	// A job that is gone needs no input.
	_ = p.cloud.store.endStdin(p.id, stdinFact{Data: p.data})
	p.cloud.hub.publish(p.id)
}

func (s *pumps) close() {
	s.mu.Lock()
	s.closed = true
	open := s.open
	s.open = nil
	s.mu.Unlock()
	for p := range open {
		p.end()
	}
}
