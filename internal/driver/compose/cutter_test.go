package compose

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// cutter stands between a client and an engine, and can cut the connection of the
// next command as soon as the engine has taken it.
type cutter struct {
	engine, socket string
	l              net.Listener
	armed          atomic.Bool
	wg             sync.WaitGroup
	mu             sync.Mutex
	conns          map[net.Conn]bool
}

func newCutter(t testing.TB, host string) *cutter {
	t.Helper()
	dir, err := os.MkdirTemp("", "wl") // a socket's path has about a hundred bytes
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{engine: strings.TrimPrefix(host, "unix://"), socket: filepath.Join(dir, "s"), conns: map[net.Conn]bool{}}
	if c.l, err = net.Listen("unix", c.socket); err != nil {
		t.Fatal(err)
	}
	c.wg.Go(c.accept)
	t.Cleanup(func() {
		_ = c.l.Close()
		c.mu.Lock()
		for x := range c.conns {
			_ = x.Close()
		}
		c.mu.Unlock()
		c.wg.Wait()
		_ = os.RemoveAll(dir)
	})
	return c
}

func (c *cutter) host() string { return "unix://" + c.socket }

// arm cuts the next exec.
func (c *cutter) arm() { c.armed.Store(true) }

func (c *cutter) accept() {
	for {
		in, err := c.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("unix", c.engine)
		if err != nil {
			_ = in.Close()
			continue
		}
		c.mu.Lock()
		c.conns[in], c.conns[out] = true, true
		c.mu.Unlock()
		c.wg.Go(func() { c.serve(in.(*net.UnixConn), out.(*net.UnixConn)) })
	}
}

func (c *cutter) serve(in, out *net.UnixConn) {
	defer func() {
		_, _ = in.Close(), out.Close()
		c.mu.Lock()
		delete(c.conns, in)
		delete(c.conns, out)
		c.mu.Unlock()
	}()
	var cut atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := in.Read(buf)
			if bytes.Contains(buf[:n], []byte("/start HTTP/1.1")) && bytes.Contains(buf[:n], []byte("/exec/")) && c.armed.CompareAndSwap(true, false) {
				cut.Store(true)
			}
			if n > 0 {
				if _, werr := out.Write(buf[:n]); werr != nil {
					return
				}
			}
			if err != nil {
				_ = out.CloseWrite()
				return
			}
		}
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := out.Read(buf)
		if n > 0 && !cut.Load() {
			_, err = in.Write(buf[:n])
		}
		if err != nil || cut.Load() {
			break
		}
	}
	_, _ = in.Close(), out.Close()
	wg.Wait()
}
