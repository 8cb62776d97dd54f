package reach_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/reach"
)

// forgetful passes connections on to an address, until it is told to forget those
// that are there: they stay open, and nothing passes any more.
type forgetful struct {
	net.Listener
	to string

	mu    sync.Mutex
	dead  []*atomic.Bool
	conns []net.Conn
	wg    sync.WaitGroup
}

func (f *forgetful) serve() {
	for {
		in, err := f.Accept()
		if err != nil {
			return
		}
		out, err := new(net.Dialer).DialContext(context.Background(), "tcp", f.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		dead := new(atomic.Bool)
		f.mu.Lock()
		f.dead, f.conns = append(f.dead, dead), append(f.conns, in, out)
		f.mu.Unlock()
		f.wg.Go(func() { pass(in, out, dead) })
		f.wg.Go(func() { pass(out, in, dead) })
	}
}

func pass(from, to net.Conn, dead *atomic.Bool) {
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if dead.Load() {
			continue
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func (f *forgetful) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.dead {
		d.Store(true)
	}
}

func (f *forgetful) close(t *testing.T, served <-chan struct{}) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	<-served
	f.mu.Lock()
	for _, c := range f.conns {
		_ = c.Close() // one side has closed it already
	}
	f.mu.Unlock()
	f.wg.Wait()
}

// TestDeadConnection: a connection that nothing passes any more ends the call on it,
// and the next call takes a new one.
func TestDeadConnection(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forgetful{Listener: l, to: server.Listener.Addr().String()}
	served := make(chan struct{})
	go func() {
		defer close(served)
		f.serve()
	}()
	t.Cleanup(func() { f.close(t, served) })

	config := reach.Pings()
	if config.SendPingTimeout <= 0 || config.PingTimeout <= 0 || config.SendPingTimeout+config.PingTimeout >= 30*time.Second {
		t.Errorf("a dead connection is noticed after %v + %v", config.SendPingTimeout, config.PingTimeout)
	}
	config.SendPingTimeout, config.PingTimeout = 50*time.Millisecond, time.Second
	transport := &http.Transport{TLSClientConfig: server.Client().Transport.(*http.Transport).TLSClientConfig.Clone(), ForceAttemptHTTP2: true, HTTP2: config}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	call := func() error {
		// A change: nothing sends it again by itself.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+l.Addr().String(), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := client.Do(r)
		if err != nil {
			return err
		}
		defer func() { _ = reply.Body.Close() }()
		b, err := io.ReadAll(reply.Body)
		if err == nil && string(b) != "HTTP/2.0" {
			t.Errorf("it spoke %s", b)
		}
		return err
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	f.forget()
	// It may have been noticed before this call was made.
	if err := call(); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			t.Fatal("nobody noticed that the connection is dead")
		}
		if err := call(); err != nil {
			t.Errorf("after the dead connection: %v", err)
		}
	}
}
