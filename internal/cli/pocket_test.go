package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// pockets scripts the clouds behind pocket up.
type pockets struct {
	request PocketRequest
	config  []PocketSetting
	failed  chan error
	closed  int

	say func() // is called when the clouds say that they are up
}

// Write waits for the word that the clouds are up.
func (p *pockets) Write(b []byte) (int, error) {
	if string(b) == "ready\n" && p.failed == nil {
		p.say()
	}
	return len(b), nil
}

func (p *pockets) start(_ context.Context, r PocketRequest) (*PocketClouds, error) {
	p.request = r
	return &PocketClouds{Failed: p.failed, Close: func(context.Context) error { p.closed++; return nil },
		Providers: []PocketProvider{{Kind: "local", Address: "http://127.0.0.1:1", Config: p.config}}}, nil
}

// TestPocketUp starts the clouds, writes the file, and ends with its context or
// with a cloud.
func TestPocketUp(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.dir, "p.yaml")
	up := func(p *pockets, args ...string) int {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p.say = cancel // as by a signal
		return w.runIn(ctx, func(f *Factory) {
			f.StartPocket = p.start
			f.Streams.Out = io.MultiWriter(&w.out, p)
		}, append([]string{"pocket", "up"}, args...)...)
	}
	for range 2 { // the second writes over the first's file
		p := &pockets{}
		if code := up(p, "--write", file, "--port", "9000", "--state", "s"); code != 0 || p.closed != 1 || w.out.String() != "ready\n" {
			t.Errorf("exit %d, closed %d times, %q, %q", code, p.closed, w.out.String(), w.err.String())
		}
		if p.request != (PocketRequest{Port: 9000, State: "s", Write: file}) {
			t.Errorf("asked for %+v", p.request)
		}
		if data, err := os.ReadFile(file); err != nil || !strings.Contains(string(data), "credentials: pocket") {
			t.Errorf("wrote %s, %v", data, err)
		}
	}
	w.env["DOCKER_HOST"] = "tcp://engine:1"
	p := &pockets{failed: make(chan error, 1)}
	p.failed <- errors.New("no more sockets")
	if code := up(p, "--executor", "docker"); code != 125 || p.closed != 1 || !strings.Contains(w.err.String(), "no more sockets") || p.request.Docker != "tcp://engine:1" {
		t.Errorf("exit %d, closed %d times, %q, %+v", code, p.closed, w.err.String(), p.request)
	}
	if err := os.WriteFile(file, []byte("default_provider: local\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p = &pockets{}
	if code := up(p, "--write", file); code != 125 || p.closed != 0 || !strings.Contains(w.err.String(), "not from pocket up") {
		t.Errorf("over a file of another: exit %d, closed %d times, %q", code, p.closed, w.err.String())
	}
	for _, bad := range [][]string{{"--executor", "x"}, {"--port", "-1"}, {"extra"}} {
		if code := up(&pockets{}, bad...); code != 2 {
			t.Errorf("%v: exit %d", bad, code)
		}
	}
	w.fails(125, "pocket", "up") // a program without clouds
}

// TestPocketUpFiles: what a provider needs as a file lies beside the
// configuration, which names it; and no file of others is written over.
func TestPocketUpFiles(t *testing.T) {
	w := newWorld(t)
	const pem = "-----BEGIN CERTIFICATE-----\n"
	up := func() (int, *pockets) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := &pockets{say: cancel, config: []PocketSetting{{Name: "ca_file", Value: PocketFile{Suffix: "-ca.pem", Data: []byte(pem)}}}}
		return w.runIn(ctx, func(f *Factory) {
			f.StartPocket = p.start
			drivers := f.Drivers()
			for i := range drivers {
				drivers[i].Config = sdk.Schema{Fields: []sdk.SchemaField{{Name: "ca_file", Type: sdk.TypeString}}}
			}
			f.Drivers = func() []sdk.Driver { return drivers }
			f.Streams.Out = io.MultiWriter(&w.out, p)
		}, "pocket", "up", "--write", "p.yaml"), p
	}
	beside := filepath.Join(w.dir, "p-ca.pem")
	for range 2 {
		if code, _ := up(); code != 0 {
			t.Fatalf("exit %d: %q", code, w.err.String())
		}
		if data, err := os.ReadFile(beside); err != nil || !strings.HasPrefix(string(data), "# Written by windlass pocket up") || !strings.HasSuffix(string(data), pem) {
			t.Errorf("wrote %q, %v", data, err)
		}
		if data, err := os.ReadFile(filepath.Join(w.dir, "p.yaml")); err != nil || !strings.Contains(string(data), "ca_file: "+beside) {
			t.Errorf("wrote %s, %v", data, err)
		}
	}
	if err := os.WriteFile(beside, []byte(pem), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, p := up(); code != 125 || p.closed != 1 || !strings.Contains(w.err.String(), beside) {
		t.Errorf("over a file of another: exit %d, closed %d times, %q", code, p.closed, w.err.String())
	}
}
