package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/internal/cli"
	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/driver/all"
	"github.com/windlass-run/windlass/internal/runner"
	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/internal/step"
	"github.com/windlass-run/windlass/sdk"
)

// environments writes docs/exec-environments.md: the keys of a step, and what
// each environment makes of them. Its examples are the files of examples/step,
// which a test runs.
func environments() ([]byte, error) {
	data := map[string]string{"Keys": keyTable(step.Keys()), "Mounts": keyTable(step.MountKeys()), "Tmpfs": keyTable(step.TmpfsKeys()),
		"Outputs": docTable("Output", step.Outputs()), "Words": docTable("Function", step.Functions()),
		"MaxKept": bytesText(step.MaxKept), "MaxKeptFile": bytesText(step.MaxKeptFile), "Errors": stepErrors()}
	var err error
	if data["Support"], err = supportTable(); err != nil {
		return nil, err
	}
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	for name, file := range map[string]string{"LocalDocker": "local-docker.yaml", "Ephemeral": "ephemeral.yaml", "ProviderEphemeral": "provider-ephemeral.yaml",
		"RemoteRunner": "remote-runner.yaml", "BuildConfig": "build.windlass.yaml", "FarConfig": "far.windlass.yaml"} {
		b, err := os.ReadFile(filepath.Join(root, "examples", "step", file))
		if err != nil {
			return nil, err
		}
		data[name] = string(b)
	}
	return render("exec-environments.md", data)
}

func keyTable(keys []step.Key) string {
	var rows [][]string
	for _, k := range keys {
		rows = append(rows, []string{code(k.Name), k.Doc, k.Default})
	}
	return table([]string{"Key", "What it is", "Default"}, rows)
}

func docTable(head string, list [][2]string) string {
	var rows [][]string
	for _, x := range list {
		rows = append(rows, []string{code(x[0]), x[1]})
	}
	return table([]string{head, "What it is"}, rows)
}

// supportTable asks each environment what it takes.
func supportTable() (string, error) {
	places := sandbox.Places{Runners: []string{"far"}, Dial: func(context.Context, string) (sandbox.Environment, error) {
		return runner.NewEnvironment(runner.ClientOptions{Name: "far", Address: "localhost:1"})
	}}
	for _, d := range all.Drivers() {
		places.Providers = append(places.Providers, sandbox.Provider{Name: d.Kind, Kind: d.Kind, Support: d.Support})
	}
	head := []string{"Key"}
	cells := map[string][]string{}
	choices := []sandbox.Choice{{}, {ExecEnv: "far"}}
	if slices.ContainsFunc(places.Providers, func(p sandbox.Provider) bool { return p.Kind == "argo" }) {
		choices = slices.Insert(choices, 1, sandbox.Choice{ExecEnv: sandbox.Ephemeral})
	}
	for _, c := range choices {
		env, err := places.Find(context.Background(), c)
		if err != nil {
			return "", err
		}
		name := code(env.Name())
		if !c.ThroughEngine() {
			name = "a remote runner"
		}
		head = append(head, name)
		for _, s := range env.Support() {
			cells[s.Field] = append(cells[s.Field], supported(s))
		}
	}
	var rows [][]string
	for _, f := range sandbox.Fields() {
		rows = append(rows, append([]string{code(f)}, cells[f]...))
	}
	return table(head, rows), nil
}

func supported(s sdk.FieldSupport) string {
	if s.Refused != "" {
		return "refused: " + s.Refused
	}
	return s.Values
}

// stepErrors lists the errors that steps and their environments bring.
func stepErrors() string {
	ids := []string{step.ErrFile, step.ErrTemplate, sandbox.ErrRefused, sandbox.ErrNoEnvironment, sandbox.ErrNoPlace, step.ErrBackend, config.ErrUnknownRunner, "runner.no-token",
		runner.ErrTLS, runner.ErrUnknown, runner.ErrSecret, runner.ErrFull, runner.ErrStopping, runner.ErrNoCode, runner.ErrNotFound, runner.ErrNotExecutable, runner.ErrGivenUp, runner.ErrEnded, runner.ErrReach, runner.ErrOutput, runner.ErrWire}
	var rows [][]string
	for _, e := range cli.Catalog() {
		if slices.Contains(ids, e.ID) {
			rows = append(rows, []string{code(e.ID), e.Title, strings.TrimSpace(e.Cause + " " + e.Remedy)})
		}
	}
	return table([]string{"ID", "What went wrong", "Why, and what to do"}, rows)
}
