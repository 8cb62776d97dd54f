//go:build unix

package pluginhost_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/internal/testwait"
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

// TestHostIsKilled: whoever leaves waits for no process that answers nothing, ready or not,
// and nothing of it is left.
func TestHostIsKilled(t *testing.T) {
	for _, mode := range []string{"", "silent"} {
		t.Run("mode "+mode, func(t *testing.T) {
			temp, err := os.MkdirTemp("", "wl") // short: a socket's path is bounded
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(temp) })
			y := newYard(t, mode, func(o *pluginhost.Options) { o.TempDir, o.StartTime = temp, 10*patience })
			asked := make(chan error, 1)
			if mode == "" {
				l := y.lease()
				stop(t, y.pid())
				go func() {
					asked <- pluginhost.Attach(t.Context(), "fake", &pluginhost.Lease{Address: l.Address, Done: l.Done, Why: l.Why, Doubt: func() {}, Release: func() {}})
				}()
			} else {
				go func() {
					_, err := y.plugins.Driver(t.Context(), "fake")
					asked <- err
				}()
				testwait.Until(t, patience, "its process", func() bool { return there(y.dir, "begun") })
			}
			began := time.Now()
			y.host.Kill()
			if err := y.host.Close(); err != nil || time.Since(began) > 2*time.Second {
				t.Errorf("close: %v after %s", err, time.Since(began))
			}
			if err := <-asked; !errors.Is(err, sdk.Unavailable) {
				t.Errorf("who was asking is told %v", err)
			}
			if left, _ := os.ReadDir(temp); len(left) > 0 {
				t.Errorf("left %v", left)
			}
			if _, err := y.plugins.Driver(t.Context(), "fake"); !errors.Is(err, sdk.Unavailable) || !strings.Contains(err.Error(), "closing") {
				t.Errorf("the next is told %v", err)
			}
		})
	}
}
