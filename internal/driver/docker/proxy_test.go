package docker

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between a client and an engine, one connection to one, and does
// what a test asks for to requests on their way.
type proxy struct {
	t      testing.TB
	engine string // the engine's socket
	socket string
	l      net.Listener
	wg     sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	rules  []*rule
	bodies []byte // of all requests
	closed bool
}

// rule is done to the next requests that match.
type rule struct {
	match func(r *http.Request) bool
	left  int // how many more; -1 is no end
	// before is called with the request's name; false cuts the connection.
	before func(name string) bool
	// status, when set, is answered in the engine's place.
	status int
	// lose cuts the connection when the engine has answered.
	lose bool
}

func newProxy(t testing.TB, host string) *proxy {
	t.Helper()
	p := &proxy{t: t, engine: strings.TrimPrefix(host, "unix://"), conns: map[net.Conn]bool{}}
	// A socket's path has about a hundred bytes.
	p.socket = filepath.Join(shortDir(t), "s")
	var err error
	if p.l, err = net.Listen("unix", p.socket); err != nil {
		t.Fatal(err)
	}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) host() string { return "unix://" + p.socket }

func (p *proxy) close() {
	_ = p.l.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(c) })
	}
}

// keep remembers a connection, to be closed at the end.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

func (p *proxy) serve(c net.Conn) {
	back, err := net.Dial("unix", p.engine)
	if err != nil || !p.keep(c) || !p.keep(back) {
		_ = c.Close()
		return
	}
	defer p.drop(c)
	defer p.drop(back)
	// The client is read all the time, so that its going away is seen: it takes
	// the engine's connection with it, as it would without the proxy. On an
	// upgraded connection it means only that there is no more input.
	in, feed := io.Pipe()
	defer in.Close()
	var upgraded atomic.Bool
	p.wg.Go(func() {
		_, err := io.Copy(feed, c)
		_ = feed.CloseWithError(err)
		if !upgraded.Load() {
			_ = back.Close()
		}
	})
	requests, answers := bufio.NewReader(in), bufio.NewReader(back)
	for {
		r, err := http.ReadRequest(requests)
		if err != nil {
			return
		}
		upgraded.Store(r.Header.Get("Upgrade") != "")
		if !p.exchange(r, c, requests, back, answers) {
			return
		}
	}
}

// exchange passes one request and its answer on; false ends the connection.
func (p *proxy) exchange(r *http.Request, c net.Conn, in *bufio.Reader, back net.Conn, out *bufio.Reader) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	name := r.Method + " " + r.URL.Path
	do := p.take(r, body, name)
	if do.before != nil && !do.before(name) {
		return false
	}
	if do.status != 0 {
		const text = `{"message":"an answer of the test's"}`
		_, err := fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", do.status, http.StatusText(do.status), len(text), text)
		return err == nil
	}
	r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil
	if len(body) > 0 {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(string(body))), int64(len(body))
	}
	if err := r.Write(back); err != nil {
		return false
	}
	res, err := http.ReadResponse(out, r)
	if err != nil || do.lose {
		return false
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusSwitchingProtocols {
		if err := res.Write(c); err != nil {
			return false
		}
		join(c, in, back, out)
		return false
	}
	return res.Write(c) == nil && !res.Close
}

// join copies both ways, and passes on that one side has nothing more to say.
func join(c net.Conn, in *bufio.Reader, back net.Conn, out *bufio.Reader) {
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(back, in)
		_ = back.(*net.UnixConn).CloseWrite()
	})
	_, _ = io.Copy(c, out)
	_ = c.Close()
	_ = back.Close()
	wg.Wait()
}

// take returns what is to be done to a request.
func (p *proxy) take(r *http.Request, body []byte, name string) rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bodies = append(append(p.bodies, name...), body...)
	for k, v := range r.Header {
		p.bodies = append(p.bodies, (k + strings.Join(v, " "))...)
	}
	for _, x := range p.rules {
		if x.left != 0 && x.match(r) {
			if x.left > 0 {
				x.left--
			}
			return *x
		}
	}
	return rule{}
}

func (p *proxy) add(x rule) *rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, &x)
	return &x
}

func (p *proxy) end(x *rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x.left = 0
}

func (p *proxy) recorded() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]byte(nil), p.bodies...)
}

// to matches requests by method and a part of the path.
func to(method, part string) func(r *http.Request) bool {
	return func(r *http.Request) bool { return r.Method == method && strings.Contains(r.URL.Path, part) }
}
