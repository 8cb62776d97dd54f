package client_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
	"github.com/windlass-run/windlass/sdk/workloadtest"
)

// TestWorkloads runs the suite of live workloads on the fake through the wire.
func TestWorkloads(t *testing.T) {
	c := fake.NewCloud(fake.Options{Knobs: fake.Knobs{MissingImages: []string{"missing"}}})
	workloadtest.Run(t, workloadtest.FakeHarness(c, plugintest.Through(t, fake.NewDriver(c, fake.Settings{}))))
}

// TestExecOverTheWire has a command in a terminal: sizes, a signal and the end of input
// arrive, each also behind the others.
func TestExecOverTheWire(t *testing.T) {
	c := fake.NewCloud(fake.Options{})
	if err := c.Deploy("api", "img", 1, nil); err != nil {
		t.Fatal(err)
	}
	p := openFake(t, plugintest.Through(t, fake.NewDriver(c, fake.Settings{})))
	execer, _ := sdk.Of(p, sdk.WorkloadExecs())
	op := func() sdk.OpRequest {
		return sdk.OpRequest{OpID: sdk.NewIDSource(sdk.SystemClock()).NewID(), Path: "api"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	stdin, feed := io.Pipe()
	out, sizes := &lines{got: make(chan string, 8)}, make(chan sdk.TerminalSize, 1)
	done := make(chan sdk.ExecWorkloadResult, 1)
	go func() {
		res, err := execer.ExecWorkload(ctx, sdk.ExecWorkloadRequest{Op: op(), Command: sdk.Argv{"size"}, Terminal: &sdk.TerminalSize{Columns: 80, Rows: 24},
			Resize: sizes, Stdin: stdin, Stdout: out})
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	if got := <-out.got; got != "80x24\n" {
		t.Errorf("first size %q", got)
	}
	sizes <- sdk.TerminalSize{Columns: 100, Rows: 50}
	if got := <-out.got; got != "100x50\n" {
		t.Errorf("second size %q", got)
	}
	if err := feed.Close(); err != nil {
		t.Fatal(err)
	}
	if res := <-done; res.ExitCode == nil || *res.ExitCode != 0 {
		t.Errorf("ended as %+v", res)
	}

	signals := make(chan string, 1)
	signals <- "INT"
	res, err := execer.ExecWorkload(ctx, sdk.ExecWorkloadRequest{Op: op(), Command: sdk.Argv{"hang"}, Signals: signals, Stdin: strings.NewReader("")})
	if err != nil || res.ExitCode != nil || !strings.Contains(res.Why, "INT") {
		t.Errorf("after a signal: %+v, %v", res, err)
	}
}

// TestF92ExecWriterFails has the host's own output fail: something ran, and no code is
// known.
func TestF92ExecWriterFails(t *testing.T) {
	c := fake.NewCloud(fake.Options{})
	if err := c.Deploy("api", "img", 1, nil); err != nil {
		t.Fatal(err)
	}
	p := openFake(t, plugintest.Through(t, fake.NewDriver(c, fake.Settings{})))
	execer, _ := sdk.Of(p, sdk.WorkloadExecs())
	in, out := io.Pipe()
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	res, err := execer.ExecWorkload(t.Context(), sdk.ExecWorkloadRequest{Op: sdk.OpRequest{OpID: sdk.NewIDSource(sdk.SystemClock()).NewID(), Path: "api"},
		Command: sdk.Argv{"echo", "hi"}, Stdout: out})
	if err != nil || res.ExitCode != nil || res.Why == "" {
		t.Errorf("%+v, %v", res, err)
	}
}

// lines hands on each piece of output.
type lines struct{ got chan string }

func (l *lines) Write(b []byte) (int, error) {
	l.got <- string(b)
	return len(b), nil
}

func openFake(t *testing.T, d sdk.Driver) sdk.Provider {
	t.Helper()
	p, err := d.Open(context.WithoutCancel(t.Context()), sdk.OpenRequest{Name: "fake", Owner: "me", StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}
