//go:build unix

package keeper

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

func (w *world) connect() net.Conn {
	w.t.Helper()
	c, err := net.Dial("unix", filepath.Join(w.dir, "keeper.sock"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// TestGarbageOnTheSocket: whatever a client says, others are answered.
func TestGarbageOnTheSocket(t *testing.T) {
	w := newWorld(t)
	w.serve()
	bad, unknown := sdk.InvalidArgument, sdk.Unimplemented
	for name, c := range map[string]struct {
		say  string
		code sdk.Code // 0: it is just hung up on
	}{
		"binary":          {"\x00\xff\xfe\x80\n", bad},
		"text":            {"GET / HTTP/1.1\r\n", bad},
		"no object":       {"[1,2]\n", bad},
		"wrong type":      {`{"op":"take","run":7}` + "\n", bad},
		"bad run":         {`{"op":"take","run":"../../x"}` + "\n", bad},
		"bad environment": {`{"op":"offer","bound":[{"origin":{"dir":"/","env":["secret-canary!"]}}]}` + "\n", bad},
		"unknown op":      {`{"op":"dance","proto":2,"version":"v1"}` + "\n", unknown},
		"no op":           {"{}\n", unknown},
		"half":            {`{"op":"hel`, 0},
		"nothing":         {"", 0},
		"oversized":       {`{"op":"` + strings.Repeat("x", maxMessage+10) + "\n", bad},
		"endless":         {strings.Repeat("x", maxMessage+4096), bad},
	} {
		t.Run(name, func(t *testing.T) {
			conn := w.connect()
			// It may hang up on a flood before all is written.
			_, _ = io.WriteString(conn, c.say)
			if u, ok := conn.(*net.UnixConn); ok {
				_ = u.CloseWrite()
			}
			line, err := bufio.NewReader(conn).ReadBytes('\n')
			var res response
			switch {
			case c.code == 0:
				if len(line) > 0 {
					t.Errorf("answered %q", line)
				}
			case err != nil && strings.Contains(name, "s") && len(c.say) > maxMessage:
				// A reset may overtake the answer.
			case err != nil || json.Unmarshal(line, &res) != nil || res.Code != c.code || res.Error == "":
				t.Errorf("answered %q, %v", line, err)
			}
			if bytes.Contains(line, []byte("canary")) {
				t.Errorf("gives back what was said: %q", line)
			}
			if _, err := w.client().Status(w.ctx()); err != nil {
				t.Errorf("the next is not answered: %v", err)
			}
		})
	}
	if s := w.lines.String(); strings.Contains(s, "canary") {
		t.Errorf("the log tells what was said: %s", s)
	}
}

// TestManyMessages: a client may ask several things on one connection.
func TestManyMessages(t *testing.T) {
	w := newWorld(t)
	w.serve()
	conn := w.connect()
	r := bufio.NewReader(conn)
	for range 20 {
		if err := writeMessage(conn, request{Op: opHello}); err != nil {
			t.Fatal(err)
		}
		var res response
		if err := readMessage(r, &res); err != nil || res.err() != nil || res.Version != "v1" || res.Proto != protocolVersion {
			t.Fatalf("%+v, %v", res, err)
		}
	}
}

// TestHangingClients: those who connect and say nothing, or half of it, keep
// neither others from being heard nor the keeper from leaving.
func TestHangingClients(t *testing.T) {
	w := newWorld(t)
	k := w.serve()
	for i := range maxConns - 2 {
		c := w.connect()
		if i%2 == 0 {
			if _, err := io.WriteString(c, `{"op":"of`); err != nil {
				t.Fatal(err)
			}
		}
	}
	testwait.Until(t, patience, "answer beside those who hang", func() bool {
		_, err := w.client().Status(w.ctx())
		return err == nil
	})
	// One too many is told so.
	testwait.Until(t, patience, "refusal of one too many", func() bool {
		c := w.connect()
		if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		var res response
		return readMessage(bufio.NewReader(c), &res) == nil && res.Code == sdk.ResourceExhausted
	})
	start := time.Now()
	if err := k.end(t); err != nil {
		t.Error(err)
	}
	if d := time.Since(start); d > LeaveTime/2 {
		t.Errorf("leaving took %s", d)
	}
}

// TestPanicInARequest: a mistake in what a request leads to costs that request
// alone, and its text shows no value of the client's variables.
func TestPanicInARequest(t *testing.T) {
	w := newWorld(t)
	w.serve()
	err := w.client("FAULT=panic", "TOKEN=panic-canary").Offer(w.ctx())
	if sdk.CodeOf(err) != sdk.Internal || !strings.Contains(err.Error(), "a driver's mistake with "+sdk.Redacted) {
		t.Errorf("got %v", err)
	}
	if err := w.client().Offer(w.ctx()); err != nil {
		t.Errorf("the next: %v", err)
	}
	if s := w.lines.String(); !strings.Contains(s, "harness_test.go") || strings.Contains(s, "canary") {
		t.Errorf("no stack in the log, or a secret:\n%s", s)
	}
}

// TestFewFiles: a process that may open few files hears clients again once
// others have gone.
func TestFewFiles(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	c.Env = append(c.Env, envFiles+"=40")
	pid := w.spawned(c)
	e := w.engine()
	id := w.submit(e, spec("gate", ";", "echo", "x"))
	w.handOver(e, c, id)
	var all []net.Conn
	for range 50 {
		all = append(all, w.connect())
	}
	for _, c := range all {
		_ = c.Close()
	}
	testwait.Until(t, patience, "answer", func() bool {
		st, err := c.Status(w.ctx())
		return err == nil && st.PID == pid
	})
	w.expect(w.finished(id), sdk.StateSucceeded, sdk.ReasonCompleted)
	w.sound(id)
}

// FuzzReadMessage: no input makes reading fail in another way than by an error,
// and none is given back.
func FuzzReadMessage(f *testing.F) {
	f.Add([]byte(`{"op":"hello"}` + "\n"))
	f.Add([]byte("\n"))
	f.Add([]byte(`{"op":`))
	f.Add(bytes.Repeat([]byte("x"), 5000))
	f.Fuzz(func(t *testing.T, b []byte) {
		var req request
		if err := readMessage(bufio.NewReader(bytes.NewReader(b)), &req); err != nil && len(b) > 8 && strings.Contains(err.Error(), string(b)) {
			t.Errorf("%q is given back: %v", b, err)
		}
	})
}
