//go:build unix

package pluginhost_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// program is the plugin's, and replace puts another into its place, whose bytes have more at
// their end.
func (y *yard) program() string { return filepath.Join(y.dir, "plugins", "fake", "fake") }

func (y *yard) replace(more string) {
	y.t.Helper()
	data, err := os.ReadFile(y.program())
	if err == nil {
		err = os.WriteFile(y.program()+".new", append(data, more...), 0o700) //nolint:gosec // a program
	}
	if err == nil {
		err = os.Rename(y.program()+".new", y.program())
	}
	if err != nil {
		y.t.Fatal(err)
	}
}

// TestPluginIsUpgraded: a program with other bytes gets a new process for whoever comes now,
// and the former one goes on for those that use it, and no longer. The same bytes in another
// file change nothing.
func TestPluginIsUpgraded(t *testing.T) {
	y := newYard(t, "", nil)
	p := y.open()
	h := y.run(p, "hang")
	old := y.lease()
	first := y.pid()
	y.replace("")
	if y.lease(); y.pid() != first {
		t.Error("the same bytes have a new process")
	}
	if out := y.plugins.Outdated(); old.Outdated() || len(out) > 0 {
		t.Errorf("outdated: %v %q", old.Outdated(), out)
	}
	y.replace("more")
	if out := y.plugins.Outdated(); !old.Outdated() || len(out) != 1 || out[0] != "fake" {
		t.Errorf("outdated: %v %q", old.Outdated(), out)
	}
	if y.pid() != first {
		t.Error("a question has started a process")
	}
	y.open()
	second := y.pid()
	if second == first {
		t.Fatal("a new provider is on the old process")
	}
	if y.lease(); y.pid() != second {
		t.Error("a third process")
	}
	if st, err := can(t, p, sdk.Runner()).JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); err != nil || st.State != sdk.StateRunning {
		t.Errorf("the old run: %+v, %v", st, err)
	}
	select {
	case <-old.Done:
		t.Error("the old process has ended before its users have left")
	default:
	}
}

// TestPluginIsUpgradedWhileItIsIdle: nobody uses the former process, so that it ends at once;
// and one that is used ends with its last user, or with its host.
func TestPluginIsUpgradedWhileItIsIdle(t *testing.T) {
	y := newYard(t, "", func(o *pluginhost.Options) { o.Idle = time.Hour })
	use := func() *pluginhost.Lease {
		t.Helper()
		req, err := y.plugins.Request("fake", nil)
		if err != nil {
			t.Fatal(err)
		}
		l, err := y.host.Process(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	ends := func(l *pluginhost.Lease, what string) {
		t.Helper()
		testwait.Until(t, patience, what, func() bool {
			select {
			case <-l.Done:
				return true
			default:
				return false
			}
		})
	}
	idle := use()
	idle.Release()
	y.replace("1")
	used := use()
	ends(idle, "the end of the idle process")
	y.replace("2")
	last := use()
	used.Release()
	ends(used, "the end of the process that was used")
	y.replace("3")
	use().Release()
	if err := y.host.Close(); err != nil {
		t.Fatal(err)
	}
	ends(last, "the end of a former process with its host")
	last.Release()
}

// TestPluginIsRefusedWhileItIsWarm: a program that would not be started gets no new users on
// the process that is there, either.
func TestPluginIsRefusedWhileItIsWarm(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sum, err := pluginhost.Sum(self)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(y *yard) error{
		"other bytes": func(y *yard) error {
			y.replace("more")
			return nil
		},
		"others may change it": func(y *yard) error {
			return os.Chmod(filepath.Dir(y.program()), 0o777) //nolint:gosec // that is what is refused
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, "", nil, "checksum: 'sha256:"+sum+"'")
			p := y.open()
			h := y.run(p, "hang")
			if err := spoil(y); err != nil {
				t.Fatal(err)
			}
			if _, err := y.tryOpen(sdk.OpenRequest{}); sdk.CodeOf(err) != sdk.PermissionDenied {
				t.Errorf("a new provider: %v", err)
			}
			if st, err := can(t, p, sdk.Runner()).JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); err != nil || st.State != sdk.StateRunning {
				t.Errorf("the old run: %+v, %v", st, err)
			}
		})
	}
}

