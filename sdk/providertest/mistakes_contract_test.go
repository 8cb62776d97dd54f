package providertest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func contractMistakes() []mistake {
	return []mistake{
		{name: "info changes", fails: "info", broken: broken{info: func(b *broken) sdk.Info {
			i := b.good.Info()
			i.Burst = b.count("info")
			return i
		}}},
		{name: "a capability isn't declared", fails: "capabilities", driver: func(d *sdk.Driver) { d.Capabilities = d.Capabilities[1:] }},
		{name: "a capability too many", fails: "capabilities", driver: func(d *sdk.Driver) { d.Capabilities = append(slices.Clone(d.Capabilities), "Teleporter") }},
		{name: "check without a remedy", fails: "check", broken: broken{check: func(b *broken, ctx context.Context) (sdk.CheckResult, error) {
			res, err := b.good.Check(ctx, sdk.CheckRequest{})
			return sdk.CheckResult{Items: append(res.Items, sdk.CheckItem{Name: "x"})}, err
		}}},
		{name: "config not looked at", fails: "config-unknown-member", driver: func(d *sdk.Driver) {
			open := d.Open
			d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
				r.Config = nil
				return open(ctx, r)
			}
		}},
		{name: "a row is missing", fails: "support-table", driver: func(d *sdk.Driver) { d.Support = d.Support[1:] }},
		{name: "the table refuses what is taken", fails: "support-table", driver: func(d *sdk.Driver) {
			d.Support = slices.Clone(d.Support)
			d.Support[0] = sdk.FieldSupport{Field: d.Support[0].Field, Refused: "no"}
		}},
		{name: "launches differ", fails: "prepare-deterministic", broken: launches(func(b *broken, _ sdk.PrepareJobRequest, l *sdk.Launch) {
			l.Warnings = append(l.Warnings, strings.Repeat("x", b.count("prepare")))
		})},
		{name: "prepare makes something", fails: "prepare-changes-nothing find-absent", broken: broken{
			prepare: func(b *broken, ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
				l, err := need(b.good, sdk.Runner()).PrepareJob(ctx, r)
				made := r.AttemptID
				made[15] ^= 0xff
				_, _ = b.cloud.Forge("someone", r.RunID, made)
				return l, err
			},
			run: func(b *broken, ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
				for _, id := range b.cloud.JobsOf(r.Launch.RunID) {
					if !strings.Contains(id, r.Launch.AttemptID.String()) && bytes.Contains(b.cloud.Describe(id), []byte("someone")) {
						b.cloud.Vanish(id)
					}
				}
				return need(b.good, sdk.Runner()).RunJob(ctx, r)
			},
		}},
		{name: "one problem at a time", fails: "problems-at-once support-table", broken: launches(func(_ *broken, _ sdk.PrepareJobRequest, l *sdk.Launch) {
			l.Problems = l.Problems[:min(1, len(l.Problems))]
		})},
		{name: "NUL in labels", fails: "nul-refused", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) {
			for k, v := range r.Spec.Labels {
				r.Spec.Labels = map[string]string{k: strings.ReplaceAll(v, "\x00", "")}
			}
		})},
		{name: "unknown options dropped", fails: "options-unknown-member", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) {
			var m map[string]json.RawMessage
			if json.Unmarshal(r.Spec.Options, &m) == nil && m != nil {
				r.Spec.Options, _ = json.Marshal(map[string]json.RawMessage{"script": m["script"]})
			}
		})},
		{name: "long grace dropped", fails: "unset-or-set", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) {
			if g := r.Spec.Grace; g != nil && *g > time.Hour {
				r.Spec.Grace = nil
			}
		})},
		{name: "image taken", fails: "image", settings: settings(func(g *sdk.Guarantees) { g.NoImage = true })},
		{name: "handle of another kind", fails: "handle-round-trip", broken: handles(func(_ *broken, _ sdk.RunJobRequest, res *sdk.RunJobResult) {
			res.Handle.Kind = "other"
		})},
		{name: "close kills", fails: "fresh-process", broken: broken{
			run: func(b *broken, ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
				res, err := need(b.good, sdk.Runner()).RunJob(ctx, r)
				b.count("ran " + string(rune(b.nth)) + res.Handle.ID)
				return res, err
			},
			close: func(b *broken) error {
				for _, id := range b.cloud.Jobs() {
					if b.seen("ran " + string(rune(b.nth)) + id) {
						b.cloud.Vanish(id)
					}
				}
				return b.good.Close()
			},
		}},
		{name: "foreign handles taken", fails: "foreign-identity", broken: broken{
			status: func(b *broken, ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
				r.Handle.Identity = b.good.Info().Identity
				return need(b.good, sdk.Runner()).JobStatus(ctx, r)
			}}},
		{name: "newer launches taken", fails: "newer-version", broken: runs(func(_ *broken, r *sdk.RunJobRequest) {
			r.Launch.V = min(r.Launch.V, sdk.LaunchVersion)
		})},
	}
}

func specMistakes() []mistake {
	substituting := settings(func(g *sdk.Guarantees) { g.Argv = sdk.ArgvSubstituting })
	substituting.Unescaped = true
	return []mistake{
		{name: "argv joined by spaces", fails: "argv argv-bytes", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) {
			if len(r.Spec.Args) > 1 {
				r.Spec.Args = sdk.Argv{strings.Join(r.Spec.Args, " ")}
			}
		})},
		{name: "metacharacters not escaped", fails: "argv", settings: substituting},
		{name: "arguments made UTF-8", fails: "argv-bytes", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) {
			r.Spec.Args = slices.Clone(r.Spec.Args)
			for i, a := range r.Spec.Args {
				r.Spec.Args[i] = strings.ToValidUTF8(a, "\ufffd")
			}
		})},
		{name: "variables trimmed", fails: "env", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) {
			env := sdk.Env{}
			for k, v := range r.Spec.Env {
				env[k] = strings.TrimSpace(v)
			}
			r.Spec.Env = env
		})},
		{name: "workdir dropped", fails: "workdir", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) {
			if r.Spec.Workdir == "/tmp" {
				r.Spec.Workdir = ""
			}
		})},
		{name: "user dropped", fails: "user", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) {
			if r.Spec.User == "1234" {
				r.Spec.User = ""
			}
		})},
		{name: "a file dropped", fails: "files", broken: prepares(func(_ *broken, r *sdk.PrepareJobRequest) {
			r.Spec.Files = slices.DeleteFunc(slices.Clone(r.Spec.Files), func(f sdk.InputFile) bool { return f.Mode == 0o600 })
		})},
		{name: "stdin left open", fails: "stdin-none", broken: runs(func(_ *broken, r *sdk.RunJobRequest) {
			if r.Launch.Stdin == sdk.StdinNone {
				r.Launch.Stdin = sdk.StdinAttached
			}
		})},
		{name: "stdin cut", fails: "stdin", broken: runs(func(_ *broken, r *sdk.RunJobRequest) {
			if r.Stdin != nil {
				r.Stdin = io.LimitReader(r.Stdin, 100)
			}
		})},
	}
}
