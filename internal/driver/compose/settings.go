package compose

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

const opConfig = "change settings"

func (p *provider) layerPath(service string) string {
	return filepath.Join(p.folder(service), layerFile)
}

// ApplyConfig implements sdk.Configurer. Settings lie in a file that Compose
// merges behind the project's; the service, and no other, is made anew.
func (p *provider) ApplyConfig(ctx context.Context, r sdk.ApplyConfigRequest) (sdk.ApplyConfigResult, error) {
	if ps := sdk.ValidateConfig(r.Set, r.Secrets, r.Unset); len(ps) > 0 {
		e := p.fail(sdk.InvalidArgument, opConfig, "%s", sdk.JoinProblems(ps))
		e.Field = ps[0].Field
		return sdk.ApplyConfigResult{}, e
	}
	if len(r.Secrets) > 0 && !p.local {
		return sdk.ApplyConfigResult{}, p.noSecrets(opConfig)
	}
	var out sdk.ApplyConfigResult
	res, s, err := p.change(ctx, opConfig, r.Op, verbConfig, func(ctx context.Context, s *scene) (*plan, error) {
		pl, revision, err := p.settle(ctx, s, r)
		out.Revision = revision
		return pl, err
	})
	out.Op = res
	if err == nil && res.Changed && !r.Op.DryRun {
		if err := p.sweep(s.name); err != nil {
			p.log.Warn("old settings are left behind", "service", s.name, "error", err)
		}
	}
	if err == nil && out.Revision == "" {
		// Sent before: the settings are what they are now.
		l, lerr := p.layerOf(opConfig, s.name)
		if lerr != nil {
			return out, lerr
		}
		out.Revision = l.revision()
	}
	return out, err
}

func (p *provider) noSecrets(op string) error {
	e := p.fail(sdk.FailedPrecondition, op, "secrets are files that the containers mount, and the engine at %s doesn't share this machine's", p.identity.Endpoint)
	e.Field, e.Remedy = "secrets", "operate the project from the engine's machine"
	return e
}

func (p *provider) layerOf(op, name string) (layer, error) {
	l, err := readLayer(p.layerPath(name))
	if err != nil {
		e := p.fail(sdk.FailedPrecondition, op, "read the settings of %s: %w", name, err)
		e.Field, e.Remedy = "settings", "mend or move away "+p.layerPath(name)
		return layer{}, e
	}
	return l, nil
}

// settle plans a change of settings.
func (p *provider) settle(ctx context.Context, s *scene, r sdk.ApplyConfigRequest) (*plan, string, error) {
	was, err := p.layerOf(opConfig, s.name)
	if err != nil {
		return nil, "", err
	}
	now, values, err := p.changed(ctx, s, was, r)
	if err != nil {
		return nil, "", err
	}
	same := now.revision() == was.revision()
	if same && s.drift.err == nil && len(s.drift.recreate) == 0 {
		return nil, now.revision(), nil
	}
	data, err := now.encode(s.name, p.folder(s.name))
	if err != nil {
		return nil, "", p.fail(sdk.Internal, opConfig, "write the settings: %w", err)
	}
	pl := &plan{args: upArgs(s.name, len(s.list)), want: len(s.list), revision: now.revision(), writes: p.layerPath(s.name), shown: shown(r)}
	pl.files, err = p.tried(ctx, opConfig, s.name, data, func(m model) error {
		svc, err := p.service(opConfig, s.name, m)
		if err == nil && len(s.list) > 0 {
			pl.pulls, err = p.creatable(ctx, opConfig, s, m, svc, len(s.list))
		}
		return err
	})
	if err != nil {
		return nil, "", err
	}
	if s.stopped() || len(s.list) == 0 {
		pl.args = upArgs(s.name, len(s.list), "--no-start")
	}
	if !same && len(s.drift.recreate) > 0 {
		pl.warnings = append(pl.warnings, "the project's files or image had changed as well since the containers were made: this applied that too")
	}
	pl.write = func() error { return p.writeLayer(opConfig, s.name, data, values, now) }
	return pl, now.revision(), nil
}

// shown is what a dry run tells of a change of settings: names, no values.
func shown(r sdk.ApplyConfigRequest) map[string]string {
	out := map[string]string{}
	for key, names := range map[string][]string{"set": slices.Sorted(maps.Keys(r.Set)), "secrets": slices.Sorted(maps.Keys(r.Secrets)), "unset": slices.Sorted(slices.Values(r.Unset))} {
		if len(names) > 0 {
			out[key] = strings.Join(names, ", ")
		}
	}
	return out
}

