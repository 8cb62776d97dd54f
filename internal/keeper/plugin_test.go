//go:build unix

package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// hosting is surroundings with a plugin called p, whose process is a socket.
type hosting struct {
	Opened
	address  string
	done     chan struct{}
	doubts   *atomic.Int64
	released *atomic.Int64
	known    *sync.Map
	// hung, when it has one, is a process that answers nothing, and is there until the first
	// doubt.
	hung *atomic.Pointer[hungProcess]
}

// hungProcess is a socket that takes connections and says nothing.
type hungProcess struct {
	address string
	done    chan struct{}
	end     func()
}

func (h hosting) Plugin(_ context.Context, name string, _ json.RawMessage) (*pluginhost.Lease, error) {
	if name != "p" {
		return nil, &sdk.Error{Code: sdk.Unavailable, Op: "start plugin " + name, ID: pluginhost.ErrNotReady, RetryAfter: 7 * time.Second, Remedy: "look at it", Err: errors.New("canary has no luck")}
	}
	if p := h.hung.Load(); p != nil {
		select {
		case <-p.done:
		default:
			return &pluginhost.Lease{Address: p.address, Done: p.done, Why: func() error { return errors.New("it was killed") }, Doubt: p.end,
				Know: func(sdk.SecretValue) {}, Release: func() {}}, nil
		}
	}
	return &pluginhost.Lease{Address: h.address, Done: h.done, Why: func() error { return errors.New("canary said goodbye") },
		Doubt: func() { h.doubts.Add(1) }, Know: func(v sdk.SecretValue) { h.known.Store(string(v.Reveal()), true) }, Release: sync.OnceFunc(func() { h.released.Add(1) })}, nil
}

// hosts makes a keeper whose surroundings have the plugin.
func (w *world) hosts(opts ...func(*Options)) hosting {
	w.t.Helper()
	dir, err := os.MkdirTemp("", "wlk") // short: a socket's path is bounded
	if err != nil {
		w.t.Fatal(err)
	}
	h := hosting{address: filepath.Join(dir, "s"), done: make(chan struct{}), doubts: &atomic.Int64{}, released: &atomic.Int64{}, known: &sync.Map{}, hung: &atomic.Pointer[hungProcess]{}}
	l, err := (&net.ListenConfig{}).Listen(w.ctx(), "unix", h.address)
	if err != nil {
		w.t.Fatal(err)
	}
	g := grpc.NewServer()
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	w.t.Cleanup(func() {
		g.Stop()
		if err := <-served; err != nil {
			w.t.Errorf("serve: %v", err)
		}
		_ = os.RemoveAll(dir)
	})
	w.serve(append(opts, func(o *Options) {
		o.Open = func(ctx context.Context, from Origin) (Opened, error) {
			opened, err := w.open(ctx, from)
			h := h
			h.Opened = opened
			return h, err
		}
	})...)
	return h
}

// TestPluginIsKeptForItsUser: the use of a plugin is the connection. It keeps the keeper
// from leaving, passes doubts on, and ends with either side.
func TestPluginIsKeptForItsUser(t *testing.T) {
	w := newWorld(t)
	h := w.hosts(idle(100 * time.Millisecond))
	l, err := w.client().Plugin(w.ctx(), "p", nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Doubt()
	testwait.Until(t, patience, "the doubt", func() bool { return h.doubts.Load() == 1 })
	// Longer than its idleness, the keeper is still there.
	for range 20 {
		if _, err := w.client().Status(w.ctx()); err != nil {
			t.Fatalf("the keeper has left its user: %v", err)
		}
		<-time.After(20 * time.Millisecond)
	}
	if h.released.Load() != 0 {
		t.Error("released before its user has left")
	}
	l.Release()
	testwait.Until(t, patience, "the release", func() bool { return h.released.Load() == 1 })
}

// TestPluginThatHangs: a command that finds a process which answers nothing has the keeper
// end it, and gets the next.
func TestPluginThatHangs(t *testing.T) {
	w := newWorld(t)
	dir, err := os.MkdirTemp("", "wlk") // short: a socket's path is bounded
	if err != nil {
		t.Fatal(err)
	}
	mute, err := (&net.ListenConfig{}).Listen(w.ctx(), "unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = mute.Close()
		_ = os.RemoveAll(dir)
	})
	done := make(chan struct{})
	h := w.hosts()
	h.hung.Store(&hungProcess{address: mute.Addr().String(), done: done, end: sync.OnceFunc(func() {
		_ = mute.Close() // as a process that is killed does
		close(done)
	})})
	l, err := w.client().Plugin(w.ctx(), "p", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	select {
	case <-done:
	default:
		t.Error("nobody doubted the process")
	}
	if l.Address != h.address {
		t.Errorf("it got %s", l.Address)
	}
}

// TestPluginSecretsAreKnown: when a command has said a secret that its plugin is about to
// learn, the host of the plugin knows it.
func TestPluginSecretsAreKnown(t *testing.T) {
	w := newWorld(t)
	h := w.hosts()
	l, err := w.client().Plugin(w.ctx(), "p", nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Know(sdk.SecretValue{}) // it waits for nobody
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			value := fmt.Sprintf("value\n%d\xff", i)
			l.Know(sdk.NewSecretValue([]byte(value)))
			if _, ok := h.known.Load(value); !ok {
				t.Errorf("%q isn't known", value)
			}
			l.Doubt()
		})
	}
	all.Wait()
	close(h.done)
	<-l.Done
	l.Know(sdk.NewSecretValue([]byte("late"))) // nor here
	l.Release()
}

// TestPluginEndsForItsUser: who uses a process learns that it has ended, and why.
func TestPluginEndsForItsUser(t *testing.T) {
	w := newWorld(t)
	h := w.hosts()
	l, err := w.client().Plugin(w.ctx(), "p", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	close(h.done)
	select {
	case <-l.Done:
	case <-time.After(patience):
		t.Fatal("nobody is told")
	}
	if err := l.Why(); err == nil || err.Error() != "canary said goodbye" {
		t.Errorf("it ended by %v", err)
	}
	testwait.Until(t, patience, "the release", func() bool { return h.released.Load() == 1 })
}

// TestPluginThatCanNotBeHosted: the error is as the host gave it, and says that nothing
// was sent.
func TestPluginThatCanNotBeHosted(t *testing.T) {
	w := newWorld(t)
	w.hosts()
	_, err := w.client().Plugin(w.ctx(), "other", nil)
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != sdk.Unavailable || e.ID != pluginhost.ErrNotReady || e.RetryAfter != 7*time.Second || !e.Unreached || !e.Retryable {
		t.Errorf("%+v", err)
	}
	if e != nil && (e.Remedy != "look at it" || strings.Count(err.Error(), e.Remedy) != 1) {
		t.Errorf("its advice: %v", err)
	}
	conn, _, res, err := w.client().converse(w.ctx(), request{Op: opPlugin, Plugin: "p"})
	if err != nil || res.Code != sdk.InvalidArgument {
		t.Errorf("without surroundings: %+v, %v", res, err)
	}
	_ = conn.Close()
}