// tired has the plugin end until it isn't started at once any more.
func (y *yard) tired() {
	y.t.Helper()
	for range 10 {
		_, err := y.plugins.Driver(y.t.Context(), "fake")
		if e := new(sdk.Error); errors.As(err, &e) && e.ID == pluginhost.ErrEnded {
			if !strings.HasPrefix(e.Remedy, "repeat it in ") {
				y.t.Errorf("the remedy is %q", e.Remedy)
			}
			return
		}
	}
	y.t.Fatal("it was started ten times in a row")
}

// TestPluginIsMended: a program with other bytes doesn't wait for what the former one has
// earned, and begins to count anew; the same bytes do wait.
func TestPluginIsMended(t *testing.T) {
	y := newYard(t, "exits", nil)
	y.tired()
	refused := func() string {
		t.Helper()
		_, err := y.plugins.Driver(t.Context(), "fake")
		var e *sdk.Error
		if !errors.As(err, &e) {
			t.Fatalf("it was told %v", err)
		}
		return e.ID
	}
	y.replace("")
	if got := refused(); got != pluginhost.ErrEnded {
		t.Errorf("the same bytes: %s", got)
	}
	// What can't be started says so, however often it has ended.
	away := y.program() + ".away"
	for _, x := range [][2]string{{y.program(), away}, {away, y.program()}} {
		if err := os.Rename(x[0], x[1]); err != nil {
			t.Fatal(err)
		}
		want := pluginhost.ErrEnded
		if x[1] == away {
			want = pluginhost.ErrNoProgram
		}
		if got := refused(); got != want {
			t.Errorf("renamed to %s: %s", x[1], got)
		}
	}
	y.replace("more")
	for range 2 {
		if got := refused(); got != pluginhost.ErrNotReady {
			t.Errorf("other bytes: %s", got)
		}
	}
}

// TestPluginThatIsRefusedHasNotEnded: what was never started earns no wait.
func TestPluginThatIsRefusedHasNotEnded(t *testing.T) {
	y := newYard(t, "", nil)
	mode := func(m os.FileMode) {
		t.Helper()
		if err := os.Chmod(filepath.Dir(y.program()), m); err != nil {
			t.Fatal(err)
		}
	}
	mode(0o777)
	for range 10 {
		if _, err := y.plugins.Driver(t.Context(), "fake"); sdk.CodeOf(err) != sdk.PermissionDenied {
			t.Fatalf("it was told %v", err)
		}
	}
	mode(0o700)
	if _, err := y.plugins.Driver(t.Context(), "fake"); err != nil {
		t.Error(err)
	}
}

// resting is a source whose plugin is left alone for a while.
type resting struct {
	pluginhost.Source
	waits []time.Duration
}

func (r *resting) Process(ctx context.Context, q pluginhost.Request) (*pluginhost.Lease, error) {
	if len(r.waits) == 0 {
		return r.Source.Process(ctx, q)
	}
	wait := r.waits[0]
	r.waits = r.waits[1:]
	return nil, &sdk.Error{Code: sdk.Unavailable, Op: "start plugin fake", ID: pluginhost.ErrEnded, RetryAfter: wait, Unreached: true, Err: errors.New("it has ended")}
}

// TestPluginIsWaitedFor: whoever has the patience waits until a plugin is started again, and
// no longer; and leaves when it is told to.
func TestPluginIsWaitedFor(t *testing.T) {
	y := newYard(t, "", nil)
	var told []time.Duration
	y.plugins.Waiting = func(_ string, wait time.Duration) { told = append(told, wait) }
	waits := []time.Duration{time.Millisecond, 2 * time.Millisecond}
	y.plugins.Source = &resting{y.host, waits}
	if _, err := y.plugins.Driver(t.Context(), "fake"); sdk.RetryAfter(err) != waits[0] {
		t.Errorf("without patience: %v", err)
	}
	y.plugins.Patience = 2 * time.Millisecond
	y.plugins.Source = &resting{y.host, waits}
	if _, err := y.plugins.Driver(t.Context(), "fake"); sdk.RetryAfter(err) != waits[1] || len(told) != 1 {
		t.Errorf("with too little of it: %v, told %v", err, told)
	}
	y.plugins.Patience = time.Hour
	y.plugins.Source = &resting{y.host, []time.Duration{time.Minute}}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := y.plugins.Driver(ctx, "fake"); !errors.Is(err, sdk.Canceled) {
		t.Errorf("left: %v", err)
	}
	told = nil
	y.plugins.Source = &resting{y.host, waits}
	if _, err := y.plugins.Driver(t.Context(), "fake"); err != nil || !slices.Equal(told, waits) {
		t.Errorf("with enough: %v, told %v", err, told)
	}
}