// changed returns a layer with a change, and the values of new secrets by file.
func (p *provider) changed(ctx context.Context, s *scene, was layer, r sdk.ApplyConfigRequest) (layer, map[string][]byte, error) {
	now := layer{config: map[string]string{}, secrets: map[string]secretFile{}, service: was.service}
	maps.Copy(now.config, was.config)
	maps.Copy(now.secrets, was.secrets)
	for _, k := range r.Unset {
		_, plain := now.config[k]
		_, secret := now.secrets[k]
		if _, there := s.service.Environment[k]; there && !plain && !secret {
			e := p.fail(sdk.FailedPrecondition, opConfig, "%s is set by the project's own files, which aren't changed here", k)
			e.Field, e.Remedy = "unset", "remove it there, or set it to another value here"
			return layer{}, nil, e
		}
		delete(now.config, k)
		delete(now.secrets, k)
	}
	for k, v := range r.Set {
		now.config[k] = v
		delete(now.secrets, k)
	}
	values, err := p.resolveSecrets(ctx, opConfig, s.name, r.Op.OpID, r.Secrets, &now)
	return now, values, err
}

// resolveSecrets puts secrets into a layer and returns their values by file. One
// whose value is the file's already keeps it.
func (p *provider) resolveSecrets(ctx context.Context, op, name string, id sdk.ID, refs map[string]sdk.SecretRef, l *layer) (map[string][]byte, error) {
	values := map[string][]byte{}
	for k, ref := range refs {
		if _, taken := l.config[k+fileSuffix]; taken {
			e := p.fail(sdk.InvalidArgument, op, "%s%s is set too, and that variable names the file of the secret %s", k, fileSuffix, k)
			e.Field = "secrets"
			return nil, e
		}
		v, err := p.secrets.ResolveSecret(ctx, ref)
		if err != nil {
			return nil, err
		}
		delete(l.config, k)
		if old, ok := l.secrets[k]; ok && old.Ref == ref && fileHas(filepath.Join(p.folder(name), secretsDir, old.File), v.Reveal()) {
			continue
		}
		file := k + "." + strings.ToLower(id.Short())
		l.secrets[k], values[file] = secretFile{Ref: ref, File: file}, v.Reveal()
	}
	return values, nil
}

func fileHas(path string, want []byte) bool {
	got, err := os.ReadFile(path)
	return err == nil && sha256.Sum256(got) == sha256.Sum256(want)
}

// tried has Compose read the project with a layer before that is put in place, so
// that what it refuses changes nothing. It returns the files as they will be.
func (p *provider) tried(ctx context.Context, op, name string, data []byte, check func(model) error) ([]string, error) {
	dir, err := os.MkdirTemp("", "windlass-compose-")
	if err != nil {
		return nil, p.fail(sdk.Internal, op, "try the settings: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, layerFile)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return nil, p.fail(sdk.Internal, op, "try the settings: %w", err)
	}
	m, err := p.resolveWith(ctx, op, map[string]string{name: path})
	if err != nil {
		return nil, err
	}
	if err := check(m); err != nil {
		return nil, err
	}
	files := slices.Clone(m.files)
	for i, f := range files {
		if f == path {
			files[i] = p.layerPath(name)
		}
	}
	return files, nil
}

// writeLayer puts settings in place. A secret's file is readable for the
// containers' users; the folder that it lies in is not.
func (p *provider) writeLayer(op, name string, data []byte, values map[string][]byte, l layer) error {
	dir := filepath.Join(p.folder(name), secretsDir)
	if len(values) > 0 {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return p.unwritable(op, err)
		}
	}
	for file, v := range values {
		path := filepath.Join(dir, file)
		err := replaceFile(path, v)
		if err == nil {
			err = os.Chmod(path, 0o444) //nolint:gosec // under a folder of mode 0700; the container's user must read it
		}
		if err != nil {
			return p.unwritable(op, err)
		}
	}
	if err := replaceFile(p.layerPath(name), data); err != nil {
		return p.unwritable(op, err)
	}
	return nil
}

// sweep removes the files of secrets that no container of the service mounts any
// more.
func (p *provider) sweep(name string) error {
	l, err := readLayer(p.layerPath(name))
	if err != nil {
		return err
	}
	dir := filepath.Join(p.folder(name), secretsDir)
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	used := map[string]bool{}
	for _, s := range l.secrets {
		used[s.File] = true
	}
	for _, f := range found {
		if !used[f.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(dir, f.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("remove old secrets of %s: %w", name, err)
	}
	return nil
}
