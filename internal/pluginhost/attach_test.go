//go:build unix

package pluginhost_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/sdk"
)

// lease takes a use of the yard's plugin, until the test's end.
func (y *yard) lease() *pluginhost.Lease {
	y.t.Helper()
	req, err := y.plugins.Request("fake", nil)
	if err != nil {
		y.t.Fatal(err)
	}
	l, err := y.host.Process(y.t.Context(), req)
	if err != nil {
		y.t.Fatal(err)
	}
	y.t.Cleanup(func() { l.Release() })
	return l
}

// pid is the process that was started last.
func (y *yard) pid() string {
	y.t.Helper()
	text := y.log.String()
	_, after, ok := strings.Cut(text[max(0, strings.LastIndex(text, "plugin started")):], "process=")
	if !ok {
		y.t.Fatalf("no process in the log: %s", text)
	}
	return strings.Fields(after)[0]
}

// TestPluginHangsBeforeItIsAsked: a warm process that was stopped is ended by whoever asks it
// first, with an error that names the plugin, and the next use is of a new process.
func TestPluginHangsBeforeItIsAsked(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *yard, *pluginhost.Lease) error{
		"another command's connection": func(ctx context.Context, _ *yard, l *pluginhost.Lease) error {
			return pluginhost.Attach(ctx, "fake", &pluginhost.Lease{Address: l.Address, Done: l.Done, Why: l.Why, Doubt: l.Doubt, Release: func() {}})
		},
		"its driver": func(ctx context.Context, y *yard, _ *pluginhost.Lease) error {
			_, err := y.plugins.Driver(ctx, "fake")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, "", func(o *pluginhost.Options) { o.Probe = time.Second })
			l := y.lease()
			pid := y.pid()
			stop(t, pid)
			ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
			defer cancel()
			err := ask(ctx, y, l)
			var e *sdk.Error
			if !errors.As(err, &e) || e.ID != pluginhost.ErrEnded || !e.Retryable || !strings.Contains(err.Error(), "plugin fake") ||
				!strings.Contains(err.Error(), "answered nothing") {
				t.Errorf("it was told %v", err)
			}
			select {
			case <-l.Done:
			case <-ctx.Done():
				t.Fatal("the process is still there")
			}
			if err := pluginhost.Attach(ctx, "fake", y.lease()); err != nil || y.pid() == pid {
				t.Errorf("the next: %v, process %s after %s", err, y.pid(), pid)
			}
		})
	}
}
